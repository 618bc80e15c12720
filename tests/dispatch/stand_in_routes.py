"""What tests of routes on a GPU that is none have in common: two libraries that serve it.

CuPy is its stand-in, and torch on the host says that it is there. Both share the host's memory, as
real ones share a GPU's.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import corepy
from corepy import _cli_routes
from corepy.backends.torch import _backend, _devices
from corepy.devices._device import CPU, as_device
from corepy.dispatch import _route_files as files
from corepy.dispatch import _route_sources as sources
from corepy.dispatch._admitted_devices import ADMITTED_ON_CUDA, form_of
from corepy.dispatch._route_table import Option, Route, RouteTable
from corepy.tuning import _tune
from tests.backends.cupy_devices import CURRENT
from tests.backends.gpu_on_host import GPU, Current
from tests.backends.stand_ins import Held

CUDA = as_device("cuda:0")
NAME = "A GPU of the tests"
HERE = {"gpu": NAME}
#: The current stream of torch.
ITS = Current()


class _Streams(Held):
    def is_capturing(self) -> bool:
        return self._current.address in GPU.recording


_held = _Streams(ITS, [])
_devices.present = lambda: (CPU, CUDA)
_devices.device_of = lambda place: CUDA
_devices.place_of = lambda device: torch.device("cpu")
_backend.streams_of = lambda device: _held if device is CUDA else None
PAIRS = [("torch", "cupy"), ("cupy", "torch")]
both_ways = pytest.mark.parametrize(("home", "other"), PAIRS)
NAN, INF = math.nan, math.inf


def route(operation: str, home: str, other: str, least: int = 100, **options: Any) -> Route:
    form = options.pop("form", ADMITTED_ON_CUDA[operation].own_forms[0])
    dtype = options.pop("dtype", "float32")
    option = Option(other, options.pop("gain", 1.25))
    return Route(operation, dtype, form_of(home, form), least, 1e-3, (option,))


Use = Callable[..., None]


@pytest.fixture(autouse=True)
def alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Give each test a cache folder and GPUs' data of its own, and a GPU that has a name."""
    monkeypatch.setattr(files, "cache_folder", lambda: tmp_path / "cache")
    hosts = files.shipped_files()
    monkeypatch.setattr(files, "DATA", tmp_path / "data")
    monkeypatch.setattr(files, "shipped_files", lambda: hosts)
    for module in (sources, _cli_routes, _tune):
        monkeypatch.setattr(module, "gpu_name", lambda device: NAME if device is CUDA else None)
    corepy.set_routes(None)
    yield
    monkeypatch.undo()
    GPU.recording.clear()
    CURRENT.address = ITS.address = 0
    corepy.set_routes(None)


@pytest.fixture
def use(tmp_path: Path) -> Use:
    """Put routes in force."""

    def apply(*routes: Route) -> None:
        path = tmp_path / "table.json"
        path.write_text(RouteTable(HERE, {"command": "a test"}, {}, routes).dump())
        corepy.set_routes(path)

    return apply


def array(home: str, values: Any, dtype: str = "float32") -> Any:
    return corepy.to(np.asarray(values, dtype), backend=home, device="cuda:0")


def host(x: Any) -> np.ndarray[Any, Any]:
    found: np.ndarray[Any, Any] = corepy.to(x, device="cpu", backend="numpy").unwrap()
    return found


def ran(function: Callable[..., Any], *args: Any) -> tuple[str, str]:
    (record,) = corepy.explain(function, *args).records
    assert record.device == "cuda:0"
    return record.backend, record.reason
