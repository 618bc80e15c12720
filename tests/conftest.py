"""What every test may ask for: the namespace on each backend, and what this machine lacks.

Fixtures
    * ``backend``: the name of a backend; the test runs once on each usable one, in its priority.
      With ``COREPY_TEST_DEVICE=cuda:0`` it runs on that device, on each that serves it; with
      ``COREPY_TEST_BACKENDS=numpy,torch`` on these alone.
    * ``xp``: `corepy.array_api`, once on each usable backend in the same way.
    * ``alone``: nobody else seems to use the machine.
    * ``bare``: a folder for the path of a process that is to have NumPy and the reference alone.
    * ``route_cache``: an empty folder for the tables of routes that the test measures.
    * ``routes_off``: every operation runs in the library of its arrays.

Markers
    * ``backend("torch")``: needs that backend.
    * ``needs("mpmath")``: needs another library.
    * ``gpu``: needs a GPU that some backend can use.
    * ``device("opencl")``: needs a device of OpenCL for kernels to run on; ``"cupy"`` one of
      CuPy's, ``"cuda"`` one that CuPy and torch share, and ``"tinygrad:opencl"`` and
      ``"tinygrad:webgpu"`` devices of tinygrad's.
    * ``at_once``: needs shapes or errors that follow from values as soon as they are asked for, or
      values that lie on the host. Left out on backends that compute later, elsewhere.
    * ``few_shapes``: runs on backends too that compile a kernel for each shape (tinygrad), which
      have other tests of their own, and array-api-tests.

A test whose need is not met is skipped with the reason. ``COREPY_EXPECT_BACKENDS``, a
comma-separated list of backends, libraries, ``gpu`` or such a device, turns a need that is missing
into a failure, so that a machine that should have it cannot pass without.
"""

from __future__ import annotations

import gc
import importlib.metadata
import importlib.util
import itertools
import math
import os
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any, Final

import pytest
from hypothesis import HealthCheck, given, is_hypothesis_test, settings
from hypothesis.database import InMemoryExampleDatabase
from hypothesis.strategies import none

import corepy
import corepy.array_api
from corepy.dispatch import _route_files, _route_libraries, _route_sources
from corepy.dispatch._neighbours import NEIGHBOURS

# XLA compiles for each shape, which is most of the time that the tests take on JAX. Without its
# newer emitters it is done in half of it. (Without optimization sooner still, but divisions come
# out wrong.) An XLA that does not know a flag ends the process, so this is for the version it was
# tried with. What XLA makes with its own settings is measured by array-api-tests and
# conformance/accuracy.py. JAX is imported later, by its backend.
if importlib.util.find_spec("jaxlib") and importlib.metadata.version("jaxlib") == "0.10.2":
    os.environ.setdefault("XLA_FLAGS", "--xla_cpu_use_fusion_emitters=false")

# All that XLA compiled is kept, for the other worker, for processes that tests start, and for the
# next run: `make clean` removes it.
_KEPT: Final = Path(__file__).parents[1] / ".pytest_cache" / "jax"
os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", str(_KEPT))
os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0")
os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES", "-1")

# SciPy reads it when it is imported, and scikit-learn takes arrays of other libraries with it only.
os.environ.setdefault("SCIPY_ARRAY_API", "1")

# What somebody measured on this machine is not what the tests are about.
os.environ.setdefault("COREPY_ROUTES", "shipped")

#: No deadline: the reference is slow on purpose. And one priority serves all examples of a test.
COMMON: Final[dict[str, Any]] = {
    "deadline": None,
    "derandomize": False,
    "suppress_health_check": [HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
}
settings.register_profile("dev", max_examples=25, **COMMON)
# With a database, though one that is forgotten: without any, Hypothesis walks through the settings
# of all earlier parameters of a test, one frame each, and a thousand parameters end in a
# RecursionError. The same examples on every run come from --hypothesis-seed (.ci/run).
settings.register_profile(
    "ci", max_examples=6, database=InMemoryExampleDatabase(), print_blob=True, **COMMON
)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "dev"))

# The assertions of the shared helpers show their values too.
pytest.register_assert_rewrite(
    "tests.helpers",
    *(f"tests.backends.{name}" for name in ("arrays", "numbas", "reference.matrices")),
    "tests.backends.reference.values",
    *(f"tests.dispatch.{name}" for name in ("crew", "natives", "short_ways")),
    "tests.kernels.libraries",
)


def expected() -> tuple[str, ...]:
    """Return what ``COREPY_EXPECT_BACKENDS`` names."""
    return names_in("COREPY_EXPECT_BACKENDS")


def names_in(variable: str) -> tuple[str, ...]:
    """Return what a variable of the environment lists, with commas between."""
    names = os.environ.get(variable, "").split(",")
    return tuple(name.strip() for name in names if name.strip())


