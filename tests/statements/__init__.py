"""Statements that mean the same in NumPy's namespace and in corepy's, and what holds them to it."""

from tests.statements import keywords  # which adds to those of the chapters
from tests.statements.chapters import STATEMENTS

__all__ = ["STATEMENTS", "keywords"]
