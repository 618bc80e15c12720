"""The modules that are compiled as corepy is installed, where they can be.

``COREPY_PURE_PYTHON=1`` does without them.
"""

from __future__ import annotations

import importlib
import importlib.util
from types import ModuleType

from corepy._variables import flag


def extension(name: str) -> tuple[ModuleType | None, str | None]:
    """Return a compiled module, or None and why it is not there.

    Raises
    ------
    ValueError
        If ``COREPY_PURE_PYTHON`` is neither on nor off.
    """
    if flag("COREPY_PURE_PYTHON"):
        return None, "COREPY_PURE_PYTHON=1"
    if importlib.util.find_spec(name) is None:
        return None, "it was not built as corepy was installed (see COREPY_COMPILE)"
    try:
        return importlib.import_module(name), None
    except ImportError as error:  # built for another Python
        return None, f"it does not load: {error}"
