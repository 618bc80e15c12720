"""Routes on a GPU that is none: who runs what, who refuses, and in whose memory and stream.

`tests/dispatch/test_routes_devices.py` runs this file in a process of its own.
"""

from __future__ import annotations

import gc
import math
import operator
import weakref
from collections.abc import Callable
from typing import Any

import cupy
import numpy as np
import pytest
import torch

import corepy
import corepy.array_api as xp
from corepy.devices._device import CPU
from corepy.dispatch import _routes, load
from corepy.dispatch._admitted_devices import ADMITTED_ON_CUDA
from corepy.tuning import _device_cases
from corepy.tuning._device_cases import DeviceCase, device_cases, libraries_on
from tests.backends.cupy_devices import CURRENT
from tests.backends.gpu_on_host import GPU
from tests.dispatch import stand_in_routes
from tests.dispatch.stand_in_routes import (
    CUDA,
    INF,
    ITS,
    NAN,
    Use,
    array,
    both_ways,
    host,
    ran,
    route,
)

alone, use = stand_in_routes.alone, stand_in_routes.use  # fixtures


# ---------------------------------------------------------------------------- who runs what


@both_ways
def test_large_operands_go_the_route_and_small_ones_stay(use: Use, home: str, other: str) -> None:
    use(route("sum", home, other, form="rows"), route("add", home, other))
    for side, backend in [(0, home), (1, home), (9, home), (10, other)]:
        x = array(home, np.arange(side * side).reshape(side, side))
        assert ran(lambda x: xp.sum(x, axis=-1), x)[0] == backend, side
        assert ran(lambda x: x + x, x)[0] == backend
        for _ in range(3):  # as it was learned, too
            made = xp.sum(x, axis=-1)
            assert made.backend == (x + x).backend == home
            assert made.device is CUDA
            np.testing.assert_array_equal(host(made), host(x).sum(-1))
        np.testing.assert_array_equal(host(x + x), host(x) * 2)
    assert ran(lambda x: xp.sum(x, axis=0), x)[0] == home
    assert ran(xp.sum, x)[0] == home
    assert ran(lambda x: xp.sum(x, axis=1), array(home, np.ones((2, 500))))[0] == home  # slender
    assert ran(operator.add, *2 * [array(home, np.ones(200), "float64")])[0] == home


@both_ways
def test_explain_says_why(use: Use, home: str, other: str) -> None:
    use(route("exp", home, other, gain=1.074))
    x = array(home, np.ones(200))
    assert ran(xp.exp, x) == (other, f"route: measured 1.07x {home} from 100 elements")
    with corepy.profile() as found:
        xp.exp(x)
    assert ("exp", other, "cuda:0") in found.by_operation()


@both_ways
def test_a_route_of_the_other_home_is_not_this_ones(use: Use, home: str, other: str) -> None:
    use(route("exp", other, home))
    assert ran(xp.exp, array(home, np.ones(200)))[0] == home


@both_ways
def test_scalars_stand_beside_arrays(use: Use, home: str, other: str) -> None:
    names = ("add", "divide", "maximum", "multiply", "subtract", "less")
    use(*(route(name, home, other, 1) for name in names))
    x = array(home, [1.0, 2.0, -4.0])
    for call in (
        *(lambda x: x + 2.5, lambda x: 2.5 - x, lambda x: x / 3.0, lambda x: 3.0 / x),
        *(lambda x: x * 2, lambda x: xp.maximum(x, 1.5), lambda x: x < 1.5),
    ):
        backend, _ = ran(call, x)
        assert backend == other
        made, expected = call(x), call(xp.asarray(host(x), device="cpu"))
        assert made.backend == home
        np.testing.assert_array_equal(host(made), host(expected))
        assert host(made).dtype == host(expected).dtype


