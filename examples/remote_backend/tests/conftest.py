"""Servers for the tests: real ones in processes of their own, and false ones that misbehave."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import corepy

if TYPE_CHECKING:
    from corepy_remote import RemoteBackend

#: What the example needs beside corepy. The rest of corepy's tests run without it, so where it is
#: missing this folder is left out, and the header of the report says so.
LACKING = [name for name in ("starlette", "urllib3", "uvicorn") if find_spec(name) is None]
collect_ignore_glob = ["test_*.py"] if LACKING else []


def pytest_report_header() -> str | None:
    """Say that these tests are left out, if they are."""
    return f"examples/remote_backend: left out, lacks {', '.join(LACKING)}" if LACKING else None


JSON = "application/json"
NPY = "application/x-npy"
TOKEN = "a token for the tests alone"
SOURCE = Path(__file__).parents[1] / "src"
ENVIRONMENT = os.environ | {
    "COREPY_REMOTE_TOKEN": TOKEN,
    "PYTHONPATH": os.pathsep.join([str(SOURCE), str(Path(corepy.__file__).parents[1])]),
}


class RealServer:
    """A server in a process of its own."""

    def __init__(self, *options: str, port: int = 0) -> None:
        command = [sys.executable, "-m", "corepy_remote._server", "--port", str(port), *options]
        self.process = subprocess.Popen(
            command, env=ENVIRONMENT, stdout=subprocess.PIPE, text=True, stderr=subprocess.DEVNULL
        )
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line.startswith("listening on http://127.0.0.1:"), line
        self.url = line.split()[-1]
        self.port = int(self.url.rpartition(":")[2])

    def kill(self) -> None:
        """End it in the midst of whatever it does."""
        self.process.send_signal(signal.SIGKILL)
        self.process.wait(10)

    def freeze(self) -> None:
        """Let it accept connections and answer nothing."""
        self.process.send_signal(signal.SIGSTOP)

    def close(self) -> None:
        self.kill()
        assert self.process.stdout is not None
        self.process.stdout.close()

    def request(
        self, method: str, path: str, body: Any = None, kind: str = NPY, token: str = TOKEN
    ) -> tuple[int, Any]:
        """Speak to it without the client; return the status and the decoded answer."""
        import urllib3

        headers = {"Authorization": f"Bearer {token}", "Content-Type": kind}
        if isinstance(body, dict):
            body, headers["Content-Type"] = json.dumps(body).encode(), JSON
        answer = urllib3.request(
            method, self.url + path, body=body, headers=headers, timeout=10, retries=False
        )
        is_json = "json" in answer.headers.get("Content-Type", "")
        return answer.status, answer.json() if is_json else answer.data


@pytest.fixture
def environment() -> dict[str, str]:
    """Variables for a process that uses the package."""
    return dict(ENVIRONMENT)


@pytest.fixture
def source() -> Path:
    return SOURCE


@pytest.fixture(scope="session")
def server() -> Iterator[RealServer]:
    """A server that all tests share: whoever breaks one starts one."""
    started = RealServer()
    yield started
    started.close()


@pytest.fixture
def start() -> Iterator[Callable[..., RealServer]]:
    """Start servers for one test."""
    started: list[RealServer] = []

    def begin(*options: str, port: int = 0) -> RealServer:
        started.append(RealServer(*options, port=port))
        return started[-1]

    yield begin
    for one in started:
        one.close()


@contextmanager
def registered(url: str, **options: Any) -> Iterator[RemoteBackend]:
    """Make a server the place where new arrays are created."""
    from corepy_remote import RemoteBackend

    backend = RemoteBackend(url, TOKEN, **({"pause": 0.0} | options))
    corepy.register_backend("remote", backend)
    try:
        with corepy.backend_priority(["remote"]):
            yield backend
    finally:
        corepy.unregister_backend("remote")
        backend.client.close()


@pytest.fixture
def use() -> Callable[..., Any]:
    return registered


@pytest.fixture
def remote(server: RealServer) -> Iterator[RemoteBackend]:
    """The shared server as the default device, without copies that could stand in for it."""
    with registered(server.url, keep_host_copies=False) as backend:
        yield backend


class FakeServer:
    """Answers each request by a function of method, path and body.

    The function returns status, content type and body; None breaks the connection, and an int
    sends a body that is that many bytes shorter than announced.
    """

    def __init__(self) -> None:
        from corepy_remote._operations import OPERATIONS
        from corepy_remote._protocol import VERSION

        health = {"status": "ok", "protocol": VERSION, "operations": sorted(OPERATIONS)}
        self.requests: list[tuple[str, str, bytes]] = []
        self.released = threading.Event()
        self.answer: Callable[[str, str, bytes], Any] = lambda *request: (201, JSON, b"{}")
        fake = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def handle_any(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
                fake.requests.append((self.command, self.path, body))
                answer = fake.answer(self.command, self.path, body)
                if self.path == "/health" and answer == (201, JSON, b"{}"):
                    answer = (200, JSON, json.dumps(health).encode())
                self.close_connection = True
                if answer is None:
                    return
                status, kind, content, *short = answer
                self.send_response(status)
                self.send_header("Content-Type", kind)
                self.send_header("Content-Length", str(len(content) + sum(short)))
                self.end_headers()
                self.wfile.write(content)

            do_GET = do_PUT = do_POST = do_DELETE = handle_any

            def log_message(self, *args: Any) -> None:
                """Say nothing."""

            def handle(self) -> None:
                try:
                    super().handle()
                except OSError as error:  # the client has gone, as some tests want it
                    fake.requests.append(("gone", type(error).__name__, b""))

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = False
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,))
        self._thread.start()

    def hang(self, *request: Any) -> Any:
        """Answer when the test is over."""
        assert self.released.wait(30)

    def close(self) -> None:
        self.released.set()
        self._server.shutdown()
        self._thread.join(10)
        self._server.server_close()


@pytest.fixture
def fake() -> Iterator[FakeServer]:
    made = FakeServer()
    yield made
    made.close()


@pytest.fixture(autouse=True)
def _nothing_left() -> Iterator[None]:
    """No test leaves a thread of a backend behind."""
    yield
    left = [t.name for t in threading.enumerate() if t.name == "corepy-remote-sweeper"]
    assert left == []
