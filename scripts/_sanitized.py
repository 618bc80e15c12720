"""The kernels under compute-sanitizer: memory out of bounds, races, and barriers that some miss.

    python scripts/_sanitized.py --records records.jsonl

Runs `conformance/kernels.py --bare` on CuPy's arrays, once for each tool, and writes a line of
JSON for each. The exit status is 1 when a tool found something or broke down; that
there is no compute-sanitizer is told, and is no failure.
"""

from __future__ import annotations

import argparse
import json
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

KERNELS: Final = Path(__file__).resolve().parent.parent / "conformance" / "kernels.py"
TOOLS: Final = ("memcheck", "racecheck", "synccheck")
#: What a tool says at its end: how many errors, or hazards.
SUMMARY: Final = re.compile(r"(?:ERROR|RACECHECK) SUMMARY: (\d+)")
#: How much of what a tool found is kept.
FOUND: Final = 2000


def sanitized(tool: str, program: str) -> dict[str, Any]:
    """Run the kernels under a tool; return its record."""
    with tempfile.TemporaryDirectory() as folder:
        command = [
            *(program, "--tool", tool, "--error-exitcode", "99", sys.executable, str(KERNELS)),
            *("--records", str(Path(folder) / "records.jsonl"), "--library", "cupy", "--bare"),
        ]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    told = done.stdout + done.stderr
    summary = SUMMARY.search(told)
    record: dict[str, Any] = {"tool": tool, "errors": int(summary[1]) if summary else None}
    if done.returncode or not summary or record["errors"]:
        lines = [line for line in told.splitlines() if line.startswith("=")]
        record |= {"status": done.returncode, "found": "\n".join(lines or [told])[:FOUND]}
    return record


def main(argv: Sequence[str] | None = None) -> int:
    """Run every tool; return the exit status."""
    parser = argparse.ArgumentParser(description="Run the kernels under compute-sanitizer.")
    parser.add_argument("--records", type=Path, required=True, help="file to append lines to")
    parser.add_argument("--tool", choices=TOOLS, help="one alone")
    options = parser.parse_args(argv)
    program = shutil.which("compute-sanitizer")
    failed = False
    with options.records.open("a", encoding="utf-8") as out:
        for tool in (options.tool,) if options.tool else TOOLS:
            record = {"tool": tool, "missing": "no compute-sanitizer on the path"}
            if program is not None:
                record = sanitized(tool, program)
                failed = failed or "found" in record
            out.write(json.dumps(record) + "\n")
            out.flush()
            print(record)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
