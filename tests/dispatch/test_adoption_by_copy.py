"""Native arrays that are wrapped in a copy are refused where nobody wants one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import corepy
import corepy.array_api as xp
from tests.conftest import required

WAYS: dict[str, tuple[Callable[[Any], Any], type[Exception], str]] = {
    "asarray": (lambda x: xp.asarray(x, copy=False), ValueError, "asarray: obj"),
    "to": (lambda x: corepy.to(x, copy=False), ValueError, "to: x"),
    "from_dlpack": (lambda x: xp.from_dlpack(x, copy=False), BufferError, "from_dlpack: x"),
}


def dasks(values: Any) -> Any:
    return required("dask.array").from_array(values)


@pytest.mark.parametrize(
    ("way", "made"),
    [
        *((way, np.asarray) for way in WAYS),
        # Dask has no DLPack.
        *(pytest.param(way, dasks, marks=pytest.mark.backend("dask")) for way in ("asarray", "to")),
    ],
)
def test_another_byte_order_is_copied_and_so_refused(way: str, made: Callable[[Any], Any]) -> None:
    call, kind, words = WAYS[way]
    swapped = made(np.arange(3.0).astype(np.dtype(float).newbyteorder()))
    message = f"^{words} has another byte order; expected the machine's own for copy=False"
    with pytest.raises(kind, match=message):
        call(swapped)
    x = xp.asarray(swapped)
    assert x.tolist() == [0.0, 1.0, 2.0]
    assert x.unwrap().dtype.isnative


@pytest.mark.parametrize("way", WAYS)
def test_the_machines_own_is_shared(way: str) -> None:
    values = np.arange(3.0)
    x = WAYS[way][0](values)
    values[0] = 7.0
    assert x.tolist() == [7.0, 1.0, 2.0]
