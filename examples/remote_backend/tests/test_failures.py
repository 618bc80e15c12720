"""What becomes of arrays and operations when the server does not do its part."""

from __future__ import annotations

import io
import json
import pickle
import threading
import time

import numpy as np
import pytest

import corepy
import corepy.array_api as xp
from corepy_remote import RemoteBackend, RemoteError
from corepy_remote._client import Client
from corepy_remote._protocol import JSON, NPY, PROBLEM, write_npy

TOKEN = "a token for the tests alone"

# ---------------------------------------------------------------------------- no server


def test_no_server_at_the_start(start, use):
    server = start()
    server.kill()
    with (
        pytest.raises(
            corepy.BackendUnavailableError, match="remote is not usable: GET /health: no answer"
        ),
        use(server.url),
    ):
        raise AssertionError("a server that is not there was used")


def test_no_server_at_the_start_leaves_the_others_usable(start):
    server = start()
    server.kill()
    backend = RemoteBackend(server.url, TOKEN, retries=0)
    corepy.register_backend("remote", backend)
    try:
        assert "remote" not in corepy.usable_backends()
        assert why_not().startswith(f"GET /health: no answer from {server.url}")
        assert "numpy" in corepy.usable_backends()
        assert (xp.asarray([1.0]) + 1.0).tolist() == [2.0]
        with pytest.raises(corepy.BackendUnavailableError, match="remote:0"):
            xp.asarray([1.0], device="remote:0")
        with pytest.raises(RemoteError, match=f"no answer from {server.url}.*refused"):
            backend.check()
    finally:
        corepy.unregister_backend("remote")
        backend.client.close()


def why_not():
    """Return what `corepy info` says of the backend."""
    return next(row.reason for row in corepy.backend_status() if row.name == "remote")


@pytest.mark.parametrize(
    ("url", "token", "reason"),
    [
        ("", TOKEN, "no server is named; expected its URL in COREPY_REMOTE_URL"),
        ("http://127.0.0.1:9", "", "no token is set; expected the server's in COREPY_REMOTE_TOKEN"),
    ],
)
def test_what_is_not_set_is_said(monkeypatch, url, token, reason):
    monkeypatch.setenv("COREPY_REMOTE_URL", url)
    monkeypatch.setenv("COREPY_REMOTE_TOKEN", token)
    backend = RemoteBackend()
    with pytest.raises(RemoteError, match=f"^remote: {reason}$"):
        backend.is_available()
    corepy.register_backend("remote", backend)
    try:
        assert why_not() == reason
    finally:
        corepy.unregister_backend("remote")
    if url:
        backend.client.close()


def test_wrong_token(server):
    backend = RemoteBackend(server.url, "some other token")
    with pytest.raises(RemoteError, match="answered 401: token: it is missing or wrong"):
        backend.is_available()
    backend.client.close()


@pytest.mark.parametrize(
    ("url", "why"),
    [
        ("http://arrays.example.org", "unencrypted"),
        ("ftp://127.0.0.1", "expected https://"),
        ("127.0.0.1:80", "expected https://"),
    ],
)
def test_urls_that_are_refused(url, why):
    with pytest.raises(ValueError, match=why):
        RemoteBackend(url, TOKEN)


# ---------------------------------------------------------------------------- dying midway


def kill_during(server, operation):
    """Run an operation on a server that has received it and then is killed."""
    server.freeze()  # it takes the request and cannot answer it
    killer = threading.Timer(0.2, server.kill)
    killer.start()
    try:
        return operation()
    finally:
        killer.join()


