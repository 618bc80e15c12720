"""TF32: whether libraries may round the float32 operands of products to 11 bits on a GPU."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from corepy._errors import bad_type
from corepy.backends._base import Backend

#: None until somebody said; libraries compute in float32 then, and so they do without.
_allowed: bool | None = None
#: Why a backend's library does otherwise, by the backend's name.
_unmoved: dict[str, str] = {}


def get_tf32() -> bool:
    """Tell whether products of float32 may be computed in TF32.

    Returns
    -------
    bool
        What is in force, as `enable_tf32` takes it.
    """
    return bool(_allowed)


def set_tf32(on: Any, backends: Iterable[Backend]) -> dict[str, str]:
    """Tell loaded backends, and those that are loaded later."""
    global _allowed
    if not isinstance(on, bool):
        raise bad_type("enable_tf32", "on", on, "a bool")
    _allowed = on
    for backend in backends:
        hold(backend)
    return dict(_unmoved)


def hold(backend: Backend) -> None:
    """Tell one backend, if anybody said anything."""
    if _allowed is None:
        return
    reason = backend.allow_tf32(_allowed)
    _unmoved.pop(backend.name, None)
    if reason is not None:
        _unmoved[backend.name] = reason
