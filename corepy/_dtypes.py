"""The dtypes of the standard: one interned object each, compared by identity.

This is vocabulary that every layer shares; `corepy.array_api` publishes it under the standard's
names. Promotion follows the standard's table [1]_, and `MIXED_PROMOTION` says what corepy does
where the table is silent.

.. [1] https://data-apis.org/array-api/2025.12/API_specification/type_promotion.html
"""

from __future__ import annotations

import builtins
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

from corepy._errors import bad_argument, bad_type

if TYPE_CHECKING:
    import numpy as np

Kind: TypeAlias = Literal["b", "i", "u", "f", "c"]
Scalar: TypeAlias = "bool | int | float | complex"

#: bool < integer < floating < complex, the order in which a mixed operation takes sides.
_RANK: Final = {"b": 0, "i": 1, "u": 1, "f": 2, "c": 3}


class DType:
    """A dtype of the standard.

    There is exactly one object per dtype, so ``x.dtype is xp.float32`` and
    ``x.dtype == xp.float32`` say the same. Equal are NumPy's dtypes of that name too, and their
    types: ``x.dtype == np.float32``.

    Attributes
    ----------
    name : str
        The standard's name, such as ``"float32"``.
    kind : str
        ``"b"`` bool, ``"i"`` signed, ``"u"`` unsigned, ``"f"`` real floating, ``"c"`` complex.
    bits : int
        Bits of one element (8 for bool).
    itemsize : int
        Bytes of one element.
    """

    __slots__ = ("bits", "itemsize", "kind", "name", "rank")

    name: str
    kind: Kind
    bits: int
    itemsize: int
    rank: int

    def __init__(self, name: str, kind: Kind, bits: int) -> None:
        if name in DTYPES:
            raise ValueError(f"DType: name is {name!r}; expected a new one, dtypes are interned")
        self.name = name
        self.kind = kind
        self.bits = bits
        self.itemsize = bits // 8
        self.rank = _RANK[kind]
        DTYPES[name] = self

    def __eq__(self, other: object) -> builtins.bool:
        if isinstance(other, DType):
            return self is other
        # Of its dtypes NumPy says so itself, by `__numpy_dtype__`, but its types know no others.
        # Code that takes corepy's arrays for NumPy's asks `x.dtype in (np.float32, np.float64)`, as
        # scikit-learn does, and converts to the first of them where the answer is no.
        if isinstance(other, type) and other.__module__ == "numpy":
            return other.__name__ == self.name
        return NotImplemented

    __hash__ = object.__hash__

    def __repr__(self) -> str:
        return f"corepy.{self.name}"

    def __str__(self) -> str:
        return self.name

    def __reduce__(self) -> tuple[object, tuple[str]]:
        return as_dtype, (self.name,)

    @property
    def __numpy_dtype__(self) -> np.dtype[Any]:
        """NumPy's dtype of the name, for which NumPy 2.4 and newer ask what is no dtype of theirs.

        Code that takes corepy's arrays for NumPy's passes their dtype on, as scikit-learn does.
        """
        import numpy as np

        return np.dtype(self.name)


#: Every dtype by its name, in the standard's order.
DTYPES: Final[dict[str, DType]] = {}

bool: Final = DType("bool", "b", 8)
int8: Final = DType("int8", "i", 8)
int16: Final = DType("int16", "i", 16)
int32: Final = DType("int32", "i", 32)
int64: Final = DType("int64", "i", 64)
uint8: Final = DType("uint8", "u", 8)
uint16: Final = DType("uint16", "u", 16)
uint32: Final = DType("uint32", "u", 32)
uint64: Final = DType("uint64", "u", 64)
float32: Final = DType("float32", "f", 32)
float64: Final = DType("float64", "f", 64)
complex64: Final = DType("complex64", "c", 64)
complex128: Final = DType("complex128", "c", 128)

BOOLEAN: Final = frozenset({bool})
SIGNED: Final = frozenset({int8, int16, int32, int64})
UNSIGNED: Final = frozenset({uint8, uint16, uint32, uint64})
INTEGER: Final = SIGNED | UNSIGNED
REAL_FLOATING: Final = frozenset({float32, float64})
COMPLEX: Final = frozenset({complex64, complex128})
FLOATING: Final = REAL_FLOATING | COMPLEX
REAL: Final = INTEGER | REAL_FLOATING
NUMERIC: Final = REAL | COMPLEX
INTEGER_OR_BOOLEAN: Final = INTEGER | BOOLEAN
ANY: Final = NUMERIC | BOOLEAN

#: What the standard's `isdtype` calls some of these sets.
KINDS: Final[dict[str, frozenset[DType]]] = {
    "bool": BOOLEAN,
    "signed integer": SIGNED,
    "unsigned integer": UNSIGNED,
    "integral": INTEGER,
    "real floating": REAL_FLOATING,
    "complex floating": COMPLEX,
    "numeric": NUMERIC,
}

#: How messages speak of a set of dtypes.
_SET_NAMES: Final[dict[frozenset[DType], str]] = {
    BOOLEAN: "the bool dtype",
    SIGNED: "a signed integer dtype",
    UNSIGNED: "an unsigned integer dtype",
    INTEGER: "an integer dtype",
    REAL_FLOATING: "a real floating-point dtype",
    COMPLEX: "a complex dtype",
    FLOATING: "a floating-point dtype",
    REAL: "a real-valued dtype",
    NUMERIC: "a numeric dtype",
    INTEGER_OR_BOOLEAN: "an integer or bool dtype",
    ANY: "a dtype of the standard",
}

