"""The backends that are known, found without importing them and loaded on first use."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from importlib import import_module
from typing import Final

from corepy import _forks
from corepy._budget import budget
from corepy._errors import (
    BackendUnavailableError,
    CorepyError,
    bad_argument,
    bad_type,
    listing,
    worded,
)
from corepy._extensions import is_there
from corepy._signals import let_through
from corepy.backends._base import Backend
from corepy.devices import _device, _libraries
from corepy.devices._device import Device
from corepy.dispatch import _streams, _tf32, _threads
from corepy.dispatch._hot import forget_homes, let_go

ENTRY_POINTS: Final = "corepy.backends"


@dataclass(frozen=True, slots=True)
class BackendRecord:
    """What is known of a backend before its library is imported.

    Attributes
    ----------
    name : str
        As users write it in a priority list.
    kinds : tuple of str
        Kinds of device it may serve, for tables and messages.
    probe : callable
        Returns None if the library seems usable, else the reason why not. Imports nothing heavy.
    loader : callable
        Imports the library and returns the `Backend`.
    priority : int
        Order among backends of one device where the user has no wish; lower comes first.
    modules : tuple of str
        Root modules of the library's array types, so that a native array finds its backend.
    """

    name: str
    kinds: tuple[str, ...]
    probe: Callable[[], str | None]
    loader: Callable[[], Backend]
    priority: int
    modules: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class BackendStatus:
    """One row of ``corepy info``.

    Attributes
    ----------
    name : str
    usable : bool
    devices : tuple of Device
        Devices it serves on this machine; empty if not usable.
    reason : str or None
        Why it is not usable.
    unserved : tuple of str
        What it does not serve that its library could, and why, if it says so.
    """

    name: str
    usable: bool
    devices: tuple[Device, ...]
    reason: str | None
    unserved: tuple[str, ...] = ()


def _built_in(
    name: str,
    adapter: str,
    *,
    needs: tuple[str, ...] = (),
    kinds: tuple[str, ...] = ("cpu",),
    priority: int,
    modules: tuple[str, ...] = (),
) -> BackendRecord:
    """Describe a backend of this package: its adapter's ``module:class``, and what it imports."""

    def probe() -> str | None:
        missing = [module for module in needs if not is_there(module)]
        return f"not installed: {', '.join(missing)}" if missing else None

    def loader() -> Backend:
        if "numpy" in needs:  # torch goes on without, and hangs in a second interpreter
            import_module("numpy")
        module, _, cls = adapter.partition(":")
        backend: Backend = getattr(import_module(f"corepy.backends.{module}"), cls)()
        return backend

    return BackendRecord(name, kinds, probe, loader, priority, modules)


_LOCK: Final = _forks.lock()
_records: dict[str, BackendRecord] = {
    record.name: record
    for record in (
        _built_in(
            "numpy",
            "_numpy:NumPyBackend",
            needs=("numpy",),
            priority=50,
            modules=("numpy",),
        ),
        # After numpy: its arrays are the same, and the first call of a kernel compiles it.
        _built_in(
            "numba",
            "numba:NumbaBackend",
            needs=("numba", "numpy"),
            priority=60,
            modules=("numba",),
        ),
        _built_in(
            "torch",
            "torch._backend:TorchBackend",
            needs=("torch", "numpy", "array_api_compat"),
            kinds=("cpu", "cuda", "rocm", "mps", "xpu"),
            priority=70,
            modules=("torch",),
        ),
        # After torch, which takes two thirds of its time for large arrays of float32 on an H100.
        _built_in(
            "cupy",
            "cupy._backend:CuPyBackend",
            needs=("cupy", "numpy", "array_api_compat"),
            kinds=("cuda", "rocm"),
            priority=75,
            modules=("cupy",),
        ),
        _built_in(
            "jax",
            "jax._backend:JaxBackend",
            needs=("jax", "jaxlib"),
            kinds=("cpu", "cuda", "rocm", "tpu"),
            priority=80,
            modules=("jax", "jaxlib"),
        ),
        _built_in(
            "mlx",
            "mlx._backend:MLXBackend",
            needs=("mlx", "numpy"),
            kinds=("cpu", "mps"),
            priority=90,
            modules=("mlx",),
        ),
        # Its arrays live on a device of their own, so that only a priority leads there.
        _built_in(
            "dask",
            "dask._backend:DaskBackend",
            needs=("dask", "numpy", "array_api_compat"),
            kinds=("dask",),
            priority=400,
            modules=("dask",),
        ),
        # Its devices are no defaults: only a priority leads there.
        _built_in(
            "tinygrad",
            "tinygrad._backend:TinygradBackend",
            needs=("tinygrad", "numpy"),
            kinds=("opencl", "webgpu"),
            priority=95,
            modules=("tinygrad",),
        ),
        _built_in(
            "reference", "reference._backend:ReferenceBackend", priority=1000, modules=("corepy",)
        ),
    )
}
#: The backends of this package.
BUILT_IN: Final = tuple(_records)

