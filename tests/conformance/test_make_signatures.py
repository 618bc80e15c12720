"""The table says what the stubs say, and is not written where they cannot be read whole."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from textwrap import dedent

import pytest

from conformance import make_signatures

STUBS = {
    **dict.fromkeys((f"{name}_functions" for name in make_signatures.CHAPTERS), "__all__ = []"),
    "linear_algebra_functions": """
        __all__ = ["matmul"]
        def matmul(x1: int, x2: int, /, *, exact: bool = True) -> int: ...
        """,
    "fft": "__all__ = []",
    "linalg": """
        __all__ = ["matmul"]  # that of the standard has forgotten some, too
        def matmul(x1, x2, /): "Alias."
        def det(x: int, /, how="fast", *more: int) -> int: ...
        """,
    "constants": "__all__ = ['pi', 'e']",
    "info": """
        __all__ = ["__array_namespace_info__", "devices"]
        def __array_namespace_info__(): ...
        def devices() -> tuple: ...
        """,
    "_types": """
        from dataclasses import dataclass

        @dataclass
        class finfo_object:
            eps: float
            bits: int

        @dataclass
        class iinfo_object:
            bits: int
        """,
    "array_object": """
        class array:
            def __init__(self): ...
            @property
            def T(self): ...
            def __add__(self, other: int, /): ...
        """,
}
PAGES = {
    "data_types.rst": "| bool    | text |\n| float32 | text |\n| dtype   | text |\n",
    "array_object.rst": "-   ``+=``. May be implemented via ``__iadd__``.\n\n-   ``__radd__``\n",
}


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Make a miniature of the standard, of a version that never was."""
    monkeypatch.setattr(make_signatures, "VERSION", "1999.12")
    monkeypatch.setattr(sys, "path", [*sys.path])
    stubs = tmp_path / "src" / "array_api_stubs" / "_1999_12"
    pages = tmp_path / "spec" / "1999.12" / "API_specification"
    for folder in (stubs, pages):
        folder.mkdir(parents=True)
    for name, text in STUBS.items():
        (stubs / f"{name}.py").write_text(dedent(text))
    for name, text in PAGES.items():
        (pages / name).write_text(text)
    # Each test has its own miniature: none may meet the modules of another.
    for name in [name for name in sys.modules if name.startswith("array_api_stubs")]:
        monkeypatch.delitem(sys.modules, name)
    return tmp_path


def test_table(checkout: Path, tmp_path: Path) -> None:
    output = tmp_path / "table.json"
    assert make_signatures.main([str(checkout), "--output", str(output)]) == 0
    table = json.loads(output.read_text())
    assert table["version"] == "1999.12"
    assert table["constants"] == ["e", "pi"]
    assert table["dtypes"] == ["bool", "float32"]
    assert table["inspection"] == {"__array_namespace_info__": "()"}
    assert table["info"] == {"devices": "()"}
    assert (table["finfo"], table["iinfo"]) == (["bits", "eps"], ["bits"])
    assert table["chapters"]["linear_algebra"] == {"matmul": "(x1, x2, /, *, exact=True)"}
    assert table["extensions"] == {
        "fft": {},
        # An alias has the signature of the main function.
        "linalg": {"det": "(x, /, how='fast', *more)", "matmul": "(x1, x2, /, *, exact=True)"},
    }
    assert table["array"] == {
        "attributes": ["T"],
        "methods": {"__add__": "(self, other, /)"},
        "reflected": {"__radd__": "(self, other, /)"},
        "in_place": {"__iadd__": "(self, other, /)"},
    }


def test_another_folder_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    output = tmp_path / "table.json"
    assert make_signatures.main([str(tmp_path), "--output", str(output)]) == 2
    assert f"checkout is {tmp_path}; expected a checkout of the standard" in capsys.readouterr().err
    assert not output.exists()


def test_a_page_that_was_rewritten_is_refused(checkout: Path) -> None:
    page = checkout / "spec" / "1999.12" / "API_specification" / "data_types.rst"
    page.write_text("Now a list.\n")
    with pytest.raises(ValueError, match="page has no match"):
        make_signatures.make_table(checkout)
