"""Finding out on this machine what to run where: ``corepy tune``."""

from corepy.tuning._offload import tune_offload
from corepy.tuning._tune import Outcome, tune

__all__ = ["Outcome", "tune", "tune_offload"]
