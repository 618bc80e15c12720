"""The backend: corepy's contract on one side, a server on the other."""

from __future__ import annotations

import math
import os
import sys
import warnings
import weakref
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt

import corepy
from corepy.dispatch import OPERATIONS
from corepy_remote._client import Client, MissingArraysError, RemoteError
from corepy_remote._operations import compute
from corepy_remote._protocol import DTYPES, NATIVE, check_shape, encode, number

HostArray = npt.NDArray[Any]

URL_VARIABLE: Final = "COREPY_REMOTE_URL"
TOKEN_VARIABLE: Final = "COREPY_REMOTE_TOKEN"
DEVICE: Final = corepy.devices.as_device("remote:0")

_INTERNAL: Final = (
    str(Path(corepy.__file__).parent) + os.sep,
    str(Path(__file__).parent) + os.sep,
)


class RemoteArray:
    """An array on a server. It never changes, so a copy on the host stays true.

    Attributes
    ----------
    shape : tuple of int
    dtype : DType
    key : str
        What the server knows it by.
    host : numpy.ndarray or None
        Its values, where they are known here; read-only.
    stored : bool
        Whether the server holds it, as far as is known.
    """

    __slots__ = ("__weakref__", "_release", "client", "dtype", "host", "key", "shape", "stored")

    def __init__(
        self,
        client: Client,
        key: str,
        shape: tuple[int, ...],
        dtype: corepy.DType,
        host: HostArray | None = None,
    ) -> None:
        self.client = client
        self.key = key
        self.shape = shape
        self.dtype = dtype
        self.host = host
        self.stored = False
        self._release: weakref.finalize[Any, Any] | None = None
        if host is None:
            self.hold()

    def hold(self) -> None:
        """Note that the server holds it, which it shall until this handle dies."""
        self.stored = True
        if self._release is None:
            self._release = weakref.finalize(self, self.client.release, self.key)
            self._release.atexit = False  # the client says good-bye by then

    @property
    def nbytes(self) -> int:
        """Bytes of the elements."""
        return math.prod(self.shape) * self.dtype.itemsize

    def __repr__(self) -> str:
        return f"RemoteArray(shape={self.shape}, dtype={self.dtype}, server={self.client.url!r})"


