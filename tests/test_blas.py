"""Holding BLAS to a number of threads, on a stand-in for its library."""

from __future__ import annotations

import pytest

from corepy import _blas


class Library:
    """Uses as many threads as it is told to."""

    count = 4

    def get_num_threads(self) -> int:
        return self.count

    def set_num_threads(self, count: int) -> None:
        self.count = count


@pytest.fixture
def library(monkeypatch: pytest.MonkeyPatch) -> Library:
    made = Library()
    monkeypatch.setattr(_blas, "_libraries", lambda: [made])
    monkeypatch.setattr(_blas, "budget", lambda: None)
    return made


def test_the_least_wish_counts_until_the_last_block_ends(library: Library) -> None:
    with _blas.held(2):
        assert library.count == 2
        with _blas.held(1):
            assert library.count == 1
            with _blas.held(3):
                assert library.count == 1
    assert library.count == 4


def test_no_block_gives_it_more_threads_than_it_had(library: Library) -> None:
    with _blas.held(8):
        assert library.count == 4
    assert library.count == 4


def test_who_has_asked_for_another_number_meanwhile_has_it(library: Library) -> None:
    with _blas.held(1):
        library.set_num_threads(3)
    assert library.count == 3


def test_what_is_put_back_is_within_the_budget(
    library: Library, monkeypatch: pytest.MonkeyPatch
) -> None:
    with _blas.held(1):
        monkeypatch.setattr(_blas, "budget", lambda: 2)
    assert library.count == 2
