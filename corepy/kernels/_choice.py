"""Who computes a fused kernel: its compiled loops, a function of torch or JAX, or its formula.

The ways mean the same, so that the fastest may be taken: by the tables of routes, as any operation
(`corepy.dispatch._routes`), with the formula in the library's functions in NumPy's place. Where a
table is silent the kernel itself knows what is best on most machines.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from corepy.devices._shortage import insist
from corepy.dispatch import (
    Option,
    is_reproducible,
    is_worth,
    listening,
    make,
    note,
    ran,
    ready,
)
from corepy.kernels import _host
from corepy.kernels._arguments import Given, is_compiling
from corepy.kernels._formulas import jax_takes, without_autocast
from corepy.kernels._memory import delivered, is_compilable, lies_plain, place_of, supports
from corepy.kernels._replay import provided
from corepy.kernels._ways import CUPY, FORMULA, JAX, NUMBA, TORCH, routes_now, wanted


def choose(
    x: Given,
    able: Callable[[str], bool],
    work: int,
    unmeasured: Callable[[], str],
    form: str = "",
) -> str:
    """Return the way that is best for some arguments.

    Parameters
    ----------
    x : Given
        The first array, whose function, library and dtype count.
    able : callable
        Says whether a way other than the formula takes the arguments.
    work : int
        How much there is to do, as tables count it: often the elements of `x`.
    unmeasured : callable
        Returns what is best where no table tells.
    form : str
        What else tables tell apart.

    Returns
    -------
    {"numba", "torch", "jax", "formula"}
    """
    way = wanted()
    if way is not None:
        return way if way != FORMULA and able(way) else FORMULA
    if is_reproducible():
        return NUMBA if able(NUMBA) else FORMULA
    if is_compiling(x):
        return unmeasured()
    table = routes_now().table
    if table is None:
        return unmeasured()
    forms = table.forms(f"kernels.{x.function}", x.dtype)
    for route in reversed(forms.get(f"{x.library} {form}" if form else x.library, ())):
        if work < route.least:
            continue
        for option in route.options:
            if not able(option.backend):
                continue
            if _is_open(option, x.library, table.threads):
                if option.backend != NUMBA:  # whose loops notice busy cores by themselves
                    provided(partial(_is_open, option, x.library, table.threads))
                if listening():
                    note(f"route: measured {option.gain:.1f}x its formula from {route.least}")
                return option.backend
            provided(partial(_is_shut, option, x.library, table.threads))
        break  # who was measured does not take these arguments, a mask perhaps: that tells nothing
    return unmeasured()


def _is_open(option: Option, library: str, threads: int) -> bool:
    """Say whether an option is free; one of the own library has the cores that the formula has."""
    if option.backend == library:
        return True
    return is_worth(option, threads) and (option.backend == NUMBA or ready(TORCH) is not None)


def _is_shut(option: Option, library: str, threads: int) -> bool:
    """Say whether an option is still not free: somebody lesser computes only as long as it is."""
    return not _is_open(option, library, threads)


def over_elements(x: Given, *others: Given | None, torch: bool) -> str:
    """Return the way that is best for a kernel that looks at each element a few times.

    Parameters
    ----------
    x, *others : Given or None
        The arrays.
    torch : bool
        Whether torch has a function for these arguments.
    """

    def able(way: str) -> bool:
        if way == TORCH:
            return torch and torch_takes(x, *others)
        if way == JAX:  # named by tables that know the formula as JAX runs it by itself
            return jax_takes(x, *others)
        return is_compilable(x, *others)

    return choose(x, able, x.size, lambda: NUMBA if supports(x, *others) else FORMULA)


def torch_takes(x: Given, *others: Given | None) -> bool:
    """Say whether torch can look at arrays on the host: its own, and NumPy's of its dtypes."""
    shares = x.library == TORCH or (x.library == "numpy" and x.dtype != "bfloat16")
    return shares and lies_plain(x, *others)


def by_torch(
    x: Given, function: Callable[..., Any], *operands: Given | None, out: Given | None
) -> Any:
    """Compute with torch's function on the memory of arrays: torch's, CuPy's, or the host's.

    Parameters
    ----------
    x : Given
        The first array, which says what the result is to be.
    function : callable
        Takes torch's arrays, and None for what is not there.
    *operands : Given or None
        The others.
    out : Given or None
        Where the result belongs.
    """
    ran(TORCH, x.backend, place_of(x), "torch has a function of its own for it")
    natives = [None if g is None else g.native for g in (x, *operands)]

    def compute() -> Any:
        with without_autocast(x):
            if x.library == TORCH:
                return function(*natives)
            if x.library == CUPY:
                from corepy.kernels._device import _tensors

                return _tensors.computed(function, *natives)
            return _host.by_torch(function, natives)

    native = insist(x.function, place_of(x), compute)
    if x.library == "numpy":
        _host.note_torch(function, natives)
    return delivered(native if x.table is None else make(native, x.table), out)
