"""Runs a statement with NumPy and with corepy, and compares results and operands."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

import corepy.array_api as xp
from tests.statements.chapters import Statement
from tests.statements.operands import Operands


def compare(statement: Statement, seed: int) -> None:
    """Hold what a statement gives and changes in corepy to what it does in NumPy.

    Raises
    ------
    AssertionError
        With the statement, the seed and the operands.
    """
    theirs, ours = Operands(seed), Operands(seed, lambda native: xp.asarray(native, copy=None))
    try:
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            expected = statement.run(np, theirs)
            found = statement.run(xp, ours)
        difference = _difference(found, expected, statement)
        for x, y in zip(ours.drawn, theirs.drawn, strict=True):
            difference = difference or _difference(x, y, statement)
    except Exception as error:
        error.add_note(_told(statement, seed, theirs))
        raise
    if difference:
        raise AssertionError(f"{_told(statement, seed, theirs)}: {difference}")


def _told(statement: Statement, seed: int, drawn: Operands) -> str:
    return f"{statement.name}, seed {seed}: of {', '.join(drawn.outlines) or 'nothing'}"


def _difference(found: Any, expected: Any, statement: Statement) -> str:
    """Say how two results differ; nothing if they do not."""
    if isinstance(expected, (tuple, list)):
        if len(found) != len(expected):
            return f"{len(found)} results, expected {len(expected)}"
        pairs = zip(found, expected, strict=True)
        return next(filter(None, (_difference(x, y, statement) for x, y in pairs)), "")
    if expected is None or found is None:
        return "" if found is expected else f"{found!r}, expected {expected!r}"
    if not isinstance(found, xp.asarray(0).__class__):
        return f"a {type(found).__name__}, expected an array"
    x, y = np.asarray(found), np.asarray(expected)
    if (x.dtype, x.shape) != (y.dtype, y.shape):
        return f"{x.dtype}{list(x.shape)}, expected {y.dtype}{list(y.shape)}"
    wrong = ~_same(x, y)
    if statement.ulps and y.dtype.kind in "fc":
        unit = statement.ulps * np.finfo(y.dtype).eps
        size = np.abs(y)
        limit = np.max(size, initial=0.0) if statement.cancels else size
        with np.errstate(all="ignore"):
            wrong &= ~(np.abs(x - y) <= unit * limit + np.finfo(y.dtype).tiny)
    if not wrong.any():
        return ""
    return f"{x[wrong][:3]}, expected {y[wrong][:3]}, {wrong.sum()} of {wrong.size}"


def _same(x: Any, y: Any) -> Any:
    """Say of each element whether it is the same, in the sign of a zero too."""
    if y.dtype.kind == "c":
        return _same(x.real, y.real) & _same(x.imag, y.imag)
    if y.dtype.kind != "f":
        return x == y
    return np.where(np.isnan(y), np.isnan(x), (x == y) & (np.signbit(x) == np.signbit(y)))
