"""The `Array` object: attributes, operators, indexing and conversions.

https://data-apis.org/array-api/2025.12/API_specification/array_object.html
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from functools import partial
from itertools import repeat
from operator import getitem
from types import EllipsisType, ModuleType
from typing import TYPE_CHECKING, Any, ClassVar, Final, TypeAlias, cast

from corepy import _dtypes
from corepy._dtypes import DType, Scalar
from corepy._errors import bad_argument, bad_type
from corepy._signals import let_through
from corepy.array_api import _elementwise  # noqa: F401  operators are forms of its functions
from corepy.array_api._hints import Missing
from corepy.array_api._interchange import Interchange
from corepy.array_api._keys import is_plain, native_key, refusal
from corepy.devices._device import CPU, Device, as_device
from corepy.devices._transfer import from_host, look, nbytes, to_host, tried
from corepy.dispatch import (
    STRICT,
    Operand,
    as_companion,
    cast_to,
    converted,
    creation_table,
    declare,
    fitting,
    gathered,
    inplace,
    is_operand,
    is_scalar,
    item,
    known_sizes,
    landed,
    load,
    make,
    operator,
    plain,
    product,
    promoted,
    rebound,
    recover,
    reflected,
    reflected_product,
    register_array_class,
    run,
    scalar_dtype,
    scalar_of,
    shortened,
    table_of,
    unary_operator,
    wrap,
    writable,
)

if TYPE_CHECKING:
    import numpy as np

Key: TypeAlias = "int | slice | EllipsisType | Array | None"

API_VERSION: Final = "2025.12"
#: Versions of the standard of which 2025.12 is a superset.
_COMPATIBLE: Final = ("2021.12", "2022.12", "2023.12", "2024.12", API_VERSION)

#: `corepy.array_api`, which is being imported now.
_NAMESPACE: Final = sys.modules[__package__]

for _name in ("__getitem__", "__setitem__"):
    declare(_name, _dtypes.ANY)


class Array(Interchange):
    """An array of the standard: a native array of some library, on one device.

    Make one with the creation functions of `corepy.array_api`; `Array.unwrap` gives the native
    array back.

    Notes
    -----
    Computation follows data: results live where the operands live. Indexing may give a view or a
    copy, as the library has it; do not rely on either.

    References
    ----------
    https://data-apis.org/array-api/2025.12/API_specification/array_object.html
    """

    __slots__ = ()

    # NumPy's operators answer NotImplemented to this, so that `numpy.ndarray + Array` is an Array.
    # `__array_ufunc__ = None` would say so too, but has NumPy's functions refuse an Array, by which
    # a library looks at single values (SciPy's solvers: `numpy.isfinite(f(x))`). It is more than
    # CuPy's, 100, and less than astropy's, 10,000: a quantity is to multiply by its own operator.
    __array_priority__: ClassVar[int] = 1_000
    __hash__: ClassVar[None] = None  # type: ignore[assignment]

    # ------------------------------------------------------------------ attributes

    @property
    def __numpy_dtype__(self) -> np.dtype[Any]:
        """NumPy's dtype of the elements, for which `numpy.dtype` and JAX's `asarray` ask."""
        return self.dtype.__numpy_dtype__

    @property
    def device(self) -> Device:
        """Device on which the array lives."""
        return self._table.device

    @property
    def backend(self) -> str:
        """Name of the backend whose native array this is. Not part of the standard."""
        return self._table.backend.name

    @property
    def nbytes(self) -> int:
        """Bytes of the elements, 0 if a dimension is not known. Not part of the standard."""
        return nbytes(self._native, self._table.backend)

    @property
    @partial(shortened, "T")
    def T(self) -> Array:
        """Transpose of a two-dimensional array.

        Raises
        ------
        ValueError
            If the array has another number of dimensions; see `mT` and ``permute_dims``.
        """
        if self.ndim != 2:
            raise ValueError(f"T: x has {self.ndim} dimensions; expected 2 (mT takes stacks)")
        return cast("Array", run("matrix_transpose", self))

    @property
    @partial(shortened, "mT")
    def mT(self) -> Array:
        """Transpose of each matrix in a stack: the last two dimensions swapped.

        Raises
        ------
        ValueError
            If the array has fewer than two dimensions.
        """
        if self.ndim < 2:
            raise ValueError(f"mT: x has {self.ndim} dimensions; expected at least 2")
        return cast("Array", run("matrix_transpose", self))

    def unwrap(self) -> Any:
        """Return the library's own array, without a copy. Not part of the standard.

        Of an array of NumPy's it is a view, which may be given another shape in place.

        Returns
        -------
        native array

        Raises
        ------
        UnsupportedOperationError
            If the library has no such array, as tinygrad of dtypes that its device only stores.
        """
        native = landed(self)._native
        return self._table.backend.unwrapped(native)

    # ------------------------------------------------------------------ operators

    __add__ = operator("add")
    __radd__ = reflected("add")
    __iadd__ = inplace("__iadd__")
    __sub__ = operator("subtract")
    __rsub__ = reflected("subtract")
    __isub__ = inplace("__isub__")
    __mul__ = operator("multiply")
    __rmul__ = reflected("multiply")
    __imul__ = inplace("__imul__")
    __truediv__ = operator("divide")
    __rtruediv__ = reflected("divide")
    __itruediv__ = inplace("__itruediv__")
    __floordiv__ = operator("floor_divide")
    __rfloordiv__ = reflected("floor_divide")
    __ifloordiv__ = inplace("__ifloordiv__")
    __mod__ = operator("remainder")
    __rmod__ = reflected("remainder")
    __imod__ = inplace("__imod__")
    __pow__ = operator("pow")
    __rpow__ = reflected("pow")
    __ipow__ = inplace("__ipow__")
    __and__ = operator("bitwise_and")
    __rand__ = reflected("bitwise_and")
    __iand__ = inplace("__iand__")
    __or__ = operator("bitwise_or")
    __ror__ = reflected("bitwise_or")
    __ior__ = inplace("__ior__")
    __xor__ = operator("bitwise_xor")
    __rxor__ = reflected("bitwise_xor")
    __ixor__ = inplace("__ixor__")
    __lshift__ = operator("bitwise_left_shift")
    __rlshift__ = reflected("bitwise_left_shift")
    __ilshift__ = inplace("__ilshift__")
    __rshift__ = operator("bitwise_right_shift")
    __rrshift__ = reflected("bitwise_right_shift")
    __irshift__ = inplace("__irshift__")
    __lt__ = operator("less")
    __le__ = operator("less_equal")
    __gt__ = operator("greater")
    __ge__ = operator("greater_equal")
    __eq__ = operator("equal")  # type: ignore[assignment]  # elementwise, as the standard has it
    __ne__ = operator("not_equal")  # type: ignore[assignment]
    __abs__ = unary_operator("abs")
    __neg__ = unary_operator("negative")
    __pos__ = unary_operator("positive")
    __invert__ = unary_operator("bitwise_invert")

    @product
    def __matmul__(self, other: Any, /) -> Array:
        """Matrix product, as `matmul`."""
        from corepy.array_api._linear_algebra import matmul_operator

        return cast("Array", matmul_operator(self, other))

    @reflected_product
    def __rmatmul__(self, other: Any, /) -> Array:
        """Matrix product with the operands swapped."""
        from corepy.array_api._linear_algebra import matmul_operator

        return cast("Array", matmul_operator(other, self))

    def __imatmul__(self, other: Any, /) -> Array:
        """Matrix product into this array, whose shape and dtype it must have."""
        result: Array = self.__matmul__(other)
        if result is NotImplemented:
            return NotImplemented
        if result.shape != self.shape:
            raise ValueError(
                f"__imatmul__: the result has shape {result.shape}; expected {self.shape}, the "
                f"shape of the left operand"
            )
        self[...] = result
        return self

    # ------------------------------------------------------------------ indexing

    @item
    def __getitem__(self, key: Key | tuple[Key, ...], /) -> Array:
        """Return the elements that a key selects.

        Parameters
        ----------
        key : int, slice, Ellipsis, None, Array, or a tuple of them
            As the standard has it; an integer array, or a boolean array alone, selects elements.

        Returns
        -------
        Array
            Of the same dtype; 0-D where every axis is indexed by an integer.

        Raises
        ------
        IndexError
            If an index is out of bounds, there are more indices than dimensions, or a boolean
            array has another shape.
        TypeError
            If a key is of another type.
        """
        table = self._table
        native, _ = table["__getitem__"]
        if not is_plain(key) or (STRICT.touched and STRICT.get()):
            key = native_key("__getitem__", self, key)
        try:
            found = native(self._native, key)
        except (IndexError, OverflowError, ValueError) as error:
            let_through(error)
            if key.__class__ is int:
                native_key("__getitem__", self, key)  # which names those beyond 64 bits
            raise refusal("__getitem__", self, key, error) from None
        except (MemoryError, RuntimeError) as error:
            found = recover("__getitem__", table, (self,), error, native, self._native, key)
        if found.__class__ is not self._native.__class__:
            if table.backend.home is not None:
                return cast("Array", wrap(found, table, table))
            found = table.backend.normalize(found)
        array: Array = make(found, table)
        return array

    def __setitem__(self, key: Key | tuple[Key, ...], value: Array | Scalar, /) -> None:
        """Set the elements that a key selects.

        Parameters
        ----------
        key : as in `__getitem__`
        value : Array or scalar
            Broadcast to the shape of the selection, which need not have its leading dimensions of
            size one; its dtype must promote to the array's.

        Raises
        ------
        IndexError
            As `__getitem__` does.
        TypeError
            If the dtype of `value` does not promote to the array's, which never changes.
        ValueError
            If `value` does not broadcast to the selection.
        OverflowError
            If a scalar does not fit.

        Notes
        -----
        Read-only memory is copied before it is written; strict mode raises ``ValueError`` instead.
        """
        table = self._table
        place = native_key("__setitem__", self, key)
        value = plain(value, written=True)
        if is_scalar(value):
            dtype = scalar_dtype("__setitem__", "value", cast("Scalar", value), table.dtype)
            self._require_same(dtype)
            number = fitting("__setitem__", "value", cast("Scalar", value), dtype)
            native = scalar_of(table, number, "__setitem__")
        else:
            if not is_operand(value):
                raise bad_type("__setitem__", "value", value, "an array or a scalar")
            other = as_companion("__setitem__", "value", value, table)
            self._require_same(promoted("__setitem__", table.dtype, other.dtype))
            other = gathered("__setitem__", "x", table, "value", _without_ones(other))
            native = cast_to(other, table.dtype, "__setitem__")
            native = native._native
        write, held = table["__setitem__"][0], self._native
        x = writable(self, "__setitem__")
        try:
            made = write(x, place, native)
        except (IndexError, TypeError, ValueError) as error:
            let_through(error)
            raise refusal("__setitem__", self, place, error, native) from None
        except (MemoryError, RuntimeError) as error:
            args = (x, place, native)
            made = recover("__setitem__", table, (self,), error, write, *args)
        if not rebound(self, held, made):
            self[key] = value

    def _require_same(self, dtype: DType) -> None:
        if dtype is not self.dtype:
            raise TypeError(
                f"__setitem__: value promotes x to {dtype}; expected a value that keeps "
                f"{self.dtype}: use xp.astype on the value or on x"
            )

    def __len__(self) -> int:
        """Size of the first dimension."""
        if not self.shape:
            raise TypeError("len: x has 0 dimensions; expected at least 1")
        return known_sizes(self, (0,))[0]

    def __iter__(self) -> Iterator[Array]:
        """Iterate over the first dimension."""
        if not self.shape:
            raise TypeError("iter: x has 0 dimensions; expected at least 1")
        return map(getitem, repeat(self), range(len(self)))  # without a step of Python's for each

    def __contains__(self, value: object, /) -> bool:
        """Say whether any element equals a value."""
        found: object = self == value
        if not isinstance(found, Operand):  # Python's own answer for what is no array
            raise bad_type("in", "value", value, "a scalar or an array")
        return bool(run("any", found, axis=None, keepdims=False))

    # ------------------------------------------------------------------ scalars

    def _item(self, function: str, error: type[Exception] = TypeError) -> Scalar:
        native, backend = self._native, self._table.backend
        if backend.shape_of(native) != ():
            hint = ", such as xp.any(x) or xp.all(x)" if function == "bool" else ""
            raise error(f"{function}: x has shape {self.shape}; expected a 0-D array{hint}")
        try:
            return backend.item(native)
        except (MemoryError, OSError, RuntimeError) as raised:
            let_through(raised)
            # As `tolist` ends, if it does so again.
            return tried(lambda: backend.item(native), backend, backend.device_of(native), CPU)

    def __bool__(self, /) -> bool:
        """Truth of a 0-D array.

        Returns
        -------
        bool

        Raises
        ------
        ValueError
            If the array has dimensions: use ``xp.any`` or ``xp.all``.
        """
        return bool(self._item("bool", ValueError))

    def __int__(self, /) -> int:
        """Value of a 0-D array as an int, truncated towards zero.

        Returns
        -------
        int

        Raises
        ------
        TypeError
            If the array has dimensions, or is complex.
        ValueError
            If it holds NaN.
        OverflowError
            If it holds an infinity.
        """
        value = self._item("int")
        if isinstance(value, complex):
            raise TypeError(f"int: x has dtype {self.dtype}; expected a real-valued dtype")
        try:
            return int(value)
        except (OverflowError, ValueError) as error:  # of an infinity, and of NaN
            raise type(error)(f"int: x holds {value}; expected a finite number") from None

    def __float__(self, /) -> float:
        """Value of a 0-D array as a float.

        Returns
        -------
        float

        Raises
        ------
        TypeError
            If the array has dimensions, or is complex.
        """
        native = self._native
        if self._table.of_float is not None and not native.ndim:  # an array of NumPy's, of float64
            return cast("float", native.item())
        value = self._item("float")
        if value.__class__ is float:
            return value
        if isinstance(value, complex):
            raise TypeError(f"float: x has dtype {self.dtype}; expected a real-valued dtype")
        return float(value)

    def __complex__(self, /) -> complex:
        """Value of a 0-D array as a complex.

        Returns
        -------
        complex

        Raises
        ------
        TypeError
            If the array has dimensions.
        """
        return complex(self._item("complex"))

    def __index__(self, /) -> int:
        """Value of a 0-D integer array, for use as an index.

        Returns
        -------
        int

        Raises
        ------
        TypeError
            If the array has dimensions or no integer dtype.
        """
        if self.dtype.rank != 1:
            raise TypeError(f"index: x has dtype {self.dtype}; expected an integer dtype")
        return cast("int", self._item("index"))

    def item(self) -> Scalar:
        """Return the value of a 0-D array as a Python scalar. Not part of the standard.

        Returns
        -------
        bool, int, float or complex

        Raises
        ------
        TypeError
            If the array has dimensions.
        """
        return self._item("item")

    def tolist(self) -> Any:
        """Return the values as Python scalars. Not part of the standard.

        Returns
        -------
        list, bool, int, float or complex
            Nested lists, a scalar of a 0-D array.
        """
        return self._shown("tolist").tolist()

    def _shown(self, function: str) -> np.ndarray[Any, Any]:
        """Return the values as NumPy's, which nobody changes."""
        found = look(self._native, self._table.backend)
        self._come_home(function)
        return found

    # ------------------------------------------------------------------ interchange

    def __array_namespace__(self, /, *, api_version: str | None = None) -> ModuleType:
        """Return `corepy.array_api`.

        Parameters
        ----------
        api_version : str or None
            Version of the standard that is asked for.

        Returns
        -------
        module

        Raises
        ------
        ValueError
            If `api_version` is one that corepy does not implement.
        """
        if api_version is not None and api_version not in _COMPATIBLE:
            raise bad_argument(
                "__array_namespace__", "api_version", api_version, f"one of {_COMPATIBLE}"
            )
        return _NAMESPACE

    # ------------------------------------------------------------------ Python's protocols

    def __repr__(self) -> str:
        import numpy as np

        prefix, backend = "Array(", self._table.backend
        values = backend.outline(self._native)
        if values is None:
            shown = self._shown("repr")
            values = np.array2string(shown, separator=", ", prefix=prefix)
            if not shown.size and shown.shape != (0,):  # of which the brackets say nothing
                values = f"{values}, shape={shown.shape}"
        return (
            f"{prefix}{values}, dtype={self.dtype}, device={self.device}, backend={self.backend})"
        )

    def __str__(self) -> str:
        outline = self._table.backend.outline(self._native)
        return str(self._shown("str")) if outline is None else outline

    def __format__(self, spec: str, /) -> str:
        """Format the value of a 0-D array; arrays with dimensions take no specification."""
        if self.shape == () and (spec or self._table.backend.outline(self._native) is None):
            return format(self._item("format"), spec)
        if spec:
            raise TypeError(f"format: x has shape {self.shape}; expected a 0-D array for {spec!r}")
        return str(self)

    def __copy__(self) -> Array:
        return _duplicate(self)

    def __deepcopy__(self, memo: dict[int, Any]) -> Array:
        return _duplicate(self)

    def __reduce__(self) -> tuple[Any, tuple[Any, ...]]:
        values = to_host(self._native, self._table.backend)
        self._come_home("pickle")
        return _unpickle, (values, self.backend, self.device.name)

    def __dir__(self) -> list[str]:
        hidden = {"_native", "_table"}
        hidden.update(name for name, value in vars(Array).items() if isinstance(value, Missing))
        return [name for name in super().__dir__() if name not in hidden]


def _without_ones(x: Array) -> Array:
    """Drop leading dimensions of size one, which libraries take beyond a selection's or not."""
    shape = x.shape
    if not shape or shape[0] != 1:
        return x
    count = next((i for i, size in enumerate(shape) if size != 1), len(shape))
    return cast("Array", run("squeeze", x, axis=tuple(range(count))))


def _duplicate(x: Array) -> Array:
    table = x._table
    return cast("Array", make(converted(x, "copy", table.native_dtype, copy=True), table))


def _unpickle(values: Any, backend: str, device: str) -> Array:
    """Rebuild a pickled array in its backend, or in the default one where that is missing."""
    from corepy._errors import BackendUnavailableError

    place = as_device(device)
    dtype = _dtypes.as_dtype(values.dtype)
    try:
        owner = load(backend, "unpickle")
        table = table_of(owner, place, dtype)
        if place not in owner.devices():
            raise BackendUnavailableError(f"unpickle: {backend} has no device {place}")
    except BackendUnavailableError:
        # A pickle travels between machines; its values matter more than where they lived.
        table = creation_table("unpickle", None, dtype)
    return cast("Array", make(from_host(values, table.backend, table.device), table))


register_array_class(Array)
