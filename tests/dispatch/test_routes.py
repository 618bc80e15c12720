"""Routes: large operations run where they were measured fastest, and mean the same there."""

from __future__ import annotations

import math
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import numpy as np
import pytest

import corepy
import corepy.array_api as xp
from corepy import _openmp
from corepy.devices._device import CPU
from corepy.dispatch import _route_libraries, _routes
from corepy.dispatch import _route_sources as sources
from corepy.dispatch._admitted import ADMITTED
from corepy.dispatch._neighbours import NEIGHBOURS
from corepy.dispatch._route_table import Option, Route, RouteTable
from corepy.dispatch._sites import HOST

ROOT = Path(corepy.__file__).parent.parent
HERE = {"cpu": "this one", "cores": 2, "threads": 2}
#: Another library that runs operations of NumPy's arrays; one test runs for each.
numba = pytest.param("numba", marks=pytest.mark.backend("numba"))
torch = pytest.param("torch", marks=pytest.mark.backend("torch"))
each_candidate = pytest.mark.parametrize("candidate", [numba, torch])

Use = Callable[..., None]


def route(operation: str, backend: str, least: int = 100, **options: Any) -> Route:
    dtype = options.pop("dtype", "float64")
    form = options.pop("form", ADMITTED[operation].forms[0])
    gain, busy, single = (
        options.pop("gain", 9.0),
        options.pop("busy", 9.0),
        options.pop("single", None),
    )
    option = Option(backend, gain, busy=busy, single=single)
    return Route(operation, dtype, form, least, math.inf, (option,))


@pytest.fixture(autouse=True)
def numpys() -> Iterator[None]:
    """New arrays live in NumPy, and nobody is busy."""
    with corepy.backend_priority(["numpy"]):
        yield


@pytest.fixture
def use(tmp_path: Path, alone: None) -> Iterator[Use]:
    """Give a function that puts routes in force, for the length of a test."""

    def apply(*routes: Route, start: dict[str, float] | None = None) -> None:
        path = tmp_path / "routes.json"
        table = RouteTable(HERE, {"command": "a test"}, start or {}, routes)
        text = table.dump().replace("Infinity", "1e9")
        path.write_text(text)
        corepy.set_routes(path)

    before = sources._source
    yield apply
    corepy.set_routes(before)


def ran(function: Callable[..., Any], *args: Any) -> list[tuple[str, str]]:
    return [(r.operation, r.backend) for r in corepy.explain(function, *args).records]


# ---------------------------------------------------------------------------- who runs what


