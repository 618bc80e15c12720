"""The server, spoken to without the client."""

from __future__ import annotations

import asyncio
import itertools
import re
import subprocess
import sys

import numpy as np
import pytest

import corepy
import corepy.array_api as xp
from corepy_remote._protocol import read_npy, write_npy
from corepy_remote._server import Limits, create_app, main
from corepy_remote._store import Store

CLIENT = "0123456789abcdef" * 2
_numbers = itertools.count()


def new_key():
    return f"{CLIENT}-{next(_numbers)}"


def ask(result, *args, **params):
    return {"result": result, "args": list(args), "params": params}


# ---------------------------------------------------------------------------- the protocol


def test_put_run_get_delete(server):
    x, y = new_key(), new_key()
    assert server.request("PUT", f"/arrays/{x}", write_npy(np.array([1.0, 2.0])))[0] == 201
    status, said = server.request("POST", "/operations/square", ask(y, {"array": x}))
    assert (status, said) == (200, {"key": y, "shape": [2], "dtype": "float64"})
    status, body = server.request("GET", f"/arrays/{y}")
    assert status == 200
    assert read_npy(body).tolist() == [1.0, 4.0]
    for _ in range(2):  # dropping twice is the same as once
        assert server.request("DELETE", f"/arrays/{y}")[0] == 204
    status, said = server.request("GET", f"/arrays/{y}")
    assert (status, said["missing"]) == (404, [y])
    assert server.request("DELETE", f"/clients/{CLIENT}")[0] == 204
    assert server.request("GET", f"/arrays/{x}")[0] == 404


def test_a_repeated_key_is_answered_as_done(server):
    x, y = new_key(), new_key()
    server.request("PUT", f"/arrays/{x}", write_npy(np.array([3.0, 1.0])))
    first = server.request("POST", "/operations/unique_counts", ask(y, {"array": x}))
    server.request("DELETE", f"/arrays/{x}")  # so it cannot be computed again
    server.request("PUT", f"/arrays/{x}", write_npy(np.array([7.0])))
    again = server.request("POST", "/operations/unique_counts", ask(y, {"array": x}))
    assert first[0] == 200
    assert again == first
    assert read_npy(server.request("GET", f"/arrays/{y}.0")[1]).tolist() == [1.0, 3.0]
    server.request("DELETE", f"/arrays/{y}")  # drops both results
    assert server.request("GET", f"/arrays/{y}.1")[0] == 404
    server.request("DELETE", f"/clients/{CLIENT}")


@pytest.mark.parametrize("token", ["", "wrong", "a token for the tests alonE"])
@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/health"),
        ("GET", f"/arrays/{CLIENT}-0"),
        ("PUT", f"/arrays/{CLIENT}-0"),
        ("POST", "/operations/add"),
        ("DELETE", f"/clients/{CLIENT}"),
        ("GET", "/nowhere"),
    ],
)
def test_nothing_without_the_token(server, token, method, path):
    status, problem = server.request(method, path, b"x" if method == "PUT" else None, token=token)
    assert status == 401
    assert problem["detail"].startswith("token: it is missing or wrong")


@pytest.mark.parametrize("name", ["save", "fromfile", "load", "__iadd__", "fft.fft", "linalg", "x"])
def test_operations_outside_the_list(server, name):
    status, problem = server.request("POST", f"/operations/{name}", ask(new_key()))
    assert (status, problem["exception"]) == (404, "UnsupportedOperationError")


@pytest.mark.parametrize(
    ("wish", "detail"),
    [
        (b"\xff", "JSON: it is malformed"),
        (b"[" * 100_000, "JSON: it is malformed"),
        (b"[]", "expected an object"),
        ({}, "key: it is None"),
        (ask("../../etc/passwd"), "key: it is '../../etc/passwd'"),
        ({"result": f"{CLIENT}-9"}, "args and params are expected"),
        (ask(f"{CLIENT}-9", [1]), "bare list"),
        (ask(f"{CLIENT}-9", {"a": 1, "b": 2}), "expected one"),
        (ask(f"{CLIENT}-9", {"pickle": "gASVAA=="}), "pickle is"),
        (ask(f"{CLIENT}-9", {"dtype": "object"}), "dtype is 'object'"),
        (ask(f"{CLIENT}-9", {"slice": ["a", None, None]}), "slice is"),
        (ask(f"{CLIENT}-9", {"float": "__import__"}), "no scalar"),
        (ask(f"{CLIENT}-9", {"scalar": [1, "object"]}), "scalar: it is"),
        (ask(f"{CLIENT}-9", {"array": 7}), "key: it is 7"),
        (ask(f"{CLIENT}-9", {"scalar": [1, "int8"]}, nonsense=1), "nonsense"),
    ],
)
def test_malformed_requests(server, wish, detail):
    status, problem = server.request("POST", "/operations/abs", wish, "application/json")
    assert status == 422
    assert detail in problem["detail"]


def test_results_of_no_standard_dtype_are_refused(server):
    wish = ask(new_key(), 3, dtype="O", device={"device": True})
    status, problem = server.request("POST", "/operations/ones", wish)
    assert (status, problem["exception"]) == (422, "TypeError")
    assert "dtype is numpy's object" in problem["detail"]


def test_wrong_content_type_method_and_path(server):
    path = f"/arrays/{new_key()}"
    body = write_npy(np.ones(1))
    assert server.request("PUT", path, body, "application/octet-stream")[0] == 415
    assert server.request("POST", path, body)[0] == 405
    status, problem = server.request("GET", "/nowhere")
    assert (status, problem["detail"]) == (404, "GET /nowhere: Not Found")


