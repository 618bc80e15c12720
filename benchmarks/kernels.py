"""How fast the fused kernels are beside NumPy, torch and JAX, interleaved in one run.

    python benchmarks/kernels.py
    python benchmarks/kernels.py --only rms_norm --rounds 10 --save

Each figure is how many times longer another library takes: the median over interleaved rounds of
the ratio within one round; see `benchmarks/_measure.py`. Every library works on arrays of its own,
corepy on NumPy's (of bfloat16, which NumPy lacks, on torch's), and each call makes its result. The
answers are held together first. What is not installed, or has no working compiler, is left out, and
the reason printed.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

# So that the script runs in a checkout in which nothing is installed.
sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks import _measure
from benchmarks._measure import Statement, Timing

_measure.leave_idle_times()

import numpy as np  # noqa: E402

from corepy import kernels  # noqa: E402

RESULTS: Final = Path(__file__).resolve().parent / "results"
COREPY: Final = "corepy"
EPS: Final = 1e-6
#: Of Adam: late in a training and hardly moving, so that all libraries' parameters stay alike.
STEP: Final = 10**6
RATE: Final = 1e-9
BETAS: Final = (0.9, 0.999)
MATRICES: Final = ((1000, 1000), (4096, 4096))
#: The last one of rows as short as a head's, which some networks norm too.
ROWS: Final = (*MATRICES, (16384, 128))
HEADS: Final = ((1, 32, 2048, 128),)
#: Batch, channels, height, width: of the first and the last stage of a residual network.
IMAGES: Final = ((8, 64, 56, 56), (8, 512, 7, 7))
#: Batch, channels, size of images, filters, size of the kernel; the same stages, the first layer,
#: and one without neighbours. The last two have as many groups as channels.
CONVOLUTIONS: Final = (
    (1, 3, 224, 64, 7, 1),
    (1, 64, 56, 64, 3, 1),
    (8, 128, 28, 128, 3, 1),
    (8, 256, 14, 1024, 1, 1),
    (1, 96, 56, 96, 7, 96),
    (8, 256, 14, 256, 3, 256),
)
#: Batch, heads, heads of keys, queries, keys, head_dim: two prompts, and decoding.
ATTENTIONS: Final = (
    (1, 32, 32, 128, 128, 128),
    (1, 32, 32, 1024, 1024, 128),
    (1, 32, 8, 1, 4096, 128),
    (1, 32, 32, 1, 4096, 128),
)
#: Vectors, and the size of the matrix by which they are multiplied.
PRODUCTS: Final = ((1, 4096, 4096), (4, 4096, 4096))
#: In bfloat16, which NumPy lacks, also with a matrix that lies by columns.
BRAIN: Final = ("matmul_vec_bf16", "matmul_vec_bf16_columns")
#: Elements that share a scale.
GROUP: Final = 128
SHAPES: Final[dict[str, tuple[tuple[int, ...], ...]]] = {
    **dict.fromkeys(("rms_norm", "layer_norm", "softmax"), ROWS),
    "rope": HEADS,
    "attention": ATTENTIONS,
    "conv2d": CONVOLUTIONS,
    "batch_norm": IMAGES,
    **dict.fromkeys(("matmul_vec", *BRAIN, "matmul_int8", "matmul_int4"), PRODUCTS),
}
#: Seconds before each turn: libraries' threads go on waiting for work for some 20 milliseconds.
PAUSE: Final = 0.03
#: Seconds that each one runs before its turn. After a pause `np.copyto` of 4 MB was measured to
#: take 218, 109, 77, 75 and 74 us: what a program meets that does not pause is the last of them.
REHEARSAL: Final = 0.002

Array = np.ndarray[Any, Any]


# ---------------------------------------------------------------------------- compositions


def _rms_norm(xp: Any, x: Any, weight: Any) -> Any:
    return x / xp.sqrt(xp.mean(x * x, axis=-1, keepdims=True) + EPS) * weight


def _layer_norm(xp: Any, x: Any, weight: Any, bias: Any) -> Any:
    centred = x - xp.mean(x, axis=-1, keepdims=True)
    variance = xp.mean(centred * centred, axis=-1, keepdims=True)
    return centred / xp.sqrt(variance + EPS) * weight + bias


def _softmax(xp: Any, x: Any) -> Any:
    e = xp.exp(x - xp.max(x, axis=-1, keepdims=True))
    return e / xp.sum(e, axis=-1, keepdims=True)


def _swiglu(xp: Any, x: Any, gate: Any) -> Any:
    return x * gate / (1.0 + xp.exp(-gate))


def _gelu_tanh(xp: Any, x: Any) -> Any:
    return 0.5 * x * (1.0 + xp.tanh(0.7978845608028654 * (x + 0.044715 * x * x * x)))


def _rope(xp: Any, x: Any, cos: Any, sin: Any) -> Any:
    half = x.shape[-1] // 2
    a, b = x[..., :half], x[..., half:]
    return xp.concatenate((a * cos - b * sin, b * cos + a * sin), axis=-1)


def _attention(xp: Any, q: Any, k: Any, v: Any) -> Any:
    group = q.shape[1] // k.shape[1]
    if group > 1:
        q = q.reshape(q.shape[0], k.shape[1], group * q.shape[2], q.shape[3])
    s = xp.matmul(q, xp.swapaxes(k, -1, -2)) * q.shape[-1] ** -0.5
    return xp.matmul(_softmax(xp, s), v).reshape(q.shape[0], -1, q.shape[2] // group, q.shape[3])


def _conv2d(xp: Any, x: Any, w: Any) -> Any:
    """Lay windows side by side, as one writes it with NumPy alone."""
    k, groups = w.shape[2], x.shape[1] // w.shape[1]
    y = np.pad(x, ((0, 0), (0, 0), (k // 2, k // 2), (k // 2, k // 2)))
    seen = np.lib.stride_tricks.sliding_window_view(y, (k, k), axis=(2, 3))
    if groups > 1:
        return np.einsum("nchwij,cij->nchw", seen, w[:, 0], optimize=True)
    return np.moveaxis(np.tensordot(seen, w, ((1, 4, 5), (1, 2, 3))), 3, 1)


def _batch_norm(xp: Any, x: Any, mean: Any, variance: Any) -> Any:
    return (x - mean[:, None, None]) / xp.sqrt(variance + EPS)[:, None, None]


def adam(xp: Any, p: Any, g: Any, m: Any, v: Any) -> tuple[Any, Any, Any]:
    """Return the parameter and the moments after a step."""
    m, v = BETAS[0] * m + (1 - BETAS[0]) * g, BETAS[1] * v + (1 - BETAS[1]) * g * g
    return p * (1 - RATE * 0.01) - RATE * m / (xp.sqrt(v) + 1e-8), m, v


def _adam_step(xp: Any, *args: Any) -> Any:
    """Return the parameter after a step; the moments stay, so that every call does the same."""
    return adam(xp, *args)[0]


def _product(xp: Any, x: Any, w: Any) -> Any:
    """Multiply; by few bits' values others do in float32, in four or eight times the memory."""
    return xp.matmul(x, w.T)