# Short forms: NumPy's count bytes ("f4", "i8"), the others bits ("f32", "i64"). The two meet
# only in "i8" and "u8", where NumPy's reading (64 bits) holds.
_ALIASES: Final[dict[str, DType]] = {"b1": bool, "?": bool}
for _dtype in DTYPES.values():
    if _dtype.kind != "b":
        _ALIASES.setdefault(f"{_dtype.kind}{_dtype.itemsize}", _dtype)
for _dtype in DTYPES.values():
    if _dtype.kind != "b":
        _ALIASES.setdefault(f"{_dtype.kind}{_dtype.bits}", _dtype)

_PYTHON: Final[dict[object, DType]] = {
    builtins.bool: bool,
    int: int64,
    float: float64,
    complex: complex128,
}
_INTEGERS: Final = {("i", d.bits): d for d in SIGNED} | {("u", d.bits): d for d in UNSIGNED}


def describe(dtypes: frozenset[DType]) -> str:
    """Name a set of dtypes for a message."""
    if dtypes in _SET_NAMES:
        return _SET_NAMES[dtypes]
    return "one of " + ", ".join(name for name, d in DTYPES.items() if d in dtypes)


def as_dtype(obj: object, function: str = "as_dtype", argument: str = "dtype") -> DType:
    """Find the dtype that an object means.

    Parameters
    ----------
    obj : DType, str, type or native dtype
        A `DType`; a name (``"float32"``), NumPy's short form in bytes (``"f4"``) or the one in
        bits (``"f32"``); a Python scalar type; or a library's dtype object whose name is one of
        the standard's (``numpy.float32``, ``numpy.dtype("f4")``, ``torch.float32``).
    function, argument : str
        What the message names when the object means no dtype.

    Raises
    ------
    TypeError
        If the object is no dtype, or a library's that the standard does not have.
    ValueError
        If it is a string that names none.
    """
    if isinstance(obj, DType):
        return obj
    if isinstance(obj, str):
        found = DTYPES.get(obj) or _ALIASES.get(obj)
        if found is None:
            expected = f"one of {', '.join(DTYPES)}"
            if obj in ("int", "float", "complex"):
                expected += f"; or {obj} itself, Python's type"
            raise bad_argument(function, argument, obj, expected)
        return found
    if isinstance(obj, type) and obj in _PYTHON:
        return _PYTHON[obj]
    # numpy.dtype has .name, numpy.float32 has .__name__, torch.float32 prints "torch.float32".
    for name in (getattr(obj, "name", None), getattr(obj, "__name__", None), str(obj)):
        if isinstance(name, str):
            name = name.rpartition(".")[2]
            found = DTYPES.get("bool" if name == "bool_" else name)
            if found is not None:
                return found
    cls = obj if isinstance(obj, type) else type(obj)
    if "dtype" in cls.__name__.lower() or (obj is cls and hasattr(cls, "dtype")):  # of a library
        name = str(getattr(obj, "name", None) or getattr(obj, "__name__", obj)).rpartition(".")[2]
        raise TypeError(
            f"{function}: {argument} is {cls.__module__.partition('.')[0]}'s {name}; "
            f"expected one of {', '.join(DTYPES)}"
        )
    raise bad_type(function, argument, obj, "a dtype")


def _promote(a: DType, b: DType) -> DType | None:
    """Look up the standard's table; None where it is silent."""
    if a is b:
        return a
    if "b" in (a.kind, b.kind):
        return None
    if a.rank == b.rank == 1:
        if a.kind == b.kind:
            return a if a.bits >= b.bits else b
        signed, unsigned = (a, b) if a.kind == "i" else (b, a)
        return _INTEGERS.get(("i", max(signed.bits, 2 * unsigned.bits)))
    if a.rank >= 2 and b.rank >= 2:
        wide = 64 in (_component_bits(a), _component_bits(b))
        if "c" in (a.kind, b.kind):
            return complex128 if wide else complex64
        return float64 if wide else float32
    return None


def _component_bits(dtype: DType) -> int:
    return dtype.bits // 2 if dtype.kind == "c" else dtype.bits


#: The standard's promotion table.
PROMOTION: Final[dict[tuple[DType, DType], DType]] = {
    (a, b): found
    for a in DTYPES.values()
    for b in DTYPES.values()
    if (found := _promote(a, b)) is not None
}

#: The same, and for mixed kinds the dtype of the operand of the higher kind, as torch and JAX have
#: it. ``uint64`` with a signed integer stays out: every answer loses values.
MIXED_PROMOTION: Final[dict[tuple[DType, DType], DType]] = PROMOTION | {
    (a, b): a if a.rank > b.rank else b
    for a in DTYPES.values()
    for b in DTYPES.values()
    if a.rank != b.rank and (a, b) not in PROMOTION
}


def real_of(dtype: DType) -> DType:
    """Return the dtype of the real and imaginary parts."""
    return {complex64: float32, complex128: float64}.get(dtype, dtype)


def complex_of(dtype: DType) -> DType:
    """Return the complex dtype of the same precision."""
    return {float32: complex64, float64: complex128}.get(dtype, dtype)


#: The dtypes that functions choose by default, and what replaces each on a device without it.
SINGLE: Final[dict[DType, DType]] = {
    float64: float32,
    complex128: complex64,
    int64: int32,
    uint64: uint32,
}


def integer_range(dtype: DType) -> tuple[int, int]:
    """Return the least and greatest value of an integer dtype."""
    if dtype.kind == "u":
        return 0, (1 << dtype.bits) - 1
    return -(1 << (dtype.bits - 1)), (1 << (dtype.bits - 1)) - 1