_loaded: dict[str, Backend] = {}
#: Why a backend that seemed usable was not: its own error, kept for ``corepy info``.
_broken: dict[str, str] = {}
_entry_points_read = False
_generation = 0


def generation() -> int:
    """Count the changes of the registry, so that caches of choices know when they are stale."""
    return _generation


def register_backend(
    name: str, backend: Backend, *, priority: int = 500, modules: Sequence[str] = ()
) -> None:
    """Add a backend, or replace the one of that name.

    Parameters
    ----------
    name : str
        The name for priority lists: ``backend.name``, an identifier such as ``"remote"``.
    backend : Backend
        The adapter.
    priority : int
        Order among the backends of one device where the user has no wish; lower comes first.
        corepy's own start at 50, and the default comes after all of them but the reference.
    modules : sequence of str
        Root modules of the library's array types, where they are not the backend's own: by them
        a native array finds its backend.

    Raises
    ------
    TypeError
        If `backend` is not a `Backend`.
    ValueError
        If `name` is not an identifier, or not the backend's own name.

    Notes
    -----
    A package announces a backend without being imported by an entry point in the group
    ``corepy.backends`` whose object, called without arguments, returns a `Backend`.
    """
    if not isinstance(name, str):
        raise bad_type("register_backend", "name", name, "a str")
    if not name.isidentifier():
        raise bad_argument("register_backend", "name", name, "an identifier")
    if not isinstance(backend, Backend):
        raise bad_type("register_backend", "backend", backend, "an instance of corepy.Backend")
    if backend.name != name:  # arrays, messages and pickles go by the backend's own
        raise bad_argument("register_backend", "name", name, f"the backend's own, {backend.name!r}")
    kinds = tuple(dict.fromkeys(device.kind for device in backend.devices()))
    module = type(backend).__module__.partition(".")[0]
    roots = (module, *modules)
    _add(BackendRecord(name, kinds, lambda: None, lambda: backend, priority, roots))


def unregister_backend(name: str) -> None:
    """Forget a backend; arrays that live in it go on working.

    Parameters
    ----------
    name : str
        What it was registered as, or one of corepy's own.

    Raises
    ------
    TypeError
        If `name` is no string.
    BackendUnavailableError
        If no backend has that name.
    """
    global _generation
    if not isinstance(name, str):
        raise bad_type("unregister_backend", "name", name, "a str")
    with _LOCK:
        if name not in records():
            raise _unknown("unregister_backend", name)
        for store in (_records, _loaded, _broken):
            store.pop(name, None)
        _generation += 1
        forget_homes()


def _add(record: BackendRecord) -> None:
    global _generation
    with _LOCK:
        _records[record.name] = record
        _loaded.pop(record.name, None)
        _broken.pop(record.name, None)
        _generation += 1
        forget_homes()


def records() -> dict[str, BackendRecord]:
    """Return every known backend by name, in the order of priority."""
    global _entry_points_read
    if not _entry_points_read:
        with _LOCK:
            if not _entry_points_read:
                _read_entry_points()
                _entry_points_read = True
    return dict(sorted(_records.items(), key=lambda item: item[1].priority))


def _read_entry_points() -> None:
    from importlib.metadata import entry_points

    for point in entry_points(group=ENTRY_POINTS):
        if point.name not in _records:
            found = point.pattern.match(point.value)
            wrong = None if found else f"its entry point is {point.value!r}; expected module:class"
            _add(
                BackendRecord(
                    name=point.name,
                    kinds=(),
                    probe=lambda wrong=wrong: wrong,  # type: ignore[misc]
                    loader=lambda point=point: point.load()(),  # type: ignore[misc]
                    priority=500,
                    modules=(found["module"].partition(".")[0],) if found else (),
                )
            )


