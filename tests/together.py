"""Many small cases in one test.

What surrounds a test, from its collection by each worker to its reports, takes 3 ms.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from functools import wraps
from typing import Any

import pytest

Test = Callable[..., None]


def together(names: str | tuple[str, ...], cases: Iterable[Any]) -> Callable[[Test], Test]:
    """Try a test on some cases, as `pytest.mark.parametrize` does, but in one test.

    All are tried, whichever fail, and each that does says which it is. They share the test's
    fixtures, so this is for tests that leave none of these changed, and cannot be skipped alone.

    Parameters
    ----------
    names : str or tuple of str
        Arguments of the test.
    cases : iterable
        Values of them: one each, or as many as there are names.
    """
    named = (names,) if isinstance(names, str) else names
    rows = [(case,) if isinstance(names, str) else tuple(case) for case in cases]
    given = [dict(zip(named, row, strict=True)) for row in rows]
    if not given:
        raise ValueError(f"together: {', '.join(named)} has no cases; expected some")

    def decorate(test: Test) -> Test:
        signature = inspect.signature(test)
        missing = [name for name in named if name not in signature.parameters]
        if missing:
            raise TypeError(f"together: {test.__name__} has no argument {', '.join(missing)}")

        @wraps(test)
        def tried(*args: Any, **fixtures: Any) -> None:
            failed: list[BaseException] = []
            for number, case in enumerate(given):
                told = ", ".join(f"{name}={value!r}" for name, value in case.items())
                try:
                    test(*args, **fixtures, **case)
                except pytest.skip.Exception as skip:
                    raise TypeError(
                        f"together: a case is skipped, number {number}, {told}"
                    ) from skip
                except (Exception, pytest.fail.Exception) as error:
                    error.add_note(f"in case {number}, {told}")
                    failed.append(error)
            if len(failed) == 1:
                raise failed[0]
            if failed:
                raise BaseExceptionGroup(f"{len(failed)} of {len(given)} cases failed", failed)

        kept = [p for name, p in signature.parameters.items() if name not in named]
        tried.__signature__ = signature.replace(parameters=kept)  # type: ignore[attr-defined]
        return tried

    return decorate
