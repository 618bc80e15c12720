"""Arrays and operations on a server that is well."""

from __future__ import annotations

import concurrent.futures
import gc
import os
import time

import numpy as np
import pytest

import corepy
import corepy.array_api as xp
from corepy.dispatch import OPERATIONS as DECLARED
from corepy.dispatch import load
from corepy_remote import RemoteArray
from corepy_remote._operations import OPERATIONS

DTYPES = sorted(corepy.Capabilities().dtypes, key=lambda dtype: dtype.name)

EXTREMES = {
    "b": [True, False, True],
    "i": lambda info: [info.min, -1, info.max],
    "u": lambda info: [0, 1, info.max],
    "f": [-0.0, np.nan, np.inf],
    "c": [complex(-0.0, np.inf), complex(np.nan, -0.0), 1.5 - 2.5j],
}


def extremes(dtype: corepy.DType) -> np.ndarray:
    values = EXTREMES[dtype.kind]
    if callable(values):
        values = values(np.iinfo(dtype.name))
    return np.array(values, dtype.name)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_every_dtype_comes_back_bit_for_bit(remote, dtype):
    sent = extremes(dtype)
    x = xp.asarray(sent, device="remote:0")
    assert isinstance(x.unwrap(), RemoteArray)
    assert x.unwrap().host is None  # so what comes back has been on the server
    assert x.dtype is dtype
    back = np.asarray(x.to_device("cpu"))
    assert back.dtype == sent.dtype
    assert back.tobytes() == sent.tobytes()


@pytest.mark.parametrize(
    "sent",
    [
        np.array(2.5),
        np.empty((0,)),
        np.empty((3, 0, 2), "int8"),
        np.arange(24.0).reshape(2, 3, 4),
        np.asfortranarray(np.arange(6).reshape(2, 3)),
        np.arange(20)[::-3],
        np.arange(24.0).reshape(4, 6).T[1::2, ::-1],
        np.arange(3, dtype=">i4"),
        np.broadcast_to(np.float32(7), (2, 2)),
    ],
    ids=[
        "0-D",
        "empty",
        "empty 3-D",
        "3-D",
        "Fortran",
        "stride",
        "view",
        "big-endian",
        "broadcast",
    ],
)
def test_every_layout_comes_back(remote, sent):
    x = xp.asarray(sent, device="remote:0")
    back = np.asarray(x)
    assert x.shape == back.shape == sent.shape
    np.testing.assert_array_equal(back, sent)


def test_what_the_caller_does_to_its_array_later_changes_nothing(server, use):
    values = np.array([1.0, 2.0])
    with use(server.url, keep_host_copies=True):
        x = xp.asarray(values, device="remote:0")
        values[0] = 99.0
        assert x.tolist() == [1.0, 2.0]
        assert (x + 0.0).tolist() == [1.0, 2.0]


def test_results_stay_on_the_server(remote, monkeypatch):
    x = xp.asarray([[1.0, 2.0], [3.0, 4.0]])

    def forbidden(*args):
        raise AssertionError("data moved")

    monkeypatch.setattr(remote.client, "get", forbidden)
    monkeypatch.setattr(remote.client, "put", forbidden)
    y = xp.sum(xp.exp(x @ x.T) * 2.0 - 1, axis=0)
    assert y.device.name == "remote:0"
    assert xp.where(x > 1.0, x, 0.0).dtype is xp.float64
    monkeypatch.undo()
    expected = np.array([[1.0, 2.0], [3.0, 4.0]])
    np.testing.assert_allclose(np.asarray(y), np.sum(np.exp(expected @ expected.T) * 2 - 1, axis=0))


@pytest.mark.parametrize("value", [np.inf, -np.inf, np.nan, -0.0, 0.1])
def test_scalars_travel_exactly(remote, value):
    x = xp.asarray([1.0])
    assert str((x * value).tolist()) == str([value])
    scalar = complex(value, 1.0)
    assert str((xp.asarray([0j]) + scalar).tolist()) == str((np.array([0j]) + scalar).tolist())


