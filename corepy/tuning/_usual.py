"""What is measured is measured as programs run that change no setting: it is for all of them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any, Final

from corepy.dispatch._reproducible import REPRODUCIBLE
from corepy.dispatch._settings import AUTOCAST, OFFLOAD, PRECISION, STRICT, Setting

#: Settings that change who runs an operation, or what it takes, and their usual values.
_USUAL: Final[tuple[tuple[Setting[Any], Any], ...]] = (
    (AUTOCAST, None),
    (OFFLOAD, "off"),
    (PRECISION, "full"),
    (REPRODUCIBLE, False),
    (STRICT, False),
)


@contextmanager
def as_usual() -> Iterator[None]:
    """Leave the user's settings aside for the length of a block or a function."""
    with ExitStack() as settings:
        for setting, value in _USUAL:
            if setting.get() != value:  # who never changed one keeps paths that need not ask
                settings.enter_context(setting.scoped(value))
        yield
