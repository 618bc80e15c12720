"""Write signatures.json: the names and signatures of the standard, as one table.

Run it on a checkout of https://github.com/data-apis/array-api when the standard changes::

    python conformance/make_signatures.py path/to/array-api

A signature is kept as Python writes it, without annotations, so that the table can be read and a
change shows as one line: ``"sum": "(x, /, *, axis=None, dtype=None, keepdims=False)"``.
"""

from __future__ import annotations

import argparse
import dataclasses
import importlib
import inspect
import json
import re
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from types import ModuleType
from typing import Any, Final

VERSION: Final = "2025.12"
TABLE: Final = Path(__file__).with_name("signatures.json")

#: The stubs' files, which are the chapters of the standard.
CHAPTERS: Final = (
    "creation",
    "data_type",
    "elementwise",
    "indexing",
    "linear_algebra",
    "manipulation",
    "searching",
    "set",
    "sorting",
    "statistical",
    "utility",
)
EXTENSIONS: Final = ("fft", "linalg")


def signature(function: Callable[..., Any]) -> str:
    """Write a signature without annotations: names, kinds and defaults.

    Parameters
    ----------
    function : callable
        A function, or a method as its class has it (``self`` is then part of the signature).

    Returns
    -------
    str
        Such as ``"(x, /, *, axis=None)"``.
    """
    bare = inspect.signature(function)
    return str(
        bare.replace(
            parameters=[
                parameter.replace(annotation=inspect.Parameter.empty)
                for parameter in bare.parameters.values()
            ],
            return_annotation=inspect.Signature.empty,
        )
    )


def make_table(checkout: Path) -> dict[str, Any]:
    """Read the standard's stubs, and its pages where the stubs are silent.

    Parameters
    ----------
    checkout : Path
        A checkout of the standard's repository.

    Returns
    -------
    dict
        What `signatures.json` holds.

    Raises
    ------
    FileNotFoundError
        If the checkout has no stubs of this version.
    ValueError
        If a page no longer lists what is read from it.
    """
    package = f"_{VERSION.replace('.', '_')}"
    source = checkout / "src"
    if not (source / "array_api_stubs" / package).is_dir():
        raise FileNotFoundError(
            f"make_table: checkout is {checkout}; expected a checkout of the standard with "
            f"src/array_api_stubs/{package}"
        )
    sys.path.insert(0, str(source))

    def stubs(name: str) -> ModuleType:
        return importlib.import_module(f"array_api_stubs.{package}.{name}")

    chapters = {name: _functions(stubs(f"{name}_functions")) for name in CHAPTERS}
    main = {name: text for chapter in chapters.values() for name, text in chapter.items()}
    info = _functions(stubs("info"))
    pages = checkout / "spec" / VERSION / "API_specification"
    return {
        "version": VERSION,
        "constants": sorted(stubs("constants").__all__),
        "dtypes": _dtypes((pages / "data_types.rst").read_text(encoding="utf-8")),
        # The one function of that page that lives in the main namespace.
        "inspection": {"__array_namespace_info__": info.pop("__array_namespace_info__")},
        "info": info,
        "finfo": _fields(stubs("_types").finfo_object),
        "iinfo": _fields(stubs("_types").iinfo_object),
        "chapters": chapters,
        # An alias in an extension is only "Alias for ..." in the stubs: its signature is the
        # one of the main function.
        "extensions": {
            name: {key: main.get(key, text) for key, text in _functions(stubs(name)).items()}
            for name in EXTENSIONS
        },
        "array": _array(
            stubs("array_object").array,
            (pages / "array_object.rst").read_text(encoding="utf-8"),
        ),
    }


def _functions(module: ModuleType) -> dict[str, str]:
    # All that a chapter defines: the `__all__` of linalg lacks eig and eigvals, which its stubs
    # describe as added in 2025.12.
    return {
        name: signature(function)
        for name, function in inspect.getmembers(module, inspect.isfunction)
        if function.__module__ == module.__name__
    }


def _fields(cls: Any) -> list[str]:
    return sorted(field.name for field in dataclasses.fields(cls))


def _dtypes(page: str) -> list[str]:
    """Read the names from the table on the page on data types."""
    return _find(r"^\| (bool|u?int\d+|float\d+|complex\d+) +\|", page)


def _find(pattern: str, page: str) -> list[str]:
    found = re.findall(pattern, page, flags=re.MULTILINE)
    if not found:  # the page was rewritten: better no table than one with a hole
        raise ValueError(f"make_table: page has no match for {pattern!r}; expected some")
    return found


def _array(cls: type, page: str) -> dict[str, Any]:
    """Describe the array object.

    Reflected and in-place operators have no stubs: their page names them, and their signature is
    the one of the operator that they reflect.
    """
    methods = {
        name: signature(method)
        for name, method in inspect.getmembers(cls, inspect.isfunction)
        if name != "__init__"  # there for the documentation only
    }
    return {
        "attributes": sorted(name for name, _ in inspect.getmembers(cls, _is_property)),
        "methods": methods,
        "reflected": _like(methods, _find(r"^-   ``(__r\w+__)``$", page)),
        "in_place": _like(methods, _find(r"May be implemented via ``(__i\w+__)``", page)),
    }


def _is_property(member: object) -> bool:
    return isinstance(member, property)


def _like(methods: dict[str, str], names: Iterable[str]) -> dict[str, str]:
    """Give ``__radd__`` and ``__iadd__`` the signature of ``__add__``."""
    return {name: methods[f"__{name[3:]}"] for name in sorted(names)}


def main(argv: list[str] | None = None) -> int:
    """Write the table; return the exit status."""
    parser = argparse.ArgumentParser(description="Write signatures.json from the standard's stubs.")
    parser.add_argument("checkout", type=Path, help="a checkout of data-apis/array-api")
    parser.add_argument("--output", type=Path, default=TABLE, help="where to write the table")
    arguments = parser.parse_args(argv)
    try:
        table = make_table(arguments.checkout)
    except FileNotFoundError as error:
        print(error, file=sys.stderr)
        return 2
    arguments.output.write_text(json.dumps(table, indent=2) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
