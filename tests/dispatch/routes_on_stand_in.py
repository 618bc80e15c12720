"""Routes on a GPU that is none: CuPy's stand-in, and torch on the host, which says it is there.

Both share the host's memory, as real ones share a GPU's. `tests/dispatch/test_routes_devices.py`
runs this file in a process of its own.
"""

from __future__ import annotations

import gc
import json
import math
import operator
import weakref
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import cupy
import numpy as np
import pytest
import torch

import corepy
import corepy.array_api as xp
from corepy import _cli_routes
from corepy._cli import main
from corepy.backends.torch import _backend, _devices
from corepy.devices import _libraries
from corepy.devices._device import CPU, as_device
from corepy.dispatch import _route_gpus, _route_libraries, _routes, load
from corepy.dispatch import _route_sources as sources
from corepy.dispatch import _route_table as files
from corepy.dispatch._admitted_devices import ADMITTED_ON_CUDA, form_of
from corepy.dispatch._route_table import Option, Route, RouteTable, parse
from corepy.dispatch._sites import CUDA as SITE
from corepy.tuning import _device_cases, _tune, tune
from corepy.tuning._device_cases import DeviceCase, device_cases, libraries_on
from tests.backends.cupy_devices import CURRENT
from tests.backends.gpu_on_host import GPU, Current
from tests.backends.stand_ins import Held

CUDA = as_device("cuda:0")
NAME = "A GPU of the tests"
HERE = {"gpu": NAME}
#: The current stream of torch.
ITS = Current()


class _Streams(Held):
    def is_capturing(self) -> bool:
        return self._current.address in GPU.recording


_held = _Streams(ITS, [])
_devices.present = lambda: (CPU, CUDA)
_devices.device_of = lambda place: CUDA
_devices.place_of = lambda device: torch.device("cpu")
_backend.streams_of = lambda device: _held if device is CUDA else None
PAIRS = [("torch", "cupy"), ("cupy", "torch")]
both_ways = pytest.mark.parametrize(("home", "other"), PAIRS)
NAN, INF = math.nan, math.inf


def route(operation: str, home: str, other: str, least: int = 100, **options: Any) -> Route:
    form = options.pop("form", ADMITTED_ON_CUDA[operation].own_forms[0])
    dtype = options.pop("dtype", "float32")
    option = Option(other, options.pop("gain", 1.25))
    return Route(operation, dtype, form_of(home, form), least, 1e-3, (option,))


Use = Callable[..., None]


@pytest.fixture(autouse=True)
def alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Give each test a cache folder and GPUs' data of its own, and a GPU that has a name."""
    monkeypatch.setattr(files, "cache_folder", lambda: tmp_path / "cache")
    hosts = files.shipped_files()
    monkeypatch.setattr(files, "DATA", tmp_path / "data")
    monkeypatch.setattr(files, "shipped_files", lambda: hosts)
    for module in (sources, _cli_routes, _tune):
        monkeypatch.setattr(module, "gpu_name", lambda device: NAME if device is CUDA else None)
    corepy.set_routes(None)
    yield
    monkeypatch.undo()
    GPU.recording.clear()
    CURRENT.address = ITS.address = 0
    corepy.set_routes(None)


@pytest.fixture
def use(tmp_path: Path) -> Use:
    """Put routes in force."""

    def apply(*routes: Route) -> None:
        path = tmp_path / "table.json"
        path.write_text(RouteTable(HERE, {"command": "a test"}, {}, routes).dump())
        corepy.set_routes(path)

    return apply


def array(home: str, values: Any, dtype: str = "float32") -> Any:
    return corepy.to(np.asarray(values, dtype), backend=home, device="cuda:0")


def host(x: Any) -> np.ndarray[Any, Any]:
    found: np.ndarray[Any, Any] = corepy.to(x, device="cpu", backend="numpy").unwrap()
    return found


