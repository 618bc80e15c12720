"""How fast corepy is on a GPU, beside the device's own copy and the libraries there.

    python benchmarks/gpu.py --records records.jsonl
    python benchmarks/gpu.py --records records.jsonl --only attention --rounds 5
    python benchmarks/gpu.py --records records.jsonl --rehearse        # on the host, tiny

Writes one line of JSON for each row as soon as it is measured, so that a run that is stopped keeps
what it had. `scripts/gpu_check.sh` runs it and makes the tables.

bandwidth
    Fused kernels, and attention of single queries, which all move data and hardly compute. What is
    told is the share of a copy: the time in which the library that copies fastest copies as many
    bytes, by that of the kernel, both in one round.
attention
    Of whole prompts, by what torch's `scaled_dot_product_attention` takes.
dispatch
    What corepy adds to a call of a library on ten elements.
large
    Operations on large arrays, by what the library itself takes, and the fastest library. JAX
    computes in full there, as the others do: its products of float32 are of TF32 otherwise.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any, Final

# So that the script runs in a checkout in which nothing is installed.
sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import numpy as np

import corepy
from benchmarks import kernels as compositions
from benchmarks._on_device import Candidate, Library, libraries, measure, reason, release
from benchmarks.kernels import BETAS, EPS, RATE, STEP
from corepy import kernels
from corepy.dispatch._hot import PURE

Row = dict[str, Any]
#: What measures a row, and what the row is about.
Task = tuple[Row, Callable[[], Row]]
Libraries = Mapping[str, Library]
TITLES: Final = {"cupy": "CuPy", "torch": "torch", "jax": "JAX"}
ITEM_SIZE: Final = {"float16": 2, "bfloat16": 2, "float32": 4, "float64": 8}
COPY: Final = "copy"
#: In which it turns out whose copy is the fastest.
COPY_ROUNDS: Final = 3
#: Of the heads of attention.
SIZE: Final = 128


def random(*shape: int, seed: int = 0) -> np.ndarray[Any, Any]:
    """Draw normal values; a large array repeats some, for drawing them takes long."""
    size = int(np.prod(shape))
    few = np.random.default_rng(seed).standard_normal(min(size, 1 << 20), np.float32)
    return np.resize(few, size).reshape(shape)


# ---------------------------------------------------------------------------- bandwidth


def bandwidth(found: Libraries, rounds: int, rehearse: bool) -> Iterator[Task]:
    rows, long = (8, 1) if rehearse else (16384, 8)
    shapes = {
        "rms_norm": (rows, 4096),
        "softmax": (rows, 4096),
        "swiglu": (rows, 4096),
        "rope": (long, 32, 64 if rehearse else 4096, 128),
        "adam_step": (rows, 4096),
        "attention": (1 if rehearse else 8, 32, 8, 1, 256 if rehearse else 16384, 128),
    }
    for name, shape in shapes.items():
        dtypes = ("float32",) if rehearse or name == "adam_step" else ("float32", "bfloat16")
        for dtype in ("bfloat16",) if name == "attention" and not rehearse else dtypes:
            about = {"operation": "decode" if name == "attention" else name, "dtype": dtype}
            call = partial(_bandwidth, name, shape, dtype, found, rounds, rehearse)
            yield {**about, "shape": shape}, call


def _operands(name: str, shape: tuple[int, ...]) -> tuple[np.ndarray[Any, Any], ...]:
    x = random(*shape) if name != "attention" else None
    match name:
        case "rms_norm":
            return x, random(shape[-1], seed=1)
        case "swiglu":
            return x, random(*shape, seed=1)
        case "rope":
            return x, *kernels.rope_tables(shape[-2], shape[-1])
        case "adam_step":
            return x, random(*shape, seed=1), random(*shape, seed=2), np.abs(random(*shape, seed=3))
        case "attention":
            batch, heads, kv_heads, queries, keys, size = shape
            kv = (random(batch, kv_heads, keys, size, seed=seed) for seed in (1, 2))
            return random(batch, heads, queries, size), *kv
    return (x,)


def _traffic(name: str, arrays: Sequence[np.ndarray[Any, Any]], dtype: str) -> int:
    """Return how many bytes a kernel has to read and to write."""
    written = {"adam_step": 3}.get(name, 1) * arrays[0].size
    return (sum(x.size for x in arrays) + written) * ITEM_SIZE[dtype]


def _bandwidth(
    name: str, shape: tuple[int, ...], dtype: str, found: Libraries, rounds: int, rehearse: bool
) -> Row:
    arrays = _operands(name, shape)
    traffic = _traffic(name, arrays, dtype)
    made, left_out = _offered(name, arrays, dtype, found, rehearse)
    answers, off = _agreement(made)
    left_out |= answers
    made[COPY] = _copy(traffic, found)
    kept = {name: candidate for name, candidate in made.items() if name not in left_out}
    timings, failed = measure(kept, dict.fromkeys(kept, COPY), rounds)
    return {
        "bytes": traffic,
        "timings": {k: asdict(t) for k, t in timings.items()},
        "off": off,
        "left_out": left_out | failed,
    }


def _copy(traffic: int, found: Libraries) -> Candidate:
    """Return the fastest of the libraries' copies that reads and writes so many bytes together."""
    made = {}
    for name, home in found.items():
        source = home.array(np.zeros(max(1, traffic // 8), np.float32))
        made[name] = Candidate(source.clone if name == "torch" else source.copy, home)
    timings, _ = measure(made, dict.fromkeys(made, next(iter(made))), COPY_ROUNDS)
    return made[min(timings, key=lambda name: timings[name].median_ns)]


def _offered(
    name: str, arrays: Sequence[Any], dtype: str, found: Libraries, rehearse: bool
) -> tuple[dict[str, Candidate], dict[str, str]]:
    """Return what computes a kernel, and what cannot."""
    made: dict[str, Candidate] = {}
    left_out: dict[str, str] = {}
    call = compositions.OPERATIONS[name][0]

    def offer(peer: str, library: str, make: Callable[[Library, list[Any]], Callable[[], Any]]):
        try:
            home = found[library]
            own = [home.array(x, dtype) for x in arrays]
            candidate = make(home, own)
            candidate()  # compiles
        except KeyError:
            left_out[peer] = f"no {library}"
        except Exception as error:  # of one library: the others go on
            left_out[peer] = reason(error)
        else:
            made[peer] = Candidate(candidate, home)

    for library in ("cupy", "torch"):
        offer(f"corepy on {TITLES[library]}", library, lambda _, own: partial(call, *own))
    offer("torch", "torch", lambda _, own: partial(_torch(name), *own))
    if rehearse:
        left_out["torch.compile"] = "not in a rehearsal"
    else:
        made_of = compositions.torch_compiled
        offer("torch.compile", "torch", lambda _, own: partial(made_of(name), *own))
    offer("JAX", "jax", lambda home, own: partial(_jax(home, name), *own))
    return made, left_out


def _torch(name: str) -> Callable[..., Any]:
    """Return torch's own fused function where it has one, else the composition."""
    if name != "adam_step":
        return compositions.torch_function(name)
    import torch

    options = {"beta1": BETAS[0], "beta2": BETAS[1], "eps": 1e-8, "weight_decay": 0.01}
    steps: dict[Any, Any] = {}  # a tensor beside the parameter, which is made once

    def step(p: Any, g: Any, m: Any, v: Any) -> Any:
        if p.device not in steps:
            steps[p.device] = torch.tensor(float(STEP), device=p.device)
        more = {"lr": RATE, "amsgrad": False, "maximize": False}
        torch._fused_adamw_([p], [g], [m], [v], [], [steps[p.device]], **options, **more)
        return p

    return step


def _jax(home: Library, name: str) -> Callable[..., Any]:
    """Return what XLA makes of a formula; half precision is computed in float32, as by all."""
    jax, jnp = home.module, home.module.numpy

    def rms_norm(x: Any, w: Any) -> Any:
        wide = x.astype("float32")
        scale = jnp.sqrt(jnp.mean(wide * wide, axis=-1, keepdims=True) + EPS)
        return (wide / scale * w.astype("float32")).astype(x.dtype)

    def attention(*args: Any) -> Any:  # it wants heads before the last axis
        turned = (x.swapaxes(1, 2) for x in args)
        return jax.nn.dot_product_attention(*turned).swapaxes(1, 2)

    functions: dict[str, Callable[..., Any]] = {
        "rms_norm": rms_norm,
        "softmax": partial(jax.nn.softmax, axis=-1),
        "swiglu": lambda x, gate: x * jax.nn.silu(gate),
        "rope": partial(compositions.OPERATIONS["rope"][1], jnp),
        "adam_step": partial(compositions.adam, jnp),
        "attention": attention,
    }
    return jax.jit(functions[name])


def _agreement(made: Mapping[str, Candidate]) -> tuple[dict[str, str], dict[str, float]]:
    """Say how far the answers lie from corepy's first one, in parts of its greatest value.

    A peer that gives something else altogether computes something else, and is left out; corepy
    stays, and is told by the figure.
    """
    off: dict[str, float] = {}
    wrong: dict[str, str] = {}
    expected = None
    for name, candidate in made.items():
        result = candidate.call()
        part = result[0] if isinstance(result, tuple) else result
        some = part[:1, :1] if len(part.shape) > 2 else part[:1]  # to look at all takes seconds
        values = candidate.library.host(some)
        if expected is None:
            expected = values
        off[name] = float(np.max(np.abs(values - expected)) / np.max(np.abs(expected)))
        if not off[name] < 0.05 and not name.startswith("corepy on "):
            wrong[name] = f"its answer is off by {off[name]:.2g} of the greatest value"
    return wrong, off


# ---------------------------------------------------------------------------- attention


def attention(found: Libraries, rounds: int, rehearse: bool) -> Iterator[Task]:
    """Measure prompts of 1 to 16 thousand tokens, 32 heads of 128."""
    heads, lengths = (2, (64,)) if rehearse else (32, (1024, 2048, 4096, 8192, 16384))
    for dtype in ("float32",) if rehearse else ("float16", "bfloat16"):
        for length in lengths:
            for causal in (False, True):
                about = {"length": length, "causal": causal, "dtype": dtype}
                call = partial(_attention, heads, length, causal, dtype, found, rounds)
                yield {**about, "heads": heads, "head_dim": SIZE}, call


def _attention(
    heads: int, length: int, causal: bool, dtype: str, found: Libraries, rounds: int
) -> Row:
    arrays = [random(1, heads, length, SIZE, seed=seed) for seed in range(3)]
    made: dict[str, Candidate] = {}
    left_out: dict[str, str] = {}
    for library in ("cupy", "torch"):
        peer = f"corepy on {TITLES[library]}"
        try:
            home = found[library]
            own = [home.array(x, dtype) for x in arrays]
            call = partial(kernels.attention, *own, causal=causal)
            call()
        except KeyError:
            left_out[peer] = f"no {library}"
        except Exception as error:  # of one library, such as its memory
            left_out[peer] = reason(error)
            release(home)
        else:
            made[peer] = Candidate(call, home)
    base = "torch"
    if "torch" in found:
        home = found["torch"]
        own = [home.array(x, dtype) for x in arrays]
        sdpa = home.module.nn.functional.scaled_dot_product_attention
        made[base] = Candidate(partial(sdpa, *own, is_causal=causal), home)
    else:
        base = next(iter(made), base)
    answers, off = _agreement(dict(reversed(made.items())))
    timings, failed = measure(made, dict.fromkeys(made, base), rounds)
    return {
        # Two products, a multiplication and an addition each; where causal, of half the pairs.
        "flops": 4 * heads * length * length * SIZE // (2 if causal else 1),
        "base": base,
        "timings": {k: asdict(t) for k, t in timings.items()},
        "off": off,
        "left_out": left_out | answers | failed,
    }


# ---------------------------------------------------------------------------- the namespace

#: What is called: the standard's function, and the library's own by the names that it has.
_CALLS: Final[dict[str, tuple[Callable[..., Any], Callable[..., Any]]]] = {
    "a + b": (lambda xp, a, b: a + b, lambda lib, a, b: a + b),
    "add": (lambda xp, a, b: xp.add(a, b), lambda lib, a, b: lib.add(a, b)),
    "sin": (lambda xp, a, b: xp.sin(a), lambda lib, a, b: lib.sin(a)),
    "exp": (lambda xp, a, b: xp.exp(a), lambda lib, a, b: lib.exp(a)),
    "a * 2": (lambda xp, a, b: a * 2, lambda lib, a, b: a * 2),
    "a < b": (lambda xp, a, b: a < b, lambda lib, a, b: a < b),
    "a[1:]": (lambda xp, a, b: a[1:], lambda lib, a, b: a[1:]),
    "sum": (lambda xp, a, b: xp.sum(a), lambda lib, a, b: lib.sum(a)),
    "max": (lambda xp, a, b: xp.max(a), lambda lib, a, b: lib.max(a)),
    "sum, last axis": (lambda xp, a, b: xp.sum(a, axis=-1), lambda lib, a, b: lib.sum(a, -1)),
    "matmul": (lambda xp, a, b: xp.matmul(a, b), lambda lib, a, b: lib.matmul(a, b)),
}
SMALL: Final = ("a + b", "add", "sin", "a * 2", "a < b", "a[1:]", "sum")
SMALL_SHAPE: Final = (10,)
#: Turns of these are shorter and more: what is to be told of them is a hundredth of what they take,
#: and a processor changes its speed within a tenth of a second.
SMALL_TURN, MORE_ROUNDS = 2e-3, 10
LARGE: Final = ("add", "exp", "a < b", "sum", "max", "sum, last axis", "matmul")


def dispatch(found: Libraries, rounds: int, rehearse: bool) -> Iterator[Task]:
    for operation in SMALL:
        about = {"operation": operation, "shape": SMALL_SHAPE, "dtype": "float32"}
        about["hot_path"] = "compiled" if PURE is None else "in Python"
        yield about, partial(_namespace, operation, SMALL_SHAPE, "float32", found, rounds)


def large(found: Libraries, rounds: int, rehearse: bool) -> Iterator[Task]:
    side = 64 if rehearse else 8192
    for operation in LARGE:
        for dtype in ("float32",) if rehearse else ("float32", "float64"):
            shape = (side, side)
            about = {"operation": operation, "shape": shape, "dtype": dtype}
            yield about, partial(_namespace, operation, shape, dtype, found, rounds)


def _namespace(
    operation: str, shape: tuple[int, ...], dtype: str, found: Libraries, rounds: int
) -> Row:
    ours, own = _CALLS[operation]
    made: dict[str, Candidate] = {}
    left_out: dict[str, str] = {}
    for name, home in found.items():
        title = TITLES[name]
        namespace = home.module.numpy if name == "jax" else home.module
        try:
            a, b = (home.array(random(*shape, seed=seed), dtype) for seed in (0, 1))
            raw = partial(own, namespace, a, b)
            in_full = name == "jax" and shape != SMALL_SHAPE
            made[title] = Candidate(_all_bits(home.module, raw) if in_full else raw, home)
            x, y = (corepy.array_api.asarray(native) for native in (a, b))
            call = partial(ours, corepy.array_api, x, y)
            ran = call().backend  # a route or a fallback would be another library's time
            if ran != home.backend:
                raise RuntimeError(f"it ran in {ran}")
            made[f"corepy on {title}"] = Candidate(_unwrapped(call, name), home)
        except Exception as error:  # of one library: the others go on
            left_out[f"corepy on {title}"] = reason(error)
    bases = {name: name.removeprefix("corepy on ") for name in made}
    if shape == SMALL_SHAPE:
        timings, failed = measure(made, bases, MORE_ROUNDS * rounds, SMALL_TURN)
    else:
        timings, failed = measure(made, bases, rounds)
    return {
        "timings": {k: asdict(t) for k, t in timings.items()},
        "left_out": left_out | failed,
    }


def _all_bits(jax: Any, call: Callable[[], Any]) -> Callable[[], Any]:
    """Let JAX compute in the dtypes of its arrays: it cuts float64, and products of float32."""

    def run() -> Any:
        with jax.enable_x64(True), jax.default_matmul_precision("highest"):
            return call()

    return run


def _unwrapped(call: Callable[[], Any], library: str) -> Callable[[], Any]:
    """Give JAX its own array to wait for; the others wait for the device alone."""
    return (lambda: call().unwrap()) if library == "jax" else call


# ---------------------------------------------------------------------------- the command

TABLES: Final = {
    "bandwidth": bandwidth,
    "dispatch": dispatch,
    "large": large,
    "attention": attention,
}


def _own_failure(left_out: Mapping[str, str], found: Libraries) -> bool:
    """Say whether corepy did not run on a library that is there."""
    return any(f"corepy on {TITLES[name]}" in left_out for name in found)


def main(argv: Sequence[str] | None = None) -> int:
    """Measure, and write a line for each row."""
    parser = argparse.ArgumentParser(description="Measure corepy on a GPU beside its libraries.")
    parser.add_argument("--records", type=Path, required=True, help="file to append lines to")
    parser.add_argument("--only", choices=[*TABLES], help="one table")
    parser.add_argument("--rounds", type=int, default=15, metavar="N")
    parser.add_argument("--rehearse", action="store_true", help="on the host, with tiny arrays")
    options = parser.parse_args(argv)
    if options.rounds < 1:
        parser.error("expected at least one round")
    found, missing = libraries(options.rehearse)
    failed = False
    with options.records.open("a", encoding="utf-8") as out:

        def keep(row: Row) -> None:
            out.write(json.dumps(row) + "\n")
            out.flush()

        keep({"table": "libraries", "found": sorted(found), "missing": missing})
        if not found:
            print(f"no library sees a GPU: {missing}", file=sys.stderr)
            return 2
        with np.errstate(all="ignore"):
            for name in TABLES if options.only is None else (options.only,):
                for about, task in TABLES[name](found, options.rounds, options.rehearse):
                    try:
                        row = task()
                    except Exception as error:  # of the device, say: the table tells it
                        row, failed = {"timings": {}, "left_out": {"all": reason(error)}}, True
                    failed = failed or _own_failure(row["left_out"], found)
                    keep({"table": name, **about, **row})
                    for library in found.values():
                        release(library)
                    print(name, *about.values())
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
