"""JAX on the host, on NVIDIA and AMD GPUs, and on TPUs."""

from __future__ import annotations

import os
import sys

# JAX takes three quarters of a GPU's memory at its first use, which leaves too little for the
# other libraries that corepy runs there. Read once, when JAX is first imported; who imported it
# earlier, or set the variable, has decided.
# https://docs.jax.dev/en/latest/gpu_memory_allocation.html
if "jax" not in sys.modules:
    os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