@both_ways
def test_layouts_that_were_not_measured_stay(use: Use, home: str, other: str) -> None:
    use(
        route("exp", home, other),
        route("add", home, other),
        route("sum", home, other, form="rows"),
        route("matmul", home, other, dtype="float64"),
        route("sort", home, other),
    )
    x = array(home, np.random.default_rng(0).random((40, 40)))
    assert ran(xp.exp, xp.matrix_transpose(x))[0] == other
    assert ran(xp.exp, x[::2, ::2])[0] == home
    assert ran(operator.add, x, x[0, ...])[0] == home  # spreads
    turned = xp.matrix_transpose(x)
    assert ran(lambda x: xp.sum(x, axis=1), turned)[0] == home
    assert ran(xp.sort, xp.reshape(x, (-1,)))[0] == other
    assert ran(lambda x: xp.sort(x, descending=True), xp.reshape(x, (-1,)))[0] == home
    a = array(home, host(x), "float64")
    assert ran(xp.matmul, a, xp.matrix_transpose(a))[0] == other
    column = a[:, 0]
    assert ran(xp.matmul, a, column)[0] == home


@both_ways
@pytest.mark.parametrize("name", ["sum", "max", "std"])
def test_axes_that_were_not_measured_stay(use: Use, home: str, other: str, name: str) -> None:
    use(*(route(name, home, other, form=form) for form in ("rows", "columns")))
    reduce = getattr(xp, name)

    def who(x: Any, axis: int | tuple[int, ...]) -> str:
        expected = reduce(xp.asarray(host(x), device="cpu"), axis=axis)
        made = reduce(x, axis=axis)
        np.testing.assert_allclose(host(made), host(expected), rtol=1e-5)
        return ran(lambda x: reduce(x, axis=axis), x)[0]

    x = array(home, np.random.default_rng(0).random((8, 5, 6)))
    for axis in (-1, (1, 2), (2, 1), 0, (0, 1), (1, 0)):
        assert who(x, axis) == other, axis
    for axis in (1, (0, 2), (2, 0)):
        assert who(x, axis) == home, axis
    turned = xp.permute_dims(x, (2, 1, 0))
    for axis in (0, 1, 2, (0, 1), (1, 2)):
        assert who(turned, axis) == home, axis
    plain = xp.matrix_transpose(xp.reshape(x, (8, 30)))
    assert who(plain, 0) == who(plain, 1) == other
    # The sides of the matrix count, and not those of the array.
    long, few = array(home, np.ones((8, 8, 100))), array(home, np.ones((2, 10, 13)))
    assert who(long, (1, 2)) == who(few, (1, 2)) == who(few, 0) == home
    assert who(long, (0, 1)) == who(long, 2) == other


@both_ways
def test_running_sums_along_middle_axes_stay(use: Use, home: str, other: str) -> None:
    use(*(route("cumulative_sum", home, other, form=form) for form in ("rows", "columns")))
    x = array(home, np.random.default_rng(0).random((8, 5, 6)))
    for axis, backend in ((0, other), (1, home), (2, other)):
        assert ran(lambda x, axis=axis: xp.cumulative_sum(x, axis=axis), x)[0] == backend


def all_cases() -> list[DeviceCase]:
    return list(device_cases(*_arguments()))


def _arguments(*only: str) -> Any:
    site, found = libraries_on(CUDA)
    return site, CUDA, found, only


@pytest.mark.parametrize("case", all_cases(), ids=lambda case: case.label)
def test_what_is_admitted_means_the_same(case: DeviceCase) -> None:
    (name,) = case.candidates
    assert case.deviation(name) is None


@pytest.mark.parametrize("case", all_cases(), ids=lambda case: case.label)
def test_operands_have_the_form_that_the_router_recognizes(
    case: DeviceCase, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_device_cases, "DRAWN", 1 << 10)
    for size in (1 << 8, 1 << 10, 1 << 14):
        args, params = case.operands(size, np.random.default_rng(0))
        seen = tuple(map(case.backend.layout, args))
        assert ADMITTED_ON_CUDA[case.operation].former(seen, params) == case.inner.form
        assert max(x.size for x in seen) == size


