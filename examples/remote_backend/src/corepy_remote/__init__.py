"""A corepy backend that runs operations in another process, over HTTP."""

from corepy_remote._backend import RemoteArray, RemoteBackend
from corepy_remote._client import MissingArraysError, RemoteError

__all__ = ["MissingArraysError", "RemoteArray", "RemoteBackend", "RemoteError"]