def test_killed_midway_under_raise(start, use):
    server = start()
    with use(server.url, retries=0), corepy.set_fallback("raise"):
        x = xp.asarray([1.0, 2.0])
        computed = x * 10.0
        with pytest.raises(corepy.BackendError, match=f"POST /operations/add: no .*{server.url}"):
            kill_during(server, lambda: x + x)
        assert x.tolist() == [1.0, 2.0]  # the operand is untouched, and still here
        assert np.asarray(x.to_device("cpu")).tolist() == [1.0, 2.0]
        with pytest.raises(
            corepy.BackendError, match=r"x of shape \(2,\) and dtype float64 .*only lives on"
        ):
            computed.to_device("cpu")


def test_killed_midway_under_allow(start, use):
    server = start()
    with use(server.url, retries=0), corepy.set_fallback("allow"):
        x = xp.asarray([[4.0, 1.0], [1.0, 4.0]])
        computed = x * 10.0
        y = kill_during(server, lambda: x + x)
        assert y.device.name == "remote:0"
        assert y.tolist() == [[8.0, 2.0], [2.0, 8.0]]
        # And on it goes, with all that the host knows.
        y[0, 0] = 9.0
        assert xp.sum(y[y > 2.0] - xp.ones((2,))).item() == 15.0
        assert x.tolist() == [[4.0, 1.0], [1.0, 4.0]]
        assert xp.asarray([1, 2]).tolist() == [1, 2]
        with pytest.raises(corepy.BackendError, match="an operand .* only lives on the server"):
            xp.sum(computed)


def test_killed_midway_under_warn(start, use):
    server = start()
    with use(server.url, retries=0), corepy.set_fallback("warn"):
        x = xp.asarray([1.0, 2.0])
        with pytest.warns(corepy.FallbackWarning, match="add: .*the host does it instead") as seen:
            y = kill_during(server, lambda: x + x)
        assert y.tolist() == [2.0, 4.0]
        assert [warning.filename for warning in seen] == [__file__]


def test_without_copies_the_error_says_what_is_gone(start, use):
    server = start()
    with use(server.url, retries=0, keep_host_copies=False), corepy.set_fallback("allow"):
        x = xp.asarray([1.0, 2.0])
        with pytest.raises(corepy.BackendError, match="no copy on the host: it only lives on"):
            kill_during(server, lambda: x + x)
        with pytest.raises(corepy.BackendError, match="PUT /arrays/"):
            xp.asarray([1.0])


def test_a_new_server_gets_what_the_host_knows(start, use):
    first = start()
    with use(first.url), corepy.set_fallback("raise"):
        x = xp.asarray([1.0, 2.0])
        computed = x * 10.0
        first.kill()
        second = start(port=first.port)
        assert (x + x).tolist() == [2.0, 4.0]
        assert second.request("GET", f"/arrays/{x.unwrap().key}")[0] == 200
        for _ in range(2):
            with pytest.raises(corepy.BackendError, match="not held; .*only lives on the server"):
                computed + x
        assert (x - 1.0).tolist() == [0.0, 1.0]


def test_what_the_host_did_meanwhile_goes_to_the_server_later(start, use):
    first = start()
    with use(first.url), corepy.set_fallback("allow"):
        x = xp.asarray([1.0, 2.0])
        first.kill()
        y = x * 3.0
        assert not y.unwrap().stored
        start(port=first.port)
        z = y + x
        assert y.unwrap().stored
        assert z.unwrap().host is None  # so the server has computed it
        assert z.tolist() == [4.0, 8.0]


def test_a_lease_that_ran_out(start, use):
    server = start("--lease", "0.05")
    with use(server.url), corepy.set_fallback("raise"):
        x = xp.asarray([1.0, 2.0])
        computed = x * 10.0
        time.sleep(0.1)
        assert (x + x).shape == (2,)
        with pytest.raises(corepy.BackendError, match="its lease ran out"):
            computed.tolist()


def test_a_server_that_did_not_answer_is_given_a_rest(start, use):
    server = start()
    with use(server.url, pause=60.0) as backend, corepy.set_fallback("allow"):
        x = xp.asarray([1.0])
        server.kill()
        assert (x + x).tolist() == [2.0]
        with corepy.set_fallback("raise"), pytest.raises(RemoteError, match=r"tried again in \d"):
            x + x
        start(port=server.port)
        assert backend.is_available()  # asking for it ends the rest
        assert (x + x).unwrap().stored


