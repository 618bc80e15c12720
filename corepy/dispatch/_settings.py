"""Settings that a user turns: scoped to a thread or task, with a default for the process."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar, copy_context
from types import TracebackType
from typing import Final, Generic, Literal, TypeAlias, TypeVar

from corepy._errors import bad_argument, bad_type
from corepy._signals import let_through
from corepy._variables import choice, flag

T = TypeVar("T")
FallbackPolicy: TypeAlias = Literal["allow", "warn", "raise"]
_POLICIES: Final = ("allow", "warn", "raise")
Precision: TypeAlias = Literal["full", "fast"]
_PRECISIONS: Final[tuple[Precision, ...]] = ("full", "fast")
Offload: TypeAlias = Literal["off", "auto"]
_OFFLOADS: Final[tuple[Offload, ...]] = ("off", "auto")
Autocast: TypeAlias = Literal["bfloat16", "float16"]
_AUTOCASTS: Final = ("bfloat16", "float16")


class Setting(Generic[T]):
    """A value that `set` changes here and a ``with`` block changes for its extent.

    A value set on the main thread, outside a running event loop, becomes the default of the whole
    process, because programs configure themselves before they start threads. A value set anywhere
    else stays with its thread or task. So eight threads may hold eight values. Loops are those of
    asyncio, and those of others that sniffio knows of, if it is imported, as trio does.
    """

    __slots__ = ("_default", "_local", "preparations", "prepared", "touched", "watchers")

    def __init__(self, name: str, default: T) -> None:
        self._default = default
        #: Whether anybody ever changed it; until then hot paths need not ask.
        self.touched = False
        #: Who wants to be told when that is so, and of each change of the default.
        self.watchers: list[Callable[[], object]] = []
        #: What has to be done before a first change holds, and whether that was.
        self.preparations: list[Callable[[], object]] = []
        self.prepared = False
        self._local: ContextVar[T] = ContextVar(f"corepy_{name}")

    def get(self) -> T:
        return self._local.get(self._default)

    def touch(self) -> None:
        """Take note that somebody changes it."""
        self.touched = True
        for watcher in self.watchers:  # nobody takes leave: several threads may be here
            watcher()
        if not self.prepared:
            for prepare in self.preparations:
                prepare()
            self.prepared = True  # last: a thread that comes meanwhile prepares for itself

    def set(self, value: T) -> Callable[[], None]:
        """Change it, and return what changes it back."""
        before, default = self.get(), self._default
        for_all = _speaks_for_all()  # first: it may be interrupted
        token = self._local.set(value)
        if for_all:
            self._default = value

        def undo() -> None:
            try:
                self._local.reset(token)  # to nothing where nothing was, so that defaults hold
            except RuntimeError:  # for the second time
                self.set(before)
                return
            except ValueError:  # in another thread or task
                self._put_back(before)
            if for_all:
                self._default = default
            self.touch()

        try:
            self.touch()  # last: who is told may keep the default
        except BaseException:
            undo()  # else it would hold for good, for nobody got what changes it back
            raise
        return undo

    @contextmanager
    def scoped(self, value: T) -> Iterator[None]:
        """Change it here alone for a block, after which all that was before holds again."""
        before, default = self.get(), self._default
        for_all = _speaks_for_all()
        self.touch()
        token = self._local.set(value)
        try:
            yield
        finally:
            try:
                self._local.reset(token)
            except ValueError:  # in another thread or task, as a generator that goes on there
                self._put_back(before)
            # Blocks of other threads leave the default alone, which is not theirs.
            if for_all and self._default is not default:
                self._default = default
                self.touch()

    def _put_back(self, value: T) -> None:
        """Give a thread or task what was before a block that another one entered."""
        if self._local in copy_context():  # else it goes on following the default
            self._local.set(value)


def _speaks_for_all() -> bool:
    """Say whether what is set here is the default of the process."""
    if threading.current_thread() is not threading.main_thread():
        return False
    return not (_in_event_loop() or _in_another_loop())


def _in_another_loop() -> bool:
    """Say whether a loop of trio, curio or the like runs, which sniffio is there to tell."""
    ask = getattr(sys.modules.get("sniffio"), "current_async_library", None)
    if ask is None:
        return False
    try:
        return ask() is not None
    except RuntimeError as error:  # its own, for none runs
        let_through(error)
        return False


def _in_event_loop() -> bool:
    # Where nobody imported asyncio no loop can run; importing it here would cost 30 ms.
    asyncio = sys.modules.get("asyncio")
    if asyncio is None:
        return False
    # Nor while another thread is in the midst of that, and the function not there yet.
    running = getattr(asyncio, "_get_running_loop", None)
    return running is not None and running() is not None


class Restore:
    """What the switches return: leave it, or use it as a context manager to switch back."""

    def __init__(self, setting: Setting[T], value: T) -> None:
        self._undo = setting.set(value)

    def __enter__(self) -> None:
        return None

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            self._undo()
        except BaseException:  # an interrupt, which may have come anywhere in it
            self._undo()
            raise


def _check(
    function: str, argument: str, value: object, choices: tuple[str, ...], expected: str
) -> None:
    """Refuse what is none of a few words."""
    if not isinstance(value, str):
        raise bad_type(function, argument, value, expected)
    if value not in choices:
        raise bad_argument(function, argument, value, expected)


STRICT: Final[Setting[bool]] = Setting("strict", flag("COREPY_STRICT"))
if STRICT.get():
    STRICT.touch()
#: Where new arrays are created, in order of preference; None where nobody said.
PRIORITY: Final[Setting[tuple[str, ...] | None]] = Setting("backend_priority", None)
FALLBACK: Final[Setting[FallbackPolicy]] = Setting("fallback", "warn")
PRECISION: Final[Setting[Precision]] = Setting("precision", choice("COREPY_PRECISION", _PRECISIONS))


def strict(on: bool = True) -> Restore:
    """Turn the strict reading of the standard on or off.

    Under it much of what the standard leaves open raises: mixed kinds of dtype, ``/`` of integers,
    native arrays as arguments, dtypes and devices by name, keys with fewer indices than dimensions,
    slices beyond the axis, writes to read-only memory. ``docs/design.md`` lists it all. Library
    authors run their tests under it to learn whether their code is portable.

    Parameters
    ----------
    on : bool
        Whether to be strict.

    Returns
    -------
    Restore
        Used as ``with corepy.strict():`` it restores what was before; otherwise ignore it.

    Raises
    ------
    TypeError
        If `on` is no bool.

    Notes
    -----
    ``COREPY_STRICT=1`` (or ``true``, ``yes``, ``on``) in the environment makes it the default.
    """
    if not isinstance(on, bool):
        raise bad_type("strict", "on", on, "a bool")
    return Restore(STRICT, on)


def is_strict() -> bool:
    """Tell how the standard is read.

    Returns
    -------
    bool
        Whether the strict reading is in force here.
    """
    return STRICT.get()


def get_fallback() -> FallbackPolicy:
    """Tell what happens when no backend on an array's device offers an operation.

    Returns
    -------
    {"warn", "allow", "raise"}
        The policy in force here, as `set_fallback` takes it.
    """
    return FALLBACK.get()


def set_fallback(policy: FallbackPolicy) -> Restore:
    """Choose what happens when no backend on an array's device offers an operation.

    Parameters
    ----------
    policy : {"warn", "allow", "raise"}
        Cross to the host and back with one warning a call site (the default), silently, or raise
        `FallbackError`. Another backend on the same device is always taken, without copies.

    Returns
    -------
    Restore
        Used as ``with corepy.set_fallback("allow"):`` it restores what was before.

    Raises
    ------
    TypeError
        If `policy` is of another type.
    ValueError
        If it is none of these.
    """
    _check("set_fallback", "policy", policy, _POLICIES, '"warn", "allow" or "raise"')
    return Restore(FALLBACK, policy)


def precision(level: Precision) -> Restore:
    """Choose between NumPy's accuracy and speed, where both cannot be had.

    NumPy decomposes and solves float32 matrices in double precision and rounds the result. Under
    ``"fast"`` those of 10,000 elements and more are computed in float32 throughout, by LAPACK's
    routines for it in NumPy or by a library that they are routed to: two to four times as fast,
    with errors of float32's size (some 1e-5 in the place of 1e-7 for well-conditioned matrices, and
    more for others). What finds no answer there, as of matrices that are singular to float32, is
    computed in double precision. Nothing else changes: every other route stays within the bounds of
    ``docs/accuracy.md``.

    Parameters
    ----------
    level : {"full", "fast"}
        ``"full"`` is the default.

    Returns
    -------
    Restore
        Used as ``with corepy.precision("fast"):`` it restores what was before.

    Raises
    ------
    TypeError
        If `level` is of another type.
    ValueError
        If it is neither.

    Notes
    -----
    ``COREPY_PRECISION=fast`` in the environment makes it the default.
    """
    _check("precision", "level", level, _PRECISIONS, '"full" or "fast"')
    return Restore(PRECISION, level)


def get_precision() -> Precision:
    """Tell in which precision float32 matrices are decomposed.

    Returns
    -------
    {"full", "fast"}
        What is in force here, as `precision` takes it.
    """
    return PRECISION.get()


# ---------------------------------------------------------------------------- offload


def _offload_wanted() -> Offload:
    return choice("COREPY_OFFLOAD", _OFFLOADS)


OFFLOAD: Final[Setting[Offload]] = Setting("offload", _offload_wanted())
#: Who wants to be told that somebody wants it.
when_offloading: Callable[[], object] | None = None


def offload(mode: Offload) -> Restore:
    """Let large operations on host arrays run on an accelerator where that was measured to pay.

    Parameters
    ----------
    mode : {"auto", "off"}
        ``"auto"``: before each large product, decomposition, transform or sort of a host array
        (backend ``numpy`` or ``numba``) its time here is compared with that of moving the
        operands, computing there, and moving the result back. Results that were computed there
        stay there until the host needs their values, and what follows is reckoned from where
        they are. ``"off"`` is the default.

    Returns
    -------
    Restore
        Used as ``with corepy.offload("auto"):`` it restores what was before.

    Raises
    ------
    TypeError
        If `mode` is of another type.
    ValueError
        If it is neither.

    See Also
    --------
    corepy.explain : shows the reckoning of each operation.

    Notes
    -----
    Arrays stay what they were: ``x.device`` is ``cpu``, ``x.backend`` the same, and values lie
    within the bounds of ``docs/accuracy.md``. The times are those that ``corepy tune --offload``
    measured; without them everything runs on the host, and a `RouteWarning` says so once.
    ``COREPY_OFFLOAD=auto`` in the environment makes it the default. See ``docs/offload.md``.
    """
    _check("offload", "mode", mode, _OFFLOADS, '"auto" or "off"')
    if mode == "auto" and when_offloading is not None:
        when_offloading()  # first: it may warn, which may be an exception
    return Restore(OFFLOAD, mode)


def get_offload() -> Offload:
    """Tell whether operations are offloaded.

    Returns
    -------
    {"off", "auto"}
        What is in force here, as `offload` takes it.
    """
    return OFFLOAD.get()


# ---------------------------------------------------------------------------- autocast

AUTOCAST: Final[Setting[Autocast | None]] = Setting("autocast", None)


def autocast(dtype: Autocast | None) -> Restore:
    """Round the float32 operands of products to 16 bits.

    `matmul` (and ``@``), `tensordot` and `vecdot`, also those of ``linalg``, round their float32
    operands to the nearest number of the dtype (to the even one of two), multiply these, add up in
    float32 and give float32. Operands of other dtypes, and all other operations, are as ever.

    Parameters
    ----------
    dtype : {"bfloat16", "float16"} or None
        ``"bfloat16"`` keeps float32's range with 8 significant bits, so that nothing over- or
        underflows that did not before and no scaling of losses is needed. ``"float16"`` has 11
        bits and a range of 6e-8 to 65504: what is greater becomes infinite, what is less, zero.
        None, the default, rounds nothing.

    Returns
    -------
    Restore
        Used as ``with corepy.autocast("bfloat16"):`` it restores what was before.

    Raises
    ------
    TypeError
        If `dtype` is of another type.
    ValueError
        If it is none of these.

    Notes
    -----
    Every backend gives the same values but for the rounding of float32 sums. It saves time where
    hardware multiplies 16-bit numbers (GPUs); elsewhere rounding costs some. See
    ``docs/offload.md``.
    """
    if dtype is not None:
        _check("autocast", "dtype", dtype, _AUTOCASTS, '"bfloat16", "float16" or None')
    return Restore(AUTOCAST, dtype)


def get_autocast() -> Autocast | None:
    """Tell to what the operands of products are rounded.

    Returns
    -------
    {"bfloat16", "float16"} or None
        What is in force here, as `autocast` takes it.
    """
    return AUTOCAST.get()
