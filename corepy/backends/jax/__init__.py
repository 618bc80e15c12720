"""JAX on the host, on NVIDIA and AMD GPUs, and on TPUs."""

from __future__ import annotations

import os
import sys
from typing import Final

#: Whether somebody may have used JAX before, who then has decided what follows.
IMPORTED_BEFORE: Final = "jax" in sys.modules
#: Whether torch was there first, whose libraries of CUDA JAX then finds in the place of its own.
#: Where they are older than those that JAX needs, it computes on the host:
#: https://github.com/jax-ml/jax/issues/18032
TORCH_FIRST: Final = "torch" in sys.modules and not IMPORTED_BEFORE

# JAX takes three quarters of a GPU's memory at its first use, which leaves too little for the
# other libraries that corepy runs there. Read once, when JAX is first imported.
# https://docs.jax.dev/en/latest/gpu_memory_allocation.html
if not IMPORTED_BEFORE:
    os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