def load(name: str, function: str = "load") -> Backend:
    """Return a backend, importing its library if this is the first use.

    Raises
    ------
    BackendUnavailableError
        If the name is unknown or the library is missing or broken; the message says what is
        usable, and why this one is not.
    """
    found = _loaded.get(name)
    if found is not None:
        return found
    with _LOCK:
        if name in _loaded:
            return _loaded[name]
        record = records().get(name)
        if record is None:
            raise _unknown(function, name)
        reason = _broken.get(name) or record.probe()
        if reason is None:
            budget()  # what is wrong with that is no fault of the library's
            try:
                backend = record.loader()
                if not isinstance(backend, Backend):
                    raise TypeError(f"its loader returned a {type(backend).__name__}, no Backend")
                _threads.hold(backend)
                backend.devices()  # where it finds none and raises, it does so here alone
            except (KeyboardInterrupt, GeneratorExit):
                raise
            # Any failure of a foreign library: kept, and reported. Some exit while they are
            # imported, and panics of Rust are no `Exception`.
            except BaseException as error:
                let_through(error)
                reason = _broken[name] = _cause(name, error)
                raise _unusable(function, name, reason) from error
            _tf32.hold(backend)
            _loaded[name] = backend
            _streams.hold(backend)
            return backend
    raise _unusable(function, name, reason)


def load_each(names: Iterable[str]) -> Iterator[Backend]:
    """Yield those of some backends that can be loaded, importing their libraries one by one.

    Why others cannot is kept, and shown by `corepy info`.
    """
    for name in names:
        try:
            backend = load(name)
        except BackendUnavailableError:
            continue
        yield backend


def load_usable(name: str, function: str = "load") -> Backend:
    """Return a backend that can run operations now; errors as `load`."""
    backend = load(name, function)
    reason = why_unusable(backend)
    if reason is not None:
        raise _unusable(function, name, reason)
    return backend


def each_usable(names: Iterable[str]) -> Iterator[Backend]:
    """Yield those of some backends that can run operations now, as `load_each` does."""
    return (backend for backend in load_each(names) if why_unusable(backend) is None)


def why_unusable(backend: Backend) -> str | None:
    """Say why a loaded backend cannot run operations now; None if it can.

    What it raises is the reason: the others go on without it.
    """
    try:
        if backend.is_available():
            return None
    except Exception as error:  # any failure of a foreign library
        let_through(error)
        return _cause(backend.name, error)
    return "installed, but does not answer"


def _cause(name: str, error: BaseException) -> str:
    """Return what an error says, for a message that has named the backend already."""
    if isinstance(error, CorepyError):  # worded for people
        return str(error).removeprefix(f"{name}: ")
    return worded(error)


def broken() -> dict[str, str]:
    """Return why backends that seemed usable were not, of those that somebody has asked for."""
    return dict(_broken)


def loaded() -> tuple[Backend, ...]:
    """Return the backends whose library has been imported."""
    return tuple(_loaded.values())


def _named_unlike_devices() -> frozenset[str]:
    """Return the names of backends that no kind of device has too.

    What a backend of an entry point serves is not told: it may be a kind of its own name.
    """
    known = _records.copy()
    kinds = {kind for record in known.values() for kind in record.kinds}
    return frozenset(name for name, record in known.items() if record.kinds) - kinds


_libraries.bind(loaded, why_unusable, let_go)
_device.bind_backends(_named_unlike_devices)


def status() -> tuple[BackendStatus, ...]:
    """Load every known backend and say of each whether it is usable, and if not, why.

    Returns
    -------
    tuple of BackendStatus
        One for each, in the order of the default priority.
    """
    return tuple(map(_status, records()))


def _status(name: str) -> BackendStatus:
    devices: tuple[Device, ...] = ()
    unserved: tuple[str, ...] = ()
    try:
        backend = load(name)
        reason = why_unusable(backend)
        if reason is None:
            devices, unserved = backend.devices(), backend.unserved()
    except BackendUnavailableError as error:
        reason = _broken.get(name) or records()[name].probe() or str(error)
    except Exception as error:  # of a method that should not raise
        let_through(error)
        reason = _cause(name, error)
    return BackendStatus(name, reason is None, devices, reason, unserved)


