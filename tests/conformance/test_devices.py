"""`conformance/devices.py`: the page is what the registry and the results say, everywhere."""

from __future__ import annotations

import dataclasses
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from conformance import devices
from conformance.devices import KERNELS, NEVER, Run, contradictions, last, runs
from corepy._dtypes import ANY
from corepy.backends._kinds import LACKING, LEFT_OUT, PERHAPS_LACKING, dtypes_on
from corepy.devices._device import as_device
from corepy.dispatch import _registry
from corepy.dispatch._operations import OPERATIONS
from corepy.dispatch._registry import BUILT_IN, load
from scripts.gpu_check import counted

README = devices.README.read_text(encoding="utf-8")
SEEN = {"gpus": ["NVIDIA H100"], "amd": False}


def gpu_check(steps: dict[str, Any], *, amd: bool = False, **more: Any) -> dict[str, Any]:
    facts = {
        "gpu": "NVIDIA H100",
        "amd": amd,
        "seen_by": {"cupy": SEEN, "torch": SEEN, "jax": SEEN},
    }
    return {"facts": facts | more, "rehearsal": False, "steps": steps}


def step(date: str, *outcomes: str) -> dict[str, Any]:
    rows = [{"test": str(i), "outcome": outcome} for i, outcome in enumerate(outcomes)]
    return {"state": "done", "seconds": 1, "date": f"{date}T10:00:00+00:00"} | counted(rows)


def write(folder: Path, name: str, content: Any) -> None:
    (folder / f"{name}.json").write_text(json.dumps(content), encoding="utf-8")


def test_the_page_is_what_the_script_makes() -> None:
    prose, begin, made = devices.PAGE.read_text(encoding="utf-8").partition(devices.BEGIN)
    assert begin + made == devices.page(), "run python conformance/devices.py --write"
    assert "Which device runs what" in prose


