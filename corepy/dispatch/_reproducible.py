"""The setting under which the same arguments give the same bits, whatever the machine does else."""

from __future__ import annotations

from typing import Final

from corepy._errors import bad_type
from corepy._variables import flag
from corepy.dispatch._settings import Restore, Setting

REPRODUCIBLE: Final[Setting[bool]] = Setting("reproducible", flag("COREPY_REPRODUCIBLE"))
if REPRODUCIBLE.get():
    REPRODUCIBLE.touch()


def reproducible(on: bool = True) -> Restore:
    """Let each operation run in its arrays' own backend alone, with the same bits each time.

    On one machine with the same versions, results on the host's backends ``numpy`` and ``numba``
    are then the same to the last bit, whatever the number of threads, the table of routes, what
    the program did before and what other processes do: routes and offloading are off, no operation
    looks at the load, NumPy's BLAS computes in one thread, and fused kernels are computed by
    corepy's own loops wherever these take the arguments, else by the formula in the arrays'
    library.

    Parameters
    ----------
    on : bool
        Whether results are to be reproducible.

    Returns
    -------
    Restore
        Used as ``with corepy.reproducible():`` it restores what was before; otherwise ignore it.

    Raises
    ------
    TypeError
        If `on` is no bool.

    Notes
    -----
    ``COREPY_REPRODUCIBLE=1`` (or ``true``, ``yes``, ``on``) in the environment makes it the
    default. New arrays are created in the first backend of the priority (`backend_priority`), or of
    the default order among those that are there: state a priority where programs have to agree on
    machines with other libraries or devices. Other processors have other instructions, and other
    bits. Torch, JAX and other libraries keep their own rules for their own arrays: the sums of
    torch, for one, depend on its number of threads, which `set_num_threads` fixes. BLAS is held to
    one thread for each operation if the extra ``threads`` is installed; else it has the threads
    that it has, and its results may depend on how many these are.
    """
    if not isinstance(on, bool):
        raise bad_type("reproducible", "on", on, "a bool")
    return Restore(REPRODUCIBLE, on)


def is_reproducible() -> bool:
    """Tell whether results are to be reproducible.

    Returns
    -------
    bool
        Whether `reproducible` is in force here.
    """
    return REPRODUCIBLE.touched and REPRODUCIBLE.get()