def required(module: str, **options: Any) -> Any:
    """Import a module; skip where it is missing or old, or fail if its library is expected.

    The options are those of `pytest.importorskip`.
    """
    library = module.partition(".")[0]
    # The reference is expected by its own name, and computes with mpmath.
    if not {library, {"mpmath": "reference"}.get(library)} & {*expected()}:
        return pytest.importorskip(module, **options)
    try:
        return pytest.importorskip(module, **options)
    except (ImportError, pytest.skip.Exception) as error:
        pytest.fail(f"COREPY_EXPECT_BACKENDS expects {library}, which is missing or old: {error}")


def backends() -> list[Any]:
    """Return a parameter for each usable backend, and for each that is expected and known."""
    known = [row.name for row in corepy.backend_status()]
    wanted = dict.fromkeys([*corepy.usable_backends(), *(n for n in expected() if n in known)])
    if chosen := names_in("COREPY_TEST_BACKENDS"):
        wanted = dict.fromkeys(chosen)
    return [pytest.param(name, id=name, marks=pytest.mark.backend(name)) for name in wanted]


@pytest.fixture(params=backends())
def backend(request: pytest.FixtureRequest) -> Iterator[str]:
    """Run the test once on each usable backend, with that one as the priority."""
    wish = request.param
    if device := os.environ.get("COREPY_TEST_DEVICE"):
        wish = f"{wish}:{device}"
        _demand(request.param, lacks(wish))
    before = corepy.get_fallback()
    corepy.set_fallback("allow")  # what a backend lacks is not what these tests are about
    with corepy.backend_priority([wish]):
        yield request.param
    corepy.set_fallback(before)


@pytest.fixture
def xp(backend: str) -> ModuleType:
    """Give the namespace, once on each usable backend."""
    return corepy.array_api


def pytest_collection_finish() -> None:
    """Keep libraries and tests out of what the garbage collector looks through, half a second.

    Hypothesis has to have begun before: it looks in there for who holds its random numbers, and
    from Python 3.14 on would not find them, which it warns of.
    """
    given(none())(lambda _: None)()
    gc.collect()
    gc.freeze()


_module: Path | None = None


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip a test whose need is not met, or fail it if the need is expected to be.

    From module to module, keep what is there by then, too, out of what the garbage collector looks
    through: a test that collects took half a second beside all that JAX and torch hold, and so did
    each collection that came by itself.
    """
    global _module
    if item.path != _module:
        _module = item.path
        gc.collect()
        gc.freeze()
    for marker in item.iter_markers():
        match marker.name:
            case "backend":
                _demand(marker.args[0], lacks_backend(marker.args[0]))
            case "needs":
                _demand(marker.args[0], lacks_library(marker.args[0]))
            case "gpu":
                _demand("gpu", lacks_gpu())
            case "device":
                _demand(marker.args[0], lacks_device(marker.args[0]))
            case "at_once" if is_lazy(backend_of(item)):
                pytest.skip(f"{backend_of(item)} computes when a value is asked for")


#: Backends that compile a kernel for each shape and operation, which takes a fifth of a second on
#: PoCL. All tests of the namespace would take half an hour.
_EACH_SHAPE: Final = ("tinygrad",)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out, on backends that compile for each shape, the tests that are not marked for it."""
    kept, left = [], []
    for item in items:
        marked = item.get_closest_marker("few_shapes")
        (left if backend_of(item) in _EACH_SHAPE and not marked else kept).append(item)
    if left:
        items[:] = kept
        config.hook.pytest_deselected(items=left)


