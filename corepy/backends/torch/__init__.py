"""torch on the host and on the accelerators it sees: `array_api_compat.torch`, and its fixes.

Tensors that require gradients stay in torch's graph through every operation that torch runs. The
host is where this backend is tested on every push, and ``cuda`` where it has run besides; ``rocm``,
``mps`` and ``xpu`` are served by the same code, which has not been run on them.
"""

from __future__ import annotations

import os
import sys

if "torch" not in sys.modules:
    try:
        os.getcwd()
    except FileNotFoundError as error:
        # MKL, which torch brings along, would end the process.
        raise ImportError("torch needs a current folder, and this one was deleted") from error
