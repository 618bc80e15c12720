"""Files of corepy that are read as it runs: what loops and device kernels are made from."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, cast

__all__ = ["source"]

_read: Final[Callable[[str], bytes]] = cast("Any", __spec__).loader.get_data


def source(path: Path) -> bytes:
    """Return what is in a file of corepy, be it in a folder or in an archive.

    Raises
    ------
    OSError
        If it is not there, as in a frozen program that has none.
    """
    return _read(str(path))
