"""Products and decompositions beside other processes: how many threads BLAS gets."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pytest

import corepy
from corepy import _apart, _blas, _places
from corepy.dispatch import _considerate, _hot, _machine
from corepy.dispatch._considerate import considerate
from corepy.dispatch._neighbours import NEIGHBOURS, Neighbours
from corepy.dispatch._route_table import RouteTable
from tests.conftest import required

required("threadpoolctl")


def blas_threads() -> list[int]:
    return [library.get_num_threads() for library in _blas._libraries()]


@pytest.fixture
def two_threads() -> Iterator[list[int]]:
    """BLAS in two threads, whatever the tests before have left."""
    libraries = _blas._libraries()
    before = blas_threads()
    for library in libraries:
        library.set_num_threads(2)
    if blas_threads() != [2] * len(libraries):
        pytest.skip("BLAS has no second thread here")
    yield [2] * len(libraries)
    for library, count in zip(libraries, before, strict=True):
        library.set_num_threads(count)


@pytest.fixture
def busy(monkeypatch: pytest.MonkeyPatch) -> None:
    """One of two cores in use by others."""
    monkeypatch.setattr(_considerate, "cores", lambda: 2)
    monkeypatch.setattr(_considerate, "budget", lambda: None)
    monkeypatch.setattr(NEIGHBOURS, "cores", 2)
    monkeypatch.setattr(NEIGHBOURS, "used", 1.0)
    monkeypatch.setattr(NEIGHBOURS, "looked", float("inf"))


def test_as_many_threads_as_there_are_cores_free() -> None:
    found = Neighbours()
    found.cores, found.used, found.looked = 64, 20.5, float("inf")
    assert (found.free(64), found.free(8)) == (43, 8)
    assert found.busy(64)
    assert not found.busy(8)
    found.used = 64.0
    assert found.free(8) == 1


def test_blas_has_fewer_threads_beside_others_and_all_again(
    two_threads: list[int], busy: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    call = considerate(lambda x, *, add: ([n + add for n in blas_threads()], x.size), "linalg.eig")
    large = np.zeros((1, _considerate.LEAST))
    assert call(large, add=0) == ([1] * len(two_threads), large.size)
    assert blas_threads() == two_threads
    with pytest.raises(ZeroDivisionError):
        considerate(lambda x: x.size // 0, "linalg.eig")(large)
    assert blas_threads() == two_threads
    monkeypatch.setattr(NEIGHBOURS, "used", 0.0)
    assert call(large, add=0) == (two_threads, large.size)


def test_holds_that_overlap_leave_blas_as_it_was(two_threads: list[int]) -> None:
    first, second = threading.Event(), threading.Event()
    seen: list[list[int]] = []

    def other() -> None:
        with _blas.single():
            first.set()
            second.wait(5)  # leaves after the one that came first
            seen.append(blas_threads())

    thread = threading.Thread(target=other)
    with _blas.single():
        thread.start()
        assert first.wait(5)
    assert blas_threads() == [1] * len(two_threads)  # the other still holds it
    second.set()
    thread.join()
    assert seen == [[1] * len(two_threads)]
    assert blas_threads() == two_threads


def test_large_operations_say_so(two_threads: list[int], busy: None) -> None:
    xp = corepy.array_api
    large = xp.asarray(np.eye(520) * 2)
    fewer, one = "BLAS in 1 of 2 threads", "BLAS in one thread"
    for side, of_det, of_product in ((520, fewer, fewer), (100, one, fewer), (50, None, None)):
        x = large[:side, :side]
        for function, wanted, said in (
            (xp.linalg.det, 2.0**side, of_det),
            (lambda x: xp.sum(x @ x), 4.0 * side, of_product),
        ):
            with corepy.set_routes("off"):
                found = corepy.explain(function, x)
            assert float(found.result) == pytest.approx(wanted)
            reason = found.records[0].reason
            assert said in reason if said else "BLAS" not in reason


# ---------------------------------------------------------------------------- one thread


def definite(side: int, dtype: str = "float64") -> npt.NDArray[Any]:
    x = np.random.default_rng(side).standard_normal((side, side))
    made: npt.NDArray[Any] = (x @ x.T / side + np.eye(side)).astype(dtype)
    return made


#: Decompositions, what they take beside a matrix, and rows of one too large for one thread.
SMALL: Final[dict[str, tuple[tuple[Any, ...], dict[str, Any], int]]] = {
    "linalg.cholesky": ((), {"upper": False}, 641),
    "linalg.det": ((), {}, 513),
    "linalg.eigvalsh": ((), {}, 401),
    "linalg.inv": ((), {}, 201),
    "linalg.qr": ((), {"mode": "reduced"}, 641),
    "linalg.solve": ((np.ones(120),), {}, 513),
    "linalg.svd": ((), {"full_matrices": False}, 301),
}


@pytest.mark.parametrize("name", SMALL)
def test_small_matrices_are_decomposed_in_one_thread(
    name: str, two_threads: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_considerate, "cores", lambda: 2)
    monkeypatch.setattr(_considerate, "budget", lambda: None)
    monkeypatch.setattr(NEIGHBOURS, "used", 0.0)
    monkeypatch.setattr(NEIGHBOURS, "looked", float("inf"))
    seen: list[list[int]] = []
    more, params, large = SMALL[name]

    def native(*args: Any, **params: Any) -> None:
        seen.append(blas_threads())

    call = considerate(native, name)
    call(definite(120), *more, **params)
    call(np.stack([definite(120)] * 2), *more, **params)
    assert seen == [[1] * len(two_threads)] * len(seen)
    seen.clear()
    call(np.ones((large, large)), *more, **params)
    assert seen == [two_threads]
    with pytest.raises(ZeroDivisionError):
        considerate(lambda *_, **__: 1 // 0, name)(definite(120), *more, **params)
    assert blas_threads() == two_threads


def test_a_table_says_up_to_how_many_rows(
    two_threads: list[int], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(_considerate, "cores", lambda: 2)
    monkeypatch.setattr(_considerate, "budget", lambda: None)
    monkeypatch.setattr(NEIGHBOURS, "used", 0.0)
    monkeypatch.setattr(NEIGHBOURS, "looked", float("inf"))
    path = tmp_path / "routes.json"
    table = RouteTable(_machine.machine_key(), {}, {}, (), {"linalg.inv": 110, "linalg.eig": 0})
    path.write_text(table.dump())
    xp = corepy.array_api
    with corepy.set_routes(path):
        for name, side, one in (("inv", 110, True), ("inv", 120, False), ("det", 120, True)):
            x = xp.asarray(definite(side))
            reason = corepy.explain(getattr(xp.linalg, name), x).records[0].reason
            assert ("BLAS in one thread" in reason) == one, (name, side)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_what_they_find_is_what_lapack_finds_in_one_thread(
    dtype: str, two_threads: list[int]
) -> None:
    xp = corepy.array_api
    x = definite(120, dtype)
    with corepy.set_routes("off"), _blas.single():
        wanted = np.linalg.cholesky(x), np.linalg.det(x), *np.linalg.qr(x), np.linalg.solve(x, x)
    own = xp.asarray(x)
    with corepy.set_routes("off"):
        linalg = xp.linalg
        got = linalg.cholesky(own), linalg.det(own), *linalg.qr(own), linalg.solve(own, own)
    for a, b in zip(got, wanted, strict=True):
        np.testing.assert_array_equal(np.asarray(a), b, strict=True)
    with corepy.set_routes("off"), pytest.raises(ValueError, match="positive definite"):
        xp.linalg.cholesky(-own)
    assert blas_threads() == two_threads


# ---------------------------------------------------------------------------- where they wake


def processors() -> list[int]:
    """Return on which processors BLAS's threads may run, as bits, but for the caller."""
    found = []
    for library in _blas._placeable():
        for thread in range(library.get_num_threads() - 1):
            mask = _blas._Mask()
            get = library.dynlib.openblas_getaffinity
            assert not get(thread, _blas._BYTES, ctypes.byref(mask))
            found.append(mask[0])
    return found