def test_the_page_needs_no_library() -> None:
    code = (
        "import sys\nfrom conformance import devices\nprint(len(devices.page()))\n"
        "print(*{'numpy', 'numba', 'torch', 'jax', 'mlx', 'dask'} & {*sys.modules})\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=devices.ROOT, capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == [str(len(devices.page()))]


def test_every_backend_of_the_registry_has_a_row_for_each_kind() -> None:
    wanted = {(kind, name) for name in BUILT_IN for kind in _registry.records()[name].kinds}
    assert {*devices.rows()} == wanted | {("opencl", KERNELS)}
    assert len(devices.rows()) == len({*devices.rows()})


def test_a_backend_that_says_nothing_of_its_tests_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delitem(devices.TESTED, ("jax", "tpu"))
    with pytest.raises(ValueError, match="jax serves tpu; say in TESTED how that is tested"):
        devices.page()
    new = dataclasses.replace(_registry._records["jax"], kinds=("cpu", "npu"))
    monkeypatch.setitem(_registry._records, "jax", new)
    with pytest.raises(ValueError, match=r"the registry has kinds \['npu'\]"):
        devices.rows()


@pytest.mark.parametrize("name", [pytest.param(n, marks=pytest.mark.backend(n)) for n in BUILT_IN])
def test_what_is_declared_is_what_the_adapter_says(name: str) -> None:
    backend, record = load(name), _registry.records()[name]
    for device in backend.devices():
        assert device.kind in record.kinds
        told = backend.capabilities(device).dtypes
        wanted = dtypes_on(name, device.kind)
        perhaps = PERHAPS_LACKING.get((name, device.kind), frozenset())
        assert wanted - perhaps <= told <= wanted
    for kind in record.kinds:
        has_streams = backend.streams(as_device(kind)) is not None
        assert has_streams == ((name, kind) in devices.STREAMS)
    for (other, kind), operations in LEFT_OUT.items():
        assert kind in _registry.records()[other].kinds
        assert operations.keys() <= OPERATIONS.keys()
    for other, kind in LACKING:
        assert kind in _registry.records()[other].kinds
        assert dtypes_on(other, kind) < ANY


# ---------------------------------------------------------------------------- hardware


def test_only_results_of_hardware_fill_the_column(tmp_path: Path) -> None:
    write(tmp_path, "a", gpu_check({"conformance-torch": step("2026-11-20", "passed")}))
    write(
        tmp_path,
        "b",
        gpu_check(
            {
                "tests": step("2026-12-01", "passed", "passed", "failed", "skipped"),
                "accuracy": {"state": "done", "seconds": 1, "date": "2026-12-01", "rows": []},
                "conformance-torch": step("2026-12-02", "passed", "failed"),
                "conformance-jax": step("2026-12-02", "skipped"),  # none ran
                "conformance-numpy": {"state": "not run: no time left", "seconds": 0},
            }
        ),
    )
    rehearsed = gpu_check({"conformance-jax": step("2026-12-03", "passed")})
    write(tmp_path, "c", rehearsed | {"rehearsal": True})
    nothing = gpu_check({"conformance-jax": step("2026-12-03", "passed")}, gpu=None)
    write(tmp_path, "d", nothing)
    write(tmp_path, "grid", {"rows": []})
    write(tmp_path, "list", [1])
    host = {"backend": "jax", "device": "cpu", "date": "2026-12-04", "passed": 3, "failed": 0}
    write(tmp_path, "jax", host)
    write(tmp_path, "torch-mps", host | {"backend": "torch", "device": "mps", "errors": 1})
    found = runs([tmp_path])
    assert last("torch", "cuda", found) == "2026-12-02, NVIDIA H100 (1 passed, 1 failed)"
    assert last("cupy", "cuda", found) == "2026-12-01, NVIDIA H100 (2 passed, 1 failed)"
    assert last("torch", "mps", found) == "2026-12-04, mps (3 passed, 1 failed)"
    for pair in (("jax", "cuda"), ("torch", "rocm"), ("jax", "tpu"), ("mlx", "mps")):
        assert last(*pair, found) == NEVER
    table = devices.table(found)
    assert "| 2026-12-02, NVIDIA H100 (1 passed, 1 failed) |" in table
    assert table.count(NEVER) == devices.table([]).count(NEVER) - 3


def test_tests_without_cupy_tell_nothing_of_cupy(tmp_path: Path) -> None:
    ran = {"tests": step("2026-12-01", "passed")}
    write(tmp_path, "a", gpu_check(ran, seen_by={"torch": SEEN, "cupy": {"gpus": []}}))
    assert runs([tmp_path]) == []


def test_an_amd_gpu_is_rocm(tmp_path: Path) -> None:
    write(tmp_path, "a", gpu_check({"conformance-cupy": step("2026-12-01", "passed")}, amd=True))
    (found,) = runs([tmp_path])
    assert found == Run("cupy", "rocm", "2026-12-01", "NVIDIA H100", "1 passed, 0 failed")


def test_results_in_this_checkout_are_read() -> None:
    found = runs()
    assert {run.backend for run in found} >= {"cupy", "jax", "torch"}
    for run in found:
        assert (run.kind, run.backend) in devices.rows()
        assert run.hardware


# ---------------------------------------------------------------------------- the README


def test_the_readme_says_the_same() -> None:
    assert contradictions(README) == []


def test_a_readme_that_says_otherwise_is_told() -> None:
    done = [Run("torch", "mps", "2026-12-01", "Apple M4", "1 passed, 0 failed")]
    (sentence,) = contradictions(README, [*runs(), *done])
    assert sentence == ("README.md says of torch on mps: 'never'; expected '2026-12-01, Apple M4'")
    line = next(line for line in README.splitlines() if line.startswith("| `torch` | `rocm:N`"))
    claimed = README.replace(line, line.replace("| never |", "| yesterday |"))
    assert len(contradictions(claimed)) == 3
    assert any("torch on xpu: 'yesterday'; expected 'never'" in s for s in contradictions(claimed))
    more = README.replace(line, line.replace("`xpu`", "`xpu`, `npu`"))
    assert contradictions(more) == ["README.md has torch on npu, which the registry has not"]
