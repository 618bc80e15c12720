"""Docstrings of what is public: they have every section, and list what is raised."""

from __future__ import annotations

import inspect
import json
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from pathlib import Path
from types import ModuleType
from typing import Any, Final

import pytest

import corepy
import corepy.array_api as xp
from conformance.make_signatures import TABLE
from corepy import devices, kernels, testing
from corepy.array_api._docs import cite
from corepy.dispatch import _select
from tests.together import together

STANDARD: Final = (xp, xp.linalg, xp.fft)
MODULES: Final = (corepy, *STANDARD, devices, kernels, testing)


def public(kind: Callable[[Any], bool], modules: tuple[ModuleType, ...]) -> dict[str, Any]:
    """Return what modules announce, by its full name."""
    return {
        f"{module.__name__}.{name}": value
        for module in modules
        for name in module.__all__
        if kind(value := getattr(module, name))
    }


def _is_function(value: Any) -> bool:
    return callable(value) and not inspect.isclass(value)


def methods() -> dict[str, tuple[type, Any]]:
    """Return the public methods of public classes, with the class."""
    found = {}
    for name, cls in public(inspect.isclass, MODULES).items():
        for attribute, value in vars(cls).items():
            if inspect.isfunction(value) and not attribute.startswith("_"):
                found[f"{name}.{attribute}"] = (cls, value)
    return found


FUNCTIONS: Final = public(_is_function, MODULES)
METHODS: Final = methods()


# ---------------------------------------------------------------------------- sections


