"""MLX on the host, or on Apple's GPU through Metal: `mlx.core`, and what it leaves wrong.

MLX is lazy, and a thread cannot evaluate what another one left unevaluated
(`RuntimeError: There is no Stream(cpu, 0) in current thread`). So every result is sent to the
device at once, without waiting for it. Inside MLX's own transformations (``mx.grad``,
``mx.compile``) it stays symbolic, and what NumPy would have to compute is refused there.

An allocation that fails ends the process, as does every error of a result that was sent without
waiting for it (ml-explore/mlx#4329). So NumPy is asked first whether there is room for a large
result, and arrays of the user's are waited for.

MLX has no complex128. On the host, where the standard wants every dtype, arrays of it are NumPy's,
and so are their operations. Metal has no float64 either.

The host build is where this backend is measured. Metal is served by the same code, which has not
been run there.
"""

from __future__ import annotations

import os

# Or MLX computes products of float32 in TF32 where the hardware has it. It asks once, at the first
# (https://github.com/ml-explore/mlx/issues/3534).
os.environ.setdefault("MLX_ENABLE_TF32", "0")
