"""``python -m corepy`` is the command ``corepy``."""

from __future__ import annotations

import sys

from corepy._cli import main

if __name__ == "__main__":
    sys.exit(main())
