"""The user's priority: what it takes, where it holds, and what it refuses."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from textwrap import dedent
from typing import Any

import pytest

import corepy
import corepy.array_api as xp
from corepy.devices._device import as_device
from corepy.dispatch._hot import forget_homes
from corepy.dispatch._select import _from_environment
from tests.conftest import lacks_gpu, required
from tests.dispatch.fake import FakeBackend, registered
from tests.processes import python


@pytest.fixture(autouse=True)
def restored() -> Iterator[None]:
    """Undo what a test sets for the whole process."""
    from corepy.dispatch._settings import PRIORITY

    before = PRIORITY._default
    token = PRIORITY._local.set(PRIORITY.get())
    yield
    PRIORITY._local.reset(token)
    PRIORITY._default = before
    PRIORITY.touch()  # who keeps the default is told


def where() -> str:
    return xp.ones(1).backend


def test_without_a_wish_the_order_is_empty_and_the_best_backend_creates() -> None:
    assert corepy.get_backend_priority() == ()
    assert where() == xp.ones(1).backend


def test_a_scoped_priority_ends_with_its_block() -> None:
    with corepy.backend_priority(["reference", "numpy"]):
        assert corepy.get_backend_priority() == ("reference", "numpy")
        assert where() == "reference"
        with corepy.backend_priority(["numpy"]):
            assert where() == "numpy"
        assert where() == "reference"
    assert corepy.get_backend_priority() == ()


def test_a_scoped_priority_ends_with_an_exception() -> None:
    with pytest.raises(KeyError), corepy.backend_priority(["reference"]):
        raise KeyError
    assert corepy.get_backend_priority() == ()


def test_set_backend_priority_holds_until_the_next() -> None:
    corepy.set_backend_priority(["reference"])
    assert where() == "reference"
    corepy.set_backend("numpy")
    assert corepy.get_backend_priority() == ("numpy",)
    assert where() == "numpy"


def test_computation_follows_data_not_priority() -> None:
    x = xp.ones(2)
    with corepy.backend_priority(["reference"]):
        assert (x + x).backend == x.backend
        assert xp.zeros_like(x).backend == x.backend
        mixed = x + xp.ones(2)
    assert mixed.backend == x.backend
    assert mixed.tolist() == [2.0, 2.0]


def test_kinds_of_device_and_pairs() -> None:
    backend = FakeBackend({"add"})
    backend.name = "imaginary"  # type: ignore[misc]
    with registered(backend, "imaginary"):
        for wish in ("imaginary", "fake", "fake:0", "imaginary:fake:0"):
            with corepy.backend_priority([wish]):
                x = xp.asarray([1.0])
            assert (x.backend, x.device) == ("imaginary", as_device("fake:0"))
    with corepy.backend_priority(["cpu"]):
        assert xp.ones(1).device is as_device("cpu")
    with corepy.backend_priority(["reference:cpu"]):
        assert where() == "reference"


@pytest.mark.skipif(lacks_gpu() is None, reason="this machine has a GPU")
def test_a_kind_that_is_missing_is_passed_over_or_refused_alone() -> None:
    with corepy.backend_priority(["gpu", "reference"]):
        assert where() == "reference"
    with pytest.raises(
        corepy.BackendUnavailableError,
        match=r"^set_backend_priority: priority is \['gpu'\]; expected at least one entry that thi",
    ):
        corepy.set_backend_priority(["gpu"])
    assert corepy.get_backend_priority() == ()


@pytest.mark.parametrize(
    ("priority", "error", "message"),
    [
        (["nympy"], corepy.BackendUnavailableError, "priority has 'nympy'; expected a backend (n"),
        (["numpy", "tourch"], corepy.BackendUnavailableError, "priority has 'tourch'; expected"),
        (["numpy:cuda"], corepy.BackendUnavailableError, "backend numpy has no device cuda:0; ex"),
        ([], corepy.BackendUnavailableError, "priority is []; expected at least one entry"),
        ("numpy", TypeError, "priority is of type str; expected a sequence of str"),
        (None, TypeError, "priority is of type NoneType; expected a sequence of str"),
        ({"numpy"}, TypeError, "priority is of type set; expected a sequence of str"),
        ([1], TypeError, "priority is of type int; expected a str in each entry"),
        ([["numpy"]], TypeError, "priority is of type list; expected a str in each entry"),
        ([""], corepy.BackendUnavailableError, "priority has ''; expected a backend"),
        (["numpy:no such"], ValueError, "priority is 'numpy:no such'; expected a backend, a dev"),
        (["numpy:"], ValueError, "priority is 'numpy:'; expected a backend, a device or both"),
        (["numpy", "cpu:x"], ValueError, "priority is 'cpu:x'; expected a backend, a device or"),
        (["numpy", "cuda:x"], ValueError, "priority is 'cuda:x'; expected a backend, a device"),
        (["numpy", "gpu:0"], ValueError, "priority is 'gpu:0'; expected a backend, a device or"),
    ],
)
@pytest.mark.parametrize("function", ["set_backend_priority", "backend_priority"])
def test_bad_priorities_raise_at_once(
    function: str, priority: Any, error: type[Exception], message: str
) -> None:
    with pytest.raises(error) as caught:
        getattr(corepy, function)(priority)
    assert str(caught.value).startswith(f"{function}: {message}")
    assert corepy.get_backend_priority() == ()


def test_an_unknown_name_is_told_what_is_usable() -> None:
    with pytest.raises(corepy.BackendUnavailableError) as caught:
        corepy.set_backend("torhc")
    for name in corepy.usable_backends():
        assert name in str(caught.value)
    with pytest.raises(TypeError, match="^set_backend: name is of type int; expected a str"):
        corepy.set_backend(1)  # type: ignore[arg-type]


# ---------------------------------------------------------------------------- scopes


def run_in_thread(work: Any) -> Any:
    found: list[Any] = []
    thread = threading.Thread(target=lambda: found.append(work()))
    thread.start()
    thread.join()
    return found[0]


def test_a_backend_that_has_gone_is_missed_by_who_asked_for_it() -> None:
    with registered(FakeBackend({"ones"})):
        corepy.set_backend_priority(["fake", "cpu"])
    with pytest.raises(
        corepy.BackendUnavailableError, match="^set_backend_priority: priority has 'fake'; expected"
    ):
        xp.ones(1)


def test_set_on_the_main_thread_it_holds_for_all_threads() -> None:
    corepy.set_backend_priority(["reference"])
    assert run_in_thread(where) == "reference"


def test_set_in_a_thread_it_holds_there_only() -> None:
    def work() -> tuple[str, ...]:
        corepy.set_backend_priority(["reference"])
        return corepy.get_backend_priority()

    assert run_in_thread(work) == ("reference",)
    assert corepy.get_backend_priority() == ()


def test_a_block_on_the_main_thread_does_not_reach_another() -> None:
    with corepy.backend_priority(["reference"]):
        assert run_in_thread(corepy.get_backend_priority) == ()


def test_tasks_hold_their_own() -> None:
    async def task(name: str) -> list[str]:
        seen = []
        with corepy.backend_priority([name]):
            for _ in range(5):
                seen.append(where())
                await asyncio.sleep(0)
        return seen

    async def setter() -> str:
        corepy.set_backend_priority(["reference"])
        await asyncio.sleep(0)
        return where()

    async def both() -> Any:
        return await asyncio.gather(task("numpy"), task("reference"), setter(), task("numpy"))

    assert asyncio.run(both()) == [
        ["numpy"] * 5,
        ["reference"] * 5,
        "reference",
        ["numpy"] * 5,
    ]
    assert corepy.get_backend_priority() == ()


# ---------------------------------------------------------------------------- the environment


SHOW = "import corepy; print(corepy.get_backend_priority(), corepy.array_api.ones(1).backend)"


def test_the_environment_is_read_where_nothing_was_set() -> None:
    done = python("-c", SHOW, COREPY_BACKEND_PRIORITY=" reference , numpy,")
    assert done.stdout.strip() == "('reference', 'numpy') reference", done.stderr
    overruled = python(
        "-c",
        "import corepy; corepy.set_backend('numpy'); print(corepy.array_api.ones(1).backend)",
        COREPY_BACKEND_PRIORITY="reference",
    )
    assert overruled.stdout.strip() == "numpy", overruled.stderr


def test_a_wrong_environment_raises_on_first_use() -> None:
    done = python("-c", SHOW, COREPY_BACKEND_PRIORITY="nympy")
    assert done.returncode == 1
    assert "BackendUnavailableError" in done.stderr
    assert "'nympy'; expected a backend" in done.stderr


@pytest.fixture
def environment(monkeypatch: pytest.MonkeyPatch) -> Iterator[pytest.MonkeyPatch]:
    """Let the priority be read anew from the environment, and be forgotten afterwards."""

    def forget() -> None:
        _from_environment.cache_clear()
        forget_homes()

    forget()
    with monkeypatch.context() as patch:
        yield patch
    forget()


def test_an_environment_that_leads_nowhere_raises_on_first_use(
    environment: pytest.MonkeyPatch,
) -> None:
    environment.setenv("COREPY_BACKEND_PRIORITY", "cuda:99,tpu:99")
    for _ in range(2):
        with pytest.raises(
            corepy.BackendUnavailableError, match="^COREPY_BACKEND_PRIORITY: priority is "
        ):
            xp.ones(2)
    with corepy.backend_priority(["reference"]):
        assert where() == "reference"


@pytest.mark.parametrize("entry", ["cpu:x", "cpu:0", "numpy:", "mps:0", "cuda:", "cuda:01"])
def test_an_entry_of_no_form_in_the_environment_raises_on_first_use(
    entry: str, environment: pytest.MonkeyPatch
) -> None:
    environment.setenv("COREPY_BACKEND_PRIORITY", f"reference,{entry}")
    with pytest.raises(ValueError, match=f"^COREPY_BACKEND_PRIORITY: priority is '{entry}'; "):
        corepy.get_backend_priority()
    environment.setenv("COREPY_BACKEND_PRIORITY", "cuda:99,cpu:9,tpu,reference")  # absent ones
    assert where() == "reference"


def test_a_wrong_environment_raises_each_time() -> None:
    code = """
        import corepy
        for _ in range(2):
            try:
                corepy.array_api.ones(1, device="cpu")
            except corepy.BackendUnavailableError:
                print("refused")
    """
    done = python("-c", dedent(code), COREPY_BACKEND_PRIORITY="nympy")
    assert done.stdout.split() == ["refused"] * 2, done.stderr


@pytest.mark.parametrize("wish", ["", "reference"])
def test_an_interrupted_import_is_done_again(wish: str) -> None:
    code = """
        import corepy
        from corepy.dispatch import _registry

        def interrupted(name):
            _registry.import_module = real
            raise KeyboardInterrupt

        real, _registry.import_module = _registry.import_module, interrupted
        try:
            corepy.array_api.ones(1)
        except KeyboardInterrupt:
            print("interrupted", corepy.array_api.ones(1).backend)
    """
    done = python("-c", dedent(code), COREPY_BACKEND_PRIORITY=wish)
    assert done.stdout.split() == ["interrupted", wish or "numpy"], done.stderr


def test_strictness_is_read_from_the_environment() -> None:
    code = "import corepy.array_api as xp; xp.ones(1) + xp.ones(1, dtype=xp.int8)"
    assert python("-c", code).returncode == 0
    done = python("-c", code, COREPY_STRICT="1")
    assert (
        "TypeError: add: operands have dtypes float64 and int8; expected dtypes of one"
        in done.stderr
    )


def test_a_device_of_its_own_imports_its_library_alone() -> None:
    required("dask")
    code = (
        "import sys, corepy\n"
        "corepy.array_api.asarray([1.0], device='dask')\n"
        "others = {'torch', 'jax', 'numba', 'mlx', 'tinygrad', 'cupy'} & set(sys.modules)\n"
        "assert not others, others\n"
    )
    done = python("-c", code)
    assert done.returncode == 0, done.stderr
