"""The libraries that routes lead to: each is imported once that pays.

A library that the program has not imported is not imported for a single operation, unless that
takes longer. As one rents skis until the rent comes to their price, routes count the seconds that
the library would have saved, and import it when they come, with those that it saves in the call at
hand, to what importing it takes.
"""

from __future__ import annotations

import os
import sys
from functools import cache
from typing import Final

from corepy._errors import BackendUnavailableError
from corepy._idle_threads import spinning
from corepy.backends._base import Backend
from corepy.dispatch import _registry
from corepy.dispatch._route_sources import FORCED, in_force
from corepy.dispatch._sites import HOST, SITES, Site


class Library:
    """A backend that routes lead to, imported once that pays."""

    def __init__(self, name: str) -> None:
        self.name = name
        #: Seconds that importing it takes, and that it would have saved so far.
        self.price = self.saved = 0.0
        self.backend: Backend | None = None
        self.refused = False

    def hindrance(self, site: Site) -> str | None:
        """Say why it may not run anything, imported or not; None if it may."""
        if self.refused:
            return "it cannot be used in this process"
        if self.name == "torch" and site.is_host:
            return _crowded() or None
        return None

    def missing(self) -> str:
        """Say why it is not imported yet."""
        return (
            f"importing it takes {self.price:.2g} s, of which it would have saved "
            f"{self.saved:.2g} so far"
        )

    def ready(self, site: Site, more: float = 0.0) -> Backend | None:
        """Return the backend if it may run something now, which saves so many seconds more."""
        if self.hindrance(site):
            return None
        if self.backend is None:
            modules = _registry.records()[self.name].modules
            due = self.saved + more >= self.price
            if due or all(module in sys.modules for module in modules):
                self._open()
        return self.backend

    def _open(self) -> None:
        try:
            self.backend = _registry.load(self.name)
        except BackendUnavailableError:
            self.refused = True  # its reason is kept and shown by `corepy info`


@cache
def _crowded() -> str:
    """Say whose threads stay on their cores when they have nothing to do; nothing if nobody's do.

    Where NumPy was imported before corepy, those of its BLAS do: torch's then wait for a core, and
    an inverse that takes it half of NumPy's time alone took seven times as long.
    """
    return "; ".join(spinning()) if in_force().origin != FORCED else ""


LIBRARIES: Final = {name: Library(name) for site in SITES.values() for name in site.candidates}


def _leave_torch() -> None:
    # OpenMP's threads do not follow into a forked child, which would wait for them for ever
    # (https://github.com/pytorch/pytorch/issues/17199).
    LIBRARIES["torch"].refused = "torch" in sys.modules


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_leave_torch)


def ready(name: str) -> Backend | None:
    """Return a backend that may run an operation of NumPy's arrays now, None if it may not."""
    return LIBRARIES[name].ready(HOST)


def earned(name: str, seconds: float) -> Backend | None:
    """Book what a backend would have saved of work that is no operation's; return it if it is due.

    Without routes it is due if its library was imported all the same.
    """
    library, modules = LIBRARIES[name], _registry.records()[name].modules
    if in_force().table is None and not all(module in sys.modules for module in modules):
        return None
    library.saved += seconds
    return library.ready(HOST)
