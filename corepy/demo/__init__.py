"""One program on every backend: the command ``corepy demo``.

`corepy.demo.digits` is the program: machine learning written once, in the array API alone.
The command feeds it real data, on each backend that this machine can use, and compares.
"""
