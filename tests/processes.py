"""Programs that tests run in a process of their own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parent.parent


def python(*arguments: str, **environ: str) -> subprocess.CompletedProcess[str]:
    """Run Python beside the sources, with further variables of the environment."""
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=ROOT,
        env=os.environ | environ,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )


def on_stand_in(*files: str, **environ: str) -> None:
    """Have files of tests pass with CuPy's stand-in, which no other test's process may have."""
    done = python(
        *("-m", "pytest", "-p", "tests.backends.cupy_on_numpy"),
        *("--noconftest", "-p", "no:cacheprovider", "-q", "-n", "0", *files),
        **environ,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "skipped" not in done.stdout.splitlines()[-1], done.stdout
