"""Environment variables that mean nothing: refused, and by the command in one line."""

from __future__ import annotations

import sys

import pytest

from corepy import _variables
from tests.processes import python

WRONG = {
    "COREPY_STRICT": "maybe",
    "COREPY_PURE_PYTHON": "2",
    "COREPY_PRECISION": "low",
    "COREPY_OFFLOAD": "yes",
    "COREPY_REPRODUCIBLE": "2",
    "COREPY_POOL_BYTES": "1e9",
}


@pytest.mark.parametrize("name", WRONG)
def test_the_command_says_it_in_one_line(name: str) -> None:
    done = python("-m", "corepy", "--version", **{name: WRONG[name]})
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(f"corepy: {name} is {WRONG[name]!r}; expected ")
    assert done.stderr.count("\n") == 1


def test_a_program_gets_an_exception() -> None:
    done = python("-c", "import corepy", COREPY_STRICT="maybe")
    assert done.returncode == 1
    assert "ValueError: corepy: COREPY_STRICT is 'maybe'; expected one of 1, true" in done.stderr


@pytest.mark.parametrize(
    ("program", "command", "is_command"),
    [
        ("/usr/bin/corepy", [], True),
        ("-m", ["python", "-m", "corepy", "info"], True),
        ("-m", ["python", "-m", "mine"], False),  # a package that imports corepy
        ("/home/me/program.py", ["python", "program.py"], False),
        ("", ["python"], False),
    ],
)
def test_what_is_the_command(
    program: str, command: list[str], is_command: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "argv", [program])
    monkeypatch.setattr(sys, "orig_argv", command)
    assert _variables._is_command() is is_command


def test_empty_is_not_set(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in WRONG:
        monkeypatch.setenv(name, " ")
    assert _variables.flag("COREPY_STRICT") is False
    assert _variables.choice("COREPY_PRECISION", ("full", "fast")) == "full"
    assert _variables.number("COREPY_POOL_BYTES", "bytes") is None
    monkeypatch.setenv("COREPY_POOL_BYTES", "12")
    assert _variables.number("COREPY_POOL_BYTES", "bytes") == 12
    done = python("-c", "import corepy; print(corepy.is_strict())", **dict.fromkeys(WRONG, ""))
    assert done.stdout == "False\n", done.stderr
