"""Running one operation: native operands in, Arrays out, errors in the library's place."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, NoReturn

from corepy import _forks
from corepy._dtypes import DType
from corepy._errors import BackendError, InsufficientMemoryError, broadcast_mismatch, named
from corepy._signals import is_of_a_handler
from corepy.backends._base import Native
from corepy.devices import _shortage
from corepy.devices._device import CPU
from corepy.dispatch._fallback import Elsewhere, on_host
from corepy.dispatch._hot import Operand, make, shortened
from corepy.dispatch._lessons import LEARNING, taught
from corepy.dispatch._offload_values import Resident, fetched, standing_for
from corepy.dispatch._operands import gathered
from corepy.dispatch._settings import FALLBACK
from corepy.dispatch._table import Table, table_of


def _run(name: str, first: Operand, *rest: Any, **params: Any) -> Any:
    """Run an operation in the backend of its first operand.

    Parameters
    ----------
    name : str
        The operation.
    first : Array
        The operand whose backend, device and dtype choose the native callable.
    *rest
        Further operands: Arrays on the same device, which come to the same backend, tuples of
        them, or plain values.
    **params
        Keyword arguments; a `DType` becomes the library's own, an `Array` its native array.

    Returns
    -------
    Array or tuple of Array
    """
    table = first._table
    native, result = table[name]
    for key, value in params.items():
        if value.__class__ not in _PLAIN:
            params[key] = _native(name, table, value)
    x = first._native
    others: list[Any] = []
    try:
        if rest:
            others = [_native(name, table, y) for y in rest]
            made = native(x, *others, **params)
        else:
            made = native(x, **params)
    except Exception as error:
        made = recover(name, table, (first, *rest), error, native, x, *others, **params)
    if LEARNING:
        taught(name, first, others, params)
    if result is not None and made.__class__ is x.__class__:
        return make(made, result)
    return wrap(made, table, result)


run = shortened("run", _run)


def run_in(table: Table, name: str, *operands: Any, **params: Any) -> Any:
    """Run an operation in a given table; otherwise as `run`.

    For operations whose first operand is not the one that decides: a sequence of arrays, or the
    condition of ``where``.
    """
    native, result = table[name]
    args = [_native(name, table, x) for x in operands]
    for key, value in params.items():
        if value.__class__ not in _PLAIN:
            params[key] = _native(name, table, value)
    try:
        made = native(*args, **params)
    except Exception as error:
        made = recover(name, table, operands, error, native, *args, **params)
    return wrap(made, table, result)


def create(name: str, table: Table, *args: Any, **params: Any) -> Any:
    """Run a creation function in a table chosen for the new array.

    Parameters
    ----------
    name : str
        The operation.
    table : Table
        Backend, device and dtype of the new array; passed to the callable.
    *args, **params
        Plain arguments of the native callable.
    """
    native, _ = table[name]
    params |= {"dtype": table.native_dtype, "device": table.device}
    try:
        made = native(*args, **params)
    except Exception as error:
        made = recover(name, table, (), error, native, *args, **params)
    return make(made, table)


#: Classes of arguments that native callables take as they are.
_PLAIN = frozenset({bool, int, float, str, type(None)})


def _native(name: str, table: Table, value: Any) -> Any:
    if value.__class__ in _PLAIN:
        return value
    if isinstance(value, Operand):
        home = value._table
        if home is table or (home.backend is table.backend and home.device is table.device):
            return value._native
        return gathered(name, "the first operand", table, "another operand", value)._native
    if isinstance(value, DType):
        return table.backend.native_dtype(value)
    if isinstance(value, tuple):
        for item in value:
            if isinstance(item, Operand):
                return tuple([_native(name, table, item) for item in value])
    return value


def wrap(made: Any, table: Table, result: Table | None) -> Any:
    """Bind what a native callable returned to tables.

    Parameters
    ----------
    made : native array, or tuple or list of them
    table : Table
        Of the operands.
    result : Table or None
        Of the result, where the operation fixes it.
    """
    if isinstance(made, (tuple, list)):
        return tuple(wrap(item, table, result) for item in made)
    if made.__class__ is Resident:
        return make(made, table_of(standing_for(made.home), table.device, made.dtype))
    backend = table.backend
    native: Native = backend.normalize(made)
    if backend.home is not None:  # its values lie here
        return make(native, table_of(backend.home, table.device, backend.dtype_of(native)))
    if result is None:
        result = table.sibling(backend.dtype_of(native))
    return make(native, result)


def recover(
    name: str,
    table: Table,
    operands: tuple[Any, ...],
    error: Exception,
    native: Callable[..., Any],
    *args: Any,
    **params: Any,
) -> Any:
    """Run an operation again where memory ran out; raise any other error as `fail` does.

    First every library gives back the memory that it keeps on the device. If that does not help,
    the host computes, under the policy that `set_fallback` chose.

    Parameters
    ----------
    name : str
        The operation.
    table : Table
        Of the operands, or of the new array.
    operands : tuple
        For messages.
    error : Exception
        What the native callable raised.
    native, *args, **params
        The native callable and what it was given.

    Returns
    -------
    native array, or tuple of them

    Raises
    ------
    InsufficientMemoryError
        If memory runs out again and the host cannot compute it, or may not.
    """
    try:
        return recover_part(name, name, table, operands, error, native, *args, **params)
    finally:
        del error  # see `fail`


def recover_part(
    function: str,
    name: str,
    table: Table,
    operands: tuple[Any, ...],
    error: Exception,
    native: Callable[..., Any],
    *args: Any,
    **params: Any,
) -> Any:
    """Run an operation again that is part of a function, which messages name; else as `recover`."""
    try:
        device = table.device
        if not _shortage.is_shortage(error, device):
            fail(function, operands, error)
        label = function.rpartition(".")[2]
        try:
            return _shortage.again(label, device, lambda: native(*args, **params), error)
        except InsufficientMemoryError as shortage:
            host = None
            if operands and device is not CPU and not isinstance(native, Elsewhere):
                host = on_host(name, table.backend, device, table.dtype)
            if host is None:
                raise
            if FALLBACK.get() == "raise":
                raise InsufficientMemoryError(
                    f'{shortage}; fallback="raise" forbids that the host computes it'
                ) from error
            try:
                if name in table.scalars_first or name in table.scalars_second:
                    # What that operation takes, the host's need not take.
                    args = tuple(
                        table.backend.scalar(x, table.dtype, device) if x.__class__ in _PLAIN else x
                        for x in args
                    )
                return host(*args, **params)
            except MemoryError as last:  # of the host, or on the way back
                raise InsufficientMemoryError(f"{shortage}; nor on the host: {last}") from error
            except Exception as other:
                fail(function, operands, other)
        except Exception as other:
            fail(function, operands, other)
    finally:
        del error  # see `fail`


def rebind(x: Operand, made: Native) -> None:
    """Let an array hold what a native callable made, in another backend if that is where it is."""
    table = x._table
    if made.__class__ is not x._native.__class__:
        found = wrap(made, table, table)
        # In this order: tables of residents take native arrays of both kinds.
        x._native, x._table = found._native, found._table
    else:
        x._native = made


#: Held while an array takes what was made for it.
_REBINDING: Final = _forks.lock()


def rebound(x: Operand, old: Native, made: Native) -> bool:
    """Let an array hold what was written to its native array, as `rebind` does.

    False if another thread has written meanwhile, which libraries whose arrays never change would
    forget: the caller writes again, to what the array holds by then.
    """
    if made is old:
        return True
    with _REBINDING:
        if x._native is not old:
            return False
        rebind(x, made)
    return True


def landed(x: Any) -> Any:
    """Return an array after bringing its values home, where they are resident elsewhere."""
    if x._table.backend.home is not None:
        rebind(x, fetched(x._native))
    return x


def fail(name: str, operands: tuple[Any, ...], error: Exception) -> NoReturn:
    """Raise a library's error as the one that corepy documents, naming the function.

    Shapes that do not broadcast raise ``ValueError`` on every backend; Python's own exception
    types keep theirs; a library's private ones become `BackendError`.
    """
    found = _worded(name, operands, error)
    try:
        if found is error:
            raise error
        raise found from error
    finally:
        # An error holds the frames that it passes, and with them the operands. A frame that held
        # the error in turn would keep them until the collector runs.
        del error, found


def _worded(name: str, operands: tuple[Any, ...], error: Exception) -> Exception:
    label = name.rpartition(".")[2]
    if is_of_a_handler(error):
        return error
    found = named(label, error)
    if found is error:
        return error
    arrays = [x for x in operands if isinstance(x, Operand)]
    if len(arrays) > 1 and label in _BROADCASTING:
        shapes = [x._table.backend.shape_of(x._native) for x in arrays]
        if not broadcasts(shapes):
            return broadcast_mismatch(label, shapes)
    if found is not None:
        return found
    backend = f" in {arrays[0]._table.backend.name}" if arrays else ""
    return BackendError(f"{label}: {type(error).__name__}{backend}: {error}")


#: Operations of several operands whose shapes must broadcast; filled as they are declared.
_BROADCASTING: set[str] = {"where", "clip"}


def broadcasts(shapes: list[tuple[Any, ...]]) -> bool:
    """Say whether shapes broadcast; unknown dimensions count as fitting."""
    if all(shape == shapes[0] for shape in shapes):
        return True
    width = max(map(len, shapes))
    padded = [(1,) * (width - len(shape)) + tuple(shape) for shape in shapes]
    for column in zip(*padded, strict=True):
        if len({n for n in column if n not in (1, None)}) > 1:
            return False
    return True
