"""How compiled loops are kept.

A loop works in the thread that calls it, without the GIL. It is compiled on its first call for a
combination of dtypes, which takes up to a second, and kept on disk for later processes: beside its
source where that folder can be written, else in the user's cache folder, or in ``NUMBA_CACHE_DIR``
where that is set.

Loops copy elements one by one: where an array is assigned to a part of another, Numba 0.68 compiles
what puts the message about different sizes together, 2 to 3 s in each process.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Set
from contextlib import suppress
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any, Final, TypeVar, cast

from numba import config, njit
from numba.core.caching import CompileResultCacheImpl, FunctionCache
from numba.core.compiler_lock import global_compiler_lock

from corepy import _forks
from corepy._loops._lowering import PIPELINE
from corepy._signals import let_through, suppressed
from corepy._sources import source

__all__ = ["OPTIONS", "REASSOCIATED", "compiler", "digest", "kept"]

Kernel = TypeVar("Kernel", bound=Callable[..., Any])

#: How all loops are compiled.
OPTIONS: Final = {"nogil": True, "error_model": "numpy", "pipeline_class": PIPELINE}
#: Sums may be taken in any order, which lets them fill vector registers.
REASSOCIATED: Final = frozenset({"reassoc", "contract"})

_forks.wait_for(global_compiler_lock)


@cache
def digest(paths: tuple[Path, ...]) -> str:
    """Return what changes when one of some files does.

    A frozen program may have none of them: Numba notices when that changes as a whole.
    """
    try:
        return sha256(b"".join(source(path) for path in paths)).hexdigest()[:12]
    except OSError:
        return ""


def _not_here(locator: Any) -> Any:
    """Have what names the user's folder for caches name none in the working directory.

    It does so for a user without a home, in ``./~/.cache`` (a container's user of a bare number may
    have none), and where ``XDG_CACHE_HOME`` is relative. Code would be loaded then from wherever a
    program is started.
    """

    class Locator(locator):  # type: ignore[misc]
        def ensure_cache_path(self) -> None:
            path = self.get_cache_path()
            if not os.path.isabs(path):
                raise FileNotFoundError(path)  # as where it cannot be written
            super().ensure_cache_path()

    return Locator


class _Files(CompileResultCacheImpl):  # type: ignore[misc]
    """Where the files of a loop are."""

    _locator_classes: Final = [
        _not_here(each) if each.__name__.endswith("UserWideCacheLocator") else each
        for each in CompileResultCacheImpl._locator_classes
    ]


class _Cache(FunctionCache):  # type: ignore[misc]
    """Numba's cache, which computing does not depend on."""

    _impl_class = _Files

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """Return what was kept, None where nothing was, or where that is damaged."""
        try:
            return super().load_overload(sig, target_context)
        except Exception as error:  # as many as there are ways of being no pickle
            let_through(error)
            return None

    def save_overload(self, sig: Any, data: Any) -> None:
        """Keep what was compiled, where there is room for it."""
        with suppressed(OSError):
            try:
                super().save_overload(sig, data)
            except OSError:
                raise
            except Exception as error:  # the index is damaged
                let_through(error)
                self.flush()
                super().save_overload(sig, data)


def kept(function: Kernel, **options: Any) -> Kernel:
    """Compile a function that needs no lock of the interpreter, and keep it on disk."""
    compiled: Any = njit(**options, **OPTIONS)(function)
    if not config.DISABLE_JIT:
        with suppress(RuntimeError):  # no folder can be written: each process compiles for itself
            compiled._cache = _Cache(function)  # as its `enable_caching` does with Numba's own
    return cast("Kernel", compiled)


def compiler(paths: Iterable[Path]) -> Callable[..., Callable[[Kernel], Kernel]]:
    """Make the decorator of loops that call functions of other files.

    Parameters
    ----------
    paths : iterable of Path
        Files with functions that the loops call, and with constants that they read. Their digest,
        and that of the loop's own file, become part of its name on disk. Else the loops of one
        release would go on in the next, whose callers may mean another one: of an edit Numba
        notices nothing in other files, and 0.62 nothing in a file of the same size and time, as in
        images of containers, where files may all have one time.

    Returns
    -------
    callable
        ``kernel(*, fastmath=frozenset())`` gives the decorator; of LLVM's flags for floats
        ``contract`` (fused multiply-adds) and ``reassoc`` are used, and no others.
    """
    shared = ("_atomics.py", "_compile.py", "_lowering.py", "_simd.py", "_streaming.py")
    files = (*(Path(__file__).with_name(name) for name in shared), *paths)

    def kernel(*, fastmath: Set[str] = frozenset()) -> Callable[[Kernel], Kernel]:
        def decorate(function: Kernel) -> Kernel:
            own = digest((Path(function.__code__.co_filename),))
            function.__qualname__ = f"{function.__qualname__}_{digest(files)}{own}"
            return kept(function, fastmath=set(fastmath))

        return decorate

    return kernel
