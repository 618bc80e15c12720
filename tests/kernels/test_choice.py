"""Who computes a kernel: the ways mean the same, and the tables of routes choose among them."""

from __future__ import annotations

import itertools
import math
import os
import re
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import corepy
from corepy import kernels
from corepy.dispatch import _route_libraries
from corepy.dispatch._admitted import KERNELS
from corepy.dispatch._neighbours import NEIGHBOURS
from corepy.dispatch._route_sources import InForce
from corepy.dispatch._route_table import Option, Route, RouteTable
from corepy.kernels import _memory, _ways
from corepy.tuning import _kernels
from corepy.tuning._kernels import KernelCase, kernel_cases
from tests.kernels.libraries import Kind

pytestmark = [pytest.mark.backend(name) for name in ("numba", "torch", "jax")]

CASES = list(kernel_cases())
each_library = pytest.mark.parametrize("library", ["numpy", "torch", "array", "jax"])
HOMES = {"array": "numpy"}


def x_of(library: str, *shape: int) -> Any:
    values = np.random.default_rng(0).standard_normal(shape).astype(np.float32)
    return Kind(library, True).array(values)


def who(function: Callable[..., Any], *args: Any) -> tuple[str, str]:
    """Return who computed, and why."""
    (record,) = corepy.explain(function, *args).records
    return record.backend, record.reason


@pytest.fixture
def use(monkeypatch: pytest.MonkeyPatch, alone: None) -> Callable[..., None]:
    """Give a function that puts routes of kernels in force, for the length of a test."""
    monkeypatch.setattr(_memory, "PATIENCE", 1 << 62)

    def apply(*routes: Route | None) -> None:
        table = None if None in routes else RouteTable({"threads": 2}, {}, {}, routes)  # type: ignore[arg-type]
        monkeypatch.setattr(_ways, "in_force", lambda: InForce(table, "a test"))

    return apply


def route(kernel: str, form: str, *backends: str, least: int = 1) -> Route:
    options = tuple(Option(name, 3.0, busy=3.0) for name in backends)
    return Route(f"kernels.{kernel}", "float32", form, least, math.inf, options)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.label)
def test_the_ways_mean_the_same(case: KernelCase) -> None:
    for name in case.candidates:
        assert case.deviation(name) is None, name


def test_a_way_that_means_something_else_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    case = KernelCase("kernels.softmax", "float32", "numpy", ())
    for wrong, words in (
        (lambda x: kernels.softmax(x, -1) + x.dtype.type(1e-4), "of the greatest; expected"),
        (lambda x: np.nan_to_num(kernels.softmax(x, -1)), "other infinities or NaN"),
        (lambda x: kernels.softmax(x, -1)[:-1], r"expected \("),
    ):
        exact = _kernels._FUNCTIONS[case.operation]

        def either(x: Any, exact: Any = exact, wrong: Any = wrong) -> Any:
            return exact(x) if x.dtype == np.float64 else wrong(x)

        monkeypatch.setitem(_kernels._FUNCTIONS, case.operation, either)
        found = case.deviation("numba")
        monkeypatch.setitem(_kernels._FUNCTIONS, case.operation, exact)
        assert found is not None
        assert re.search(words, found), found


def test_cases_are_of_every_kernel_and_form() -> None:
    found = {(case.operation, case.form) for case in CASES}
    assert found == {(name, form) for name, a in KERNELS.items() for form in a.forms}


@pytest.mark.parametrize("way", ["numba", "a library's function"])
@each_library
def test_the_first_option_of_a_route_computes(
    use: Callable[..., None], library: str, way: str
) -> None:
    home = HOMES.get(library, library)
    if way != "numba":
        way = "jax" if library == "jax" else "torch"
    use(
        route("layer_norm", home, "torch", "numba" if way == "torch" else way),
        *(route(name, home, way) for name in ("rms_norm", "softmax")),
        *(route("attention", f"{home} {work}", way) for work in ("decode", "prefill")),
    )
    x, q = x_of(library, 8, 16), x_of(library, 1, 2, 16, 8)
    weight, one = x_of(library, 16), x_of(library, 1, 2, 1, 8)
    why = "route: measured 3.0x its formula from 1"
    calls: list[Callable[[], Any]] = [
        lambda: kernels.layer_norm(x, None, None, 1e-6),
        lambda: kernels.rms_norm(x, weight, 1e-6),
        lambda: kernels.softmax(x, -1),
        lambda: kernels.attention(q, q, q),
        lambda: kernels.attention(one, q, q),
    ]
    for call in calls:
        # torch is not taken for what loses digits far from zero.
        expected = "numba" if way == "torch" and call is calls[0] else way
        assert who(call) == (expected, why)
        assert type(call()) is type(x)