def ran(function: Callable[..., Any], *args: Any) -> tuple[str, str]:
    (record,) = corepy.explain(function, *args).records
    assert record.device == "cuda:0"
    return record.backend, record.reason


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


# ---------------------------------------------------------------------------- tables


def table(*routes: Route, **machine: Any) -> RouteTable:
    key = _route_gpus.gpu_key(NAME) | machine
    return RouteTable(key, {"command": "corepy tune --device cuda:0"}, {}, routes)


@pytest.mark.parametrize(
    ("place", "value", "message"),
    [
        (("machine", "gpu"), 3, "machine.gpu is 3; expected the name of a GPU"),
        (("machine", "gpu"), "", "machine.gpu is ''; expected the name of a GPU"),
        (("routes", 0, "operation"), "linalg.inv", "'linalg.inv' of 'float32' is no operation"),
        (("routes", 0, "dtype"), "complex64", "'sum' of 'complex64' is no operation"),
        (("routes", 0, "form"), "rows", "sum has no form 'rows'; expected .*'torch rows'"),
        (("routes", 0, "form"), "jax rows", "sum has no form 'jax rows'"),
        (("routes", 0, "options", 0, "backend"), "numba", "'numba' is not admitted"),
        (("routes", 0, "options", 0, "backend"), "torch", "'torch' is where the arrays live"),
        (("routes", 0, "options", 0, "gain"), 0.9, "sum: gain is 0.9; expected a number"),
    ],
)
def test_a_table_that_is_half_right_is_refused(
    place: tuple[Any, ...], value: Any, message: str
) -> None:
    content = json.loads(table(route("sum", "torch", "cupy", form="rows")).dump())
    inner = content
    for key in place[:-1]:
        inner = inner[key]
    inner[place[-1]] = value
    with pytest.raises(ValueError, match=message):
        parse(json.dumps(content))


def test_a_file_is_of_the_host_or_of_a_gpu(use: Use) -> None:
    before = corepy.routes()
    use(route("exp", "torch", "cupy"))
    assert corepy.routes() == before
    assert corepy.routes("cuda:0") == (route("exp", "torch", "cupy"),)
    with corepy.set_routes("off"):
        assert corepy.routes("cuda:0") == ()
    with corepy.set_routes("shipped"):
        assert corepy.routes("cuda:0") == ()
    with pytest.raises(TypeError, match="^routes: device is of type int"):
        corepy.routes(3)  # type: ignore[arg-type]


def test_what_was_measured_on_the_gpu_is_in_force_there() -> None:
    wanted = table(route("exp", "torch", "cupy"))
    files.write(files.cache_file(wanted.machine), wanted.dump())
    corepy.set_routes(None)
    assert corepy.routes("cuda:0") == wanted.routes
    assert sources.in_force(CUDA).origin.startswith("measured on this machine, in ")
    assert corepy.routes() == sources.shipped().routes  # type: ignore[union-attr]
    assert corepy.routes("cuda:1") == ()  # of which nobody knows the name


def test_what_was_measured_with_other_versions_is_told_of() -> None:
    wanted = table(route("exp", "torch", "cupy"), versions={"torch": "1.0"})
    files.write(files.cache_file(wanted.machine), wanted.dump())
    corepy.set_routes(None)
    with pytest.warns(corepy.RouteWarning, match=f"measured on {NAME} do not fit .*torch 1.0 then"):
        assert corepy.routes("cuda:0") == ()


def test_of_another_gpu_nothing_is_said() -> None:
    wanted = table(route("exp", "torch", "cupy"), gpu="Another GPU")
    files.write(files.cache_file(wanted.machine), wanted.dump())
    corepy.set_routes(None)
    assert corepy.routes("cuda:0") == ()
    assert sources.in_force(CUDA).origin.endswith(f"none ship for {NAME}")


