"""OpenCL's kernels on tinygrad's arrays: in their memory, after what computes it, never into it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import corepy
import corepy.array_api as xp
from corepy import kernels
from tests.kernels import libraries
from tests.kernels.libraries import BOUNDS, host
from tests.kernels.test_attention import expected_of, sample
from tests.kernels.test_convolutions import expected_of as convolution_of

pytestmark = [pytest.mark.device("tinygrad:opencl"), pytest.mark.device("opencl")]


def there(values: Any, dtype: str = "float32") -> Any:
    return xp.asarray(np.asarray(values, dtype), device="opencl:0")


def ran_by(call: Callable[[], Any]) -> tuple[Any, str, str]:
    """Return a result, who computed it, and where."""
    seen: list[Any] = []
    (*_, row) = corepy.explain(lambda: seen.append(call())).records
    return seen[0], row.backend, row.device


def agrees(call: Callable[[], Any], expected: Any, terms: Any = None) -> None:
    """Hold a result to values, and to having been computed where its operands are."""
    found, backend, device = ran_by(call)
    assert (backend, device) == ("opencl", "opencl:0")
    assert (found.device.name, found.backend, found.dtype) == ("opencl:0", "tinygrad", xp.float32)
    size = np.abs(expected) if terms is None else terms
    assert (np.abs(host(found) - expected) <= BOUNDS["float32"] * size + 1e-37).all()


def test_rows() -> None:
    x, w, mask = sample(3, 40), sample(40, seed=1), sample(3, 40) < 0.5
    agrees(
        lambda: kernels.rms_norm(there(x), there(w), 1e-5),
        libraries.rms_norm(host(there(x)), host(there(w)), 1e-5),
    )
    agrees(
        lambda: kernels.softmax(there(x), -1, mask=there(mask, "bool")),
        libraries.softmax(host(there(x)), -1, 1.0, mask),
    )


def test_what_is_not_computed_yet_comes_first() -> None:
    x = there(sample(4, 6))
    values = 2.0 * host(x)
    agrees(lambda: kernels.silu(x + x), libraries.silu(values))
    # And what tinygrad does next comes after the kernel.
    found = kernels.silu(x + x) * 3.0
    np.testing.assert_allclose(host(found), 3.0 * libraries.silu(values), rtol=1e-5)


def test_views() -> None:
    x = there(sample(6, 8))
    values = host(x)
    for view in (np.s_[::2, 1:5], np.s_[::-1], np.s_[2]):
        agrees(lambda view=view: kernels.silu(x[view]), libraries.silu(values[view]))
    agrees(lambda: kernels.silu(x.T), libraries.silu(values.T))


def test_attention_and_turns() -> None:
    q, k, v = (there(a) for a in (sample(1, 4, 5, 32), sample(1, 2, 7, 32), sample(1, 2, 7, 32)))
    expected, terms, _ = expected_of(*map(host, (q, k, v)), causal=True)
    agrees(lambda: kernels.attention(q, k, v, causal=True), expected, 2 * terms)
    places = np.array([3, 0, 2, 4, 1])
    cos, sin = kernels.rope_tables(5, 32, like=q)
    expected, terms = libraries.rope(host(q), host(cos), host(sin), places, False)
    turned = lambda: kernels.rope(q, cos, sin, positions=there(places, "int64"))  # noqa: E731
    agrees(turned, expected, terms)


def test_images() -> None:
    x, w, b = there(sample(1, 4, 6, 5)), there(sample(6, 2, 3, 3)), there(sample(6))
    operands = [host(x), host(w)]
    expected = convolution_of(*operands, groups=2, padding=1) + host(b)[:, None, None]
    terms = convolution_of(*map(np.abs, operands), groups=2, padding=1) + 3.0
    agrees(lambda: kernels.conv2d(x, w, b, groups=2, padding=1), expected, terms)


def test_nothing_is_written_to() -> None:
    """Arrays that are equal may have one buffer."""
    x, out = there(sample(4, 6)), there(np.ones((4, 6)))
    same = xp.asarray(out, copy=True)
    assert kernels.silu(x, out=out) is out
    np.testing.assert_allclose(host(out), libraries.silu(host(x)), rtol=1e-5)
    np.testing.assert_array_equal(host(same), 1.0)
    moments = [there(np.abs(sample(9, seed=n))) for n in range(4)]
    before = [host(m) for m in moments]
    others = [xp.asarray(m, copy=True) for m in moments]
    _, backend, device = ran_by(lambda: kernels.adam_step(*moments, step=1, learning_rate=0.1))
    assert (backend, device) == ("tinygrad", "opencl:0")
    assert not np.array_equal(host(moments[0]), before[0])
    for other, values in zip(others, before, strict=True):
        np.testing.assert_array_equal(host(other), values)


@pytest.mark.device("tinygrad:webgpu")
def test_other_devices_have_the_formula() -> None:
    x = xp.asarray(sample(2, 4).astype("f4"), device="webgpu:0")
    before = corepy.get_fallback()
    corepy.set_fallback("allow")
    found, backend, _ = ran_by(lambda: kernels.silu(x))
    corepy.set_fallback(before)
    assert (backend, found.device.name) == ("tinygrad", "webgpu:0")
    np.testing.assert_allclose(host(found), libraries.silu(host(x)), rtol=1e-5)


def test_a_cache_in_which_nothing_is() -> None:
    cache = kernels.PagedKVCache(2, 1, 4, 2, 8, like=there(0.0))
    q = there(sample(2, 2, 3, 8))
    agrees(lambda: cache.attend(q), np.zeros((2, 2, 3, 8)))
    assert (host(cache.attend(q, return_lse=True)[1]) == -np.inf).all()
