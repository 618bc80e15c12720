"""Creation functions; those of evenly spaced values are in `_ranges.py`.

https://data-apis.org/array-api/2025.12/API_specification/creation_functions.html
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, cast

from corepy import _dtypes
from corepy._dtypes import DType, Scalar
from corepy._errors import bad_argument, bad_type
from corepy._signals import let_through
from corepy.array_api._arguments import (
    addressable,
    choice_of,
    copy_argument,
    device_argument,
    dtype_argument,
    matrices_of,
    new_table,
    one_device,
    shape_of,
    size_of,
    table_like,
)
from corepy.array_api._conversion import (
    NotSharedError,
    check_held,
    from_array,
    import_dlpack,
    parse,
    preferred,
)
from corepy.array_api._docs import likeness_doc, new_array_doc
from corepy.devices._device import CPU, Device
from corepy.devices._transfer import from_host
from corepy.dispatch import (
    Operand,
    adopt,
    as_operand,
    create,
    creation_table,
    default_placement,
    default_table,
    fitting,
    get_backend_priority,
    index_value,
    is_scalar,
    known_sizes,
    make,
    noted,
    operation,
    owner_of,
    plain,
    run,
    same,
    shortened,
)
from corepy.dispatch import _explain as account

if TYPE_CHECKING:
    from collections.abc import Sequence

    from typing_extensions import Buffer

    from corepy.array_api._array import Array
    from corepy.array_api._interchange import HasArray, HasDLPack


@operation()
def asarray(
    obj: Array | HasArray | HasDLPack | Buffer | Scalar | Sequence[Any],
    /,
    *,
    dtype: DType | None = None,
    device: Device | str | None = None,
    copy: bool | None = None,
) -> Array:
    """Convert an object to an array.

    Parameters
    ----------
    obj : Array, native array, scalar, nested sequence of scalars, or buffer
        What to convert; or an object that NumPy converts by ``__array__``, such as a column of
        pandas or Polars, which the standard does not promise.
    dtype : DType or None
        By default the dtype of an array or buffer, and of Python scalars the default dtype of the
        highest kind among them. Arrays in a sequence count with theirs, as NumPy promotes them.
    device : Device or None
        By default that of an array, and of scalars, sequences, buffers and arrays of NumPy, which
        know none, the default device.
    copy : bool or None
        True: always new memory. False: never, ``ValueError`` if it is needed. None: only if
        needed.

    Returns
    -------
    Array
        An `Array` stays in its backend; memory is shared where it can be.

    Raises
    ------
    TypeError
        If `obj` holds anything that is no number, or a real dtype was asked of complex values, or
        in strict mode any of a lower kind than the values have.
    ValueError
        If the nesting is ragged, or ``copy=False`` cannot be had.
    OverflowError
        If a value of a scalar, sequence or buffer does not fit the dtype, the default one too.
        Those of arrays are converted as `astype` does.
    BackendUnavailableError
        If the device is not present.
    UnsupportedOperationError
        If no backend has the dtype on that device.

    Notes
    -----
    Arrays of libraries that know devices stay where they are: use ``device=`` to move them. Where
    a priority is set, native arrays go to the backend that it prefers on their device, sharing
    their memory if the two libraries can.
    """
    copying = copy_argument("asarray", copy)
    wanted = None if dtype is None else dtype_argument("asarray", dtype)
    if not isinstance(obj, Operand) and not is_scalar(obj):
        backend = None if isinstance(obj, (list, tuple)) else owner_of(obj)
        if backend is not None:
            adopted: Array = adopt("asarray", "obj", obj, backend, copying)
            if device is None and not backend.placed:
                place = default_placement().device
                device = None if place is adopted.device else place
            stays = device is None or device_argument("asarray", device) is adopted.device
            if stays and get_backend_priority():
                found = preferred("asarray", adopted, wanted, copying)
                if device is None and found._native is adopted._native:
                    noted(obj, backend, found._table, stays=True)
                return found
            if device is None:
                noted(obj, backend, adopted._table, stays=True)
            obj = adopted
    if isinstance(obj, Operand):
        return from_array(obj, wanted, device, copying)
    values, own, shared = parse(obj, wanted, copying)
    if copying is False and not shared:
        raise ValueError(
            f"asarray: obj is a {type(obj).__name__}; expected memory that can be shared for "
            f"copy=False"
        )
    if wanted is None and not shared:
        table = default_table("asarray", device, own)
        if table.dtype is not own:  # of a device without it
            check_held(values, own, table.dtype)
            values = values.astype(table.dtype.name)
    else:
        table = creation_table("asarray", device, own)
    fresh = None if not shared else copying
    try:
        native = from_host(values, table.backend, table.device, copy=fresh)
    except ValueError as error:
        if copying is not False:
            raise
        let_through(error)
        raise ValueError(f"asarray: obj cannot be shared for copy=False: {error}") from error
    if table.device is not CPU:
        account.moved(table.backend, table.device, values.nbytes, "asarray from the host")
    return cast("Array", make(native, table))


@operation()
@new_array_doc("Of that shape, with arbitrary values.")
def empty(
    shape: int | tuple[int, ...], *, dtype: DType | None = None, device: Device | str | None = None
) -> Array:
    """Array with memory that is not set."""
    sizes = shape_of("empty", shape)
    return cast("Array", create("empty", new_table("empty", dtype, device, _dtypes.float64), sizes))


@partial(shortened, "empty_like")
@likeness_doc("Of the shape of `x`, with arbitrary values.")
def empty_like(
    x: Array, /, *, dtype: DType | None = None, device: Device | str | None = None
) -> Array:
    """Array of the shape of another, with memory that is not set."""
    x = as_operand("empty_like", "x", x)
    return cast(
        "Array", create("empty", table_like("empty_like", x, dtype, device), known_sizes(x))
    )


@operation()
def eye(
    n_rows: int,
    n_cols: int | None = None,
    /,
    *,
    k: int = 0,
    dtype: DType | None = None,
    device: Device | str | None = None,
) -> Array:
    """Matrix with ones on a diagonal and zeros elsewhere.

    Parameters
    ----------
    n_rows : int
    n_cols : int or None
        By default `n_rows`.
    k : int
        The diagonal: 0 the main one, positive above it, negative below.
    dtype : DType or None
        By default float64.
    device : Device or None
        None for the default device.

    Returns
    -------
    Array
        Of shape ``(n_rows, n_cols)``.

    Raises
    ------
    TypeError
        If an argument is of another type.
    ValueError
        If a size is negative, or a name is of no dtype or device.
    MemoryError
        If memory does not hold the result.
    BackendUnavailableError
        If the device is not present.
    UnsupportedOperationError
        If no backend has the dtype on that device.
    """
    rows = size_of("eye", "n_rows", n_rows)
    columns = rows if n_cols is None else size_of("eye", "n_cols", n_cols)
    addressable("eye", rows, columns)
    offset = max(-rows - 1, min(columns + 1, index_value("eye", "k", k)))
    table = new_table("eye", dtype, device, _dtypes.float64)
    return cast("Array", create("eye", table, rows, columns, k=offset))


def from_dlpack(
    x: object, /, *, device: Device | str | None = None, copy: bool | None = None
) -> Array:
    """Array with the data of another library's array, exchanged by DLPack.

    Parameters
    ----------
    x : object
        With ``__dlpack__`` and ``__dlpack_device__``.
    device : Device or None
        By default the device of `x`.
    copy : bool or None
        True: always new memory. False: never. None: only if needed.

    Returns
    -------
    Array
        Sharing the memory of `x` where it can.

    Raises
    ------
    TypeError
        If `x` does not speak DLPack, or another argument is of another type.
    ValueError
        If `device` is the name of none.
    BackendUnavailableError
        If the device is not present.
    UnsupportedOperationError
        If no backend has the dtype on that device.
    BufferError
        If its memory cannot be exported, or not without a copy where ``copy=False``, which is a
        ValueError too.
    """
    copying = copy_argument("from_dlpack", copy)
    if isinstance(x, Operand):
        source = cast("Array", x)
    elif not hasattr(x, "__dlpack__") or not hasattr(x, "__dlpack_device__"):
        raise bad_type("from_dlpack", "x", x, "an object with __dlpack__ and __dlpack_device__")
    else:
        source = import_dlpack(x, copying)
        copying = None if copying else copying
    place = source.device if device is None else device_argument("from_dlpack", device)
    if copying is False and place is not source.device:
        raise NotSharedError(
            f"from_dlpack: x is on {source.device}; expected {place} for copy=False"
        )
    return from_array(source, None, place, copying, "from_dlpack")


@operation()
def full(
    shape: int | tuple[int, ...],
    fill_value: Scalar,
    *,
    dtype: DType | None = None,
    device: Device | str | None = None,
) -> Array:
    """Array filled with one value.

    Parameters
    ----------
    shape : int or tuple of int
    fill_value : bool, int, float or complex
    dtype : DType or None
        By default the default dtype of the value's kind.
    device : Device or None
        None for the default device.

    Returns
    -------
    Array
        Of that shape.

    Raises
    ------
    TypeError
        If an argument is of another type, or `fill_value` complex where a real dtype was asked.
    ValueError
        If a size is negative, `fill_value` is no whole number for an integer dtype, or a name is of
        no dtype or device.
    OverflowError
        If `fill_value` does not fit the dtype.
    MemoryError
        If memory does not hold the result.
    BackendUnavailableError
        If the device is not present.
    UnsupportedOperationError
        If no backend has the dtype on that device.
    """
    sizes = shape_of("full", shape)
    value = _scalar("full", fill_value)
    table = new_table("full", dtype, device, _dtypes.as_dtype(type(value)))
    return cast("Array", create("full", table, sizes, _filling("full", value, table.dtype)))


@partial(shortened, "full_like")
def full_like(
    x: Array,
    /,
    fill_value: Scalar,
    *,
    dtype: DType | None = None,
    device: Device | str | None = None,
) -> Array:
    """Array of the shape of another, filled with one value.

    Parameters
    ----------
    x : Array
    fill_value : bool, int, float or complex
    dtype : DType or None
        By default that of `x`.
    device : Device or None
        By default that of `x`.

    Returns
    -------
    Array
        Of the shape of `x`.

    Raises
    ------
    TypeError
        If an argument is of another type, or `fill_value` complex where the dtype is real.
    ValueError
        If `fill_value` is no whole number for an integer dtype, or a name is of no dtype or device.
    OverflowError
        If `fill_value` does not fit the dtype.
    BackendUnavailableError
        If the device is not present.
    UnsupportedOperationError
        If no backend has the dtype on that device.
    """
    x = as_operand("full_like", "x", x)
    table = table_like("full_like", x, dtype, device)
    value = _filling("full_like", _scalar("full_like", fill_value), table.dtype)
    return cast("Array", create("full", table, known_sizes(x), value))


def _scalar(function: str, value: Any) -> Scalar:
    """Return a fill value as a Python scalar; 0-D arrays are taken too."""
    value = plain(value)
    if is_scalar(value):
        return cast("Scalar", value)
    if isinstance(value, Operand) or owner_of(value) is not None:
        array = as_operand(function, "fill_value", value)
        if array.shape == ():
            return cast("Scalar", array.item())
    raise bad_type(function, "fill_value", value, "a bool, int, float or complex")


def _filling(function: str, value: Scalar, dtype: DType) -> Scalar:
    if isinstance(value, complex) and dtype.rank < 3:
        raise bad_type(function, "fill_value", value, f"a real value for {dtype}")
    if isinstance(value, float) and dtype.rank == 1:
        if not value.is_integer():
            raise bad_argument(function, "fill_value", value, f"a whole number for {dtype}")
        value = int(value)
    return fitting(function, "fill_value", value, dtype)


@operation(result=same)
def meshgrid(*arrays: Array, indexing: str = "xy") -> tuple[Array, ...]:
    """Coordinate matrices of coordinate vectors.

    Parameters
    ----------
    *arrays : Array
        1-D arrays of one numeric dtype.
    indexing : {"xy", "ij"}
        Cartesian (the first two dimensions swapped) or matrix indexing.

    Returns
    -------
    tuple of Array
        One for each input, of as many dimensions as there are inputs.

    Raises
    ------
    TypeError
        If an argument is of another type, or the arrays have different dtypes.
    ValueError
        If an array is not 1-D, or `indexing` is another word.
    MemoryError
        If memory does not hold the result.
    DeviceMismatchError
        If the operands live on different devices.
    """
    order = choice_of("meshgrid", "indexing", indexing, ("xy", "ij"))
    vectors = [as_operand("meshgrid", f"arrays[{i}]", x) for i, x in enumerate(arrays)]
    for i, x in enumerate(vectors):
        if x.ndim != 1:
            raise bad_argument("meshgrid", f"arrays[{i}].shape", x.shape, "one dimension")
        if x.dtype is not vectors[0].dtype:
            raise TypeError(
                f"meshgrid: arrays[{i}] has dtype {x.dtype} on {x.device}; expected "
                f"{vectors[0].dtype}, the dtype of the others"
            )
        one_device("meshgrid", "arrays[0]", vectors[0], f"arrays[{i}]", x)
    if not vectors:
        return ()
    addressable("meshgrid", *(x.size for x in vectors))
    return cast("tuple[Array, ...]", run("meshgrid", *vectors, indexing=order))


@operation()
@new_array_doc("Of that shape.")
def ones(
    shape: int | tuple[int, ...], *, dtype: DType | None = None, device: Device | str | None = None
) -> Array:
    """Array of ones."""
    sizes = shape_of("ones", shape)
    return cast("Array", create("ones", new_table("ones", dtype, device, _dtypes.float64), sizes))


@partial(shortened, "ones_like")
@likeness_doc("Of the shape of `x`.")
def ones_like(
    x: Array, /, *, dtype: DType | None = None, device: Device | str | None = None
) -> Array:
    """Array of ones, of the shape of another."""
    x = as_operand("ones_like", "x", x)
    return cast("Array", create("ones", table_like("ones_like", x, dtype, device), known_sizes(x)))


def _triangle(function: str, x: Any, k: Any) -> Array:
    x = matrices_of(function, x)
    offset = index_value(function, "k", k)
    if offset:
        # Diagonals beyond the corners are all alike; keeping them near spares libraries overflow.
        rows, columns = known_sizes(x, (-2, -1))
        offset = max(-rows - 1, min(columns + 1, offset))
    return cast("Array", run(function, x, k=offset))


@operation(result=same)
def tril(x: Array, /, *, k: int = 0) -> Array:
    """Lower triangle of each matrix in a stack.

    Parameters
    ----------
    x : Array
        Of shape ``(..., M, N)``.
    k : int
        The last diagonal that is kept: 0 the main one, positive above it, negative below.

    Returns
    -------
    Array
        Like `x`, with zeros above that diagonal.

    Raises
    ------
    TypeError
        If an argument is of another type.
    ValueError
        If `x` has fewer than two dimensions.
    """
    return _triangle("tril", x, k)


@operation(result=same)
def triu(x: Array, /, *, k: int = 0) -> Array:
    """Upper triangle of each matrix in a stack.

    Parameters
    ----------
    x : Array
        Of shape ``(..., M, N)``.
    k : int
        The first diagonal that is kept: 0 the main one, positive above it, negative below.

    Returns
    -------
    Array
        Like `x`, with zeros below that diagonal.

    Raises
    ------
    TypeError
        If an argument is of another type.
    ValueError
        If `x` has fewer than two dimensions.
    """
    return _triangle("triu", x, k)


@operation()
@new_array_doc("Of that shape.")
def zeros(
    shape: int | tuple[int, ...], *, dtype: DType | None = None, device: Device | str | None = None
) -> Array:
    """Array of zeros."""
    sizes = shape_of("zeros", shape)
    return cast("Array", create("zeros", new_table("zeros", dtype, device, _dtypes.float64), sizes))


@partial(shortened, "zeros_like")
@likeness_doc("Of the shape of `x`.")
def zeros_like(
    x: Array, /, *, dtype: DType | None = None, device: Device | str | None = None
) -> Array:
    """Array of zeros, of the shape of another."""
    x = as_operand("zeros_like", "x", x)
    return cast(
        "Array", create("zeros", table_like("zeros_like", x, dtype, device), known_sizes(x))
    )