# ---------------------------------------------------------------------------- malformed answers


def described(key, shape=(2,), dtype="float64"):
    return json.dumps({"key": key, "shape": shape, "dtype": dtype}).encode()


def npy(array):
    return write_npy(np.asarray(array))


def object_npy():
    stream = io.BytesIO()
    np.save(stream, np.array([{"a": 1}, None], dtype=object), allow_pickle=True)
    return stream.getvalue()


def header_npy(header, data=b""):
    text = repr(header).encode().ljust(117) + b"\n"
    return b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text + data


GOOD = {"descr": "<f8", "fortran_order": False, "shape": (2,)}

MALFORMED_ARRAYS = {
    "content type": ((200, "text/html", npy([1.0, 2.0])), "content type is text/html"),
    "no npy": ((200, NPY, b"<html>"), "header is malformed"),
    "empty": ((200, NPY, b""), "header is malformed"),
    "shorter than announced": ((200, NPY, npy([1.0, 2.0])[:-3], 3), "no answer"),
    "shorter than its header says": ((200, NPY, npy([1.0, 2.0])[:-3]), "13 bytes.*expected 16"),
    "longer than its header says": ((200, NPY, npy([1.0, 2.0]) + b"x"), "17 bytes.*expected 16"),
    "objects": ((200, NPY, object_npy()), "dtype is object"),
    "a bare pickle": ((200, NPY, pickle.dumps([1.0, 2.0])), "header is malformed"),
    "code in the header": ((200, NPY, header_npy("__import__('os')")), "header is malformed"),
    "negative size": ((200, NPY, header_npy(GOOD | {"shape": (-2,)})), "shape is"),
    "huge size": ((200, NPY, header_npy(GOOD | {"shape": (2**62, 2)})), "expected"),
    "too large": ((200, NPY, npy(np.zeros(2000))), "larger than"),
    "other dtype": ((200, NPY, npy(np.zeros(2, "float32"))), "dtype float32; expected"),
    "dtype of no standard": ((200, NPY, npy(np.zeros(2, "float16"))), "dtype is float16"),
    "other shape": ((200, NPY, npy(np.zeros((1, 2)))), r"shape \(1, 2\)"),
    "error without a document": ((500, "text/html", b"<h1>oops</h1>"), "status is 500"),
    "error with half a document": ((500, PROBLEM, b'{"detail": '), "JSON: it is malformed"),
    "redirect": ((302, "text/html", b""), "status is 302"),
    "connection broken": (None, "no answer"),
}


@pytest.mark.parametrize(("answer", "why"), MALFORMED_ARRAYS.values(), ids=MALFORMED_ARRAYS)
def test_malformed_arrays(fake, use, answer, why):
    def respond(method, path, body):
        if method == "POST":
            return 200, JSON, described(json.loads(body)["result"])
        return answer if method == "GET" and path != "/health" else (201, JSON, b"{}")

    fake.answer = respond
    with use(fake.url), corepy.set_fallback("allow"):
        x = xp.asarray([1.0, 2.0])
        y = x + x
        with pytest.raises(corepy.BackendError, match=why):
            y.tolist()
        assert x.tolist() == [1.0, 2.0]