@each_candidate
def test_large_operands_go_the_route_and_small_ones_stay(use: Use, candidate: str) -> None:
    use(route("floor_divide", candidate))
    for size, backend in [(0, "numpy"), (1, "numpy"), (99, "numpy"), (100, candidate)]:
        x = xp.asarray(np.linspace(-9, 9, size))
        assert ran(lambda x: x // 3.0, x) == [("floor_divide", backend)], size
        assert ran(lambda x: 3.0 // (x + 9.5), x)[1:] == [("floor_divide", backend)], size
        assert x.backend == (x // 3.0).backend == "numpy"
        assert np.array_equal(np.asarray(x // 3.0), np.linspace(-9, 9, size) // 3.0)


@pytest.mark.backend("numba")
def test_routes_of_joined_arrays_go_by_the_size_of_the_result(use: Use) -> None:
    names = ("concat", "roll", "stack")
    use(*(route(name, "numba") for name in names), route("astype", "numba", form="to int64"))
    for size, backend in [(0, "numpy"), (98, "numpy"), (100, "numba")]:
        x = xp.asarray(np.arange(size // 2, dtype=np.float64))
        for name, function in [("concat", xp.concat), ("stack", xp.stack)]:
            made = function((x, x))
            assert (made.backend, made.size) == ("numpy", size)
            assert ran(function, (x, x)) == [(name, backend)], size
    x = xp.asarray(np.arange(100.0))
    assert ran(xp.astype, x, xp.int64) == [("astype", "numba")]
    assert ran(xp.astype, x, xp.float32) == [("astype", "numpy")]
    assert ran(xp.roll, x, 3) == [("roll", "numba")]
    assert ran(xp.roll, x[::-1], 3) == [("roll", "numpy")]


@each_candidate
def test_explain_and_profile_say_who_and_why(use: Use, candidate: str) -> None:
    use(route("floor_divide", candidate, gain=3.4))
    x = xp.ones(200)
    (record,) = corepy.explain(lambda: x // 2.0).records
    assert record.backend == candidate
    assert record.reason == "route: measured 3.4x NumPy from 100 elements"
    with corepy.profile() as found:
        x // 2.0
        x[:50] // 2.0
    assert ("floor_divide", candidate, "cpu") in found.by_operation()
    assert ("floor_divide", "numpy", "cpu") in found.by_operation()


@pytest.mark.backend("torch")
def test_a_router_tells_its_least_size_and_what_runs_below(use: Use) -> None:
    x = xp.ones(3)
    plain = x._table.backend.operation("floor_divide")
    use(route("floor_divide", "torch"), route("sin", "torch", 7))
    for name, least in (("floor_divide", 100), ("sin", 7)):
        router: Any = x._table[name][0]
        assert router.least == least
    assert x._table["floor_divide"][0].small is plain
    assert not hasattr(x._table["cos"][0], "least")
    assert not hasattr(xp.ones(3, dtype=xp.float32)._table["sin"][0], "least")


@pytest.mark.backend("torch")
def test_the_least_size_of_all_forms_and_the_right_one_of_each(use: Use) -> None:
    use(
        route("sum", "torch", 1000, form="all"),
        route("sum", "torch", 100, form="rows"),
    )
    x = xp.ones((20, 20))
    router: Any = x._table["sum"][0]
    assert router.least == 100
    assert ran(lambda: xp.sum(x)) == [("sum", "numpy")]
    assert ran(lambda: xp.sum(x, axis=1)) == [("sum", "torch")]
    assert ran(lambda: xp.sum(x, axis=0)) == [("sum", "numpy")]
    assert ran(lambda: xp.sum(xp.ones(1000))) == [("ones", "numpy"), ("sum", "torch")]


@pytest.mark.backend("numba")
def test_columns_that_are_few_and_long_have_routes_of_their_own(
    use: Use, monkeypatch: pytest.MonkeyPatch
) -> None:
    chosen: list[str | None] = []
    go = _routes.Choice.__call__

    def choose(self: Any, args: Any, params: Any) -> Any:
        form = self.former(args, params)
        chosen.append(form if form in self.forms else None)
        return go(self, args, params)

    def by(x: Any) -> str:
        ((_, backend),) = ran(lambda: xp.max(x, axis=0))
        with monkeypatch.context() as patch:  # plain calls may take a shorter way
            patch.setattr(_routes.Choice, "__call__", choose)
            for axis in (0, -x.ndim):
                chosen.clear()
                xp.max(x, axis=axis)
                assert any(chosen) == (backend == "numba")
        return backend

    narrow, wide = xp.ones((1024, 128)), xp.ones((1024, 129))
    shapes = [xp.ones(shape) for shape in ((1023, 128), (80, 10), (160, 2, 10), (159, 2, 10))]
    use(route("max", "numba", form="narrow"))
    assert [by(x) for x in (narrow, wide)] == ["numba", "numpy"]
    assert [by(x) for x in shapes] == ["numpy", "numba", "numba", "numpy"]
    assert [by(xp.ones((1000, 1))), by(xp.ones((1000, 2)).T)] == ["numpy"] * 2
    use(route("max", "numba", form="columns"))  # as tables have it that know nothing of these
    assert [by(x) for x in (narrow, wide)] == ["numpy", "numba"]
    assert [by(x) for x in shapes] == ["numba", "numpy", "numpy", "numba"]
    with pytest.raises(ValueError, match="max"):
        xp.max(xp.ones((0, 500)), axis=0)


@pytest.mark.backend("torch")
def test_a_size_from_which_numpy_is_best_again(use: Use) -> None:
    use(route("sin", "torch", 10), replace(route("sin", "torch", 1000), options=()))
    assert [ran(xp.sin, xp.ones(n))[0][1] for n in (9, 10, 999, 1000)] == [
        "numpy",
        "torch",
        "torch",
        "numpy",
    ]


@pytest.mark.backend("numba")
@pytest.mark.backend("torch")
def test_the_next_option_runs_where_the_first_is_not_ready(use: Use) -> None:
    first = route("floor_divide", "torch", busy=None)
    use(replace(first, options=(*first.options, Option("numba", 3.0))))
    x = xp.ones(200)
    assert ran(lambda: x // 2.0) == [("floor_divide", "torch")]
    NEIGHBOURS.used = float(NEIGHBOURS.cores)
    assert ran(lambda: x // 2.0) == [("floor_divide", "numba")]


@pytest.mark.backend("numba")
@pytest.mark.backend("torch")
def test_arrays_of_numba_go_routes_too(use: Use) -> None:
    use(route("sin", "torch"), route("floor_divide", "numba"))
    with corepy.backend_priority(["numba"]):
        x = xp.ones(200)
    found = corepy.explain(lambda: xp.sin(x) // 2.0)
    assert [(r.operation, r.backend) for r in found.records] == [
        ("sin", "torch"),
        ("floor_divide", "numba"),
    ]
    assert found.result.backend == "numba"


@pytest.mark.backend("torch")
def test_operands_that_cannot_be_shared_stay(use: Use, recwarn: pytest.WarningsRecorder) -> None:
    use(route("sin", "torch"), route("add", "torch"))
    values = np.linspace(0, 1, 400)
    fixed = values.copy()
    fixed.flags.writeable = False
    packed = np.zeros(400, [("a", "u1"), ("b", "f8")])["b"]  # neither aligned nor in whole steps
    for odd in (values[::-1], values[::2], values.reshape(20, 20).T[::2], fixed, packed):
        x = corepy.to(odd, backend="numpy", copy=False)
        assert ran(xp.sin, x) == [("sin", "numpy")]
        assert np.array_equal(np.asarray(xp.sin(x)), np.sin(odd))
    column = corepy.to(values.reshape(400, 1), backend="numpy")
    assert ran(lambda: column + xp.ones(400))[-1] == ("add", "numpy")  # broadcasts
    assert not recwarn.list


# ---------------------------------------------------------------------------- the same meaning


@pytest.mark.backend("torch")
def test_errors_are_those_of_the_arrays_own_backend(use: Use) -> None:
    use(
        *(route(f"linalg.{name}", "torch", 1) for name in ("cholesky", "inv", "solve")),
        route("add", "torch", 1),
    )
    singular = xp.asarray([[1.0, 2.0], [2.0, 4.0]])

    def message(call: Callable[[], Any]) -> str:
        with pytest.raises(ValueError) as raised:  # noqa: PT011  # compared below
            call()
        assert type(raised.value) in {ValueError, np.linalg.LinAlgError}
        return str(raised.value)

    calls = [
        lambda: xp.linalg.cholesky(-singular),
        lambda: xp.linalg.inv(singular),
        lambda: xp.linalg.solve(singular, singular),
        lambda: xp.ones(200) + xp.ones(300),
    ]
    routed = [message(call) for call in calls]
    with corepy.set_routes("off"):
        assert routed == [message(call) for call in calls]


@pytest.mark.backend("torch")
def test_float32_matrices_are_routed_under_fast_precision_only(use: Use) -> None:
    use(
        route("linalg.inv", "torch", 9, dtype="float32"),
        route("linalg.inv", "torch", 9, dtype="float64"),
    )
    single, double = xp.eye(3, dtype=xp.float32), xp.eye(3)
    assert corepy.get_precision() == "full"
    assert ran(xp.linalg.inv, single) == [("linalg.inv", "numpy")]
    assert ran(xp.linalg.inv, double) == [("linalg.inv", "torch")]
    with corepy.precision("fast"):
        assert corepy.get_precision() == "fast"
        assert ran(xp.linalg.inv, single) == [("linalg.inv", "torch")]
        assert xp.linalg.inv(single).dtype is xp.float32
    assert ran(xp.linalg.inv, single) == [("linalg.inv", "numpy")]
    with pytest.raises(ValueError, match='^precision: level is .exact.; expected "full" or "fast"'):
        corepy.precision("exact")  # type: ignore[arg-type]


@pytest.mark.backend("torch")
def test_dtypes_promote_as_without_routes(use: Use) -> None:
    use(*(route("multiply", "torch", 1, dtype=name) for name in ("float32", "float64", "int64")))
    one, many = xp.asarray(12), xp.asarray([11, 11], dtype=xp.int8)
    found = xp.multiply(one, many)  # torch would let the array's dtype prevail, and overflow
    assert (found.dtype, found.tolist()) == (xp.int64, [132, 132])
    third = xp.asarray(1 / 3)
    for x in (xp.ones(3, dtype=xp.float32), xp.ones((), dtype=xp.float32)):
        found = third * x
        assert found.dtype is xp.float64
        assert found[...].tolist() == (xp.ones(x.shape) / 3).tolist()


@pytest.mark.backend("torch")
def test_several_results_and_keywords_cross(use: Use) -> None:
    use(
        route("linalg.svd", "torch", 1),
        route("unique_counts", "torch", 1, dtype="int64"),
        route("sort", "torch", 1),
        route("sum", "torch", 1, dtype="float32", form="all"),
        route("__getitem__", "torch", 1),
    )
    x = np.random.default_rng(0).standard_normal((6, 6))
    u, s, v = xp.linalg.svd(corepy.to(x, backend="numpy"))
    assert np.allclose(np.asarray((u * s) @ v), x)
    values, counts = xp.unique_counts(xp.asarray([3, 1, 3]))
    assert (values.tolist(), counts.tolist()) == ([1, 3], [1, 2])
    flat = corepy.to(x.ravel(), backend="numpy")
    assert np.array_equal(np.asarray(xp.sort(flat)), np.sort(x.ravel()))
    assert np.array_equal(np.asarray(xp.sort(flat, descending=True)), np.sort(x.ravel())[::-1])
    assert np.array_equal(np.asarray(flat[flat > 0]), x[x > 0])
    assert ran(lambda: flat[3]) == [("__getitem__", "numpy")]
    assert xp.sum(xp.ones(9, dtype=xp.float32), dtype=xp.float64).dtype is xp.float64
    assert xp.sum(xp.ones((3, 3), dtype=xp.float32), keepdims=True).shape == (1, 1)


# ---------------------------------------------------------------------------- libraries


def fresh(code: str, **environ: str) -> str:
    env = {k: v for k, v in os.environ.items() if not k.startswith("COREPY_")}
    env |= {"PYTHONPATH": str(ROOT)} | environ
    command = [sys.executable, "-W", "error", "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, env=env, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.mark.backend("numba")
def test_a_library_is_imported_once_that_pays(tmp_path: Path) -> None:
    code = """
import sys, corepy
xp = corepy.array_api
x = xp.ones(100_000)
x // 3.0
print("numba" in sys.modules)
"""
    for price, imported in ((1000.0, "False"), (1e-9, "True")):
        made = RouteTable(HERE, {}, {"numba": price}, (route("floor_divide", "numba"),))
        path = tmp_path / "routes.json"
        path.write_text(made.dump().replace("Infinity", "1e-15"))
        # What is saved is known after a call, so that the second one may be routed.
        code = code.replace("x // 3.0\n", "x // 3.0\nx // 3.0\n", 1) if imported == "True" else code
        assert fresh(code, COREPY_ROUTES=str(path)) == imported


@pytest.mark.backend("numba")
def test_a_library_is_imported_for_one_call_that_takes_longer(tmp_path: Path) -> None:
    code = "import sys, corepy as c; c.array_api.ones({}) // 3.0; print('numba' in sys.modules)"
    # NumPy's seconds at 100 elements; routed it takes a ninth of them.
    way = replace(route("floor_divide", "numba"), seconds=0.1)
    path = tmp_path / "routes.json"
    path.write_text(RouteTable(HERE, {}, {"numba": 0.5}, (way,)).dump())
    assert fresh(code.format(500), COREPY_ROUTES=str(path)) == "False"
    assert fresh(code.format(600), COREPY_ROUTES=str(path)) == "True"


@pytest.mark.backend("numba")
@pytest.mark.backend("torch")
def test_a_library_is_not_imported_for_what_another_would_save(tmp_path: Path) -> None:
    code = """
import corepy
from corepy.dispatch import _hot
from corepy.dispatch._route_libraries import LIBRARIES
_hot.helped_by(None)  # Numba's threads would save something too, where a loop takes long
xp = corepy.array_api
xp.floor(xp.ones(100_000))
torch, numba = LIBRARIES["torch"].saved, LIBRARIES["numba"].saved
print(round(torch / numba, 3) if numba else torch and float("inf"))
"""
    ways = route("floor", "torch", gain=5.0), route("floor", "numba", gain=4.0)
    options = tuple(way.options[0] for way in ways)
    beyond = (1 / 4 - 1 / 5) / (1 - 1 / 4)  # of NumPy's time, over a fourth less than all of it
    # To the one that costs less it does not matter how much more the other one saves.
    for torchs, numbas, expected in ((2e3, 1e3, beyond), (1e3, 2e3, None)):
        start = {"numba": numbas, "torch": torchs}
        made = RouteTable(HERE, {}, start, (replace(ways[0], options=options),))
        path = tmp_path / "routes.json"
        path.write_text(made.dump().replace("Infinity", "1e-15"))
        said = fresh(code, COREPY_ROUTES=str(path))
        assert said == ("inf" if expected is None else str(round(expected, 3)))


@pytest.mark.backend("torch")
def test_explain_says_what_a_library_has_to_save_yet(tmp_path: Path) -> None:
    code = """
import corepy
xp = corepy.array_api
print(corepy.explain(xp.floor, xp.ones(100_000)).records[0].reason)
"""
    made = RouteTable(HERE, {}, {"torch": 2.5}, (replace(route("floor", "torch"), seconds=1e-9),))
    path = tmp_path / "routes.json"
    path.write_text(made.dump())
    reason = fresh(code, COREPY_ROUTES=str(path))
    assert reason.startswith("the operands live in it; the route to torch is not open: importing ")
    assert "takes 2.5 s" in reason


@pytest.mark.backend("numba")
@pytest.mark.backend("torch")
def test_torch_is_not_imported_where_it_has_to_wait_for_a_core(tmp_path: Path) -> None:
    code = """
import sys, corepy
from corepy.dispatch import _route_libraries
_route_libraries._crowded = lambda: "threads of BLAS spin"
xp = corepy.array_api
xp.floor(xp.ones(100_000))
print("torch" in sys.modules, _route_libraries.LIBRARIES["torch"].saved, "numba" in sys.modules)
"""
    ways = route("floor", "numba", gain=5.0), route("floor", "torch", gain=4.9)
    for order in (ways, ways[::-1]):
        options = tuple(way.options[0] for way in order)
        way = replace(ways[0], options=options, seconds=0.1)  # 100 at so many elements
        path = tmp_path / "routes.json"
        # Numba's merit is not what torch would leave of it, which may not run.
        path.write_text(RouteTable(HERE, {}, {"numba": 50.0, "torch": 1.0}, (way,)).dump())
        assert fresh(code, COREPY_ROUTES=str(path)) == "False 0.0 True"


@pytest.mark.backend("numba")
def test_a_library_that_is_imported_is_used_at_once(use: Use) -> None:
    import numba as _  # noqa: F401  # what a program does

    use(route("floor_divide", "numba"), start={"numba": 1e9})
    assert ran(lambda: xp.ones(200) // 3.0)[1] == ("floor_divide", "numba")


@pytest.mark.backend("torch")
@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
def test_a_forked_child_leaves_torch_alone(tmp_path: Path) -> None:
    code = """
import os, warnings, torch, corepy
xp = corepy.array_api
x = xp.ones(100_000)
print(corepy.explain(xp.sin, x).records[0].backend, flush=True)
with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)  # of threads and fork
    child = os.fork()
if child == 0:
    print(corepy.explain(xp.sin, x).records[0].backend, flush=True)
    os._exit(0)
os.waitpid(child, 0)
print(corepy.explain(xp.sin, x).records[0].backend)
"""
    path = tmp_path / "routes.json"
    made = RouteTable(HERE, {}, {}, (route("sin", "torch"),))
    path.write_text(made.dump().replace("Infinity", "1e9"))
    assert fresh(code, COREPY_ROUTES=str(path)).split() == ["torch", "numpy", "torch"]


# ---------------------------------------------------------------------------- neighbours, threads


#: How `explain` begins to say why a call did not go where it is routed to.
SHUT: Final = "the operands live in it; the route to torch is not open: "


@pytest.mark.backend("torch")
def test_torch_steps_aside_when_other_cores_are_busy(use: Use) -> None:
    use(
        route("sin", "torch", busy=None),
        route("cos", "torch", busy=1.0),
        route("tan", "torch", busy=2.0),
    )
    x = xp.ones(200)
    work = [xp.sin, xp.cos, xp.tan]
    assert [ran(f, x)[0][1] for f in work] == ["torch"] * 3
    NEIGHBOURS.used = float(NEIGHBOURS.cores)
    assert [ran(f, x)[0][1] for f in work] == ["numpy", "numpy", "torch"]
    (record,) = corepy.explain(xp.sin, x).records
    assert record.reason == SHUT + "other processes keep the cores busy"


@pytest.mark.backend("torch")
def test_torch_pauses_after_a_call_that_lost_time(
    use: Use, monkeypatch: pytest.MonkeyPatch
) -> None:
    use(replace(route("tan", "torch"), seconds=1e-12))
    x = xp.ones(200)
    monkeypatch.setattr(NEIGHBOURS, "pause", 30.0)
    # The first call takes longer than NumPy's, which is said to take no time.
    assert [ran(xp.tan, x)[0][1] for _ in range(3)] == ["torch", "numpy", "numpy"]
    (record,) = corepy.explain(xp.tan, x).records
    assert record.reason == SHUT + "a call of it lost time to other processes a moment ago"
    monkeypatch.setattr(NEIGHBOURS, "until", 0.0)
    assert ran(xp.tan, x)[0][1] == "torch"


def test_the_homes_time_of_a_matrix_grows_with_the_third_power_of_its_side() -> None:
    numpy, place = corepy.dispatch.load("numpy"), (HOST, CPU, xp.float64)
    for name, form, wanted in (("linalg.inv", "", 8.0), ("exp", "", 4.0)):
        of = replace(route(name, "torch", 1000, form=form), seconds=1.0)
        way = _routes._Way(name, numpy, place, np.exp, of, of.options[0])
        assert way.at_home_for(4000) == pytest.approx(wanted)


@pytest.mark.backend("torch")
@pytest.mark.parametrize(("slower", "lost"), [(0.5, False), (4.0, False), (20.0, True)])
def test_far_from_where_a_route_begins_elements_may_take_longer(
    use: Use, monkeypatch: pytest.MonkeyPatch, slower: float, lost: bool
) -> None:
    x = xp.asarray(np.linspace(0, 1, 1_000_000))
    clock = iter(range(100))
    # Whatever the clock is asked before and after, a second has passed.
    monkeypatch.setattr(_routes, "perf_counter", lambda: float(next(clock)))
    even = 1.0 / slower  # what so many elements would take NumPy, if they took as long as 100 do
    use(replace(route("tan", "torch", gain=1.5), least=100, seconds=even * 100 / 1_000_000))
    monkeypatch.setattr(NEIGHBOURS, "pause", 30.0)
    assert ran(xp.tan, x)[0][1] == "torch"
    assert NEIGHBOURS.pausing() == lost


@pytest.mark.backend("torch")
def test_a_call_that_takes_longer_than_others_of_its_size_lost_time(
    use: Use, monkeypatch: pytest.MonkeyPatch
) -> None:
    x = xp.asarray(np.linspace(0, 1, 1_000_000))
    use(replace(route("tan", "torch", gain=1.5), least=100, seconds=1.0 * 100 / 1_000_000))
    for seconds, lost in ((3.0, False), (1.2, False), (4.0, True)):
        # Back at its least after a call that lost none.
        monkeypatch.setattr(NEIGHBOURS, "pause", 30.0)
        times = iter((0.0, seconds))
        monkeypatch.setattr(_routes, "perf_counter", lambda times=times: next(times))
        xp.tan(x)
        assert not list(times)
        assert NEIGHBOURS.pausing() == lost


@each_candidate
def test_torchs_threads_wake_apart_and_nobody_elses(
    use: Use, monkeypatch: pytest.MonkeyPatch, candidate: str
) -> None:
    asked: list[int] = []
    apart = _openmp.apart
    monkeypatch.setattr(_openmp, "apart", lambda: asked.append(1) or apart())
    use(route("floor_divide", candidate))
    x = xp.asarray(np.linspace(-9, 9, 200))
    assert np.array_equal(np.asarray(x // 3.0), np.linspace(-9, 9, 200) // 3.0)
    assert asked == [1] * (candidate == "torch")


@pytest.mark.backend("torch")
def test_with_fewer_threads_only_what_gains_without_them(
    use: Use, monkeypatch: pytest.MonkeyPatch
) -> None:
    use(route("sin", "torch", gain=1.9), route("cos", "torch", gain=2.9))
    x = xp.ones(200)
    assert [ran(f, x)[0][1] for f in (xp.sin, xp.cos)] == ["torch", "torch"]
    monkeypatch.setattr(_routes, "budget", lambda: 1)
    assert [ran(f, x)[0][1] for f in (xp.sin, xp.cos)] == ["numpy", "torch"]
    (record,) = corepy.explain(xp.sin, x).records
    assert record.reason == SHUT + "it gains nothing in 1 of 2 threads"


@pytest.mark.backend("torch")
def test_in_one_thread_what_was_measured_in_one_counts(
    use: Use, monkeypatch: pytest.MonkeyPatch
) -> None:
    use(route("sin", "torch", gain=1.9, single=1.8), route("cos", "torch", gain=2.9, single=1.0))
    x = xp.ones(200)
    monkeypatch.setattr(_routes, "budget", lambda: 1)
    assert [ran(f, x)[0][1] for f in (xp.sin, xp.cos)] == ["torch", "numpy"]


def test_the_gain_in_fewer_threads() -> None:
    option = Option("numba", 4.0)
    assert [option.gain_in(n, 4) for n in (1, 2, 4, 8)] == [1.0, 2.0, 4.0, 4.0]
    option = Option("numba", 4.0, single=3.0)
    assert [option.gain_in(n, 4) for n in (1, 2, 3, 4)] == [3.0, 3.0, 3.0, 4.0]
    assert Option("numba", 4.0, single=0.5).gain_in(2, 4) == 2.0


def test_neighbours_are_seen_where_the_system_tells(monkeypatch: pytest.MonkeyPatch) -> None:
    from corepy.dispatch import _neighbours

    seconds, own, now = 100.0, 10.0, 1000.0
    monkeypatch.setattr(_neighbours, "busy_seconds", lambda: seconds)
    monkeypatch.setattr(_neighbours.time, "process_time", lambda: own)
    monkeypatch.setattr(_neighbours.time, "monotonic", lambda: now)
    seen = _neighbours.Neighbours()
    seen.cores = 2
    assert not seen.busy(2)  # the first look knows nothing
    now, seconds, own = now + 1, seconds + 1.1, own + 1.0
    assert not seen.busy(2)  # it is this process that worked
    now, seconds, own = now + 1, seconds + 2.0, own + 1.0
    assert seen.busy(2)
    assert not seen.busy(1)
    now, seconds = now + 0.01, seconds + 0.0
    assert seen.busy(2)  # for a while an answer holds
    now, seconds, own = now + 1, seconds + 1.0, own + 1.0
    assert not seen.busy(2)
    monkeypatch.setattr(_neighbours, "busy_seconds", lambda: None)
    now += 1
    assert not seen.busy(2)


def test_routed_returns_plain_callables_where_nothing_is_routed() -> None:
    native = np.sin
    numpy = xp.ones(1)._table.backend
    with corepy.set_routes("off"):
        assert _routes.routed(native, "sin", numpy, CPU, xp.float64) is native
    assert _routes.routed(native, "squeeze", numpy, CPU, xp.float64) is native


@pytest.mark.backend("torch")
def test_torch_is_left_alone_where_other_threads_keep_the_cores(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    import torch  # noqa: F401  so that it need not be imported for this

    torchs = _route_libraries.LIBRARIES["torch"]
    for found in ([], ["numpy was imported before corepy"]):
        monkeypatch.setattr(_route_libraries, "spinning", lambda: found)  # noqa: B023
        _route_libraries._crowded.cache_clear()
        with corepy.set_routes("shipped"):
            ready = torchs.ready(HOST)
            why = torchs.hindrance(HOST)
        assert (ready is None) is bool(found)
        assert why == (found[0] if found else None)
    _route_libraries._crowded.cache_clear()
