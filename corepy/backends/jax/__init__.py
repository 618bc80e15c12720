"""JAX on the host, on NVIDIA and AMD GPUs, and on TPUs."""

from __future__ import annotations

import os
import sys
from typing import Final

#: Whether somebody may have used JAX before, who then has decided what follows.
IMPORTED_BEFORE: Final = "jax" in sys.modules

# JAX takes three quarters of a GPU's memory at its first use, which leaves too little for the
# other libraries that corepy runs there. Read once, when JAX is first imported.
# https://docs.jax.dev/en/latest/gpu_memory_allocation.html
if not IMPORTED_BEFORE:
    os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