@both_ways
def test_special_values(use: Use, home: str, other: str) -> None:
    special = [0.0, -0.0, 1.0, -1.0, INF, -INF, NAN, 1e-40, 3e38]
    names = ("abs", "sqrt", "exp", "log", "negative", "tanh")
    use(*(route(name, home, other, 1) for name in (*names, "maximum", "divide", "less")))
    x = array(home, special)
    for name in names:
        function = getattr(xp, name)
        routed, own = function(x), None
        assert ran(function, x)[0] == other
        with corepy.set_routes("off"):
            own = function(x)
        np.testing.assert_allclose(host(routed), host(own), rtol=1e-6)
        zeros = host(own) == 0
        np.testing.assert_array_equal(np.signbit(host(routed)[zeros]), np.signbit(host(own)[zeros]))
    y = array(home, special[::-1])
    for function in (xp.maximum, xp.divide, xp.less):
        routed = host(function(x, y))
        with corepy.set_routes("off"):
            np.testing.assert_array_equal(routed, host(function(x, y)))


# ---------------------------------------------------------------------------- refusals


def refusal(call: Callable[..., Any], *args: Any, home: str) -> str:
    backend, reason = ran(call, *args)
    assert backend == home
    return reason


@both_ways
def test_while_a_graph_is_recorded(use: Use, home: str, other: str) -> None:
    use(route("exp", home, other))
    x = array(home, np.ones(200))
    current = CURRENT if home == "cupy" else ITS
    current.address = GPU.create()
    native, crossed = x._table["exp"][0], []
    GPU.recording[current.address] = []
    choice: Any = native.choice
    choice.native = lambda x: crossed.append("home") or native.small(x)
    xp.exp(x)
    assert crossed == ["home"]
    GPU.recording.clear()
    xp.exp(x)
    assert crossed == ["home"]


@both_ways
def test_where_results_are_to_be_reproducible(use: Use, home: str, other: str) -> None:
    use(route("exp", home, other))
    x = array(home, np.ones(200))
    with corepy.reproducible():
        assert refusal(xp.exp, x, home=home).startswith("reproducible: the operands live in it")
    assert ran(xp.exp, x)[0] == other


def test_gradients_are_torchs(use: Use) -> None:
    use(route("exp", "torch", "cupy"))
    leaf = torch.ones(200, requires_grad=True)
    x = xp.asarray(leaf)
    assert "cupy is not open: torch needs it itself" in refusal(xp.exp, x, home="torch")
    xp.sum(xp.exp(x)).unwrap().backward()
    assert leaf.grad is not None
    assert torch.equal(leaf.grad, torch.ones(200).exp())
    with torch.autograd.forward_ad.dual_level():
        assert refusal(xp.exp, xp.asarray(torch.ones(200)), home="torch")


def test_who_listens_to_torch_hears_everything(use: Use, monkeypatch: pytest.MonkeyPatch) -> None:
    from torch.utils._python_dispatch import TorchDispatchMode

    class Listening(TorchDispatchMode):
        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None):  # type: ignore[no-untyped-def]
            return func(*args, **(kwargs or {}))

    use(route("exp", "torch", "cupy"))
    x = xp.asarray(torch.ones(200))
    assert ran(xp.exp, x)[0] == "cupy"
    with Listening():
        refusal(xp.exp, x, home="torch")
    with monkeypatch.context() as patch:
        patch.setattr(torch.compiler, "is_compiling", lambda: True)
        refusal(xp.exp, x, home="torch")
    torch.use_deterministic_algorithms(True)
    try:
        refusal(xp.exp, x, home="torch")
    finally:
        torch.use_deterministic_algorithms(False)
    assert torch.equal(torch.vmap(lambda row: xp.exp(row).unwrap())(torch.ones(2, 200)),
                       torch.ones(2, 200).exp())  # fmt: skip
    assert ran(xp.exp, x)[0] == "cupy"


def test_lazy_and_misplaced_tensors_are_not_lent() -> None:
    backend = load("torch")
    plain = torch.ones(8)
    assert backend.lends(plain)
    assert not backend.lends(torch.nn.Parameter(plain))
    assert not backend.lends(plain[1:])
    assert not backend.lends(torch.ones(8, dtype=torch.complex64).conj())
    assert not backend.lends(torch.ones(8, dtype=torch.complex64).conj().imag)
    assert not backend.lends(plain.to_sparse())


