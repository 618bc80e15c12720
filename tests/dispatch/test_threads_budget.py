"""One budget of threads for all libraries: it reaches each of them, or the reason is told."""

from __future__ import annotations

import json
import subprocess
from typing import Any

import pytest

import corepy
from corepy import _budget
from corepy.backends._numpy import NumPyBackend
from corepy.dispatch import _threads, load
from tests.dispatch.fake import registered
from tests.processes import python

pytestmark = pytest.mark.usefixtures("own_budget")


class Obedient(NumPyBackend):
    """Keeps what it is told."""

    name = "fake"
    told: tuple[int, ...] = ()

    def limit_threads(self, count: int) -> str | None:
        self.told += (count,)
        return None


class Stubborn(Obedient):
    """Says that it cannot."""

    def limit_threads(self, count: int) -> str | None:
        super().limit_threads(count)
        return "its pool is fixed"


def test_it_is_told_at_once_and_at_loading() -> None:
    first, second = Obedient(), Obedient()
    with registered(first):
        load("fake")
        assert first.told == ()  # nobody asked for anything
        assert "fake" not in corepy.set_num_threads(3)
        assert first.told == (3,)
        assert corepy.get_num_threads() == 3
    with registered(second):
        load("fake")
        assert second.told == (3,)


def test_a_library_that_does_not_obey_is_named() -> None:
    with registered(Stubborn()):
        load("fake")
        assert corepy.set_num_threads(2)["fake"] == "its pool is fixed"
        assert _threads.unmoved()["fake"] == "its pool is fixed"


def test_without_a_wish_all_processors_count() -> None:
    assert corepy.get_num_threads() == _budget.cores() >= 1


@pytest.mark.parametrize(
    ("count", "error", "message"),
    [
        (0, ValueError, "set_num_threads: count is 0; expected at least 1"),
        (-2, ValueError, "set_num_threads: count is -2; expected at least 1"),
        (4097, ValueError, "set_num_threads: count is 4097; expected at most 4096"),
        (True, TypeError, "set_num_threads: count is of type bool; expected an int"),
        (2.0, TypeError, "set_num_threads: count is of type float; expected an int"),
        ("2", TypeError, "set_num_threads: count is of type str; expected an int"),
    ],
)
def test_mistakes_change_nothing(count: Any, error: type[Exception], message: str) -> None:
    before = corepy.get_num_threads()
    with pytest.raises(error) as caught:
        corepy.set_num_threads(count)
    assert str(caught.value) == message
    assert corepy.get_num_threads() == before


@pytest.mark.needs("threadpoolctl")
def test_blas_obeys() -> None:
    from threadpoolctl import threadpool_info

    load("numpy")
    assert "numpy" not in corepy.set_num_threads(1)
    found = [pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"]
    assert found
    assert set(found) == {1}


@pytest.mark.needs("threadpoolctl")
@pytest.mark.parametrize("first", ["numpy", "corepy"])
def test_blas_obeys_before_corepy_has_used_numpy(first: str) -> None:
    other = {"numpy": "corepy", "corepy": "numpy"}[first]
    code = f"""
import {first}, {other}
from threadpoolctl import threadpool_info
assert corepy.set_num_threads(1) == {{}}
print([pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"])
corepy.set_num_threads(2)
print([pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"])
"""
    done = python("-c", code)
    assert (done.stdout.split(), done.stderr) == (["[1]", "[2]"], "")


def test_without_threadpoolctl_blas_cannot_be_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("corepy.backends._numpy.is_there", lambda name: False)
    load("numpy")
    assert corepy.set_num_threads(1)["numpy"].startswith("threadpoolctl is not installed")


@pytest.mark.backend("torch")
def test_torch_obeys() -> None:
    import torch

    load("torch")
    corepy.set_num_threads(1)
    assert torch.get_num_threads() == 1
    corepy.set_num_threads(2)
    assert torch.get_num_threads() == 2


SCRIPT = """
import json, sys
import corepy
import corepy.array_api as xp
name = sys.argv[1]
corepy.set_backend_priority([name])
xp.ones((3, 3)) @ xp.ones((3, 3))
from corepy.dispatch._threads import unmoved
threads = None
if name == "torch":
    import torch
    threads = torch.get_num_threads()
if name == "dask":
    import dask
    threads = dask.config.get("num_workers")
print(json.dumps([corepy.get_num_threads(), unmoved(), threads]))
"""


def run(name: str, threads: str) -> subprocess.CompletedProcess[str]:
    return python("-c", SCRIPT, name, COREPY_NUM_THREADS=threads)


@pytest.mark.parametrize(
    ("name", "threads"),
    [
        pytest.param("numpy", None, id="numpy", marks=pytest.mark.needs("threadpoolctl")),
        pytest.param("torch", 1, id="torch", marks=pytest.mark.backend("torch")),
        pytest.param("dask", 1, id="dask", marks=pytest.mark.backend("dask")),
        pytest.param("jax", None, id="jax", marks=pytest.mark.backend("jax")),
    ],
)
def test_the_environment_sets_it_from_the_start(name: str, threads: int | None) -> None:
    done = run(name, "1")
    assert done.returncode == 0, done.stderr
    count, unmoved, found = json.loads(done.stdout)
    assert count == 1
    assert name not in unmoved
    assert found == threads


@pytest.mark.parametrize("text", ["0", "many", "-1", "1.5"])
def test_a_senseless_environment_is_refused(text: str) -> None:
    done = run("numpy", text)
    assert done.returncode == 1
    expected = f"ValueError: COREPY_NUM_THREADS is {text!r}; expected a positive number of threads"
    assert done.stderr.splitlines()[-1] == expected
