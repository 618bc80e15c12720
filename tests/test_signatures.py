"""The namespace is the standard's: every name, every signature, and nothing else."""

from __future__ import annotations

import inspect
import json
import re
from pathlib import Path

import pytest

import corepy.array_api as xp
from conformance.make_signatures import TABLE, signature
from tests.together import together

STANDARD = json.loads(Path(TABLE).read_text(encoding="utf-8"))
CHAPTERS = STANDARD["chapters"] | {"inspection": STANDARD["inspection"]}
#: Names of the main namespace that are neither functions nor extensions. The two dunder names
#: may be left out of `__all__`, as Python's own convention has it.
DUNDERS = {"__array_api_version__", "__array_namespace_info__"}


def functions() -> list[tuple[object, str, str]]:
    """Give every function as (where it lives, name, signature), in the order of the chapters."""
    return [
        *((xp, name, text) for chapter in CHAPTERS.values() for name, text in chapter.items()),
        *(
            (getattr(xp, extension), name, text)
            for extension, chapter in STANDARD["extensions"].items()
            for name, text in chapter.items()
        ),
        *((xp.__array_namespace_info__(), *item) for item in STANDARD["info"].items()),
    ]


@together(("home", "name", "expected"), functions())
def test_function_signature(home: object, name: str, expected: str) -> None:
    assert signature(getattr(home, name)) == expected


@together(("home", "name", "expected"), functions())
def test_function_docstring(home: object, name: str, expected: str) -> None:
    text = getattr(home, name).__doc__
    assert text, f"{name} has no docstring"
    first = text.strip().splitlines()[0]
    assert first.endswith("."), f"{name}: the summary is {first!r}"
    headings = re.findall(r"^ *(\w+)\n *-+$", text, flags=re.MULTILINE)
    assert "Returns" in headings
    parameters = re.findall(r"\w+", re.sub(r"=[^,)]*", "", expected))
    if parameters:
        assert "Parameters" in headings
        section = text.split("Parameters\n")[1].split("Returns\n")[0]
        documented = re.findall(r"^ *([\w*]+(?:, [\w*]+)*) :", section, flags=re.MULTILINE)
        names = [word.strip("* ") for row in documented for word in row.split(",")]
        assert names == parameters


@pytest.mark.parametrize("name", STANDARD["array"]["attributes"])
def test_array_attribute(name: str) -> None:
    assert inspect.isdatadescriptor(getattr(type(xp.ones(1)), name))


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        row
        for kind in ("methods", "reflected", "in_place")
        for row in STANDARD["array"][kind].items()
    ],
)
def test_array_method_signature(name: str, expected: str) -> None:
    assert signature(getattr(type(xp.ones(1)), name)) == expected


def test_main_namespace_has_the_names_of_the_standard_and_no_other() -> None:
    expected = {
        *STANDARD["constants"],
        *STANDARD["dtypes"],
        *STANDARD["extensions"],
        *(name for chapter in CHAPTERS.values() for name in chapter),
    }
    assert set(xp.__all__) | DUNDERS == expected | DUNDERS
    assert sorted(xp.__all__) == sorted(set(xp.__all__))
    assert {name for name in dir(xp) if not name.startswith("_")} == set(xp.__all__) - DUNDERS
    assert [name for name in expected | DUNDERS if not hasattr(xp, name)] == []
    assert xp.__array_api_version__ == STANDARD["version"]


@pytest.mark.parametrize("extension", STANDARD["extensions"])
def test_extension_has_the_names_of_the_standard_and_no_other(extension: str) -> None:
    assert sorted(getattr(xp, extension).__all__) == sorted(STANDARD["extensions"][extension])
    assert dir(getattr(xp, extension)) == sorted(STANDARD["extensions"][extension])


@pytest.mark.parametrize("name", STANDARD["dtypes"])
def test_inspection_lists_the_dtypes_of_the_namespace(name: str) -> None:
    assert xp.__array_namespace_info__().dtypes()[name] is getattr(xp, name)


def test_constants_have_the_values_of_the_standard() -> None:
    assert xp.e == 2.718281828459045
    assert xp.pi == 3.141592653589793
    assert xp.inf == float("inf")
    assert xp.nan != xp.nan
    assert xp.newaxis is None


@pytest.mark.parametrize("name", ["float32", "float64", "complex64", "complex128"])
def test_finfo_has_the_attributes_of_the_standard(name: str) -> None:
    found = xp.finfo(getattr(xp, name))
    assert [field for field in STANDARD["finfo"] if not hasattr(found, field)] == []


@pytest.mark.parametrize("name", [name for name in STANDARD["dtypes"] if "int" in name])
def test_iinfo_has_the_attributes_of_the_standard(name: str) -> None:
    found = xp.iinfo(getattr(xp, name))
    assert [field for field in STANDARD["iinfo"] if not hasattr(found, field)] == []


def test_signature_leaves_only_annotations_out() -> None:
    def example(x: int, /, y: str = "a", *rest: int, z: float = 2.0, **more: int) -> int:
        return x

    assert signature(example) == "(x, /, y='a', *rest, z=2.0, **more)"
