"""The server: holds arrays and computes with them.

    COREPY_REMOTE_TOKEN=... python -m corepy_remote._server --port 8765

It prints one line, ``listening on http://127.0.0.1:8765``, once it does.
"""

from __future__ import annotations

import argparse
import asyncio
import hmac
import os
import socket
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import uvicorn
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from corepy_remote._operations import OPERATIONS, compute
from corepy_remote._protocol import (
    CLIENT,
    DTYPES,
    EXCEPTIONS,
    JSON,
    KEY,
    NATIVE,
    NPY,
    PROBLEM,
    VERSION,
    decode,
    read_json,
    read_npy,
    read_number,
    write_npy,
)
from corepy_remote._store import Store, named

TOKEN_VARIABLE = "COREPY_REMOTE_TOKEN"
#: A token that could be guessed protects nothing.
SHORTEST_TOKEN = 16


@dataclass(frozen=True, slots=True)
class Limits:
    """What a server takes.

    Attributes
    ----------
    arrays, bytes : int
        Arrays held, and their bytes.
    body : int
        Bytes of one array as it is sent.
    request : int
        Bytes of one operation's JSON.
    lease : float
        Seconds for which an array that nobody uses is held.
    upload : float
        Seconds that one body may take to arrive.
    """

    arrays: int = 100_000
    bytes: int = 4 * 2**30
    body: int = 2**30
    request: int = 2**20
    lease: float = 3600.0
    upload: float = 60.0


class Problem(Exception):
    """An answer that is an error.

    Parameters
    ----------
    status : int
        Of HTTP.
    detail : str
        What happened, for a human.
    exception : str
        What the client raises: a key of `EXCEPTIONS`, or anything else for a `BackendError`.
    **more
        Further members of the problem document.
    """

    def __init__(
        self, status: int, detail: str, exception: str = "BackendError", **more: object
    ) -> None:
        super().__init__(detail)
        self.status = status
        self.document = {
            "title": exception,
            "status": status,
            "detail": detail,
            "exception": exception,
            **more,
        }


def create_app(
    token: str, limits: Limits = Limits(), operations: frozenset[str] = OPERATIONS
) -> Starlette:
    """Make the ASGI application.

    Parameters
    ----------
    token : str
        What clients have to present.
    limits : Limits
    operations : frozenset of str
        The operations offered; at most `OPERATIONS`.

    Raises
    ------
    ValueError
        If the token is too short, or an operation is not among `OPERATIONS`.
    """
    if len(token) < SHORTEST_TOKEN:
        raise ValueError(
            f"token: it has {len(token)} characters; expected at least {SHORTEST_TOKEN}, in the "
            f"environment variable {TOKEN_VARIABLE}"
        )
    if not operations <= OPERATIONS:
        unknown = ", ".join(sorted(operations - OPERATIONS))
        raise ValueError(f"operations: {unknown}; expected only names of OPERATIONS")
    service = _Service(limits, operations)
    return Starlette(
        routes=[
            Route("/health", service.health, methods=["GET"]),
            Route("/arrays/{key}", service.put_array, methods=["PUT"]),
            Route("/arrays/{key}", service.get_array, methods=["GET"]),
            Route("/arrays/{key}", service.delete_array, methods=["DELETE"]),
            Route("/operations/{name}", service.run_operation, methods=["POST"]),
            Route("/clients/{client}", service.forget_client, methods=["DELETE"]),
        ],
        middleware=[Middleware(_Authorization, token=token)],
        exception_handlers={Problem: _problem, HTTPException: _http_problem, Exception: _bug},
    )