@each_library
def test_where_the_measured_way_does_not_serve_the_usual_one_does(
    use: Callable[..., None], library: str
) -> None:
    home = HOMES.get(library, library)
    way = "jax" if library == "jax" else "torch"
    use(route("softmax", home, "torch"), route("attention", f"{home} prefill", way))
    x, q = x_of(library, 4, 8), x_of(library, 1, 2, 16, 8)
    masked = Kind(library, True).array(np.ones((4, 8), bool))
    assert who(lambda: kernels.softmax(x, -1, mask=masked))[1].startswith("by its formula")
    assert who(lambda: kernels.softmax(x, -1, scale=2.0))[1].startswith("by its formula")
    assert who(lambda: kernels.attention(q, q, q, return_lse=True))[1].startswith("by its formula")


def test_what_was_measured_for_smaller_arrays_tells_nothing(use: Callable[..., None]) -> None:
    use(
        route("softmax", "numpy", "numba"),
        route("softmax", "numpy", "torch", least=16),
    )
    x, mask = x_of("numpy", 4, 8), np.ones((4, 8), bool)
    assert who(lambda: kernels.softmax(x[:1], -1, mask=mask[:1]))[0] == "numba"
    assert who(lambda: kernels.softmax(x, -1, mask=mask))[1].startswith("by its formula")


def test_jax_computes_both_results_of_a_residual(use: Callable[..., None]) -> None:
    use(route("rms_norm", "jax", "jax"))
    x, residual = x_of("jax", 4, 8), x_of("jax", 4, 8) + 1
    why = "route: measured 3.0x its formula from 1"
    assert who(lambda: kernels.rms_norm(x, None, 1e-6, residual=residual)) == ("jax", why)
    normed, summed = kernels.rms_norm(x, None, 1e-6, residual=residual)
    np.testing.assert_allclose(summed, np.asarray(x) + np.asarray(residual))
    np.testing.assert_allclose(normed, kernels.rms_norm(np.asarray(summed), None, 1e-6), rtol=1e-6)


def test_sizes_and_forms_choose(use: Callable[..., None]) -> None:
    use(
        route("softmax", "numpy", "numba", least=64),
        route("softmax", "numpy", "torch", "numba", least=128),
    )
    found = [who(kernels.softmax, x_of("numpy", n), -1)[0] for n in (63, 64, 127, 128)]
    assert found == ["numpy", "numba", "numba", "torch"]
    assert who(kernels.softmax, x_of("torch", 128), -1)[1].startswith("by its formula")
    use(None)  # routes are off: thresholds of the kernels' own
    assert who(kernels.softmax, x_of("numpy", 128), -1)[0] == "numpy"
    assert who(kernels.softmax, x_of("numpy", 4096), -1)[0] == "numba"


