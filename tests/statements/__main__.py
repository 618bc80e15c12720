"""Draws statements for some time: `python -m tests.statements --seconds 600 --backend torch`."""

from __future__ import annotations

import argparse
import sys
import time

import corepy
from tests.statements import STATEMENTS
from tests.statements.comparison import compare


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.statements", description=__doc__)
    parser.add_argument("--seconds", type=float, default=60.0, help="how long (default: 60)")
    parser.add_argument(
        "--seed", type=int, default=int(time.time()), help="the first (default: new)"
    )
    parser.add_argument("--backend", default="numpy", help="which computes (default: numpy)")
    parser.add_argument("--only", default="", help="statements whose name contains it")
    given = parser.parse_args()
    chosen = [each for name, each in STATEMENTS.items() if given.only in name]
    if not chosen:
        parser.error(f"--only: {given.only!r} is in none of {', '.join(STATEMENTS)}")
    drawn, wrong, until = 0, 0, time.monotonic() + given.seconds
    with corepy.backend_priority([given.backend]), corepy.set_fallback("allow"):
        while time.monotonic() < until:
            for each in chosen:
                try:
                    compare(each, given.seed + drawn)
                except Exception as error:  # what else is wrong is worth knowing
                    wrong += 1
                    print(type(error).__name__, error, *getattr(error, "__notes__", ()), flush=True)
            drawn += 1
    print(f"{drawn} draws of {len(chosen)} statements from seed {given.seed}: {wrong} differ")
    return 1 if wrong else 0


sys.exit(main())