def test_arguments_of_every_kind(remote):
    x = xp.reshape(xp.arange(24), (2, 3, 4))
    n = np.arange(24).reshape(2, 3, 4)
    cases = [
        (x[1], n[1]),
        (x[..., 1:3], n[..., 1:3]),
        (x[None, :, ::-1, 0], n[None, :, ::-1, 0]),
        (x[x > 5], n[n > 5]),
        (x[xp.asarray([1, 0]), xp.asarray([2, 2])], n[[1, 0], [2, 2]]),
        (xp.sum(x, axis=(0, 2), dtype=xp.float32), n.sum((0, 2), dtype="float32")),
        (xp.concat([x, x], axis=1), np.concatenate([n, n], axis=1)),
        (xp.where(x > 3, x, 0), np.where(n > 3, n, 0)),
        (xp.astype(x, xp.uint8), n.astype("uint8")),
        (xp.clip(x, 2, 7), n.clip(2, 7)),
        (xp.full((2,), 7), np.full(2, 7)),
        (xp.meshgrid(x[0, 0], x[1, 1], indexing="ij")[1], np.tile(n[1, 1], (4, 1))),
        (xp.unstack(x, axis=2)[3], n[..., 3]),
        (xp.std(xp.astype(x, xp.float64), correction=1.0), np.float64(n.std(ddof=1))),
    ]
    for got, expected in cases:
        assert got.device.name == "remote:0"
        np.testing.assert_array_equal(np.asarray(got), expected, strict=True)


def test_writing_leaves_other_arrays_alone(remote):
    x = xp.asarray([1.0, 2.0, 3.0])
    y = x + 0.0
    same = xp.asarray(y, copy=True)
    y[1:] = 9.0
    y += 1.0
    assert y.tolist() == [2.0, 10.0, 10.0]
    assert same.tolist() == x.tolist() == [1.0, 2.0, 3.0]


def test_python_values(remote):
    x = xp.asarray([3.0])
    assert float(xp.sum(x)) == 3.0
    assert int(xp.argmax(x)) == 0
    assert bool(xp.all(x == 3.0)) is True
    assert repr(x) == "Array([3.], dtype=float64, device=remote:0, backend=remote)"


def test_mistakes_arrive_as_on_the_host(remote):
    x, y = xp.asarray([[1.0, 2.0]]), xp.asarray([1, 0])
    with pytest.raises(ValueError, match="broadcast"):
        x + xp.asarray([1.0, 2.0, 3.0])
    with pytest.raises(IndexError, match="out of bounds for axis 1 with size 2"):
        x[0, 7]
    with pytest.raises(ZeroDivisionError, match="expected no zero among integers"):
        y // xp.asarray([1, 0])
    with pytest.raises(ValueError, match=r"cholesky: Matrix is not positive definite"):
        xp.linalg.cholesky(xp.asarray([[-1.0]]))
    with pytest.raises(corepy.DeviceMismatchError, match="remote:0 and x2 on cpu"):
        x + xp.asarray([1.0], device="cpu")
    with pytest.raises(ValueError, match="copy=False"):
        xp.asarray(np.ones(2), device="remote:0", copy=False)


def test_the_server_drops_what_nobody_holds(remote, server):
    def held():
        return server.request("GET", "/health")[1]["arrays"]

    before = held()
    kept = [xp.asarray([float(n)]) for n in range(5)]
    pair = xp.unique_counts(kept[0])
    assert held() == before + 7
    del kept[1:], pair
    gc.collect()
    deadline = time.monotonic() + 5
    while held() != before + 1 and time.monotonic() < deadline:
        time.sleep(0.005)
    assert held() == before + 1
    remote.client.close()
    assert held() == before


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
# JAX, where other tests have loaded it, says the same of itself, in a hook that cannot raise.
@pytest.mark.filterwarnings("ignore:os.fork.. was called:RuntimeWarning")
def test_a_forked_child_takes_nothing_from_its_parent(remote):
    x = xp.asarray([1.0, 2.0])
    child = os.fork()
    if child == 0:
        good = False
        try:
            good = (x + xp.asarray([5.0, 5.0])).tolist() == [6.0, 7.0]
        finally:
            del x
            os._exit(0 if good else 1)
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 0
    assert (x + xp.asarray([1.0, 1.0])).tolist() == [2.0, 3.0]


def test_eight_threads(remote):
    shared = xp.asarray([1.0, 2.0, 3.0])

    def work(n):
        with corepy.backend_priority(["remote"]):
            x = shared
            for _ in range(10):
                x = x * 2.0 + xp.asarray([float(n)] * 3)
            return x.tolist()

    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        for n, got in enumerate(pool.map(work, range(8))):
            assert got == [v * 1024.0 + n * 1023.0 for v in (1.0, 2.0, 3.0)]


def test_the_list_holds_operations_of_the_standard_alone():
    assert set(DECLARED) >= OPERATIONS
    assert [name for name in OPERATIONS if load("numpy").operation(name) is None] == []
