"""The connection to a server: requests, their limits, and what becomes of failures."""

from __future__ import annotations

import itertools
import json
import logging
import os
import queue
import secrets
import threading
import time
import urllib.parse
import weakref
from typing import Any, Final

import numpy.typing as npt
import urllib3

import corepy
from corepy_remote._protocol import (
    EXCEPTIONS,
    HEADER_LIMIT,
    JSON,
    NPY,
    PROBLEM,
    VERSION,
    read_json,
    read_npy,
    write_npy,
)

_log: Final = logging.getLogger("corepy_remote")
_LOOPBACK: Final = ("127.0.0.1", "::1", "localhost")
#: Bytes of an answer other than an array: room for an operation with a hundred thousand results.
_JSON_LIMIT: Final = 2**24
_CHUNK: Final = 2**16
_CONNECTIONS: Final = 32


class RemoteError(corepy.BackendError):
    """The server cannot be reached, or does not answer as the protocol has it.

    The operands are untouched. What the server says of mistakes in arguments arrives as Python's
    own exceptions instead.
    """


class MissingArraysError(RemoteError):
    """The server does not hold some arrays: it is new, or their lease ran out.

    Attributes
    ----------
    keys : frozenset of str
    """

    def __init__(self, message: str, keys: frozenset[str]) -> None:
        super().__init__(message)
        self.keys = keys


class _Retry(urllib3.Retry):
    """Repeats a request whose connection failed, but not one whose answer takes too long.

    A server that is slow would only be slower with the same work twice.
    """

    def increment(self, *args: Any, error: Exception | None = None, **more: Any) -> urllib3.Retry:
        if isinstance(error, urllib3.exceptions.ReadTimeoutError):
            raise error
        return super().increment(*args, error=error, **more)