def why_not(*kinds: str) -> str:
    """Say in parentheses why backends do not serve kinds of device that they could, for messages.

    Of backends that are not loaded only what their probe finds is told.
    """
    reasons = []
    for name, record in records().items():
        backend = _loaded.get(name)
        served = {device.kind for device in backend.devices()} if backend else set()
        if not {*record.kinds, *served} & {*kinds}:
            continue
        if backend is None:
            found = [_broken.get(name) or record.probe()]
        elif reason := why_unusable(backend):
            found = [reason]
        elif {*kinds} & served:
            continue
        else:
            found = [*backend.unserved()]
        reasons += [f"{name}: {why}" for why in found if why]
    return f" ({'; '.join(reasons)})" if reasons else ""


def set_num_threads(count: int) -> dict[str, str]:
    """Let every library use so many threads of the host for one operation.

    Parameters
    ----------
    count : int
        From 1 to 4096. More than there are processors makes nothing faster.

    Returns
    -------
    dict
        Why a loaded library keeps its threads, by the name of its backend; empty if all obey.

    Raises
    ------
    TypeError
        If `count` is no int.
    ValueError
        If it is less than 1 or more than 4096.

    Notes
    -----
    It holds for the process, in libraries that are loaded later too. ``COREPY_NUM_THREADS`` sets
    it from the start. It reaches BLAS and OpenMP by ``threadpoolctl`` (extra ``threads``), torch
    and Dask by their own settings, and JAX only before JAX is first used. NumPy's BLAS is told at
    once where NumPy was imported, other libraries as corepy first uses them.
    """
    with _LOCK:
        told = _threads.set_budget(count, _loaded.values())
        # Its BLAS is the program's too, before an array of it comes by. To ask others, as to load
        # them does, which devices they have is nothing that this may do for a program.
        if "numpy" in sys.modules and "numpy" not in _loaded:
            list(load_each(("numpy",)))  # which holds it to that
            told = _threads.unmoved()
        return told


def enable_tf32(on: bool = True) -> dict[str, str]:
    """Let libraries compute products and convolutions of float32 in TF32 on a GPU, or forbid it.

    TF32 rounds the operands to 11 significant bits and adds up in float32: several times as fast
    on NVIDIA's GPUs since Ampere, and off by some 5e-4 in the place of 1e-7. Until it is allowed,
    all of them compute in float32, those too whose own default is another.

    Parameters
    ----------
    on : bool

    Returns
    -------
    dict
        Why a loaded library does otherwise, by the name of its backend; empty if all obey.

    Raises
    ------
    TypeError
        If `on` is no bool.

    Notes
    -----
    It holds for the process, in libraries that are loaded later too: torch (its own setting for
    products, ``torch.backends.cuda.matmul.allow_tf32``, is changed), JAX, CuPy and MLX. On the host
    and on hardware without TF32 it changes nothing.
    """
    with _LOCK:
        return _tf32.set_tf32(on, _loaded.values())


def usable_backends() -> tuple[str, ...]:
    """Load every known backend and tell which can run operations now.

    Returns
    -------
    tuple of str
        Their names.
    """
    return tuple(row.name for row in status() if row.usable)


def owner_of(obj: object) -> Backend | None:
    """Return the backend whose native array an object is, None if it is none's."""
    for name in _candidates(type(obj), _generation):  # type: ignore[arg-type]  # mypy 2.4
        if name not in _broken:
            backend = load(name, "asarray")
            if backend.owns(obj):
                return backend
    return None


@lru_cache(maxsize=256)
def _candidates(cls: type, generation: int) -> tuple[str, ...]:
    """Name the backends whose library defines a class or one of its bases."""
    roots = {base.__module__.partition(".")[0] for base in cls.__mro__}
    return tuple(name for name, record in records().items() if roots & set(record.modules))


def is_known_by_class(obj: object, backend: Backend) -> bool:
    """Say whether a backend is NumPy's own, and the class of an array tells that it has it.

    One that stands before it, a plug-in, may look at each array.
    """
    if type(backend).__module__ != "corepy.backends._numpy":
        return False
    names = _candidates(type(obj), _generation)  # type: ignore[arg-type]  # mypy 2.4
    return names[:1] == (backend.name,)


def _unknown(function: str, name: object) -> BackendUnavailableError:
    return BackendUnavailableError(
        f"{function}: name is {name!r}; expected a known backend: {listing(records())}"
    )


def _unusable(function: str, name: str, reason: str) -> BackendUnavailableError:
    others = [
        other
        for other, record in records().items()
        if other != name and other not in _broken and record.probe() is None
    ]
    return BackendUnavailableError(
        f"{function}: backend {name} is not usable: {reason}; expected {listing(others)}"
    )
