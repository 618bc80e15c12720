"""Tell which device runs what, and whether anybody has seen it run there.

    python conformance/devices.py            # print it
    python conformance/devices.py --write    # and put it into docs/devices.md

Nothing is probed and no library of arrays is imported, so that every machine makes the same page:
of the registry, of what the adapters declare in `corepy/backends/_kinds.py`, of the tables below,
and of committed results. What has run on real hardware, only those of `scripts/gpu_check.sh` and of
`conformance/run.py` on a device can tell.
"""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from corepy._dtypes import DTYPES, DType
from corepy.backends import _kinds
from corepy.dispatch._registry import BUILT_IN, records

ROOT: Final = Path(__file__).resolve().parent.parent
PAGE: Final = ROOT / "docs" / "devices.md"
README: Final = ROOT / "README.md"
NATIVE: Final = ROOT / "docs" / "native.md"
RESULTS: Final = (ROOT / "benchmarks" / "results", ROOT / "conformance" / "results")
BEGIN: Final = "<!-- made by: python conformance/devices.py --write -->"

#: Kinds of device, in the order of the page.
KINDS: Final = ("cpu", "cuda", "rocm", "mps", "xpu", "tpu", "opencl", "webgpu", "dask")
#: Those that every push is tested on.
HOST: Final = ("cpu", "dask")
#: Those whose drivers may compute on a processor: a result of a GPU's names it as its "hardware".
EMULATED: Final = ("opencl", "webgpu")
#: Dtypes whose arrays a device only stores: operations on them run elsewhere.
STORED: Final[dict[tuple[str, str], str]] = {
    ("tinygrad", "opencl"): "complex ones are only stored",
    ("tinygrad", "webgpu"): "complex ones and those of 64 bits are only stored",
}
#: Fused kernels on arrays of libraries that are no backends there, by kind of device.
KERNELS: Final = "kernels on pyopencl's arrays"
NEVER: Final = "never"

_TORCH: Final = (
    "in stand-ins for `torch.cuda`: streams, copies, graphs, memory; else the code of `cpu`"
)

#: How each is tested on every push. A backend or a kind that is new has to say so here.
TESTED: Final[dict[tuple[str, str], str]] = {
    **{
        (name, "cpu"): "on the library itself"
        for name in ("numpy", "numba", "torch", "jax", "mlx", "reference")
    },
    ("dask", "dask"): "on the library itself, in threads and in processes",
    ("torch", "cuda"): _TORCH,
    ("torch", "rocm"): _TORCH,
    ("torch", "mps"): "on a stand-in with Metal's limits and faults, in host memory",
    ("torch", "xpu"): "its dtypes and memory, on a fake driver; else not run",
    ("cupy", "cuda"): "on a stand-in that computes with NumPy",
    ("cupy", "rocm"): "on a stand-in that computes with NumPy",
    ("jax", "cuda"): "not run: the code of `cpu`",
    ("jax", "rocm"): "not run: the code of `cpu`",
    ("jax", "tpu"): "its dtypes, on the host in its place",
    ("mlx", "mps"): "on MLX's host build in its place",
    ("tinygrad", "opencl"): "on PoCL, a processor",
    ("tinygrad", "webgpu"): "on Mesa's software Vulkan, a processor",
    (KERNELS, "opencl"): "on PoCL, a processor",
}

#: The sources of the fused kernels that take a backend's arrays there; elsewhere their formulas run
#: in the library's own functions.
FUSED: Final[dict[tuple[str, str], str]] = {
    **{(name, "cpu"): "Numba" for name in ("numpy", "numba", "torch", "jax")},
    **{(name, "cuda"): "CUDA" for name in ("cupy", "torch")},
    **{(name, "rocm"): "HIP" for name in ("cupy", "torch")},
    **{(name, "opencl"): "OpenCL" for name in ("tinygrad", KERNELS)},
}

#: Where users choose streams and record graphs (docs/devices-streams.md).
STREAMS: Final[dict[tuple[str, str], str]] = {
    ("torch", "cuda"): "both",
    ("torch", "rocm"): "both",
    ("cupy", "cuda"): "both",
    ("cupy", "rocm"): "streams",
}


