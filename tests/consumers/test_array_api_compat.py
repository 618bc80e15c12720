"""The questions that libraries ask of arrays by array-api-compat are answered for corepy's."""

from __future__ import annotations

import array_api_compat as compat
import numpy as np
import pytest

import corepy.array_api as xp

pytestmark = pytest.mark.usefixtures("backend")


def test_the_namespace_is_corepys_own() -> None:
    x = xp.asarray([1.0, 2.0])
    for use_compat in (None, False):
        assert compat.array_namespace(x, 1.0, None, xp.ones(3), use_compat=use_compat) is xp
    for version in ("2022.12", "2024.12"):
        assert compat.array_namespace(x, api_version=version) is xp
    with pytest.raises(TypeError, match="Multiple namespaces"):
        compat.array_namespace(x, np.ones(2))


def test_devices_and_sizes() -> None:
    x = xp.asarray([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])
    assert compat.device(x) is x.device
    for device in (x.device, x.device.name):
        assert compat.to_device(x, device) is x
    assert compat.size(x) == 6


def test_what_kind_of_array_it_is() -> None:
    x = xp.asarray([1.0, 2.0])
    assert compat.is_array_api_obj(x)
    assert compat.is_writeable_array(x)
    assert not compat.is_lazy_array(x)  # its values can be asked for, on every backend
    for library in ("numpy", "torch", "jax", "dask", "cupy"):
        assert not getattr(compat, f"is_{library}_array")(x)
        assert not getattr(compat, f"is_{library}_namespace")(xp)


@pytest.mark.parametrize("size", [0, 3])
def test_sizes_that_only_values_tell(size: int, backend: str) -> None:
    x = xp.asarray([0.0] * 4 + [1.0] * size)
    found = x[x > 0]
    assert compat.size(found) == (None if backend == "dask" else size)
    assert compat.is_lazy_array(found) is (backend == "dask")