def test_what_ships_is_for_gpus_of_its_name(tmp_path: Path) -> None:
    wanted = table(route("exp", "torch", "cupy"), versions={"torch": "1.0"})
    path = tmp_path / "data" / "gpu-routes-a_gpu_of_the_tests.json"
    assert files.shipped_file(NAME) == path
    files.write(path, wanted.dump())
    corepy.set_routes(None)
    assert corepy.routes("cuda:0") == wanted.routes
    files.write(path, table(*wanted.routes, gpu="A GPU of the  tests").dump())
    corepy.set_routes(None)
    assert corepy.routes("cuda:0") == ()


@pytest.mark.parametrize("text", ["{", '{"format": 1}'])
def test_a_damaged_file_is_told_of(text: str) -> None:
    files.write(files.cache_file(table().machine), text)
    corepy.set_routes(None)
    with pytest.warns(corepy.RouteWarning, match="holds no table of routes"):
        assert corepy.routes("cuda:0") == ()


def test_a_gain_below_the_margin_is_no_way(use: Use) -> None:
    use(route("exp", "torch", "cupy", gain=SITE.margin - 0.01), route("log", "torch", "cupy"))
    x = array("torch", np.ones(200))
    assert ran(xp.exp, x)[0] == "torch"
    assert ran(xp.log, x)[0] == "cupy"


@both_ways
def test_a_library_is_imported_once_that_pays(
    use: Use, monkeypatch: pytest.MonkeyPatch, home: str, other: str
) -> None:
    library = _route_libraries.Library(other)
    monkeypatch.setitem(_route_libraries.LIBRARIES, other, library)
    monkeypatch.setattr(_route_libraries, "sys", type("sys", (), {"modules": {}}))
    use(route("exp", home, other))  # which saves a fifth of a millisecond
    library.price = 5.5e-4
    x = array(home, np.ones(200))
    x._table.clear()
    found = []
    for _ in range(5):
        xp.exp(x)
        found.append(library.backend is not None)
    # What the call itself would save, twice as much at twice the elements, counts with what others
    # have lost.
    assert found == [False, True, True, True, True]


# ---------------------------------------------------------------------------- tuning, commands


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_device_cases, "FIRST", 1 << 12)
    monkeypatch.setattr(_device_cases, "GREATER", (1 << 14,))
    monkeypatch.setattr(_device_cases, "SMALLER", (1 << 10,))
    monkeypatch.setattr(_device_cases, "DRAWN", 1 << 10)
    monkeypatch.setattr(_tune, "ATTEMPTS", 1)
    monkeypatch.setattr(_tune, "_start", lambda name: 0.5)


@pytest.mark.usefixtures("quick")
def test_tuning_measures_both_ways_and_goes_on_where_it_was_interrupted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    waited: list[str] = []
    for name in ("torch", "cupy"):
        monkeypatch.setattr(
            load(name), "synchronize", lambda device, name=name: waited.append(name)
        )
    seen: list[str] = []

    def interrupt(number: int, count: int, label: str) -> None:
        seen.append(label)
        if number == 1:
            raise KeyboardInterrupt

    path = tmp_path / "cells.json"
    with pytest.raises(KeyboardInterrupt):
        tune(["exp"], device=CUDA, seconds=1e-9, cells=path, progress=interrupt)
    assert seen == ["exp float32 torch", "exp float32 cupy"]
    rows = json.loads(path.read_text())["cells"]
    assert {row["form"] for row in rows} == {"torch"}
    assert set(waited) == {"torch"}
    measured: list[str] = []
    measure = _tune._measured

    def counted(case: Any, size: int, *rest: Any) -> Any:
        measured.append(case.label)
        return replace(measure(case, size, *rest), undecided=False)

    monkeypatch.setattr(_tune, "_measured", counted)
    outcome = tune(["exp"], device=CUDA, seconds=1e-9, cells=path)
    assert outcome.refused == ()
    assert {"exp float32 cupy", "exp float64 torch", "exp float64 cupy"} <= set(measured)
    assert outcome.table.gpu == NAME
    assert outcome.table.made["command"] == "corepy tune --device cuda:0"
    assert parse(outcome.table.dump()).routes == outcome.table.routes
    measured.clear()
    tune(["exp"], device=CUDA, seconds=1e-9, cells=path)
    assert measured == []