#: Backends that would take two fifths of the tests' time: JAX compiles a program for each shape,
#: Dask plans a graph for each operation.
_DEAR: Final = ("dask", "jax")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[None]:
    """Try half as many examples on backends that are slow to begin."""
    test = getattr(item, "obj", None)
    if backend_of(item) not in _DEAR or not is_hypothesis_test(test):
        return (yield)
    # One function serves all parameters of a test, and Hypothesis keeps the settings on it.
    usual = test._hypothesis_internal_use_settings
    half = settings(usual, max_examples=max(1, usual.max_examples // 2))
    test._hypothesis_internal_use_settings = half
    try:
        return (yield)
    finally:
        test._hypothesis_internal_use_settings = usual


_on_jax = itertools.count(1)


def pytest_runtest_teardown(item: pytest.Item) -> None:
    """Let JAX forget its programs now and then, which come to gigabytes in each process."""
    if backend_of(item) == "jax" and next(_on_jax) % 200 == 0:
        sys.modules["jax"].clear_caches()
        gc.unfreeze()  # the programs, too
        gc.collect()
        gc.freeze()


def pytest_configure() -> None:
    """Refuse what means nothing: a misspelt expectation would never be missed."""
    backends = [row.name for row in corepy.backend_status()]
    for name in names_in("COREPY_TEST_BACKENDS"):
        if name not in backends:
            raise pytest.UsageError(
                f"COREPY_TEST_BACKENDS: {name!r} is no backend; expected some of "
                f"{', '.join(backends)}"
            )
    known = [*backends, "gpu", *_DEVICES]
    for name in expected():
        if name not in known and lacks_library(name):
            raise pytest.UsageError(
                f"COREPY_EXPECT_BACKENDS: {name!r} is no backend and no installed library; "
                f"expected installed libraries or any of {', '.join(known)}"
            )


def backend_of(item: pytest.Item) -> str | None:
    """Return the backend that the fixture chose for a test."""
    callspec = getattr(item, "callspec", None)
    return callspec.params.get("backend") if callspec else None


@cache
def is_lazy(backend: str | None) -> bool:
    """Say whether a backend does not know shapes that follow from values."""
    if backend is None or lacks_backend(backend):
        return False
    with corepy.backend_priority([backend]):
        can = corepy.array_api.__array_namespace_info__().capabilities()
    return not can["data-dependent shapes"]


@cache
def lacks_backend(name: str) -> str | None:
    """Return why a backend is not usable, None if it is."""
    for row in corepy.backend_status():
        if row.name == name:
            return None if row.usable else row.reason
    return "corepy knows no such backend"


def lacks_library(module: str) -> str | None:
    """Return why a library cannot be imported, None if it seems to be there."""
    return None if importlib.util.find_spec(module) else "not installed"


def lacks_gpu() -> str | None:
    """Return why no backend computes on a GPU, None if one does."""
    return lacks("gpu")


@cache
def lacks(wish: str) -> str | None:
    """Return why a priority leads nowhere on this machine, None if it does not."""
    try:
        with corepy.backend_priority([wish]):
            return None
    except corepy.BackendUnavailableError as error:
        return str(error)


#: Devices of kernels, and what each needs.
_DEVICES: Final = {
    "opencl": ("pyopencl",),
    "cupy": ("cupy",),
    "cuda": ("cupy", "torch"),
    "tinygrad:opencl": ("tinygrad",),
    "tinygrad:webgpu": ("tinygrad",),
}


@cache
def lacks_device(name: str) -> str | None:
    """Return why kernels cannot run on a kind of device, None if they can."""
    missing = [module for module in _DEVICES[name] if lacks_library(module)]
    if missing:
        return f"not installed: {', '.join(missing)}"
    backend, _, kind = name.partition(":")
    if kind:
        return _lacks_kind(backend, kind)
    if name == "opencl":
        from tests.kernels import opencl

        try:
            opencl.device()
        except LookupError as error:
            return str(error)
        return None
    import cupy

    try:
        found = cupy.cuda.runtime.getDeviceCount() > 0
    except cupy.cuda.runtime.CUDARuntimeError as error:
        return str(error)
    if name == "cuda" and found:
        import torch

        found = torch.cuda.is_available()
    return None if found else "no GPU"


def _lacks_kind(name: str, kind: str) -> str | None:
    """Return why a backend serves no device of a kind, None if it serves one."""
    for row in corepy.backend_status():
        if row.name == name and row.usable:
            served = any(device.kind == kind for device in row.devices)
            return None if served else "; ".join(r for r in row.unserved if r.startswith(kind))
    return lacks_backend(name)


def _demand(name: str, reason: str | None) -> None:
    if reason is None:
        return
    if name in expected():
        pytest.fail(f"COREPY_EXPECT_BACKENDS names {name}, which this machine lacks: {reason}")
    pytest.skip(f"needs {name}: {reason}")


#: Libraries of backends, to import all of which takes a process five seconds.
_HEAVY: Final = ("cupy", "dask", "jax", "jaxlib", "mlx", "numba", "tinygrad", "torch")


@pytest.fixture(scope="session")
def bare(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Give a folder of libraries that cannot be imported, for ``PYTHONPATH``."""
    folder = tmp_path_factory.mktemp("bare")
    for name in _HEAVY:
        (folder / f"{name}.py").write_text("raise ImportError('left out')\n", encoding="utf-8")
    return folder


@pytest.fixture
def alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let nobody else seem to use the machine, which routes look at."""
    monkeypatch.setattr(NEIGHBOURS, "looked", math.inf)
    monkeypatch.setattr(NEIGHBOURS, "used", 0.0)
    monkeypatch.setattr(NEIGHBOURS, "until", 0.0)
    monkeypatch.setattr(_route_libraries, "_crowded", lambda: "")


@pytest.fixture
def routes_off() -> Iterator[None]:
    """Keep operations out of other libraries, whatever was measured on this machine."""
    with corepy.set_routes("off"):
        yield


@pytest.fixture
def route_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Give a cache folder of this test's own, from which the table of routes is found."""
    folder = tmp_path / "cache"
    monkeypatch.setattr(_route_files, "cache_folder", lambda: folder)
    monkeypatch.delenv("COREPY_ROUTES", raising=False)
    before = _route_sources._source
    corepy.set_routes(None)
    yield folder
    monkeypatch.undo()
    corepy.set_routes(before)