def sections(text: str | None) -> dict[str, str]:
    """Return the sections of a numpydoc docstring by their headings."""
    parts = re.split(r"^([A-Z][\w ]+)\n-{3,}\n", inspect.cleandoc(text or ""), flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def missing(function: Any) -> set[str]:
    """Return the sections that a function's docstring has to have and has not."""
    signature = inspect.signature(function)
    have = {*sections(function.__doc__)}
    needed = {"Parameters", "Raises"} if signature.parameters else set()
    if signature.return_annotation not in (None, "None") and "Yields" not in have:
        needed.add("Returns")
    return needed - have


@together("name", FUNCTIONS)
def test_a_function_has_every_section(name: str) -> None:
    assert missing(FUNCTIONS[name]) == set()


@pytest.mark.parametrize("name", METHODS)
def test_a_method_describes_its_arguments_and_result(name: str) -> None:
    # What the methods of a class have in common, its docstring says, or that of a base.
    cls, method = METHODS[name]
    text = "\n".join([method.__doc__, *(base.__doc__ or "" for base in cls.__mro__[:-1])])
    described = re.findall(r"^ *((?:\**\w+, )*\**\w+)(?: :|$| array)|`(\w+)`", text, re.MULTILINE)
    words = {word.strip(" *") for row in described for part in row for word in part.split(",")}
    assert {*inspect.signature(method).parameters} - {"self"} <= words
    if not issubclass(cls, corepy.Backend):  # of whose methods the first line says what they give
        assert "Returns" not in missing(method)
        assert "raise " not in inspect.getsource(method) or documented(method)


def test_what_is_missing_is_found() -> None:
    def bare(x: int) -> int:
        """Do it."""

    def whole(x: int) -> None:
        """Do it.

        Parameters
        ----------
        x : int

        Raises
        ------
        TypeError, ValueError
            If it is another one.
        """

    assert missing(bare) == {"Parameters", "Raises", "Returns"}
    assert missing(whole) == set()
    assert documented(whole) == {"TypeError", "ValueError"}
    assert len(FUNCTIONS) > 200
    assert len(METHODS) > 50


# ---------------------------------------------------------------------------- sources

TABLE_OF_NAMES: Final = json.loads(Path(TABLE).read_text(encoding="utf-8"))
#: Attributes that arrays have of a compiled class, whose docstrings nobody changes.
OF_OPERANDS: Final = {"dtype", "ndim", "shape", "size"}


def address(part: str, name: str) -> str:
    """Return where the standard describes a function, or a method or attribute."""
    folder = "extensions" if part in TABLE_OF_NAMES["extensions"] else "API_specification"
    where = f"https://data-apis.org/array-api/{TABLE_OF_NAMES['version']}/{folder}"
    return f"{where}/generated/array_api.{f'{part}.' if part else ''}{name}.html"


def described() -> dict[str, Any]:
    """Return what has a page of the standard, by the address of that."""
    array, info = TABLE_OF_NAMES["array"], type(xp.__array_namespace_info__())
    homes: dict[str, tuple[Any, set[str]]] = {
        "": (xp, {*xp.__all__} - {"__array_namespace_info__"}),
        "fft": (xp.fft, {*xp.fft.__all__}),
        "linalg": (xp.linalg, {*xp.linalg.__all__} - {*xp.__all__}),  # `matmul` is one function
        "array": (corepy.Array, {*array["attributes"], *array["methods"]} - OF_OPERANDS),
    }
    found = {
        address(part, name): value
        for part, (home, names) in homes.items()
        for name in sorted(names)
        if _is_function(value := getattr(home, name)) or isinstance(value, property)
    }
    found |= {address("info", name): getattr(info, name) for name in TABLE_OF_NAMES["info"]}
    return found | {address("info", "__array_namespace_info__"): xp.__array_namespace_info__}


DESCRIBED: Final = described()


@together("page", DESCRIBED)
def test_what_the_standard_describes_names_its_page(page: str) -> None:
    assert sections(DESCRIBED[page].__doc__)["References"].strip() == page


def test_every_function_of_the_standard_is_described() -> None:
    assert {id(value) for value in public(_is_function, STANDARD).values()} <= {
        id(value) for value in DESCRIBED.values()
    }
    assert len(DESCRIBED) > 200
    page = "https://data-apis.org/array-api/2025.12/API_specification/array_object.html"
    assert sections(corepy.Array.__doc__)["References"].strip() == page


@pytest.mark.parametrize("margin", ["", "    "])
@pytest.mark.parametrize("lines", [("Do.",), ("Do.", "", "Notes", "-----", "It is done.", "")])
def test_pages_stand_in_line_with_other_sections(margin: str, lines: tuple[str, ...]) -> None:
    def function() -> None: ...

    function.__doc__ = f"\n{margin}".join(lines)
    before = sections(function.__doc__)
    for _ in range(2):  # of which the second finds it there
        cite("fft", {"fft": function})
    after = sections(function.__doc__)
    assert after.pop("References").strip() == address("fft", "fft")
    assert {name: text.strip() for name, text in after.items()} == {
        name: text.strip() for name, text in before.items()
    }


def test_without_docstrings_nothing_is_missed() -> None:
    code = "import corepy.array_api as xp; help(xp.fft.fft); help(xp.ones); print(xp.take.__doc__)"
    command = [sys.executable, "-OO", "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120)
    shown = done.stdout.replace(" ", "").replace("\n", "")  # from 3.13 on in several lines
    assert "fft(x:'Array',/,*,n:'int|None'=None" in shown
    assert done.stdout.endswith("None\n")


@pytest.mark.parametrize("name", kernels.__all__)
def test_a_kernel_has_its_sources(name: str) -> None:
    assert "https://" in sections(getattr(kernels, name).__doc__)["References"]


# ---------------------------------------------------------------------------- what is raised

EYE: Final = xp.eye(3)
#: Values that an argument of a name may have in every function but those of `OWN`.
VALUES: Final[dict[str, Any]] = {
    **dict.fromkeys(("x", "x1", "x2", "obj", "prepend", "append", "arrays_and_dtypes"), EYE),
    **dict.fromkeys(("start", "axis", "k", "offset", "source", "destination", "correction"), 0),
    **dict.fromkeys(("step", "fill_value", "axes", "repeats", "shift", "d"), 1),
    **dict.fromkeys(("num", "n", "n_rows", "n_cols", "stop", "shapes"), 3),
    **dict.fromkeys(("shape", "shapes", "s"), (3, 3)),
    **dict.fromkeys(("from_", "to", "type", "dtype"), xp.float64),
    **dict.fromkeys(("device", "copy", "sorter", "rtol"), None),
    "arrays": [EYE, EYE],
    "condition": xp.ones((3, 3), dtype=xp.bool),
    "indices": xp.zeros((3, 3), dtype=xp.int64),
    "kind": "bool",
    "repetitions": (1, 1),
}
_VECTOR: Final = xp.ones(3)
_BITS: Final = dict.fromkeys(("x", "x1", "x2"), xp.ones(3, dtype=xp.int64))
_TRUTHS: Final = dict.fromkeys(("x", "x1", "x2"), xp.ones(3, dtype=xp.bool))
OWN: Final[dict[str, dict[str, Any]]] = {
    **{name: _BITS for name in xp.__all__ if name.startswith("bitwise")},
    **{name: _TRUTHS for name in xp.__all__ if name.startswith("logical")},
    **{name: {"axes": (0, 1)} for name in ("permute_dims", "fftn", "ifftn", "rfftn", "irfftn")},
    **{name: {"axes": 0} for name in ("fftshift", "ifftshift")},
    **{name: {"x": _VECTOR} for name in ("cumulative_sum", "cumulative_prod")},
    "broadcast_arrays": {"arrays": EYE},
    "iinfo": {"type": xp.int8},
    "imag": {"x": xp.ones(3, dtype=xp.complex128)},
    "meshgrid": {"arrays": _VECTOR},
    "outer": {"x1": _VECTOR, "x2": _VECTOR},
    "searchsorted": {"x1": _VECTOR},
    "squeeze": {"x": xp.ones((1, 3))},
    "take": {"x": _VECTOR, "indices": xp.zeros(2, dtype=xp.int64)},
}


def mistaken() -> Iterator[Any]:
    """Yield values that many arguments cannot have."""
    yield from (object(), "odd", "tpu:9", 1.5, 1j, -1000, 10**30, True)
    yield from ((0, 0), (7, -7), (object(), 0), (2**40, 2**40), [object()])
    yield from (xp.int8, xp.complex64)
    yield from (xp.asarray(1.0), xp.ones(5), xp.ones((2, 5)), xp.zeros((0, 3)), xp.zeros(0))
    for dtype in (xp.bool, xp.int64, xp.uint64, xp.float64, xp.complex128):
        yield xp.ones((3, 3), dtype=dtype)
    yield from (
        xp.ones(5, dtype=xp.bool),
        xp.ones(5, dtype=xp.int64),
        [xp.ones(2), xp.ones((2, 5))],
    )
    yield xp.full((3, 3), xp.nan)
    yield xp.ones((3, 3), device="fake:device1")


#: The errors that these values find wherever they can occur, but for some that need two arguments.
FOUND: Final = {"TypeError", "ValueError", "IndexError", "BackendUnavailableError"}
UNFOUND: Final = {"from_dlpack": {"ValueError"}, "searchsorted": {"IndexError"}}


def documented(function: Any) -> set[str]:
    """Return the exceptions that a docstring lists."""
    text = sections(function.__doc__).get("Raises", "")
    return {word.strip() for row in re.findall(r"^\S.*", text, re.M) for word in row.split(",")}


def call(function: Any, argument: str, value: Any) -> Any:
    """Call a function with valid arguments where it needs them, and one that is given."""
    positional: list[Any] = []
    named = {}
    for name, parameter in inspect.signature(function).parameters.items():
        if name != argument and parameter.default is not parameter.empty:
            given = parameter.default
        else:
            given = OWN.get(function.__name__, {}).get(name, VALUES.get(name))
        if parameter.kind is parameter.VAR_POSITIONAL:
            positional += [given, value]
        elif parameter.kind is parameter.KEYWORD_ONLY:
            named[name] = value if name == argument else given
        else:
            positional.append(value if name == argument else given)
    return function(*positional, **named)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("strict", [False, True])
@pytest.mark.parametrize("name", public(_is_function, STANDARD))
def test_what_a_function_raises_is_what_is_documented(name: str, strict: bool) -> None:
    function = FUNCTIONS[name]
    plain, raises = name.rpartition(".")[2], documented(function)
    found = []
    with corepy.backend_priority(["numpy"]), testing.fake_devices():
        values = list(mistaken())
        with corepy.strict() if strict else nullcontext():
            for argument in inspect.signature(function).parameters:
                with pytest.raises(TypeError):  # which every argument is looked at for
                    call(function, argument, values[0])
                for value in values:
                    try:
                        call(function, argument, value)
                    except Exception as error:
                        found.append(error)
    kinds = {type(error).__name__ for error in found}
    assert kinds <= raises
    assert strict or (raises & FOUND) - kinds == UNFOUND.get(plain, set())
    said = [str(error) for error in found]
    assert [text for text in said if not re.match(rf"{plain}: .*expected", text)] == []


@together("name", FUNCTIONS)
def test_what_is_no_argument_is_refused_by_name(name: str) -> None:
    function = FUNCTIONS[name]
    needed = [
        parameter
        for parameter in inspect.signature(function).parameters.values()
        if parameter.default is parameter.empty
        and parameter.kind not in (parameter.VAR_KEYWORD, parameter.VAR_POSITIONAL)
    ]
    if not needed:
        return
    args = [object() for p in needed if p.kind is not p.KEYWORD_ONLY]
    named = {p.name: object() for p in needed if p.kind is p.KEYWORD_ONLY}
    with pytest.raises(TypeError, match=rf"^{function.__name__}: \w+.*; expected ") as caught:
        function(*args, **named)
    assert any(re.search(rf"\b{p.name}\b", str(caught.value)) for p in needed)
    assert "TypeError" in documented(function)


@pytest.mark.parametrize(
    ("call", "first", "second"),
    [
        (lambda x, y: xp.concat([x, x, y]), r"arrays\[0\]", r"arrays\[2\]"),
        (lambda x, y: xp.stack([x, y]), r"arrays\[0\]", r"arrays\[1\]"),
        (xp.meshgrid, r"arrays\[0\]", r"arrays\[1\]"),
        (lambda x, y: xp.diff(x, append=y), "x", "append"),
        (xp.repeat, "x", "repeats"),
        (xp.take, "x", "indices"),
        (xp.take_along_axis, "x", "indices"),
        (lambda x, y: xp.linalg.pinv(xp.ones((2, 2)), rtol=y), "x", "rtol"),
    ],
)
def test_operands_on_two_devices_are_named(call: Any, first: str, second: str) -> None:
    message = rf"^\w+: {first} is on cpu and {second} on fake:device1; expected one device"
    with corepy.backend_priority(["numpy"]), testing.fake_devices():
        x, y = (xp.asarray([1], device=name) for name in ("cpu", "fake:device1"))
        with pytest.raises(corepy.DeviceMismatchError, match=message):
            call(x, y)


@pytest.mark.parametrize("function", [lambda x, **k: xp.astype(x, xp.int8, **k), xp.from_dlpack])
def test_a_device_that_is_not_there_is_refused_by_the_function(function: Any) -> None:
    message = "^(astype|from_dlpack): device is 'tpu:9'; expected one that is present: "
    with pytest.raises(corepy.BackendUnavailableError, match=message):
        function(xp.ones(2), device="tpu:9")


@pytest.mark.parametrize(
    "name",
    [
        "best_available_backend",
        "get_backend_priority",
        "list_devices",
        "select_backend",
        "synchronize",
    ],
)
def test_who_reads_the_priority_of_the_environment_says_so(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COREPY_BACKEND_PRIORITY", "numpy:")
    _select._from_environment.cache_clear()
    try:
        with pytest.raises(ValueError, match="^COREPY_BACKEND_PRIORITY: priority is 'numpy:'"):
            getattr(corepy, name)()
    finally:
        monkeypatch.undo()
        _select._from_environment.cache_clear()
    assert "ValueError" in documented(getattr(corepy, name))
    assert "COREPY_BACKEND_PRIORITY" in sections(getattr(corepy, name).__doc__)["Raises"]