class _Service:
    def __init__(self, limits: Limits, operations: frozenset[str]) -> None:
        self.limits = limits
        self.operations = operations
        self.store = Store(limits.arrays, limits.bytes, limits.lease)

    async def health(self, request: Request) -> Response:
        return JSONResponse(
            {
                "status": "ok",
                "protocol": VERSION,
                "operations": sorted(self.operations),
                "body": self.limits.body,
                "arrays": len(self.store),
                "bytes": self.store.used_bytes,
            }
        )

    # ------------------------------------------------------------------ arrays

    async def put_array(self, request: Request) -> Response:
        key = _key(request.path_params["key"])
        body = await self._body(request, NPY, self.limits.body)
        with _Answers():
            array = read_npy(body)
            self.store.add([(key, array)])
        return Response(status_code=201)

    async def get_array(self, request: Request) -> Response:
        array = self._stored([_key(request.path_params["key"])])[0]
        return Response(await run_in_threadpool(write_npy, array), media_type=NPY)

    async def delete_array(self, request: Request) -> Response:
        key = _key(request.path_params["key"])
        made = self.store.results(key)  # an operation may have left several
        for name, _ in [] if made is None else named(key, made):
            self.store.drop(name)
        return Response(status_code=204)

    async def forget_client(self, request: Request) -> Response:
        client = request.path_params["client"]
        if not CLIENT.fullmatch(client):
            raise Problem(422, f"client: it is {client!r}; expected 32 hexadecimal digits")
        self.store.drop_client(client)
        return Response(status_code=204)

    # ------------------------------------------------------------------ operations

    async def run_operation(self, request: Request) -> Response:
        name = request.path_params["name"]
        if name not in self.operations:
            detail = f"{name}: this server has no such operation; see /health for those it has"
            raise Problem(404, detail, "UnsupportedOperationError")
        body = await self._body(request, JSON, self.limits.request)
        with _Answers():
            wish = read_json(body)
            result = _key(wish.get("result"))
            args, params = self._arguments(wish)
        made = self.store.results(result)
        if made is None:
            with _Answers():
                made = await run_in_threadpool(
                    compute, name, args, params, max_bytes=self.limits.bytes
                )
                self.store.add(named(result, made))
        described = [
            {"key": key, "shape": array.shape, "dtype": array.dtype.name}
            for key, array in named(result, made)
        ]
        return JSONResponse({"tuple": described} if isinstance(made, tuple) else described[0])

    def _arguments(self, wish: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Decode the arguments of an operation, with the stored arrays in place of their keys."""
        keys: list[str] = []

        def collect(tag: str, value: Any) -> None:
            if tag == "array":
                keys.append(_key(value))

        def look_up(tag: str, value: Any) -> npt.NDArray[Any]:
            return stored[value] if tag == "array" else _scalar(value)

        args, params = wish.get("args"), wish.get("params")
        if not isinstance(args, list) or not isinstance(params, dict):
            raise ValueError("JSON: args and params are expected, a list and an object")
        decode({"tuple": args + list(params.values())}, collect)
        stored = dict(zip(keys, self._stored(keys), strict=True))
        return (
            tuple(decode(value, look_up) for value in args),
            {key: decode(value, look_up) for key, value in params.items()},
        )

    def _stored(self, keys: list[str]) -> list[npt.NDArray[Any]]:
        found = {key: self.store.get(key) for key in keys}
        missing = [key for key, array in found.items() if array is None]
        if missing:
            # All of them at once, so that the client can send them again at once.
            detail = f"array: {', '.join(missing)} not held; its lease ran out or the server is new"
            raise Problem(404, detail, missing=missing)
        return [array for key in keys if (array := found[key]) is not None]

    async def _body(self, request: Request, kind: str, limit: int) -> bytearray:
        """Receive a body of bounded size, of the expected type and within bounded time."""
        came = request.headers.get("content-type", "none")
        if came != kind:
            raise Problem(415, f"Content-Type: it is {came}; expected {kind}")
        announced = request.headers.get("content-length", "0")
        if int(announced) > limit:  # uvicorn admits nothing but digits
            raise _too_large(announced, limit)
        body = bytearray()
        try:
            async with asyncio.timeout(self.limits.upload):
                async for chunk in request.stream():
                    if len(body) + len(chunk) > limit:
                        raise _too_large(f"{len(body) + len(chunk)} or more", limit)
                    body += chunk
        except TimeoutError:
            raise Problem(408, f"body: not complete after {self.limits.upload} s") from None
        return body


class _Answers:
    """Turns what a request or an operation did wrong into the problem that says so."""

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        for name, meant in EXCEPTIONS.items():
            # MemoryError stands for itself: corepy's own exception is a kind of it.
            if isinstance(error, MemoryError if name == "MemoryError" else meant):
                status = 507 if isinstance(error, MemoryError) else 422
                raise Problem(status, str(error), name) from error


def _key(value: Any) -> str:
    if not isinstance(value, str) or not KEY.fullmatch(value):
        raise Problem(422, f"key: it is {value!r}; expected a client, a dash and a number")
    return value


def _scalar(value: Any) -> npt.NDArray[Any]:
    match value:
        case [content, str() as dtype] if dtype in DTYPES:
            return np.array(read_number(content), NATIVE[DTYPES[dtype]])
    raise ValueError(f"scalar: it is {value!r}; expected a value and a dtype")


def _too_large(size: object, limit: int) -> Problem:
    detail = f"body: it has {size} bytes; expected at most {limit}"
    return Problem(413, detail, "InsufficientMemoryError")


class _Authorization:
    """Lets pass who presents the token, and tells others nothing."""

    def __init__(self, app: ASGIApp, token: str) -> None:
        self.app = app
        self.expected = f"Bearer {token}".encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        presented = dict(scope["headers"]).get(b"authorization", b"")
        # In constant time, so that the time of a refusal tells nothing of the token.
        if hmac.compare_digest(presented, self.expected):
            await self.app(scope, receive, send)
        else:
            problem = Problem(401, "token: it is missing or wrong; expected that of the server")
            response = await _problem(Request(scope), problem)
            response.headers["WWW-Authenticate"] = "Bearer"
            await response(scope, receive, send)


async def _problem(request: Request, error: Exception) -> Response:
    assert isinstance(error, Problem)
    return JSONResponse(error.document, error.status, media_type=PROBLEM)


async def _http_problem(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    problem = Problem(error.status_code, f"{request.method} {request.url.path}: {error.detail}")
    return await _problem(request, problem)


async def _bug(request: Request, error: Exception) -> Response:
    # Starlette raises it again, so that it appears in the server's log; the client learns no more.
    return await _problem(request, Problem(500, "the server failed; its log says how"))


# ---------------------------------------------------------------------------- command line


class _Announcing(uvicorn.Server):
    """Says where it listens, as soon as it does: port 0 is known to nobody before."""

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        for server in self.servers:
            for bound in server.sockets:
                host, port = bound.getsockname()[:2]
                print(f"listening on http://{host}:{port}", flush=True)


def main(argv: Sequence[str] | None = None) -> None:
    """Serve until interrupted."""
    defaults = Limits()
    parser = argparse.ArgumentParser(
        prog="corepy-remote-server",
        description="Hold arrays and compute with them, for those who know the token in the "
        f"variable {TOKEN_VARIABLE}.",
    )
    add = parser.add_argument
    add("--host", default="127.0.0.1", help="address to listen at (default: %(default)s)")
    add("--port", type=int, default=8765, help="0 takes a free one (default: %(default)s)")
    add("--max-arrays", type=int, default=defaults.arrays, help="arrays held at most")
    add("--max-bytes", type=int, default=defaults.bytes, help="their bytes at most")
    add("--max-body", type=int, default=defaults.body, help="bytes of one array at most")
    add("--lease", type=float, default=defaults.lease, help="seconds an unused array is held")
    given = parser.parse_args(argv)
    if not 0 <= given.port < 2**16:
        parser.error(f"--port is {given.port}; expected 0 to 65535")
    limits = Limits(
        arrays=given.max_arrays,
        bytes=given.max_bytes,
        body=given.max_body,
        lease=given.lease,
    )
    try:
        app = create_app(os.environ.get(TOKEN_VARIABLE, ""), limits)
    except ValueError as error:
        parser.error(str(error))
    config = uvicorn.Config(
        app,
        host=given.host,
        port=given.port,
        http="h11",
        ws="none",
        lifespan="off",
        log_level="warning",
        access_log=False,
        server_header=False,
    )
    _Announcing(config).run()


if __name__ == "__main__":
    main()