@dataclass(frozen=True, slots=True)
class Run:
    """One run of a backend on real hardware.

    Attributes
    ----------
    backend, kind : str
    date : str
        The day, as ``2026-11-22``.
    hardware : str
        The device's name.
    outcome : str
        How many tests passed and failed.
    """

    backend: str
    kind: str
    date: str
    hardware: str
    outcome: str


# ---------------------------------------------------------------------------- results


def runs(folders: Iterable[Path] = RESULTS) -> list[Run]:
    """Read what has run on real hardware out of the results in some folders, the latest last."""
    found: list[Run] = []
    for folder in folders:
        for path in sorted(folder.glob("*.json")):
            content = json.loads(path.read_text(encoding="utf-8"))
            if isinstance(content, dict):
                found += _of_gpu_check(content) if "steps" in content else _of_conformance(content)
    return sorted(found, key=lambda run: run.date)


def _of_gpu_check(content: Mapping[str, Any]) -> Iterator[Run]:
    facts = content["facts"]
    if content["rehearsal"] or not facts["gpu"]:
        return
    kind = "rocm" if facts["amd"] else "cuda"
    steps = content["steps"]
    # The tests of the step "tests" are for CuPy's arrays, where CuPy sees the GPU. They come before
    # the others, which say more.
    for step, record in sorted(steps.items(), key=lambda item: item[0] != "tests"):
        backend = "cupy" if step == "tests" else step.removeprefix("conformance-")
        seen = facts["seen_by"].get(backend, {}).get("gpus")
        counts = record.get("counts", {})
        if backend in BUILT_IN and seen and _ran(counts):
            yield Run(backend, kind, record["date"][:10], facts["gpu"], _outcome(counts))


def _of_conformance(content: Mapping[str, Any]) -> Iterator[Run]:
    kind = content.get("device", "cpu").partition(":")[0]
    if kind in EMULATED and "hardware" not in content:
        return
    if "backend" in content and kind not in HOST and _ran(content):
        hardware = content.get("hardware", content["device"])
        yield Run(content["backend"], kind, content["date"], hardware, _outcome(content))


def _ran(counts: Mapping[str, Any]) -> bool:
    return int(counts.get("passed", 0)) > 0


def _outcome(counts: Mapping[str, Any]) -> str:
    failed = int(counts.get("failed", 0)) + int(counts.get("errors", 0))
    return f"{counts['passed']} passed, {failed} failed"


def last(backend: str, kind: str, found: Sequence[Run]) -> str:
    """Return when a backend was last seen on a kind of hardware, and on which."""
    if kind in HOST:
        return "every push, x86-64 Linux"
    own = [run for run in found if (run.backend, run.kind) == (backend, kind)]
    if not own:
        return NEVER
    run = own[-1]
    return f"{run.date}, {run.hardware} ({run.outcome})"


# ---------------------------------------------------------------------------- the page


def rows() -> list[tuple[str, str]]:
    """Return what the page has rows of: kinds of device, and who serves them."""
    known = records()
    kinds = {kind for name in BUILT_IN for kind in known[name].kinds}
    unknown = kinds - set(KINDS)
    if unknown:
        raise ValueError(f"devices: the registry has kinds {sorted(unknown)}; name them in KINDS")
    pairs = [
        (kind, name)
        for kind in KINDS
        for name in known  # in the order of priority
        if name in BUILT_IN and kind in known[name].kinds
    ]
    at = next(i for i, (kind, _) in enumerate([*pairs, ("dask", "")]) if kind in ("webgpu", "dask"))
    return [*pairs[:at], ("opencl", KERNELS), *pairs[at:]]