def test_small_arrays_are_compiled_for_once_there_were_many(
    use: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    use(None)
    monkeypatch.setattr(_memory, "_small", itertools.count())
    monkeypatch.setattr(_memory, "PATIENCE", 2)
    small = x_of("numpy", 8)
    assert [who(kernels.softmax, small, -1)[0] for _ in range(4)] == ["numpy"] * 2 + ["numba"] * 2
    assert who(kernels.softmax, x_of("torch", 8), -1)[0] == "numba"
    assert (
        who(kernels.softmax, x_of("jax", 8), -1)[0] == "jax"
    )  # whose memory costs more to hand over


def test_torch_steps_aside_for_arrays_that_are_not_its_own(
    use: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    quiet = Route("kernels.softmax", "float32", "numpy", 1, math.inf, (Option("torch", 3.0),))
    own = Route("kernels.softmax", "float32", "torch", 1, math.inf, (Option("torch", 3.0),))
    use(quiet, own)
    monkeypatch.setattr(NEIGHBOURS, "used", 64.0)  # cores of other processes
    assert who(kernels.softmax, x_of("numpy", 8), -1)[0] == "numpy"
    assert who(kernels.softmax, x_of("torch", 8), -1)[0] == "torch"
    assert "route" in who(kernels.softmax, x_of("torch", 8), -1)[1]
    monkeypatch.setattr(NEIGHBOURS, "used", 0.0)
    monkeypatch.setattr(_route_libraries, "_crowded", lambda: "threads of BLAS spin")
    assert who(kernels.softmax, x_of("numpy", 8), -1)[0] == "numpy"


def test_gradients_and_foreign_memory_stay_with_their_library(use: Callable[..., None]) -> None:
    import torch

    use(route("softmax", "torch", "torch"), route("softmax", "numpy", "torch"))
    x = torch.ones(3, requires_grad=True)
    assert who(kernels.softmax, x, -1)[1].startswith("by its formula")
    read_only = np.ones(3, np.float32)
    read_only.flags.writeable = False
    np.testing.assert_allclose(kernels.softmax(read_only, -1), 1 / 3)


WANTED = """
import numpy as np
from corepy import kernels
from corepy.dispatch import _registry
from corepy.kernels import _ways

with _ways.only("torch"):
    try:
        _registry._broken["torch"] = "it is broken"
        kernels.softmax(np.ones(4, np.float32), -1)
    except Exception as error:
        print(type(error).__name__, str(error).partition(";")[0])
    del _registry._broken["torch"]
    print(kernels.softmax(np.ones(4, np.float32), -1).tolist())
"""


def test_the_way_of_torch_imports_it_or_says_why_not() -> None:
    """Nobody has imported it in this process, as routes have before they lead there."""
    done = subprocess.run(
        [sys.executable, "-c", WANTED],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "PYTHONPATH": ":".join(sys.path)},
    )
    assert done.stdout == (
        "BackendUnavailableError load: backend torch is not usable: it is broken\n"
        "[0.25, 0.25, 0.25, 0.25]\n"
    )


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("least", [-math.inf, -3e38])  # JAX's function hides keys by -2.4e38
def test_jax_s_own_attention_sees_no_hidden_key(dtype: str, least: float) -> None:
    import jax.numpy as jnp

    q, v = jnp.ones((1, 2, 3, 1), dtype), jnp.arange(3, dtype=dtype).reshape(1, 1, 3, 1)
    k = jnp.asarray([least, least, 1.0], dtype).reshape(1, 1, 3, 1)
    nothing = least == -math.inf
    with _ways.only("jax"):
        assert who(kernels.attention, q, k, v)[0] == "jax"
        causal = kernels.attention(q, k, v, causal=True)
        k = jnp.full_like(k, least)
        whole = kernels.attention(q, k, v)
    assert causal.ravel().tolist() == [0.0, 0.0 if nothing else 0.5, 2.0] * 2
    assert whole.ravel().tolist() == [0.0 if nothing else 1.0] * 6


MATRIX = np.random.default_rng(0).standard_normal((64, 64)).astype(np.float32)
HALF = MATRIX.astype(np.float16)
VECTOR = MATRIX[0]
IMAGE = MATRIX.reshape(1, 4, 32, 32)[:, :, :, :8]
CALLS: list[Callable[[], Any]] = [
    lambda: kernels.silu(MATRIX),
    lambda: kernels.gelu(MATRIX),
    lambda: kernels.swiglu(MATRIX, MATRIX),
    lambda: kernels.softmax(MATRIX, 0),
    lambda: kernels.rms_norm(MATRIX, None, 1e-6),
    lambda: kernels.layer_norm(MATRIX, None, None, 1e-6),
    lambda: kernels.batch_norm(MATRIX, VECTOR, VECTOR * VECTOR),
    lambda: kernels.rope(MATRIX, MATRIX[:, :32], MATRIX[:, 32:]),
    lambda: kernels.attention(*[MATRIX.reshape(1, 1, 64, 64)] * 3),
    lambda: kernels.gemm(HALF, HALF),
    lambda: kernels.matmul_int8(VECTOR, *kernels.quantize(MATRIX)),
    lambda: kernels.conv2d(IMAGE, IMAGE[:, :1, :3, :3].repeat(4, 0), groups=4),
    lambda: kernels.adam_step(MATRIX.copy(), MATRIX, MATRIX * 0, MATRIX * 0, step=1),
]


@pytest.mark.parametrize("call", CALLS)
def test_the_only_way_is_that_of_every_kernel(call: Callable[[], Any], alone: None) -> None:
    """Also of those that routes do not know, whatever the size."""
    results = []
    for way, backend in (("formula", "numpy"), ("numba", "numba")):
        with _ways.only(way):
            explained = corepy.explain(call)
        assert explained.records[-1].backend == backend
        results.append(explained.result)
    first, second = (r if isinstance(r, tuple) else (r,) for r in results)
    for x, y in zip(first, second, strict=True):
        np.testing.assert_allclose(x, y, rtol=2e-3, atol=1e-3 * np.abs(x).max())
