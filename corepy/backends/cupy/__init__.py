"""CuPy on CUDA and ROCm: `array_api_compat.cupy`, and what it leaves wrong.

Written from CuPy's sources, 13 to 14.2, and run with 14.2 on an H100: the fixes say what was read.

CuPy answers where others raise, for a GPU cannot: integers divided by zero give 0, indices beyond
an axis wrap, singular matrices give NaN. Here such operands are looked at first, which waits for
the device, but only where integers are divided, raised or used as indices.
"""