def table(found: Sequence[Run]) -> str:
    """Return the table."""
    shares = published_shares()
    titles = ["device", "backend", "dtypes", "runs itself", "streams, graphs", "fused kernels"]
    titles += ["tested on every push", "last run on real hardware"]
    lines = [titles, ["---"] * len(titles)]
    for kind, name in rows():
        pair = (name, kind)
        if pair not in TESTED:
            raise ValueError(f"devices: {name} serves {kind}; say in TESTED how that is tested")
        lines.append(
            [
                f"`{kind}`",
                name if name == KERNELS else f"`{name}`",
                "float32, float64, float16, bfloat16" if name == KERNELS else dtypes(*pair),
                "the kernels alone" if name == KERNELS else native(*pair, shares),
                STREAMS.get(pair, "no"),
                FUSED.get(pair, "none: formulas in its functions"),
                TESTED[pair],
                last(*pair, found),
            ]
        )
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def dtypes(backend: str, kind: str) -> str:
    """Word the dtypes of a backend on a kind of device."""
    lacking = _names(DTYPES[name] for name in DTYPES if DTYPES[name] not in _on(backend, kind))
    perhaps = _names(_kinds.PERHAPS_LACKING.get((backend, kind), ()))
    told = f"all but {lacking}" if lacking else "all"
    if (backend, kind) in STORED:
        return f"{told}; {STORED[backend, kind]}"
    return f"{told}; where the driver has none, no {perhaps}" if perhaps else told


def _on(backend: str, kind: str) -> frozenset[DType]:
    return _kinds.dtypes_on(backend, kind)


def _names(dtypes: Iterable[DType]) -> str:
    chosen = set(dtypes)
    return ", ".join(name for name, dtype in DTYPES.items() if dtype in chosen)


def published_shares() -> dict[str, str]:
    """Return the share of operations that each backend runs itself, as docs/native.md has it."""
    lines = NATIVE.read_text(encoding="utf-8").splitlines()
    header = next(line for line in lines if line.startswith("| chapter"))
    total = next(line for line in lines if line.startswith("| **all**"))
    cells = [[cell.strip(" `") for cell in line.split("|")] for line in (header, total)]
    return dict(zip(*cells, strict=True))


def native(backend: str, kind: str, shares: Mapping[str, str]) -> str:
    """Word how much of the standard a backend runs itself on a kind of device."""
    if kind in HOST:
        return shares[backend]
    if f"{backend}:{kind}" in shares:
        return shares[f"{backend}:{kind}"]
    less = _kinds.left_out(backend, kind)
    if not less:
        return "as on `cpu`" if backend in shares else "not counted"
    here = _on(backend, kind)
    groups: dict[str, int] = {}
    for lacked in less.values():
        label = _names(lacked & here)
        groups[label] = groups.get(label, 0) + 1
    words = ", ".join(f"{count} functions in {label}" for label, count in groups.items())
    return f"as on `cpu`, less {words}"


def page(found: Sequence[Run] | None = None) -> str:
    """Return the part of the page that is made."""
    return f"{BEGIN}\n\n{table(runs() if found is None else found)}"


# ---------------------------------------------------------------------------- the README


def contradictions(text: str, found: Sequence[Run] | None = None) -> list[str]:
    """Return what the table of the README says otherwise than this page, in a list of sentences."""
    found = runs() if found is None else found
    _, _, section = text.partition("## Backends and devices\n")
    told: dict[tuple[str, str], str] = {}
    for line in section.partition("\n## ")[0].splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        first = re.match(r"`(\w+)`", cells[0])
        if len(cells) != 4 or first is None:
            continue
        for kind in re.findall(r"`(\w+)[`:]", cells[1]):
            told[first[1], kind] = cells[3]
    wrong = []
    for kind, name in rows():
        if name == KERNELS:
            continue
        expected = last(name, kind, found)
        if expected not in (NEVER, "every push, x86-64 Linux"):
            expected = expected.partition(" (")[0]  # without how it ended
        if told.get((name, kind)) != expected:
            wrong.append(
                f"README.md says of {name} on {kind}: {told.get((name, kind))!r}; "
                f"expected {expected!r}"
            )
    for name, kind in sorted(told):
        if (kind, name) not in rows():
            wrong.append(f"README.md has {name} on {kind}, which the registry has not")
    return wrong


def main() -> None:
    """Print the table, or publish it."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--write", action="store_true", help=f"write it into docs/{PAGE.name}")
    made = page()
    for sentence in contradictions(README.read_text(encoding="utf-8")):
        print(f"devices: {sentence}")
    if not parser.parse_args().write:
        print(made)
        return
    prose, _, _ = PAGE.read_text(encoding="utf-8").partition(BEGIN)
    PAGE.write_text(prose + made, encoding="utf-8")


if __name__ == "__main__":
    main()
