"""Which functions and parameters CuPy has: the table ``cupy_signatures.json``.

Where CuPy is installed, ``python tests/backends/cupy_signatures.py`` writes it anew.
"""

from __future__ import annotations

import inspect
import json
from pathlib import Path
from types import ModuleType

TABLE = Path(__file__).with_name("cupy_signatures.json")


def write_table() -> None:
    """Note the signatures of the installed CuPy: parameters, or for a ufunc its operands."""
    import cupy

    found = {"": cupy.__version__}
    for prefix, module in (("", cupy), ("linalg.", cupy.linalg), ("fft.", cupy.fft)):
        for name, value in sorted(vars(module).items()):
            if name.startswith("_") or isinstance(value, type | ModuleType) or not callable(value):
                continue
            if isinstance(value, cupy.ufunc):
                found[prefix + name] = str(value.nin)
                continue
            try:
                parameters = inspect.signature(value).parameters.values()
            except ValueError:  # compiled without one
                continue
            found[prefix + name] = " ".join(map(_noted, parameters))
    TABLE.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


_MARKS = ("{}/", "{}", "*{}", "+{}", "**{}")  # by inspect's kinds


def _noted(parameter: inspect.Parameter) -> str:
    optional = "" if parameter.default is inspect.Parameter.empty else "="
    return _MARKS[parameter.kind].format(parameter.name + optional)


def signature(noted: str) -> inspect.Signature:
    """Return the signature that an entry of the table stands for."""
    if noted.isdigit():
        operands = " ".join(f"x{n}/" for n in range(int(noted)))
        noted = f"{operands} out= **kwargs"
    return inspect.Signature([_parameter(word) for word in noted.split()])


def _parameter(word: str) -> inspect.Parameter:
    kinds = inspect.Parameter
    kind = kinds.POSITIONAL_OR_KEYWORD
    for mark, found in (
        ("**", kinds.VAR_KEYWORD),
        ("*", kinds.VAR_POSITIONAL),
        ("+", kinds.KEYWORD_ONLY),
    ):
        if word.startswith(mark):
            word, kind = word.removeprefix(mark), found
    if word.rstrip("=").endswith("/"):
        word, kind = word.replace("/", ""), kinds.POSITIONAL_ONLY
    default = None if word.endswith("=") else kinds.empty
    return kinds(word.rstrip("="), kind, default=default)


if __name__ == "__main__":
    write_table()