def _brains(x: Any, w: Any) -> tuple[Any, Any]:
    import torch

    x, w = (torch.from_numpy(a).bfloat16() for a in (x, w))
    return x, w


def _by_columns(x: Any, w: Any) -> tuple[Any, Any]:
    x, w = _brains(x, w)
    return x, w.T.contiguous().T


#: What each operation is called by, its composition, and the further operands it takes.
OPERATIONS: Final[dict[str, tuple[Callable[..., Any], Callable[..., Any]]]] = {
    "rms_norm": (lambda x, w: kernels.rms_norm(x, w, EPS), _rms_norm),
    "layer_norm": (lambda x, w, b: kernels.layer_norm(x, w, b, EPS), _layer_norm),
    "softmax": (lambda x: kernels.softmax(x, -1), _softmax),
    "swiglu": (kernels.swiglu, _swiglu),
    "gelu": (kernels.gelu, lambda xp, x: x),
    "gelu_tanh": (lambda x: kernels.gelu(x, approximate="tanh"), _gelu_tanh),
    "rope": (kernels.rope, _rope),
    "attention": (kernels.attention, _attention),
    "conv2d": (
        lambda x, w: kernels.conv2d(x, w, padding="same", groups=x.shape[1] // w.shape[1]),
        _conv2d,
    ),
    "batch_norm": (lambda x, m, v: kernels.batch_norm(x, m, v, eps=EPS), _batch_norm),
    "adam_step": (
        lambda *a: kernels.adam_step(*a, step=STEP, learning_rate=RATE, weight_decay=0.01)[0],
        _adam_step,
    ),
    **dict.fromkeys(("matmul_vec", *BRAIN), (lambda x, w: kernels.matmul_vec(w, x), _product)),
    "matmul_int8": (kernels.matmul_int8, _product),
    "matmul_int4": (kernels.matmul_int4, _product),
}
#: What corepy has in the place of some operands, and of bfloat16 torch too.
PREPARED: Final[dict[str, Callable[..., tuple[Any, ...]]]] = {
    **dict(zip(BRAIN, (_brains, _by_columns), strict=True)),
    "matmul_int8": lambda x, w: (x, *kernels.quantize(w, bits=8, group_size=GROUP)),
    "matmul_int4": lambda x, w: (x, *kernels.quantize(w, bits=4, group_size=GROUP)),
}


def operands(name: str, shape: tuple[int, ...]) -> tuple[Array, ...]:
    """Make the operands of an operation, in float32."""
    rng = np.random.default_rng(0)
    if name == "attention":
        batch, heads, kv_heads, queries, keys, size = shape
        shapes = [(batch, heads, queries, size)] + 2 * [(batch, kv_heads, keys, size)]
        return tuple(rng.standard_normal(shape, np.float32) for shape in shapes)
    if name == "conv2d":
        batch, channels, size, filters, kernel, groups = shape
        w = rng.standard_normal((filters, channels // groups, kernel, kernel), np.float32)
        x = rng.standard_normal((batch, channels, size, size), np.float32)
        return x, w / np.float32(w[0].size ** 0.5)
    if name.startswith("matmul_"):
        vectors, rows, size = shape
        w = rng.standard_normal((rows, size), np.float32) / np.float32(size**0.5)
        if "_int" in name:  # what few bits hold
            w = kernels.dequantize(*PREPARED[name](w, w)[1:])
        return rng.standard_normal((vectors, size), np.float32), w
    x = rng.standard_normal(shape, np.float32)
    match name:
        case "rms_norm":
            return x, rng.random(shape[-1], np.float32)
        case "layer_norm":
            return x, rng.random(shape[-1], np.float32), rng.random(shape[-1], np.float32)
        case "swiglu":
            return x, rng.standard_normal(shape, np.float32)
        case "adam_step":
            more = (rng.standard_normal(shape, np.float32) for _ in range(2))
            return x, *more, rng.random(shape, np.float32)
        case "batch_norm":
            return x, rng.standard_normal(shape[1], np.float32), rng.random(shape[1], np.float32)
        case "rope":
            return x, *kernels.rope_tables(shape[-2], shape[-1])
    return (x,)


# ---------------------------------------------------------------------------- libraries


def _numpy_gelu() -> Callable[..., Any]:
    from scipy.special import erf

    return lambda x: 0.5 * x * (1.0 + erf(x * np.float32(0.7071067811865476)))


def torch_function(name: str) -> Callable[..., Any]:
    """Return torch's own fused function where it has one, else the composition."""
    import torch

    found: dict[str, Callable[..., Any]] = {
        "rms_norm": lambda x, w: torch.nn.functional.rms_norm(x, w.shape, w, EPS),
        "layer_norm": lambda x, w, b: torch.nn.functional.layer_norm(x, w.shape, w, b, EPS),
        "softmax": lambda x: torch.softmax(x, -1),
        "swiglu": lambda x, gate: x * torch.nn.functional.silu(gate),
        "gelu": torch.nn.functional.gelu,
        "gelu_tanh": lambda x: torch.nn.functional.gelu(x, approximate="tanh"),
        "attention": lambda q, k, v: torch.nn.functional.scaled_dot_product_attention(
            q, k, v, enable_gqa=q.shape[1] != k.shape[1]
        ),
        "conv2d": lambda x, w: torch.nn.functional.conv2d(
            x, w, padding="same", groups=x.shape[1] // w.shape[1]
        ),
        "batch_norm": lambda x, m, v: torch.nn.functional.batch_norm(x, m, v, eps=EPS),
        "adam_step": _torch_adam_step,
    }
    return found.get(name) or (lambda *args: OPERATIONS[name][1](torch, *args))


def torch_compiled(name: str) -> Callable[..., Any]:
    """Return what torch compiles of a function; of Adam's formula, for it has no loops to open."""
    import torch

    torch._dynamo.reset()
    return torch.compile(_adam_in_place if name == "adam_step" else torch_function(name))


def _adam_in_place(p: Any, g: Any, m: Any, v: Any) -> Any:
    import torch

    for old, new in zip((p, m, v), adam(torch, p, g, m, v), strict=True):
        old.copy_(new)
    return p


def _torch_adam_step(p: Any, g: Any, m: Any, v: Any) -> Any:
    import torch

    options = {"beta1": BETAS[0], "beta2": BETAS[1], "eps": 1e-8, "amsgrad": False}
    step = torch.tensor(float(STEP))
    torch._fused_adamw_(
        *([p], [g], [m], [v], [], [step]), lr=RATE, weight_decay=0.01, maximize=False, **options
    )
    return p


def _jax_function(name: str) -> Callable[..., Any]:
    import jax
    import jax.numpy as jnp

    found: dict[str, Callable[..., Any]] = {
        "softmax": lambda x: jax.nn.softmax(x, axis=-1),
        "swiglu": lambda x, gate: x * jax.nn.silu(gate),
        "gelu": lambda x: jax.nn.gelu(x, approximate=False),
        "gelu_tanh": lambda x: jax.nn.gelu(x, approximate=True),
        "attention": lambda q, k, v: jax.nn.dot_product_attention(
            *(jnp.swapaxes(x, 1, 2) for x in (q, k, v))
        ).swapaxes(1, 2),
        "conv2d": lambda x, w: jax.lax.conv_general_dilated(
            *(x, w, (1, 1), "SAME"), feature_group_count=x.shape[1] // w.shape[1]
        ),
    }
    function = jax.jit(found.get(name) or (lambda *args: OPERATIONS[name][1](jnp, *args)))
    return lambda *args: function(*args).block_until_ready()


def peers(name: str, arrays: tuple[Array, ...]) -> dict[str, Callable[[], Any]]:
    """Return what computes an operation, by library."""
    own = PREPARED[name](*arrays) if name in PREPARED else arrays
    brain = name in BRAIN
    calls: dict[str, Callable[[], Any]] = {COREPY: lambda: OPERATIONS[name][0](*own)}

    def offer(peer: str, make: Callable[[], Callable[[], Any]]) -> None:
        try:
            call = make()
            call()  # compiles
        except Exception as error:  # of a library that this machine lacks, or of its compiler
            _explain(peer, f"{type(error).__name__}: {' '.join(str(error).splitlines()[:2])}")
        else:
            calls[peer] = call

    def with_numpy() -> Callable[[], Any]:
        function = OPERATIONS[name][1]
        composed = _numpy_gelu() if name == "gelu" else lambda *a: function(np, *a)
        return lambda: composed(*arrays)

    def with_torch(compiled: bool) -> Callable[[], Any]:
        import torch

        tensors = own if brain else [torch.from_numpy(a.copy()) for a in arrays]
        function = torch_compiled(name) if compiled else torch_function(name)
        return lambda: function(*tensors)

    def with_jax() -> Callable[[], Any]:
        import jax.numpy as jnp

        made = [jnp.asarray(a, jnp.bfloat16 if brain else a.dtype) for a in arrays]
        function = _jax_function(name)
        return lambda: function(*made)

    if not brain:
        offer("NumPy", with_numpy)
    offer("torch", lambda: with_torch(compiled=False))
    offer("torch.compile", lambda: with_torch(compiled=True))
    offer("jax.jit", with_jax)
    return calls


@cache
def _explain(peer: str, reason: str) -> None:
    print(f"{peer} is left out: {reason}", file=sys.stderr)


# ---------------------------------------------------------------------------- measuring


def measure(name: str, shape: tuple[int, ...], rounds: int) -> dict[str, Timing]:
    """Measure one operation on one shape, and hold the answers together."""
    calls = peers(name, operands(name, shape))
    rtol, atol = (3e-2, 3e-2) if name in BRAIN else (1e-3, 1e-5)
    expected = _values(calls[COREPY]())
    for call in calls.values():
        np.testing.assert_allclose(_values(call()), expected, rtol=rtol, atol=atol)
    statements = {peer: Statement("f()", {"f": call}) for peer, call in calls.items()}
    return _measure.compare(
        _measure.interleave(statements, rounds, pause=PAUSE, rehearse=REHEARSAL), COREPY
    )


def _values(x: Any) -> Array:
    """Return a result in float32; NumPy reads no bfloat16 of torch's."""
    return np.asarray(x.float() if hasattr(x, "float") else x, np.float32)


PEERS: Final = ("NumPy", "torch", "torch.compile", "jax.jit")


def report(results: dict[str, dict[str, Timing]]) -> str:
    """Set the ratios as a table."""
    rows = [["operation", "shape", "corepy, us", *PEERS]]
    for row, timings in results.items():
        name, shape = row.split(" ", 1)
        cells = [f"{timings[p].ratio:.2f}" if p in timings else "" for p in PEERS]
        rows.append([f"`{name}`", shape, f"{timings[COREPY].median_ns / 1e3:.0f}", *cells])
    return _measure.markdown(rows, words=2)


def main(argv: Sequence[str] | None = None) -> int:
    """Measure and print the table."""
    parser = argparse.ArgumentParser(description="Compare the fused kernels with other libraries.")
    parser.add_argument("--rounds", type=int, default=30, metavar="N")
    parser.add_argument("--only", metavar="NAME", choices=[*OPERATIONS])
    parser.add_argument("--save", action="store_true", help="keep it in benchmarks/results")
    options = parser.parse_args(argv)
    if options.rounds < 1:
        parser.error("expected at least one round")
    before = os.getloadavg()[0] if hasattr(os, "getloadavg") else float("nan")
    results = {}
    with np.errstate(all="ignore"):
        for name in OPERATIONS if options.only is None else (options.only,):
            if name in BRAIN and find_spec("torch") is None:
                _explain(name, "torch is not installed")
                continue
            for shape in SHAPES.get(name, MATRICES):
                text = " x ".join(map(str, shape))
                results[f"{name} {text}"] = measure(name, shape, options.rounds)
    names = _measure.versions(["numpy", "numba", "scipy", "torch", "jax"])
    facts = {
        "processor": _measure.processor(),
        "processors": os.cpu_count(),
        "load_before": round(before, 1),
        "rounds": options.rounds,
        "date": datetime.now(UTC).date().isoformat(),
        "versions": names,
    }
    text = (
        f"{facts['processor']}, {facts['processors']} processors, load {facts['load_before']} "
        f"before; {', '.join(f'{k} {v}' for k, v in names.items())}; float32, "
        f"or bfloat16 (bf16); {options.rounds} rounds.\n"
        f"How many times longer than corepy's kernel others take.\n\n"
        f"{report(results)}\n"
    )
    print(text, end="")
    if options.save:
        timings = {row: {p: asdict(t) for p, t in found.items()} for row, found in results.items()}
        record, page = {**facts, "timings": timings}, f"# Fused kernels\n\n{text}"
        processor, date = str(facts["processor"]), str(facts["date"])
        _measure.save(RESULTS, "kernels", processor, date, record, page)
    return 0


if __name__ == "__main__":
    sys.exit(main())