class Client:
    """Speaks to one server. Threads may share it, and a forked child starts afresh.

    Parameters
    ----------
    url : str
        ``https://...``, or ``http://...`` to this machine itself.
    token : str
        What the server knows this client by.
    connect_timeout : float
        Seconds to wait for a connection, and for the answer to a health check.
    timeout : float
        Seconds to wait for an answer to begin, and for it to be complete once it has begun.
    retries : int
        How often a request is repeated whose connection cannot be made or breaks.
    max_body : int
        Bytes of an array that this side takes.
    pause : float
        Seconds for which a server that did not answer is not tried again, so that a program which
        goes on without it is not slowed down by each operation.

    Raises
    ------
    ValueError
        If the URL has another form, or would send the token through a network unencrypted.
    """

    identity: str

    def __init__(
        self,
        url: str,
        token: str,
        *,
        connect_timeout: float = 2.0,
        timeout: float = 60.0,
        retries: int = 2,
        max_body: int = 2**31,
        pause: float = 1.0,
    ) -> None:
        parts = urllib.parse.urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError(f"url: it is {url!r}; expected https://... or http://127.0.0.1:...")
        if parts.scheme == "http" and parts.hostname not in _LOOPBACK:
            raise ValueError(
                f"url: {url!r} would send the token unencrypted; expected https://... for "
                f"another machine"
            )
        self.url = url.rstrip("/")
        self._path = parts.path.rstrip("/")
        self._token = token
        self._connect_timeout = connect_timeout
        self._timeout = timeout
        self._retries = retries
        self._max_body = max_body
        self._pause = pause
        self._start()
        _clients.add(self)

    def _start(self) -> None:
        """Set up what belongs to one process: connections, a thread, and keys of its own."""
        self.identity = secrets.token_hex(16)
        self._numbers = itertools.count()
        self._resting_until = 0.0
        # Finalizers put into it in the midst of anything else, which SimpleQueue alone allows.
        self._unused: queue.SimpleQueue[str | None] = queue.SimpleQueue()
        self._sweeper: threading.Thread | None = None
        self._lock = threading.Lock()
        self._pool = urllib3.connection_from_url(
            self.url,
            maxsize=_CONNECTIONS,
            retries=_Retry(
                total=self._retries,
                # POST is among them: its result has a key, so twice is the same as once.
                allowed_methods={"GET", "PUT", "DELETE", "POST"},
                backoff_factor=0.1,
            ),
            headers={"Authorization": f"Bearer {self._token}", "Accept-Encoding": "identity"},
        )

    # ------------------------------------------------------------------ the protocol

    def new_key(self) -> str:
        """Return a key that nobody has used."""
        return f"{self.identity}-{next(self._numbers)}"

    def health(self) -> dict[str, Any]:
        """Ask the server how it is and what it offers, even while it is given a rest.

        Raises
        ------
        RemoteError
            If it does not answer, or as nothing that this client can use.
        """
        self._resting_until = 0.0
        found = self._json("GET", "/health", timeout=self._connect_timeout)
        operations = found.get("operations")
        if (
            found.get("protocol") != VERSION
            or not isinstance(operations, list)
            or not all(isinstance(name, str) for name in operations)
        ):
            raise self._malformed("GET /health", f"it is not that of protocol {VERSION}")
        return found

    def put(self, key: str, array: npt.NDArray[Any]) -> None:
        """Send an array."""
        self._sweep()
        self._request("PUT", f"/arrays/{key}", write_npy(array), NPY)

    def get(self, key: str, nbytes: int) -> npt.NDArray[Any]:
        """Fetch an array of so many bytes."""
        if nbytes > self._max_body:
            raise corepy.InsufficientMemoryError(
                f"remote: the array has {nbytes} bytes; expected at most max_body={self._max_body}"
            )
        path = f"/arrays/{key}"
        body = self._request("GET", path, expect=NPY, limit=nbytes + HEADER_LIMIT)
        try:
            return read_npy(body)
        except (TypeError, ValueError) as error:
            raise self._malformed(f"GET {path}", error) from error

    def run(self, operation: str, key: str, args: Any, params: Any) -> dict[str, Any]:
        """Run an operation and return what the server says of its results."""
        self._sweep()
        wish = {"result": key, "args": args, "params": params}
        try:
            return self._json("POST", f"/operations/{operation}", wish)
        except Exception:
            self.release(key)  # the operation may have succeeded, and only its answer got lost
            raise

    def _json(
        self, method: str, path: str, content: Any = None, timeout: float | None = None
    ) -> dict[str, Any]:
        sent = None if content is None else json.dumps(content, allow_nan=False).encode()
        body = self._request(method, path, sent, JSON, expect=JSON, timeout=timeout)
        try:
            return read_json(body)
        except ValueError as error:
            raise self._malformed(f"{method} {path}", error) from error

    # ------------------------------------------------------------------ arrays nobody needs

    def release(self, key: str) -> None:
        """Have an array dropped soon. Finalizers call this: it neither waits nor fails."""
        if not key.startswith(self.identity):
            return  # it is the array of the process that this one was forked from
        self._unused.put(key)

    def _sweep(self) -> None:
        """Have a thread drop what is released, from the first array on."""
        if self._sweeper is None:
            with self._lock:
                if self._sweeper is None:
                    self._sweeper = threading.Thread(
                        target=self._drop_released, name="corepy-remote-sweeper", daemon=True
                    )
                    self._sweeper.start()

    def close(self) -> None:
        """Drop everything that this client has stored, and hang up."""
        with self._lock:
            sweeper, self._sweeper = self._sweeper, None
        if sweeper is not None:  # else nothing was ever stored
            self._unused.put(None)
            sweeper.join(self._connect_timeout)
            self._drop(f"/clients/{self.identity}")
        self._pool.close()

    def _drop_released(self) -> None:
        while (key := self._unused.get()) is not None:
            self._drop(f"/arrays/{key}")

    def _drop(self, path: str) -> None:
        try:
            self._request("DELETE", path, timeout=self._connect_timeout)
        except RemoteError as error:
            _log.info("%s; its lease will end", error)

    # ------------------------------------------------------------------ requests

    def _request(
        self,
        method: str,
        path: str,
        body: bytes | None = None,
        kind: str = "",
        *,
        expect: str = "",
        limit: int = _JSON_LIMIT,
        timeout: float | None = None,
    ) -> bytearray:
        """Make a request and return the body of a good answer."""
        label = f"{method} {path}"
        rest = self._resting_until - time.monotonic()
        if rest > 0:
            raise RemoteError(
                f"remote: {label}: {self.url} did not answer; it is tried again in {rest:.1f} s"
            )
        seconds = timeout or self._timeout
        headers = {**self._pool.headers, **({"Content-Type": kind} if body is not None else {})}
        response: urllib3.BaseHTTPResponse | None = None
        try:
            response = self._pool.request(
                method,
                self._path + path,
                body=body,
                headers=headers,
                timeout=urllib3.Timeout(connect=self._connect_timeout, read=seconds),
                redirect=False,  # the token is for this server and no other
                preload_content=False,
                decode_content=False,  # a few bytes cannot unpack into many
            )
            good = response.status < 300
            content = self._receive(response, label, limit if good else _JSON_LIMIT, seconds)
        except urllib3.exceptions.HTTPError as error:
            self._resting_until = time.monotonic() + self._pause
            why = getattr(error, "reason", None) or error  # what the last retry met
            raise RemoteError(f"remote: {label}: no answer from {self.url}: {why}") from error
        finally:
            # A complete answer has given its connection back by now. One that is not complete
            # must not lend it to another request.
            if response is not None:
                response.close()
        came = response.headers.get("Content-Type", "none").partition(";")[0].strip()
        if not good:
            raise self._refusal(label, response.status, came, content)
        if expect and came != expect:
            raise self._malformed(label, f"its content type is {came}; expected {expect}")
        return content

    def _receive(
        self, response: urllib3.BaseHTTPResponse, label: str, limit: int, seconds: float
    ) -> bytearray:
        deadline = time.monotonic() + seconds
        content = bytearray()
        while chunk := response.read1(_CHUNK):
            content += chunk
            if len(content) > limit:
                raise self._malformed(label, f"it is larger than {limit} bytes")
            if time.monotonic() > deadline:
                raise self._malformed(label, f"it is not complete after {seconds} s")
        return content

    def _refusal(self, label: str, status: int, came: str, content: bytearray) -> Exception:
        """Return the exception for an answer that is an error."""
        if came != PROBLEM:
            return self._malformed(label, f"its status is {status}, with no problem document")
        try:
            document = read_json(content)
        except ValueError as error:
            return self._malformed(label, error)
        detail, missing = document.get("detail"), document.get("missing")
        exception = EXCEPTIONS.get(str(document.get("exception")))
        if exception is not None:
            return exception(detail)
        message = f"remote: {label}: {self.url} answered {status}: {detail}"
        if isinstance(missing, list):
            return MissingArraysError(message, frozenset(map(str, missing)))
        return RemoteError(message)

    def _malformed(self, label: str, why: object) -> RemoteError:
        return RemoteError(f"remote: {label}: the answer of {self.url} is malformed: {why}")


_clients: Final[weakref.WeakSet[Client]] = weakref.WeakSet()


def _start_again() -> None:
    # A child that spoke through its parent's connections, or under its keys, would mix up both.
    for client in _clients:
        client._start()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_start_again)