@pytest.mark.usefixtures("quick")
def test_who_means_something_else_is_not_measured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_device_cases, "deviation", lambda *_: "it is off by one")
    outcome = tune(["exp"], device=CUDA, seconds=1e-9, cells=tmp_path / "cells.json")
    assert "exp float32 torch: cupy: it is off by one" in outcome.refused
    assert outcome.table.routes == ()


@pytest.mark.usefixtures("quick")
def test_the_commands_tune_and_show(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert main(["tune", "exp", "--device", "cuda:0"]) == 0
    path = files.cache_file(table().machine)
    assert capsys.readouterr().out.endswith(f"wrote {path}\n")
    files.write(path, table(route("exp", "torch", "cupy", gain=1.074)).dump())
    corepy.set_routes(None)
    assert main(["routes", "--device", "cuda:0"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[1].startswith(f"made on {NAME}: corepy ")
    assert lines[-1].split(maxsplit=6)[:6] == ["exp", "float32", "torch", "100", "cupy", "1.07x"]
    mine = tmp_path / "mine.json"
    assert main(["routes", "--device", "cuda:0", "--export", str(mine)]) == 0
    assert parse(mine.read_text()).gpu == NAME
    path.unlink()
    assert main(["routes", "--import", str(mine)]) == 0
    assert path.is_file()
    assert main(["routes", "--device", "cuda:0", "--freeze"]) == 0
    path.unlink()
    corepy.set_routes(None)
    assert len(corepy.routes("cuda:0")) == 1
    assert sources.in_force(CUDA).origin.startswith("frozen in ")
    assert main(["routes", "--device", "cuda:0", "--thaw"]) == 0
    corepy.set_routes(None)
    assert corepy.routes("cuda:0") == ()
    mine.write_text(table(gpu="Another").dump())
    capsys.readouterr()
    assert main(["routes", "--import", str(mine)]) == 2
    assert f"measured elsewhere (gpu 'Another' then, '{NAME}' now)" in capsys.readouterr().err


def test_routes_of_all_devices_are_shown(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    wanted = table(route("exp", "torch", "cupy"))
    files.write(files.cache_file(wanted.machine), wanted.dump())
    corepy.set_routes(None)
    gpu = type("Gpu", (), {"device": CUDA})()
    info = type("Info", (), {"gpus": (gpu,)})()
    monkeypatch.setattr(_cli_routes, "detect_devices", lambda: info)
    assert main(["routes"]) == 0
    out = capsys.readouterr().out
    assert "\n\ncuda:0: measured on this machine, in " in out


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["tune", "--device", "cuda:7"], "device is cuda:7; expected one on which torch and cupy"),
        (["tune", "--device", "mps"], "device is mps; expected a GPU of CUDA, such as cuda:0"),
        (["tune", "--device", "a b"], "tune: device is 'a b'; expected a device name"),
        (["tune", "--device", "cuda:0", "linalg.inv"], "'linalg.inv' is no operation that can"),
        (["tune", "--device", "cuda:0", "--offload"], "--offload measures every device"),
        (["routes", "--device", "cuda:7", "--thaw"], "device is cuda:7; expected one of cpu"),
        (["routes", "--device", "cuda:0", "--export", "x"], "expected a table in force"),
    ],
)
def test_devices_that_are_none(
    words: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(words) == 2
    assert message in capsys.readouterr().err


def test_a_gpu_without_a_name_is_not_tuned(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_tune, "gpu_name", lambda device: None)
    with pytest.raises(ValueError, match="device is cuda:0; expected one whose name the driver"):
        tune(["exp"], device=CUDA)


def test_both_libraries_serve_the_device() -> None:
    assert {each.name for each in _libraries.serving(CUDA)} >= {"cupy", "torch"}
