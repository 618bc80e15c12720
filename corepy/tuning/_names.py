"""Operations that users name: what to expect where there is none of that name."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches

from corepy._errors import listing


def require_known(names: Iterable[str], known: Iterable[str], otherwise: str) -> None:
    """See that operations are among those that there are.

    Parameters
    ----------
    names : iterable of str
        As users write them.
    known : iterable of str
    otherwise : str
        What one is that is not among them, such as ``"is not measured"``.

    Raises
    ------
    ValueError
        If one is not, with what is near by its last word, or else with all of them.
    """
    there = sorted(known)
    for name in sorted({*names} - {*there}):
        near = _near(name, there)
        expected = listing(near) if near else f"one of {', '.join(there)}"
        raise ValueError(f"{name!r} {otherwise}; expected {expected}")


def _near(name: str, known: Iterable[str]) -> list[str]:
    words: dict[str, list[str]] = {}
    for each in known:
        words.setdefault(each.rpartition(".")[2], []).append(each)
    found = get_close_matches(name.rpartition(".")[2], words)
    return [each for word in found for each in words[word]]
