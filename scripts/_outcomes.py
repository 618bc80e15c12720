"""A plugin of pytest: a line of JSON for each test as it ends, so that a stopped run keeps them.

OUTCOMES=outcomes.jsonl python -m pytest -p scripts._outcomes
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest


class Outcomes:
    """Writes the outcome of each test."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        # A test counts once, by its call; a failure around it counts too.
        if report.when == "call" or not report.passed:
            self._write(report.nodeid, self._outcome(report), report)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.failed:
            self._write(report.nodeid or "collection", "failed", report)

    @staticmethod
    def _outcome(report: pytest.TestReport) -> str:
        if hasattr(report, "wasxfail"):
            return "xfailed" if report.skipped else "failed"
        return report.outcome if report.when == "call" or report.skipped else "failed"

    def _write(self, test: str, outcome: str, report: Any) -> None:
        row = {"test": test, "outcome": outcome}
        if outcome == "failed":
            crash = getattr(report.longrepr, "reprcrash", None)
            row["message"] = str(crash.message if crash else report.longrepr)[-600:]
        elif outcome == "skipped" and isinstance(report.longrepr, tuple):
            row["message"] = report.longrepr[2]
        with self._path.open("a", encoding="utf-8") as out:
            out.write(json.dumps(row) + "\n")


def pytest_configure(config: pytest.Config) -> None:
    """Write where all outcomes arrive: not in the workers of pytest-xdist."""
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(Outcomes(Path(os.environ["OUTCOMES"])), "outcomes")