@pytest.mark.parametrize("identity", ["ManagedMemory", "SystemMemory"])
def test_memory_of_the_host_too_is_not_lent(use: Use, identity: str) -> None:
    use(route("exp", "cupy", "torch"))
    x = array("cupy", np.ones(200))
    assert ran(xp.exp, x)[0] == "torch"
    x.unwrap()._memory = type("Memory", (), {"identity": identity})()
    assert "torch is not open: cupy needs it itself" in refusal(xp.exp, x, home="cupy")
    y = array("cupy", np.ones(201))[1:]
    refusal(xp.exp, y, home="cupy")


@both_ways
def test_errors_are_those_of_the_home(use: Use, home: str, other: str) -> None:
    use(route("add", home, other, 1), route("matmul", home, other, 1, dtype="float64"))
    x, y = array(home, np.ones(20)), array(home, np.ones(30))
    a, b = array(home, np.ones((4, 5)), "float64"), array(home, np.ones((4, 5)), "float64")

    def message(call: Callable[[], Any]) -> str:
        with pytest.raises(ValueError) as raised:  # noqa: PT011  # compared below
            call()
        return str(raised.value)

    calls = [lambda: x + y, lambda: a @ b]
    routed = [message(call) for call in calls]
    with corepy.set_routes("off"):
        assert routed == [message(call) for call in calls]


@both_ways
def test_what_the_other_library_raises_is_not_the_last_word(
    use: Use, monkeypatch: pytest.MonkeyPatch, home: str, other: str
) -> None:
    def broken(*args: Any, **params: Any) -> Any:
        raise MemoryError("no room")

    monkeypatch.setattr(load(other), "operation", lambda name: broken)
    use(route("exp", home, other))
    x = array(home, np.ones(200))
    assert f"{other} is not open: it raised MemoryError" in refusal(xp.exp, x, home=home)


# ---------------------------------------------------------------------------- memory, streams


@both_ways
def test_memory_is_shared_and_lives_as_long_as_the_result(use: Use, home: str, other: str) -> None:
    use(route("exp", home, other))
    x = array(home, np.ones(200))
    kept: list[Any] = []
    backend = load(other)
    crossing = _routes.crossing("exp", load(home), backend, CUDA, xp.float32)
    function = crossing.function  # type: ignore[attr-defined]

    def noted(operand: Any) -> Any:
        made = function(operand)
        kept.append((_address(operand), _address(made), weakref.ref(made)))
        return made

    crossing.function = noted  # type: ignore[attr-defined]
    made = crossing((x.unwrap(),), {})
    start, end, alive = kept[0]
    assert (start, end) == (_address(x.unwrap()), _address(made))
    del x
    gc.collect()
    for name in (home, other):
        load(name).empty_cache(CPU if name == "torch" else CUDA)
    others = [torch.full((200,), 7.0) for _ in range(50)] + [cupy.full(200, 7.0) for _ in range(50)]
    np.testing.assert_allclose(load(home).to_numpy(made), np.full(200, math.e), rtol=1e-6)
    del others, made
    gc.collect()
    # torch makes another object for the tensor that a view of it keeps.
    assert other == "torch" or alive() is None


def _address(native: Any) -> int:
    return int(native.data_ptr() if isinstance(native, torch.Tensor) else native.data.ptr)


@both_ways
def test_work_goes_to_the_stream_of_the_arrays(use: Use, home: str, other: str) -> None:
    mine, theirs = (CURRENT, ITS) if home == "cupy" else (ITS, CURRENT)
    crossing = _routes.crossing("exp", load(home), load(other), CUDA, xp.float32)
    function, seen = crossing.function, []  # type: ignore[attr-defined]
    crossing.function = lambda x: seen.append(theirs.address) or function(x)  # type: ignore[attr-defined]
    x = array(home, np.ones(4)).unwrap()
    for own, its, inside in ((0, 0, 0), (768, 0, 768), (768, 768, 768), (0, 512, 0), (1, 0, 0)):
        mine.address, theirs.address = own, its
        crossing((x,), {})
        assert (seen[-1], theirs.address) == (inside, its)
