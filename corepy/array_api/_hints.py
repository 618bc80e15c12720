"""What to write for attributes that arrays lack and other libraries' have.

Only messages of `AttributeError` have it. Those of the namespace are Python's: a module with a
``__getattr__`` takes 30 ns longer to call each of its functions, a fifth of an addition.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, NoReturn

#: The standard's name for a function of NumPy's.
_RENAMED: Final = {
    "absolute": "abs",
    "amax": "max",
    "amin": "min",
    "arccos": "acos",
    "arccosh": "acosh",
    "arcsin": "asin",
    "arcsinh": "asinh",
    "arctan": "atan",
    "arctan2": "atan2",
    "arctanh": "atanh",
    "array": "asarray",
    "bitwise_not": "bitwise_invert",
    "bool_": "bool",
    "concatenate": "concat",
    "conjugate": "conj",
    "cumprod": "cumulative_prod",
    "cumsum": "cumulative_sum",
    "in1d": "isin",
    "invert": "bitwise_invert",
    "left_shift": "bitwise_left_shift",
    "mod": "remainder",
    "power": "pow",
    "right_shift": "bitwise_right_shift",
    "true_divide": "divide",
    "unique": "unique_values",
}

#: What to write for attributes of other libraries' arrays.
_OF_ARRAYS: Final = {
    "clone": "xp.asarray(x, copy=True)",
    "copy": "xp.asarray(x, copy=True)",
    "cpu": 'x.to_device("cpu")',
    "cuda": 'x.to_device("cuda")',
    "dot": "x @ y",
    "flatten": "xp.reshape(x, (-1,))",
    "numpy": "np.asarray(x)",
    "ravel": "xp.reshape(x, (-1,))",
    "to": "x.to_device(...) or xp.astype(x, ...)",
    "transpose": "x.T, x.mT or xp.permute_dims(x, ...)",
}

#: Functions of the namespace whose first argument is no array.
_OF_NO_ARRAY: Final = frozenset(
    (
        *("arange", "asarray", "broadcast_shapes", "concat", "empty", "eye", "from_dlpack"),
        *("full", "isdtype", "linspace", "ones", "stack", "zeros", "__array_namespace_info__"),
    )
)


class Missing:
    """An attribute that arrays do not have; asked for, it says what to use.

    A ``__getattr__`` would make every attribute of an array slower to find, and NumPy's looking for
    its protocols twenty times as slow.
    """

    def __init__(self, name: str, instead: str) -> None:
        self._name, self._instead = name, instead

    def __get__(self, instance: object, owner: type) -> NoReturn:
        raise AttributeError(
            f"{owner.__name__!r} object has no attribute {self._name!r}: use {self._instead}"
        )


def explain_missing(array: type, namespace: Mapping[str, object], names: Iterable[str]) -> None:
    """Let arrays explain what others' have: methods of the namespace's functions, and some more."""
    functions = {
        name
        for name in names
        if name not in _OF_NO_ARRAY
        and callable(namespace[name])
        and not isinstance(namespace[name], type)
    }
    renamed = {numpys: own for numpys, own in _RENAMED.items() if own in functions}
    instead = {name: f"xp.{name}(x, ...)" for name in functions}
    instead |= {numpys: f"xp.{own}(x, ...)" for numpys, own in renamed.items()}
    for name, use in (instead | _OF_ARRAYS).items():
        if not hasattr(array, name):
            setattr(array, name, Missing(name, use))