@pytest.fixture
def rested(two_threads: list[int], monkeypatch: pytest.MonkeyPatch) -> int:
    """BLAS after a rest, called from the first processor; return all, as bits."""
    usable = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else []
    if not _blas._placeable() or len(usable) < 2:
        pytest.skip("needs OpenBLAS with threads of its own, Linux and two processors")
    large = np.ones((300, 300))
    np.matmul(large, large)  # a fork ends OpenBLAS's threads, and the next product starts them
    monkeypatch.setattr(_places, "here", lambda: usable[0])
    monkeypatch.setattr(_blas._APART, "_caller", 0)
    return sum(1 << place for place in usable)


def test_threads_of_blas_wake_apart_from_the_caller_and_may_go_anywhere_again(
    rested: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_apart, "perf_counter", lambda: 100.0)  # nothing comes between
    before = processors()
    inside: list[int] = []

    def fail() -> None:
        with _blas.apart():
            inside.extend(processors())
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert inside == [mask & ~(rested & -rested) for mask in before]
    assert processors() == before
    with _blas.apart():  # at once, where they still are apart
        assert processors() == before


def test_threads_stay_where_they_are_while_the_caller_works(
    rested: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = worked = 100.0
    monkeypatch.setattr(_apart, "perf_counter", lambda: now)
    monkeypatch.setattr(_apart, "thread_time", lambda: worked)
    before = processors()
    with _blas.apart():
        assert processors() != before
    for passed, of_these, stay in (
        (0.01, 0.01, True),
        (0.01, 0.0097, True),  # something came between
        (0.01, 0.005, False),
        (5e-5, 0.0, True),
        (5.0, 0.0, False),
    ):
        now, worked = now + passed, worked + of_these
        with _blas.apart():
            assert (processors() == before) == stay
    assert processors() == before


def test_one_thread_places_them_and_others_leave_them(rested: int) -> None:
    before, inside, out = processors(), threading.Event(), threading.Event()

    def other() -> None:
        with _blas.apart():
            inside.set()
            out.wait(20)

    thread = threading.Thread(target=other)
    thread.start()
    assert inside.wait(20)
    apart = processors()
    assert apart != before
    with _blas.apart():
        assert processors() == apart
    assert processors() == apart
    out.set()
    thread.join()
    assert processors() == before


_FORK = """
import os, sys
import numpy as np
import corepy
xp = corepy.array_api
x = xp.asarray(np.eye(300))
assert float(xp.sum(x @ x)) == 300
child = os.fork()
if child == 0:
    os._exit(float(xp.sum(x @ x)) != 300)
assert os.waitpid(child, 0)[1] == 0
print("done")
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_a_forked_child_leaves_threads_alone_that_it_does_not_have() -> None:
    environ = {**os.environ, "COREPY_ROUTES": "off"}
    command = [sys.executable, "-W", "ignore", "-c", _FORK]
    done = subprocess.run(command, capture_output=True, text=True, env=environ, check=False)
    assert (done.returncode, done.stdout) == (0, "done\n"), done.stderr


@pytest.fixture
def idle(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two cores that nobody else uses, and nobody wants reproducible results."""
    monkeypatch.setattr(NEIGHBOURS, "used", 0.0)
    monkeypatch.setattr(NEIGHBOURS, "looked", float("inf"))
    monkeypatch.setattr(_considerate, "cores", lambda: 2)
    monkeypatch.setattr(_considerate, "budget", lambda: None)
    monkeypatch.setattr(_considerate.REPRODUCIBLE, "touched", False)


def came_from_blas(monkeypatch: pytest.MonkeyPatch, seconds_ago: float) -> None:
    """Let the calling thread seem to have left BLAS so long ago."""
    monkeypatch.setattr(_apart, "perf_counter", lambda: 100.0)
    monkeypatch.setattr(_blas._APART, "_last", 100.0 - seconds_ago)
    monkeypatch.setattr(_blas._APART, "_caller", threading.get_ident())


def test_large_products_ask_for_it(idle: None, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []
    apart = _blas.apart
    monkeypatch.setattr(_blas, "apart", lambda: asked.append(1) or apart())
    came_from_blas(monkeypatch, seconds_ago=1.0)
    xp = corepy.array_api
    with corepy.set_routes("off"):
        x = xp.asarray(np.eye(120))
        np.testing.assert_array_equal(np.asarray(x @ x), np.eye(120))
        xp.asarray(np.eye(20)) @ xp.asarray(np.eye(20))
    assert len(asked) == 1


@pytest.mark.parametrize("side", [101, 128, 300])
@pytest.mark.parametrize("dtype", ["float32", "float64", "complex64"])
def test_compiled_products_in_a_row_ask_nobody(
    idle: None, monkeypatch: pytest.MonkeyPatch, side: int, dtype: str
) -> None:
    asked = []
    apart = _blas.apart
    monkeypatch.setattr(_blas, "apart", lambda: asked.append(1) or apart())
    native = np.random.default_rng(side).standard_normal((2, side, side)).astype(dtype)
    with corepy.backend_priority(["numpy"]), corepy.set_routes("off"):
        x, y = (corepy.array_api.asarray(each) for each in native)
        x @ y  # the first one looks for the operation
        for seconds_ago, cold in ((1e-5, False), (1.0, True)):
            came_from_blas(monkeypatch, seconds_ago)
            for a, b in ((x, y), (x, x.T), (x.T, y), (x, x)):
                asked.clear()
                came_from_blas(monkeypatch, seconds_ago)
                np.testing.assert_array_equal((a @ b).unwrap(), a.unwrap() @ b.unwrap())
                assert bool(asked) == (cold or _hot.PURE is not None)


def test_who_is_in_the_way_of_blas(idle: None, monkeypatch: pytest.MonkeyPatch) -> None:
    came_from_blas(monkeypatch, seconds_ago=1e-5)
    assert _considerate.unhindered()
    for owner, name, value in (
        (NEIGHBOURS, "used", 1.0),
        (_considerate.REPRODUCIBLE, "touched", True),
        (_blas, "can_hold", lambda: False),
        (_blas._APART, "_caller", 0),
    ):
        with monkeypatch.context() as patch:
            patch.setattr(owner, name, value)
            assert not _considerate.unhindered()
    monkeypatch.setattr(NEIGHBOURS, "used", 1.0)
    monkeypatch.setattr(_considerate, "budget", lambda: 1)  # one thread waits for nobody
    assert _considerate.unhindered()