@pytest.mark.parametrize("body", [b"", b"\x93NUMPY", write_npy(np.ones(4))[:-1], b"x" * 200])
def test_malformed_arrays(server, body):
    key = new_key()
    assert server.request("PUT", f"/arrays/{key}", body)[0] == 422
    assert server.request("GET", f"/arrays/{key}")[0] == 404


# ---------------------------------------------------------------------------- limits


def test_storage_is_bounded(start, use):
    server = start("--max-arrays", "3", "--max-bytes", "4096", "--max-body", "2048")
    with use(server.url):
        x = xp.asarray([1.0, 2.0])
        others = [x + 1.0, x + 2.0]
        with pytest.raises(corepy.InsufficientMemoryError, match="expected at most 3 in all"):
            x + 3.0
        with pytest.raises(corepy.InsufficientMemoryError, match="expected at most 3 in all"):
            xp.asarray([3.0])
        assert others[1].tolist() == [3.0, 4.0]
        server.request("DELETE", f"/arrays/{others.pop().unwrap().key}")
        with pytest.raises(corepy.InsufficientMemoryError, match="its result takes 8000 bytes"):
            xp.broadcast_to(x[0:1], (1000,))
        with pytest.raises(
            corepy.InsufficientMemoryError, match=r"beside \d+; expected at most 4096"
        ):
            xp.zeros((510,))
        with pytest.raises(corepy.InsufficientMemoryError, match="expected at most 2048"):
            xp.zeros((256,), device="cpu").to_device("remote:0")
        assert x.tolist() == [1.0, 2.0]


def test_bodies_are_bounded_also_where_they_announce_no_size(start):
    server = start("--max-body", "2048")
    path = f"/arrays/{new_key()}"
    for body in (b"x" * 2049, iter([b"x" * 1000] * 3)):  # the second comes in chunks
        status, problem = server.request("PUT", path, body)
        assert (status, problem["exception"]) == (413, "InsufficientMemoryError")
        assert re.fullmatch(r"body: it has .* bytes; expected at most 2048", problem["detail"])
    assert server.request("GET", "/health")[1]["arrays"] == 0


def test_a_body_that_does_not_come():
    async def request():
        answers = []

        async def receive():
            await asyncio.sleep(30)

        async def send(message):
            answers.append(message)

        app = create_app("t" * 16, Limits(upload=0.01))
        headers = [
            (b"authorization", b"Bearer " + b"t" * 16),
            (b"content-type", b"application/x-npy"),
        ]
        scope = {
            "type": "http",
            "method": "PUT",
            "path": f"/arrays/{new_key()}",
            "query_string": b"",
            "headers": headers,
        }
        await app(scope, receive, send)
        return answers

    start, body = asyncio.run(request())
    assert start["status"] == 408
    assert b"body: not complete after 0.01 s" in body["body"]


def test_it_does_not_start_without_a_good_token(environment):
    environment["COREPY_REMOTE_TOKEN"] = "short"
    command = [sys.executable, "-m", "corepy_remote._server", "--port", "0"]
    done = subprocess.run(
        command, env=environment, capture_output=True, text=True, timeout=20, check=False
    )
    assert done.returncode == 2
    assert "token: it has 5 characters; expected at least 16" in done.stderr


def test_operations_can_be_fewer_and_no_more():
    with pytest.raises(ValueError, match="operations: save; expected only names of OPERATIONS"):
        create_app("t" * 16, operations=frozenset({"add", "save"}))


# ---------------------------------------------------------------------------- the store


def test_the_store_expires_what_nobody_uses():
    now = 0.0
    store = Store(10, 1000, 5.0, clock=lambda: now)
    store.add([("a", np.zeros(2)), ("b", np.zeros(3))])
    now = 4.0
    assert store.get("a") is not None  # used, so its lease begins anew
    now = 6.0
    assert store.get("b") is None
    assert (len(store), store.used_bytes) == (1, 16)
    now = 9.0
    assert store.get("a") is None
    assert (len(store), store.used_bytes) == (0, 0)


def test_the_store_takes_all_results_or_none():
    store = Store(2, 1000, 5.0)
    store.add([("a", np.zeros(1))])
    with pytest.raises(MemoryError, match="2 arrays are to be held beside 1"):
        store.add([("b", np.zeros(1)), ("c", np.zeros(1))])
    assert store.get("b") is None
    store.add([("a", np.zeros(1)), ("b", np.zeros(1))])  # "a" again needs no room
    assert store.used_bytes == 16


def test_stored_arrays_cannot_be_written():
    store = Store(2, 1000, 5.0)
    store.add([("a", np.zeros(1))])
    with pytest.raises(ValueError, match="read-only"):
        store.get("a")[0] = 1.0


@pytest.mark.parametrize("port", ["-1", "65536"])
def test_a_port_that_none_is_is_refused_in_one_line(port, capsys):
    with pytest.raises(SystemExit, match="2"):
        main([f"--port={port}"])
    assert capsys.readouterr().err.endswith(f"error: --port is {port}; expected 0 to 65535\n")


def test_the_help_says_what_the_server_needs(capsys):
    with pytest.raises(SystemExit, match="0"):
        main(["--help"])
    text = " ".join(capsys.readouterr().out.split())
    assert "for those who know the token in the variable COREPY_REMOTE_TOKEN. options:" in text