class RemoteBackend(corepy.Backend):
    """Runs operations in another process, over HTTP, on ``remote:0``.

    Parameters
    ----------
    url : str or None
        The server; by default ``COREPY_REMOTE_URL``. Without one the backend is not available.
    token : str or None
        By default ``COREPY_REMOTE_TOKEN``.
    keep_host_copies : bool
        Keep the values of arrays that came from the host. It takes their memory a second time,
        and in return they outlive the server: they can be read without it, an operation on them
        can run without it, and they are sent again to one that was restarted.
    **options
        Timeouts, retries and limits, as `Client` has them.

    Raises
    ------
    ValueError
        If the URL is not one of a server, or is unencrypted and leads to another machine.

    Notes
    -----
    When the server does not answer, or not as it should, an operation whose operands are all
    known on the host is treated as one that the backend does not offer: it runs on the host, as
    ``corepy.set_fallback`` says, and its result stays there until the server is back. Under
    ``"raise"``, and where an operand only lived on the server, `RemoteError` is raised, which is
    a `corepy.BackendError`.
    """

    name = "remote"

    def __init__(
        self,
        url: str | None = None,
        token: str | None = None,
        *,
        keep_host_copies: bool = True,
        **options: Any,
    ) -> None:
        url = os.environ.get(URL_VARIABLE) if url is None else url
        token = os.environ.get(TOKEN_VARIABLE, "") if token is None else token
        self.keep_host_copies = keep_host_copies
        self._offered: frozenset[str] | None = None
        self._connection: Client | None = None
        self._has_token = bool(token)
        if url:
            self._connection = Client(url, token, **options)
            weakref.finalize(self, self._connection.close)

    @property
    def client(self) -> Client:
        """The connection.

        Raises
        ------
        RemoteError
            If no URL was given.
        """
        if self._connection is None:
            raise RemoteError(f"remote: no server is named; expected its URL in {URL_VARIABLE}")
        return self._connection

    # ------------------------------------------------------------------ what it can do

    def check(self) -> None:
        """Ask the server whether it is well.

        Raises
        ------
        RemoteError
            If it is not, or no token is set; the message says why.
        """
        client = self.client
        if not self._has_token:
            raise RemoteError(f"remote: no token is set; expected the server's in {TOKEN_VARIABLE}")
        self._offered = frozenset(client.health()["operations"])

    def is_available(self) -> bool:
        self.check()  # what it raises is the reason that `corepy info` gives
        return True

    def capabilities(self, device: corepy.Device) -> corepy.Capabilities:
        return corepy.Capabilities(max_dimensions=64)

    def devices(self) -> tuple[corepy.Device, ...]:
        return (DEVICE,)

    def operation(self, name: str) -> Callable[..., Any] | None:
        if self._offered is None:
            self.check()
        assert self._offered is not None
        if name not in self._offered:
            return None

        def run(*args: Any, **params: Any) -> Any:
            return self._run(name, args, params)

        return run

    # ------------------------------------------------------------------ its native arrays

    def owns(self, obj: object) -> bool:
        return isinstance(obj, RemoteArray) and obj.client is self._connection

    def dtype_of(self, native: RemoteArray) -> corepy.DType:
        return native.dtype

    def native_dtype(self, dtype: corepy.DType) -> corepy.DType:
        return dtype

    def scalar(self, value: Any, dtype: corepy.DType, device: corepy.Device) -> RemoteArray:
        # It travels with the operation that uses it.
        return self._from_host(np.array(value, NATIVE[dtype]))

    def item(self, native: RemoteArray) -> Any:
        return self.to_numpy(native).item()

    def to_numpy(self, native: RemoteArray, *, copy: bool | None = None) -> HostArray:
        if native.host is not None:
            return native.host.copy() if copy else native.host
        if copy is False:
            raise ValueError(f"{DEVICE} has no memory of the host's")
        try:
            values = self.client.get(native.key, native.nbytes)
        except RemoteError as error:
            raise self._lost("x", native, error) from error
        if values.shape != native.shape or values.dtype != NATIVE[native.dtype]:
            raise RemoteError(
                f"remote: the answer of {self.client.url} is malformed: an array of shape "
                f"{values.shape} and dtype {values.dtype}; expected {native.shape} and "
                f"{native.dtype}"
            )
        return values

    def from_numpy(
        self, array: HostArray, device: corepy.Device, *, copy: bool | None = None
    ) -> RemoteArray:
        if copy is False:
            raise ValueError(f"{DEVICE} has no memory of the host's")
        native = self._from_host(np.array(array, NATIVE[DTYPES[array.dtype.name]], order="C"))
        try:
            self._upload(native)
        except RemoteError as error:
            if not self.keep_host_copies:
                raise
            self._permit("asarray", error)
        return native

    def shares_memory(self, native: RemoteArray, array: HostArray) -> bool:
        return False

    # ------------------------------------------------------------------ running operations

    def _run(self, name: str, args: tuple[Any, ...], params: dict[str, Any]) -> Any:
        try:
            return self._on_server(name, args, params)
        except RemoteError as error:
            values = _replaced((args, params), partial(self._known, error=error))
            self._permit(name, error)
        made = compute(name, *values)
        if isinstance(made, tuple):
            return tuple(self._from_host(item) for item in made)
        return self._from_host(made)

    def _on_server(self, name: str, args: tuple[Any, ...], params: dict[str, Any]) -> Any:
        operands = _arrays((args, params))
        key = self.client.new_key()
        for attempt in ("first", "last"):
            for x in operands:
                if not x.stored and x.shape:
                    self._upload(x)
            encoded = [encode(arg, _reference) for arg in args]
            named = {word: encode(value, _reference) for word, value in params.items()}
            try:
                described = self.client.run(name, key, encoded, named)
                break
            except MissingArraysError as error:
                # The server was restarted, or a lease ran out. What is known here goes there anew.
                for x in operands:
                    if x.key in error.keys:
                        self._known(x, error)
                        x.stored = False
                if attempt == "last":
                    raise
        return self._results(name, operands, key, described)

    def _results(
        self, name: str, operands: list[RemoteArray], key: str, described: dict[str, Any]
    ) -> Any:
        """Make handles of what the server said, which has to fit what was asked."""
        result = OPERATIONS[name].result
        # One operand decides; which one, only the operation knows: not the condition of `where`.
        fitting = None if result is None else {result(x.dtype) for x in operands}
        match described:
            case {"tuple": [*several]}:
                return tuple(
                    self._result(name, f"{key}.{place}", item, fitting)
                    for place, item in enumerate(several)
                )
        return self._result(name, key, described, fitting)

    def _result(
        self, name: str, key: str, said: Any, fitting: set[corepy.DType] | None
    ) -> RemoteArray:
        try:
            match said:
                case {"key": str(own), "shape": shape, "dtype": str(given)} if given in DTYPES:
                    found = RemoteArray(
                        self.client, key, check_shape("result", shape), DTYPES[given]
                    )
                    if own == key and (fitting is None or found.dtype in fitting):
                        return found
        except ValueError as error:
            raise self._unexpected(name, said, error) from error
        raise self._unexpected(name, said, f"expected key {key} and a fitting dtype")

    def _unexpected(self, name: str, said: Any, why: object) -> RemoteError:
        return RemoteError(
            f"remote: {name}: the answer of {self.client.url} is malformed: {said!r}: {why}"
        )

    # ------------------------------------------------------------------ nothing is lost

    def _from_host(self, values: HostArray) -> RemoteArray:
        """Make a handle of values that the server does not hold yet."""
        values.flags.writeable = False
        dtype = DTYPES[values.dtype.name]
        return RemoteArray(self.client, self.client.new_key(), values.shape, dtype, values)

    def _upload(self, native: RemoteArray) -> None:
        assert native.host is not None
        self.client.put(native.key, native.host)
        native.hold()
        if not self.keep_host_copies:
            native.host = None

    def _known(self, native: RemoteArray, error: RemoteError) -> HostArray:
        """Return the values that the host knows, or say that nobody does any more."""
        if native.host is None:
            raise self._lost("an operand", native, error) from error
        return native.host

    def _lost(self, what: str, native: RemoteArray, error: RemoteError) -> RemoteError:
        return RemoteError(
            f"{error}; {what} of shape {native.shape} and dtype {native.dtype} has no copy on the "
            f"host: it only lives on the server"
        )

    def _permit(self, name: str, error: RemoteError) -> None:
        """Say that the host steps in for the server, or refuse, as `corepy.set_fallback` has it."""
        policy = corepy.get_fallback()
        if policy == "raise":
            raise error
        if policy == "warn":
            message = f"{name}: {error}; the host does it instead"
            warnings.warn(message, corepy.FallbackWarning, stacklevel=_depth())


def _reference(value: Any) -> dict[str, Any] | None:
    if not isinstance(value, RemoteArray):
        return None
    if value.host is not None and not value.stored:
        return {"scalar": [number(value.host.item()), value.dtype.name]}
    return {"array": value.key}


def _arrays(value: Any) -> list[RemoteArray]:
    """Return every array in nested arguments."""
    found: list[RemoteArray] = []
    _replaced(value, found.append)
    return found


def _replaced(value: Any, array: Callable[[RemoteArray], Any]) -> Any:
    """Return nested arguments as NumPy takes them, with something else for each array."""
    if isinstance(value, RemoteArray):
        return array(value)
    if isinstance(value, (tuple, list)):
        return type(value)(_replaced(item, array) for item in value)
    if isinstance(value, dict):
        return {key: _replaced(item, array) for key, item in value.items()}
    if isinstance(value, corepy.DType):
        return NATIVE[value]
    if isinstance(value, corepy.Device):
        return corepy.devices.as_device("cpu")
    return value


def _depth() -> int:
    """Return the stack level of the nearest frame that is neither corepy's nor ours."""
    level, frame = 1, sys._getframe(1)
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_INTERNAL):
        frame = frame.f_back
        level += 1
    return level
