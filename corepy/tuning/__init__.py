"""Measuring this machine: who runs which operation fastest, alone and in company."""

from corepy.tuning._tune import Outcome, tune

__all__ = ["Outcome", "tune"]