MALFORMED_RESULTS = {
    "garbage": lambda key: (200, JSON, b"\xff\xfe{"),
    "deep": lambda key: (200, JSON, b"[" * 100_000),
    "a list": lambda key: (200, JSON, b"[1, 2]"),
    "nothing": lambda key: (200, JSON, b"{}"),
    "content type": lambda key: (200, "text/plain", described(key)),
    "other key": lambda key: (200, JSON, described("0" * 32 + "-1")),
    "unknown dtype": lambda key: (200, JSON, described(key, dtype="float16")),
    "wrong dtype": lambda key: (200, JSON, described(key, dtype="int8")),
    "no shape": lambda key: (200, JSON, described(key, shape=[True, "2"])),
    "negative shape": lambda key: (200, JSON, described(key, shape=[-1])),
    "too large": lambda key: (200, JSON, b" " * (2**24 + 1)),
    "server error": lambda key: (
        500,
        PROBLEM,
        b'{"detail": "it failed", "exception": "SystemExit"}',
    ),
    "connection broken": lambda key: None,
}


@pytest.mark.parametrize("make", MALFORMED_RESULTS.values(), ids=MALFORMED_RESULTS)
def test_malformed_results(fake, use, make):
    fake.answer = lambda method, path, body: (
        make(json.loads(body)["result"]) if method == "POST" else (201, JSON, b"{}")
    )
    with use(fake.url):
        x = xp.asarray([1.0, 2.0])
        with corepy.set_fallback("raise"), pytest.raises(corepy.BackendError, match="remote: "):
            x + x
        with corepy.set_fallback("allow"):
            assert (x + x).tolist() == [2.0, 4.0]
        with pytest.warns(corepy.FallbackWarning, match="add: remote: .*the host does it instead"):
            assert (x + x).tolist() == [2.0, 4.0]


@pytest.mark.parametrize(
    "health",
    [b"{}", b'{"protocol": 2, "operations": []}', b'{"protocol": 1, "operations": [1]}', b"hello"],
)
def test_something_else_listens_there(fake, health):
    fake.answer = lambda *request: (200, JSON, health)
    backend = RemoteBackend(fake.url, TOKEN)
    with pytest.raises(RemoteError, match="GET /health.*is malformed"):
        backend.is_available()
    backend.client.close()


# ---------------------------------------------------------------------------- time and repetition


def test_a_server_that_hangs(fake, use):
    with use(fake.url, timeout=0.1), corepy.set_fallback("raise"):
        x = xp.asarray([1.0, 2.0])
        fake.answer = fake.hang
        began = time.monotonic()
        with pytest.raises(corepy.BackendError, match=r"timed out. \(read timeout=0.1\)"):
            x + x
        assert time.monotonic() - began < 2
        assert x.tolist() == [1.0, 2.0]
        # What takes too long is not asked for twice.
        assert [path for method, path, _ in fake.requests if method == "POST"] == [
            "/operations/add"
        ]
        fake.released.set()


def test_a_lost_answer_is_asked_for_again_and_computed_once(fake, server, use):
    """The server does its work, and the connection breaks before the client learns of it."""
    lost = []

    def relay(method, path, body):
        kind = JSON if method == "POST" else NPY
        status, content = server.request(method, path, body, kind)
        if method == "POST" and not lost:
            lost.append(content)
            return None
        is_json = isinstance(content, dict)
        return (
            status,
            JSON if is_json else NPY,
            json.dumps(content).encode() if is_json else content,
        )

    fake.answer = relay
    before = server.request("GET", "/health")[1]["arrays"]
    with use(fake.url), corepy.set_fallback("raise"):
        x = xp.asarray([1.0, 2.0])
        y = x + x
        assert y.tolist() == [2.0, 4.0]
        sent = [body for method, _, body in fake.requests if method == "POST"]
        assert len(sent) == 2
        assert sent[0] == sent[1]
        assert lost[0]["key"] == y.unwrap().key
        assert server.request("GET", "/health")[1]["arrays"] == before + 2


def test_how_often_a_broken_connection_is_tried_again(fake):
    fake.answer = lambda *request: None
    client = Client(fake.url, TOKEN, retries=2)
    with pytest.raises(RemoteError, match="no answer"):
        client.health()
    assert [path for _, path, _ in fake.requests] == ["/health"] * 3
    client.close()
