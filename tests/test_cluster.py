"""`corepy.connect`: a cluster computes what lives on ``dask``, or a clear error says why."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from typing import Any

import numpy as np
import pytest

import corepy
import corepy.array_api as xp


@pytest.mark.needs("distributed")
@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ((5,), TypeError, "connect: address is of type int; expected a str"),
        (("tcp://localhost:1", "3"), TypeError, "connect: timeout is of type str; expected a numb"),
        (("tcp://localhost:1", 0), ValueError, "connect: timeout is 0; expected a positive numbe"),
        (("",), ValueError, "connect: address is ''; expected a scheduler's address such as"),
        (("odd://x:1",), ValueError, "connect: address is 'odd://x:1'; expected a scheduler's ad"),
    ],
)
def test_bad_arguments(arguments: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error) as caught:
        corepy.connect(*arguments[:1], **dict(zip(("timeout",), arguments[1:], strict=False)))
    assert str(caught.value).startswith(message)


@pytest.mark.needs("distributed")
def test_nothing_listens_there() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"tcp://127.0.0.1:{free.getsockname()[1]}"
    expected = f"^connect: no scheduler answers at {address} within 0.5 s: "
    with pytest.raises(corepy.BackendUnavailableError, match=expected):
        corepy.connect(address, timeout=0.5)


def test_distributed_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("corepy._cluster.is_there", lambda name: False)
    with pytest.raises(corepy.BackendUnavailableError, match="^connect: distributed is not inst"):
        corepy.connect("tcp://localhost:8786")


@pytest.mark.backend("dask")
@pytest.mark.needs("distributed")
def test_a_cluster_computes_until_it_is_closed() -> None:
    from dask.array import from_array
    from distributed import LocalCluster

    def process(block: Any) -> Any:
        return np.full_like(block, os.getpid())

    native = from_array(np.zeros(4, np.int64), chunks=2).map_blocks(process, dtype=np.int64)
    x = xp.asarray(native)
    with LocalCluster(n_workers=1, threads_per_worker=1, dashboard_address=":0") as cluster:
        with corepy.connect(cluster.scheduler_address) as client:
            assert set(x.tolist()) == {*client.run(os.getpid).values()}
            assert int(xp.sum(xp.arange(10, device="dask") // 2)) == 20
            with pytest.raises(ZeroDivisionError, match="x2 holds 0"):
                (xp.arange(4, device="dask") // 0).tolist()
        assert set(x.tolist()) == {os.getpid()}


def test_importing_corepy_imports_no_distributed() -> None:
    code = "import corepy, sys; sys.exit(bool({'dask', 'distributed'} & set(sys.modules)))"
    subprocess.run([sys.executable, "-c", code], check=True)
