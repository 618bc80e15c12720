"""One program on every backend: ``python -m corepy.demo``.

`corepy.demo.digits` is the program: machine learning written once, in the array API alone.
Running the package feeds it real data, on each backend that this machine can use, and compares.
"""
