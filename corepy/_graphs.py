"""Graphs: what a function asks of a GPU, recorded once and asked again at the price of one call."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable
from contextlib import ExitStack, suppress
from functools import partial
from typing import Any

from corepy._errors import (
    DeviceMismatchError,
    UnsupportedOperationError,
    bad_argument,
    bad_type,
)
from corepy._signals import let_through
from corepy._streams import Stream
from corepy.array_api._array import Array
from corepy.devices._libraries import asked, serving
from corepy.devices._transfer import lending
from corepy.dispatch import Operand, _explain, as_operand, gathered, run

__all__ = ["Graph", "graph"]


def graph(function: Callable[..., Any], /, *examples: Any) -> Graph:
    """Record what a function asks of a GPU, to ask for all of it again by one call.

    Parameters
    ----------
    function : callable
        Of arrays, to an array, or tuples and lists of them. What it does must follow from the
        shapes and dtypes alone. Where it is recorded it is called twice here and never again, so
        what else it does is not repeated; elsewhere it is called once for each later call.
    *examples : Array or native array
        Operands of the shapes, dtypes and device of all later calls. Their values do not matter.

    Returns
    -------
    Graph
        To be called like the function.

    Raises
    ------
    TypeError
        If `function` is not callable, or an operand or result is no array.
    ValueError
        If there is no example.
    DeviceMismatchError
        If the operands are on different devices.
    UnsupportedOperationError
        If the device cannot record what the function does: reading values (``float(x)``, masks,
        integer division, which looks for zeros), crossing to the host, and what runs in JAX.
        What the function itself raises passes through as its cause.

    Notes
    -----
    Of other arrays than its operands a recording reads the memory that they had when it was made,
    and keeps it: values that are written there later count, another array under the same name does
    not. So do settings, such as `corepy.autocast`, that were in force then.

    Recorded in CuPy and torch on CUDA, and in torch on ROCm (which has never been run there).
    Elsewhere, and for arrays of other libraries, the function is called each time with copies, and
    not here: `Graph.is_captured` tells. CuPy 14 records no products of matrices: it calls no cuBLAS
    then.

    Examples
    --------
    >>> import corepy
    >>> step = graph(lambda x: x * 2 + 1, corepy.array_api.zeros(2))
    >>> step(corepy.array_api.ones(2)).tolist()
    [3.0, 3.0]
    """
    if not callable(function):
        raise bad_type("graph", "function", function, "a callable")
    operands = [as_operand("graph", f"examples[{i}]", x) for i, x in enumerate(examples)]
    if not operands:
        raise bad_argument("graph", "examples", examples, "at least one array")
    for i, x in enumerate(operands):
        if x._table.device is not operands[0]._table.device:
            raise DeviceMismatchError(
                f"graph: examples[0] is on {operands[0]._table.device} and examples[{i}] on "
                f"{x._table.device}; expected one device"
            )
    return Graph(function, operands)


class Graph:
    """What `graph` recorded. Calls from several threads take turns.

    Attributes
    ----------
    is_captured : bool
        Whether calls replay a recording; else they call the function.
    """

    def __init__(self, function: Callable[..., Any], examples: list[Any]) -> None:
        self.is_captured = all(
            x._table.backend.streams(x._table.device) is not None for x in examples
        )
        self._function = function
        # A handler of a signal that calls may come while its own thread has it.
        self._lock = threading.RLock()
        self._turns = 0
        self._forms = [(x._table, x.shape) for x in examples]
        if self.is_captured:
            self._capture(examples)

    def __repr__(self) -> str:
        name = getattr(self._function, "__qualname__", None) or repr(self._function)
        kept = f"recorded on {self._forms[0][0].device}" if self.is_captured else "not recorded"
        return f"corepy.Graph({name}, {kept})"

    def _capture(self, examples: list[Any]) -> None:
        table = examples[0]._table
        device, streams = table.device, table.backend.streams(table.device)
        self._stream = Stream(device, ordered=True)
        address = self._stream.address
        assert address is not None
        with self._stream:
            # The recording reads and writes always the same memory.
            self._operands = [run("astype", x, x.dtype, copy=True) for x in examples]
            _check(self._function(*self._operands))  # compiles kernels, finds workspaces
            self._stream.synchronize()
            with ExitStack() as others:
                # Nobody reads them: what they have lent is written to at each replay.
                self._pools = [
                    others.enter_context(found.apart())
                    for backend in serving(device)
                    if (found := backend.streams(device)) is not None and found is not streams
                ]
                read = _Read()
                try:
                    with _explain.recorded(read.see), lending(read.see):
                        self._replay, self._results = streams.capture(
                            address, lambda: self._function(*self._operands)
                        )
                    # They lie where the recording reads them, also where nobody else has them then.
                    self._read = read.alive()
                except Exception as error:
                    let_through(error)
                    told = " ".join(str(error).split())
                    raise UnsupportedOperationError(
                        f"graph: function cannot be recorded on {device}; expected one that reads "
                        f"no values and stays in libraries that record ({table.backend.name}: "
                        f"{type(error).__name__}: {told})"
                    ) from error

    def __call__(self, *operands: Any) -> Any:
        """Do what was recorded with new operands.

        Parameters
        ----------
        *operands : Array or native array
            As many as the examples, and like them.

        Returns
        -------
        Array, or tuple or list of Array
            As the function's, in memory of their own.

        Raises
        ------
        TypeError
            If there are more or fewer, or one is no array, or, where nothing was recorded, a
            result is none.
        ValueError
            If one has another shape, dtype or device than its example.
        BackendError
            If the library fails, as where the device is lost; the operands are untouched.
        """
        if len(operands) != len(self._forms):
            raise TypeError(
                f"graph: {len(operands)} operands came; expected {len(self._forms)}, as recorded"
            )
        given = [self._like(i, x) for i, x in enumerate(operands)]
        if not self.is_captured:
            # Of copies, as a recording has its own operands, which the function may write into.
            made = self._function(*_copied(given))
            _check(made)
            return _copied(made)  # it may be what the function keeps, or a view of that
        with self._lock, self._stream:
            return asked("graph", self._stream.device, partial(self._replayed, given))

    def _replayed(self, given: list[Any]) -> Any:
        """Do what was recorded with operands that are like the examples."""
        while True:
            self._turns = turn = self._turns + 1
            for kept, x in zip(self._operands, given, strict=True):
                table = kept._table
                kept._native = table["__setitem__"][0](kept._native, ..., x._native)
            self._replay()
            made = _copied(self._results)
            if self._turns == turn:
                return made
            # A handler of a signal has called meanwhile, and written over these operands.

    def _like(self, i: int, x: Any) -> Any:
        """Return an operand in the library of its example, and refuse one that is unlike it."""
        table, shape = self._forms[i]
        name = f"operands[{i}]"
        x = as_operand("graph", name, x)
        if (x._table.dtype, x._table.device, x.shape) != (table.dtype, table.device, shape):
            raise ValueError(
                f"graph: {name} is {x._table.dtype} of shape {x.shape} on {x._table.device}; "
                f"expected {table.dtype} of shape {shape} on {table.device}, as recorded"
            )
        return gathered("graph", "the recording", table, name, x)


class _Read:
    """The native arrays that operations are given while a graph is recorded."""

    def __init__(self) -> None:
        self._refs: dict[int, weakref.ref[Any]] = {}

    def see(self, value: Any) -> None:
        """Take note of what an operation is given, or of the parts of it."""
        if isinstance(value, (tuple, list)):
            for item in value:
                self.see(item)
        elif isinstance(value, dict):
            self.see(list(value.values()))
        elif isinstance(value, Operand):
            self.see(value._native)
        else:
            for each in (value, *_owners(value)):
                with suppress(TypeError):  # numbers, and all else that has no memory of a device
                    self._refs[id(each)] = weakref.ref(each)

    def alive(self) -> list[Any]:
        """Return those that the function has not made by itself and let go of."""
        return [x for ref in self._refs.values() if (x := ref()) is not None]


def _owners(native: Any) -> list[Any]:
    """Return whose memory a native array lies in, where the function made it, as a view, itself.

    Views of CuPy's know the array that they are of. Tensors have a storage, which is one object for
    as long as any of them has it, also of those that do not know of each other (`detach`).
    """
    storage = getattr(native, "untyped_storage", None)
    if storage is None:
        return [getattr(native, "base", None)]
    try:
        return [storage()]
    except (NotImplementedError, RuntimeError):  # of tensors that have none
        return []


def _check(made: Any) -> None:
    """Refuse results that a recording does not make anew."""
    if isinstance(made, (tuple, list)):
        for item in made:
            _check(item)
    elif not isinstance(made, Operand):
        raise bad_type("graph", "the result", made, "an Array, or a tuple or list of them")


def _copied(made: Any) -> Any:
    if isinstance(made, (tuple, list)):
        copies = [_copied(item) for item in made]
        return type(made)(*copies) if hasattr(made, "_fields") else type(made)(copies)
    array: Array = run("astype", made, made.dtype, copy=True)
    return array
