"""A stand-in for CuPy that computes with NumPy, to try the adapter where there is no GPU.

    python -m pytest -p tests.backends.cupy_on_numpy tests/array_api -k cupy

It shows that the adapter names, calls and converts as it should, and that its fixes give the
standard's values where they are given NumPy's. What CuPy itself computes it does not show: only a
GPU does (`scripts/gpu_check.sh`). As in CuPy, there are the functions and parameters of
``cupy_signatures.json`` and no others, results are arrays where NumPy gives scalars, integers
divided by zero give 0, and indices wrap.

    python tests/backends/cupy_on_numpy.py      # where CuPy is installed: writes that table anew
"""

from __future__ import annotations

import functools
import inspect
import json
import sys
from contextlib import nullcontext
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np


class CUDARuntimeError(RuntimeError):
    """What CuPy raises where the driver is missing."""


class Device(nullcontext[None]):
    """The only one."""

    def __init__(self, number: int | None = None) -> None:
        super().__init__()
        self.id = 0

    def synchronize(self) -> None:
        """Nothing to wait for."""


class ndarray(np.ndarray[Any, Any]):
    """Memory of the host that pretends to be a GPU's."""

    device = Device()

    def get(self) -> np.ndarray[Any, Any]:
        return np.array(self).view(np.ndarray)


ndarray.__module__ = "cupy"


def _given(x: Any) -> Any:
    """Turn results into arrays, in tuples as well."""
    if isinstance(x, np.ndarray | np.generic):
        return np.asarray(x).view(ndarray)
    if type(x) in (tuple, list):
        return type(x)(map(_given, x))
    return x


TABLE = Path(__file__).with_name("cupy_signatures.json")


def write_table() -> None:
    """Note the signatures of the installed CuPy: parameters, or for a ufunc its operands."""
    import cupy

    found = {"": cupy.__version__}
    for prefix, module in (("", cupy), ("linalg.", cupy.linalg), ("fft.", cupy.fft)):
        for name, value in sorted(vars(module).items()):
            if name.startswith("_") or isinstance(value, type | ModuleType) or not callable(value):
                continue
            if isinstance(value, cupy.ufunc):
                found[prefix + name] = str(value.nin)
                continue
            try:
                parameters = inspect.signature(value).parameters.values()
            except ValueError:  # compiled without one
                continue
            found[prefix + name] = " ".join(map(_noted, parameters))
    TABLE.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


_MARKS = ("{}/", "{}", "*{}", "+{}", "**{}")  # by inspect's kinds


def _noted(parameter: inspect.Parameter) -> str:
    optional = "" if parameter.default is inspect.Parameter.empty else "="
    return _MARKS[parameter.kind].format(parameter.name + optional)


def _signature(noted: str) -> inspect.Signature:
    if noted.isdigit():
        operands = " ".join(f"x{n}/" for n in range(int(noted)))
        noted = f"{operands} out= **kwargs"
    return inspect.Signature([_parameter(word) for word in noted.split()])


def _parameter(word: str) -> inspect.Parameter:
    kinds = inspect.Parameter
    kind = kinds.POSITIONAL_OR_KEYWORD
    for mark, found in (
        ("**", kinds.VAR_KEYWORD),
        ("*", kinds.VAR_POSITIONAL),
        ("+", kinds.KEYWORD_ONLY),
    ):
        if word.startswith(mark):
            word, kind = word.removeprefix(mark), found
    if word.rstrip("=").endswith("/"):
        word, kind = word.replace("/", ""), kinds.POSITIONAL_ONLY
    default = None if word.endswith("=") else kinds.empty
    return kinds(word.rstrip("="), kind, default=default)


def _giving(function: Any, noted: str) -> Any:
    signature = _signature(noted)

    @functools.wraps(function)
    def call(*args: Any, **params: Any) -> Any:
        signature.bind(*args, **params)
        with np.errstate(all="ignore"):
            return _given(function(*args, **params))

    return call


def _module(name: str, source: Any, noted: dict[str, str], **more: Any) -> Any:
    made = ModuleType(name)
    made.__spec__ = ModuleSpec(name, None, is_package=True)
    made.__path__ = []  # type: ignore[attr-defined]
    for key in dir(source):
        value = getattr(source, key)
        if key.startswith("_"):
            continue
        if isinstance(value, type | ModuleType) or not callable(value):
            setattr(made, key, value)
        elif key in noted:
            setattr(made, key, _giving(value, noted[key]))
    for key, value in more.items():
        setattr(made, key, value)
    sys.modules[name] = made
    return made


def _take(a: Any, indices: Any, axis: int | None = None) -> Any:
    return np.take(a, indices, axis, mode="wrap")


def _asnumpy(x: Any) -> Any:
    return np.array(x).view(np.ndarray)


def install(devices: int = 1) -> None:
    """Put the stand-in in the place of CuPy."""

    def count() -> int:
        if not devices:
            raise CUDARuntimeError(
                "cudaErrorInsufficientDriver: CUDA driver version is insufficient"
            )
        return devices

    runtime = SimpleNamespace(is_hip=False, getDeviceCount=count, CUDARuntimeError=CUDARuntimeError)
    table = json.loads(TABLE.read_text(encoding="utf-8"))
    nothing = SimpleNamespace()

    def part(of: str) -> dict[str, str]:
        return {key.removeprefix(of): noted for key, noted in table.items() if key.startswith(of)}

    cuda = _module("cupy.cuda", nothing, {}, Device=Device, runtime=runtime)
    _module("cupy.cuda.device", nothing, {}, Device=Device)
    linalg = _module("cupy.linalg", np.linalg, part("linalg."))
    fft = _module("cupy.fft", np.fft, part("fft."))
    module = _module("cupy", np, table, ndarray=ndarray, cuda=cuda, linalg=linalg, fft=fft)
    module.__version__ = table[""]
    module.take, module.asnumpy = _giving(_take, table["take"]), _asnumpy
    module.asarray = lambda x, dtype=None: _given(np.array(x, dtype))  # from the host: a copy
    module.from_dlpack = lambda x: _given(np.from_dlpack(x))
    cupyx = _module("cupyx", nothing, {}, errstate=lambda linalg: nullcontext())
    there = {"check_availability": lambda name: True}
    cupyx.cusolver = _module("cupyx.cusolver", nothing, {}, **there)

    from corepy.backends._numpy import NumPyBackend

    owns = NumPyBackend.owns
    NumPyBackend.owns = (  # type: ignore[method-assign]
        lambda self, obj: owns(self, obj) and not isinstance(obj, ndarray)
    )


def pytest_load_initial_conftests() -> None:
    """Install it as a plugin of pytest, before corepy looks for its backends."""
    install()


if __name__ == "__main__":
    write_table()
