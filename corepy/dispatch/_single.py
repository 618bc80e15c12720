"""Linear algebra of float32 under ``corepy.precision("fast")``: in float32 where a backend can.

Small matrices stay in double precision: what is computed matters less there than the way to it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from corepy._dtypes import DType, float32
from corepy.backends._base import Backend
from corepy.dispatch import _explain
from corepy.dispatch._considerate import LEAST
from corepy.dispatch._settings import PRECISION


def chosen(
    native: Callable[..., Any], name: str, backend: Backend, dtype: DType
) -> Callable[..., Any]:
    """Return what asks how precise an operation is to be, or its callable where there is no choice.

    Parameters
    ----------
    native : callable
        What the backend itself runs.
    name : str
        The operation, of at least one array.
    backend : Backend
    dtype : DType
        Of the operands.
    """
    single = backend.single(name) if dtype is float32 else None
    if single is None:
        return native

    def call(*args: Any, **params: Any) -> Any:
        if PRECISION.get() != "fast" or args[0].size < LEAST:
            return native(*args, **params)
        made = single(*args, **params)
        if made is None:
            return native(*args, **params)
        if _explain.listening():
            _explain.note('the operands live in it; in float32 throughout, as precision is "fast"')
        return made

    return call
