"""What torch does around a call: functions of `torch.func`, `torch.autocast`, modes and tracers."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import corepy
from corepy import kernels
from corepy.dispatch._reproducible import REPRODUCIBLE
from corepy.kernels import _ways
from corepy.kernels._ways import only
from tests.conftest import required
from tests.kernels.libraries import Kind, kinds, sample, select
from tests.kernels.test_cache import cache_of

torch = required("torch")

from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode  # noqa: E402
from torch.fx.experimental.proxy_tensor import make_fx  # noqa: E402
from torch.overrides import TorchFunctionMode  # noqa: E402
from torch.utils._python_dispatch import TorchDispatchMode  # noqa: E402

pytestmark = [
    pytest.mark.backend("torch"),
    pytest.mark.filterwarnings("ignore:.*torch.jit.script.*:DeprecationWarning"),  # torch's own use
]


def drawn(*shape: int, seed: int = 0) -> Any:
    return torch.from_numpy(sample(*shape, seed=seed, dtype="f4"))


# ---------------------------------------------------------------------------- torch.func

X = drawn(2, 1, 4, 8)
PLACES = torch.tensor([[[3, 0, 2, 2]], [[0, 1, 5, 4]]])
LENGTHS = torch.tensor([4, 2])
TABLES = kernels.rope_tables(6, 8, like=X)


def turned(x: Any, places: Any) -> Any:
    return kernels.rope(x, *TABLES, positions=places)


def attended(x: Any, lengths: Any) -> Any:
    return kernels.attention(x, x, x, lengths=lengths)


each = pytest.mark.parametrize(
    ("function", "numbers"), [(turned, PLACES), (attended, LENGTHS)], ids=["rope", "attention"]
)
Function = Callable[[Any, Any], Any]


@each
def test_gradients_beside_integers(function: Function, numbers: Any) -> None:
    """Which torch.func lets nobody look at."""
    leaf = X.clone().requires_grad_()
    (function(leaf, numbers) ** 2).sum().backward()

    def size(x: Any) -> Any:
        return (function(x, numbers) ** 2).sum()

    def of_its_own(x: Any) -> Any:
        return (function(x, torch.tensor(numbers.tolist())) ** 2).sum()

    for measured in (size, of_its_own):
        torch.testing.assert_close(torch.func.grad(measured)(X), leaf.grad)
        value, slope = torch.func.jvp(measured, (X,), (torch.ones_like(X),))
        torch.testing.assert_close(value, size(X))
        torch.testing.assert_close(slope, leaf.grad.sum())


@each
def test_integers_that_are_mapped_over(function: Function, numbers: Any) -> None:
    x, numbers = torch.stack([X, -X, X]), torch.stack([numbers, numbers.flip(0), numbers * 0 + 1])
    expected = torch.stack([function(*pair) for pair in zip(x, numbers, strict=True)])
    torch.testing.assert_close(torch.func.vmap(function)(x, numbers), expected)
    once = torch.func.vmap(lambda n: function(X, n))(numbers[:2])
    torch.testing.assert_close(once[0], expected[0])


def test_integers_that_are_not_mapped_over_are_looked_at() -> None:
    with pytest.raises(IndexError, match="rope: positions has values from 0 to 6; expected 0 to 5"):
        torch.func.vmap(lambda x: turned(x, PLACES[:1] * 2))(X[:, None])
    with pytest.raises(ValueError, match="attention: lengths has values from 5 to 5; expected 0 t"):
        torch.func.vmap(lambda x: attended(x, LENGTHS[:1] + 1))(X[:, None])


@pytest.mark.backend("numba")
def test_operands_that_a_gradient_passes_by(monkeypatch: pytest.MonkeyPatch) -> None:
    """They are plain tensors, but what is made of them inside is not."""
    select(monkeypatch, Kind("torch", compiled=True))
    x, weight = X[0, 0], drawn(8)
    functions: list[Callable[[], Any]] = [
        lambda: kernels.silu(x),
        lambda: kernels.rms_norm(x, weight, 1e-5),
        lambda: kernels.softmax(x, -1),
        lambda: turned(x, PLACES[0, 0]),
        lambda: kernels.attention(X, X, X, return_lse=True)[0][0, 0],
        lambda: kernels.attention(*[X.repeat(1, 1, 5, 1)] * 3)[0, 0, :4],
    ]
    for function in functions:

        def share(other: Any, function: Callable[[], Any] = function) -> Any:
            return (function() * other).sum()

        torch.testing.assert_close(torch.func.grad(share)(x), function())


# ---------------------------------------------------------------------------- autocast

ROWS, IMAGES, HEADS = drawn(16, 24), drawn(2, 3, 6, 6), drawn(1, 2, 20, 16)
INTEGERS = kernels.quantize(drawn(8, 64, seed=1))

CALLS: dict[str, tuple[Any, Callable[[Any], Any]]] = {
    "silu": (ROWS, kernels.silu),
    "rms_norm": (ROWS, lambda x: kernels.rms_norm(x, None, 1e-5)),
    "layer_norm": (ROWS, lambda x: kernels.layer_norm(x, None, None, 1e-5)),
    "softmax": (ROWS, lambda x: kernels.softmax(x, -1)),
    "gemm": (ROWS, lambda x: kernels.gemm(x, ROWS.T.contiguous())),
    "matmul_int8": (drawn(3, 64), lambda x: kernels.matmul_int8(x, *INTEGERS)),
    "conv2d": (IMAGES, lambda x: kernels.conv2d(x, drawn(4, 3, 3, 3))),
    "batch_norm": (IMAGES, lambda x: kernels.batch_norm(x, torch.zeros(3), torch.ones(3))),
    "attention": (HEADS, lambda x: kernels.attention(x, x, x, causal=True)),
    "attention, lse": (HEADS, lambda x: kernels.attention(x, x, x, return_lse=True)[1]),
}


@pytest.mark.parametrize("way", ["torch", "formula"])
@pytest.mark.parametrize("name", CALLS)
def test_autocast_changes_nothing(name: str, way: str) -> None:
    x, function = CALLS[name]
    plain, other = (x.clone().requires_grad_() for _ in range(2))
    with only(way):
        expected = function(x), function(plain)
        with torch.autocast("cpu", torch.bfloat16):
            found = function(x), function(other)
    torch.testing.assert_close(found, expected, rtol=0, atol=0)
    expected[1].sum().backward()
    found[1].sum().backward()
    torch.testing.assert_close(other.grad, plain.grad, rtol=0, atol=0)


def test_autocast_changes_nothing_for_numpy() -> None:
    x = HEADS.numpy()
    with only("torch"):
        expected = kernels.attention(x, x, x)
        with torch.autocast("cpu", torch.bfloat16):
            found = kernels.attention(x, x, x)
    np.testing.assert_array_equal(found, expected, strict=True)


def test_shapes_without_values() -> None:
    """The meta device's: lengths and positions there are not looked at."""
    x, places, lengths = (t.to("meta") for t in (X, PLACES, LENGTHS))
    tables = [table.to("meta") for table in TABLES]
    assert kernels.rope(x, *tables, positions=places).shape == X.shape
    assert kernels.attention(x, x, x, lengths=lengths, query_lengths=lengths).shape == X.shape


def test_devices_without_autocast() -> None:
    with torch.autocast("cpu", torch.bfloat16):
        assert kernels.silu(torch.ones(3, device="meta")).shape == (3,)


# ---------------------------------------------------------------------------- modes and tracers

HEARD: dict[str, tuple[Any, Callable[[Any], Any]]] = {
    "gelu": (ROWS, kernels.gelu),
    "rms_norm": (ROWS, lambda x: kernels.rms_norm(x, x[0], 1e-5)),
    "layer_norm": (ROWS, lambda x: kernels.layer_norm(x, x[0], x[1], 1e-5)),
    "softmax": (ROWS, lambda x: kernels.softmax(x, -1)),
    "rope": (X, lambda x: turned(x, PLACES)),
    "attention": (HEADS, lambda x: kernels.attention(x, x, x, causal=True)),
    "attention, lengths": (HEADS, lambda x: attended(x, LENGTHS[:1])),
    "attention, lse": (HEADS, lambda x: kernels.attention(x, x, x, return_lse=True)[1]),
}
heard = pytest.mark.parametrize("name", HEARD)
by_torch = pytest.mark.parametrize("kind", kinds("torch"))


class Operations(TorchDispatchMode):
    """Notes the names of operations."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: set[str] = set()

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kw: Any = None) -> Any:
        self.seen.add(function.__name__.partition(".")[0])
        return function(*args, **(kw or {}))


class Functions(TorchFunctionMode):
    """Notes the names of functions."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: set[str] = set()

    def __torch_function__(self, function: Any, types: Any, args: Any = (), kw: Any = None) -> Any:
        found = function(*args, **(kw or {}))
        if isinstance(found, torch.Tensor):
            self.seen.add(function.__name__)
        return found


#: What computes nothing.
MOVES = {"__getitem__", "detach", "empty", "lift_fresh", "select", "slice"}


@heard
@by_torch
@pytest.mark.parametrize("mode", [Operations, Functions])
def test_a_mode_sees_what_is_computed(
    mode: Any, kind: Kind, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    select(monkeypatch, kind)
    x, function = HEARD[name]
    with mode() as listening:
        found = function(x)
    assert listening.seen - MOVES
    torch.testing.assert_close(found, function(x))


@heard
@by_torch
def test_fake_tensors_stay_so(kind: Kind, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    select(monkeypatch, kind)
    x, function = HEARD[name]
    with FakeTensorMode(allow_non_fake_inputs=True) as mode:
        made = [function(mode.from_tensor(x)), function(x)]
    for found in made:
        assert isinstance(found, FakeTensor)
        assert (found.shape, found.dtype) == (function(x).shape, x.dtype)


@pytest.mark.parametrize("name", ["KVCache", "PagedKVCache"])
def test_caches_of_fake_tensors_stay_so(name: str) -> None:
    with FakeTensorMode() as mode:
        x = mode.from_tensor(drawn(1, 1, 2, 4))
        cache = cache_of(name, x)
        cache.append(x, x)
        found = cache.attend(x)
    assert isinstance(found, FakeTensor)
    assert found.shape == x.shape


@by_torch
def test_tensors_that_outlive_a_transform(kind: Kind, monkeypatch: pytest.MonkeyPatch) -> None:
    select(monkeypatch, kind)
    kept: list[Any] = []
    torch.func.grad(lambda x: (kept.append(x), x.sum())[1])(ROWS)
    torch.testing.assert_close(kernels.softmax(kept[0], -1), kernels.softmax(ROWS, -1))


@heard
@by_torch
@pytest.mark.parametrize("tracer", ["fx", "jit"])
@pytest.mark.filterwarnings("ignore::torch.jit.TracerWarning")  # shapes are looked at
@pytest.mark.filterwarnings("ignore:.*torch.jit.trace.*:DeprecationWarning")
def test_what_was_traced_computes_anew(
    tracer: str, kind: Kind, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    select(monkeypatch, kind)
    x, function = HEARD[name]

    def traced(x: Any) -> Any:
        return function(x)

    if tracer == "fx":
        program = make_fx(traced)(x)
    else:
        program = torch.jit.trace(traced, (x,), check_trace=False)
    other = 2.0 - x
    torch.testing.assert_close(program(other), function(other))


# ---------------------------------------------------------------------------- a default device


@pytest.mark.parametrize("kind", [Kind("torch", False), Kind("torch", True)], ids=["", "compiled"])
def test_a_default_device_changes_nothing(kind: Kind, monkeypatch: pytest.MonkeyPatch) -> None:
    select(monkeypatch, kind)
    for function in (kernels.silu, lambda x: kernels.attention(x, x, x, window=2)):
        expected = function(HEADS)
        with torch.device("meta"):
            found = function(HEADS)
        torch.testing.assert_close(found, expected, rtol=0, atol=0)


# ---------------------------------------------------------------------------- inference tensors


@pytest.mark.parametrize("kind", [Kind("torch", False), Kind("torch", True)], ids=["", "compiled"])
def test_inference_tensors_change_in_their_mode_alone(
    kind: Kind, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of any size, whoever computes: torch has promised that elsewhere they stay as they are."""
    select(monkeypatch, kind)
    x, moments = torch.ones(8), [torch.zeros(8) for _ in range(2)]
    with torch.inference_mode():
        out = torch.zeros(8)
        assert kernels.silu(x, out=out) is out
    kept = out.tolist()
    assert kept[0] > 0.7
    with pytest.raises(ValueError, match="silu: out is read-only; expected writable memory"):
        kernels.silu(x, out=out)
    with pytest.raises(ValueError, match="adam_step: parameter is read-only; expected writable"):
        kernels.adam_step(out, x, *moments, step=1)
    array = corepy.array_api.asarray(out)
    array[0] = 5.0  # into a copy
    assert array[0] == 5.0
    assert out.tolist() == kept


@pytest.mark.parametrize("name", ["KVCache", "PagedKVCache"])
def test_inference_caches_grow_in_their_mode_alone(name: str) -> None:
    x = drawn(1, 1, 2, 4)
    with torch.inference_mode():
        cache = cache_of(name, x)
        cache.append(x, x)
    with pytest.raises(ValueError, match=f"^{name}.append: the cache is read-only; expected writa"):
        cache.append(x, x)
    torch.testing.assert_close(cache.attend(x), kernels.attention(x, x, x, causal=True))
    with torch.inference_mode():
        cache.append(x, x)
    both = torch.cat([x, x], 2)
    torch.testing.assert_close(cache.attend(x), kernels.attention(x, both, both, causal=True))


GRAPHS: dict[str, Callable[[Any], Any]] = {
    "rms_norm": lambda x: kernels.rms_norm(x, x[0, 0, 0], 1e-5, residual=x)[0],
    "layer_norm": lambda x: kernels.layer_norm(x, None, None, 1e-5),
    "batch_norm": lambda x: kernels.batch_norm(x, x[0, 0, 0], x[0, 0, 1] ** 2, axis=-1),
    "softmax": lambda x: kernels.softmax(x, -1, scale=2.0, mask=x > 0),
    "gelu": kernels.gelu,
    "rope": lambda x: kernels.rope(x[:, :, :6, :], *TABLES),
    "rope_tables": lambda x: kernels.rope(x, *kernels.rope_tables(20, 8, like=x)),
    "attention": lambda x: kernels.attention(x, x, x),
    "causal attention of torch": lambda x: kernels.attention(x, x, x, causal=True),
    "attention in a window": lambda x: kernels.attention(x, x, x, window=2, return_lse=True)[1],
    "gelu in place": lambda x: kernels.gelu(y := x * 2, out=y),
    "adam_step": lambda x: kernels.adam_step(x * 1, x, x * 0, x * 0, step=1)[0],
    "gemm": lambda x: kernels.gemm(x[0, 0], x[1, 0].T, alpha=2.0),
}


@pytest.mark.filterwarnings("ignore:.*lru_cache:UserWarning")  # which torch looks through
@pytest.mark.parametrize("name", GRAPHS)
def test_a_kernel_is_one_graph(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_ways, "_touched", False)  # by tests
    monkeypatch.setattr(REPRODUCIBLE, "touched", False)
    function, x = GRAPHS[name], drawn(2, 1, 20, 8)  # as many keys as torch's attention wants
    found = torch.compile(function, backend="eager", fullgraph=True)(x)
    torch.testing.assert_close(found, function(x))


YARN = {"scaling": "yarn", "factor": 4.0, "original_length": 64, "attention_factor": 1.25}


@pytest.mark.filterwarnings("ignore:.*lru_cache:UserWarning")  # which torch looks through
@pytest.mark.parametrize(
    ("scaling", "like"),
    [
        *(({}, like) for like in ("float32", "float64", None)),
        *((YARN, like) for like in ("float32", "float64", None)),
        ({"scaling": "linear", "factor": 2.0}, "float64"),  # in which all digits are seen
        ({"scaling": "ntk", "factor": 2.0}, "float64"),
        ({"scaling": "llama3", "factor": 8.0, "original_length": 8192, "base": 5e5}, "float64"),
    ],
    ids=lambda given: given.get("scaling", "none") if isinstance(given, dict) else None,
)
def test_tables_of_a_graph_have_all_digits(scaling: dict[str, Any], like: str | None) -> None:
    """Which they have not where torch traces NumPy's functions: it divides integers in float32."""

    def tables(x: Any, length: int) -> Any:
        made = kernels.rope_tables(length, 64, like=x if like else None, **scaling)
        return [torch.as_tensor(table) for table in made]

    x = torch.zeros(1, dtype=getattr(torch, like or "float32"))
    torch._dynamo.reset()
    compiled = torch.compile(tables, backend="eager", fullgraph=True)
    for length in (2048, 1024, 512):
        found, expected = compiled(x, length), tables(x, length)
        # Cosines and sines are torch's there.
        bound = 1e-15 if like == "float64" else 1e-7
        torch.testing.assert_close(found, expected, rtol=0, atol=bound)


@pytest.mark.filterwarnings("ignore:.*lru_cache:UserWarning")  # which torch looks through
def test_numbers_of_tables_may_change() -> None:
    def tables(x: Any, base: float, factor: float) -> Any:
        how: dict[str, Any] = {"scaling": "yarn", "factor": factor, "original_length": 16}
        return kernels.rope_tables(64, 8, base=base, attention_factor=factor, like=x, **how)

    calls = [(X, base, factor) for base, factor in ((1e4, 2.0), (5e5, 3.0), (3e5, 4.0))]
    assert graphs(tables, *calls) == 3  # each of its own


def made_inside(x: Any) -> Any:
    cache = kernels.KVCache(*x.shape[:2], 64, x.shape[-1], like=x)
    cache.append(x, x)
    return cache.attend(x)


CHANGING_SHAPES: dict[str, Callable[[Any], Any]] = {
    "silu": kernels.silu,
    "gelu": kernels.gelu,
    "swiglu": lambda x: kernels.swiglu(x, x),
    "softmax": lambda x: kernels.softmax(x, -1),
    "rms_norm": lambda x: kernels.rms_norm(x, None, 1e-5),
    "rope": lambda x: kernels.rope(x, *kernels.rope_tables(x.shape[2], x.shape[3], like=x)),
    "quantize": lambda x: kernels.dequantize(*kernels.quantize(x)),
    "attention of torch": lambda x: kernels.attention(x, x, x, causal=True),
    "attention of torch, shared": lambda x: kernels.attention(x, x[:, :1], x[:, :1]),
    "attention in a window": lambda x: kernels.attention(x, x, x, window=2),
    "KVCache": made_inside,
}


@pytest.mark.filterwarnings("ignore:.*lru_cache:UserWarning")  # which torch looks through
@pytest.mark.parametrize("name", CHANGING_SHAPES)
def test_all_shapes_may_change(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_ways, "_touched", False)  # by tests
    monkeypatch.setattr(REPRODUCIBLE, "touched", False)
    function = CHANGING_SHAPES[name]
    torch._dynamo.reset()
    compiled = torch.compile(function, backend="eager", fullgraph=True, dynamic=True)
    for shape in ((2, 4, 17, 8), (3, 2, 33, 16)):
        x = drawn(*shape)
        torch.testing.assert_close(compiled(x), function(x))


@pytest.mark.filterwarnings("ignore:.*lru_cache:UserWarning")  # which torch looks through
def test_appending_is_one_graph() -> None:
    x = drawn(1, 1, 2, 4)
    cache = cache_of("KVCache", x)

    def grown(k: Any) -> Any:
        cache.append(k, k)
        return cache.keys.sum()

    found = torch.compile(grown, backend="eager", fullgraph=True)(x)
    torch.testing.assert_close((found, cache.keys), (x.sum(), x))


def graphs(function: Callable[..., Any], *calls: Any) -> int:
    """Return how many graphs `torch.compile` makes of some calls."""
    found: list[Any] = []

    def backend(graph: Any, _: Any) -> Any:
        found.append(graph)
        return graph

    torch._dynamo.reset()
    compiled = torch.compile(function, backend=backend, fullgraph=True)
    for arguments in calls:
        torch.testing.assert_close(compiled(*arguments), function(*arguments))
    return len(found)


@pytest.mark.filterwarnings("ignore:.*lru_cache:UserWarning")  # which torch looks through
@pytest.mark.parametrize("size", [8, 2048])
def test_equal_calls_are_compiled_once(size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_ways, "_touched", False)  # by tests
    monkeypatch.setattr(REPRODUCIBLE, "touched", False)
    calls = [(drawn(2, size),)] * 12
    assert graphs(lambda x: kernels.rms_norm(x, None, 1e-5), *calls) == 1


def stepped(**options: Any) -> Any:
    p, g = torch.ones(2, 4), drawn(2, 4)
    return kernels.adam_step(p, g, g * 0.5, g * g, **options)[0]


CHANGING: dict[str, Callable[[int], Any]] = {
    "scale": lambda n: kernels.softmax(drawn(2, 4), -1, scale=1.0 / n),
    "step": lambda n: stepped(step=n),
    "learning_rate": lambda n: stepped(step=2, learning_rate=0.1 / n),
}


@pytest.mark.filterwarnings("ignore:.*lru_cache:UserWarning")  # which torch looks through
@pytest.mark.parametrize("name", CHANGING)
def test_numbers_that_change_take_few_graphs(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_ways, "_touched", False)  # by tests
    monkeypatch.setattr(REPRODUCIBLE, "touched", False)
    monkeypatch.setattr(f"{__name__}.drawn", lambda *shape: torch.ones(shape) * 0.25)
    assert graphs(CHANGING[name], *[(n,) for n in range(1, 13)]) <= 3  # 1 is always its own


@pytest.mark.filterwarnings("ignore:.*lru_cache:UserWarning")  # which torch looks through
def test_a_growing_cache_takes_few_graphs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_ways, "_touched", False)  # by tests
    monkeypatch.setattr(REPRODUCIBLE, "touched", False)
    found: list[Any] = []

    def backend(graph: Any, _: Any) -> Any:
        found.append(graph)
        return graph

    def decode(cache: Any, x: Any) -> Any:
        cache.append(x, x)
        return cache.attend(x)

    torch._dynamo.reset()
    compiled = torch.compile(decode, backend=backend, fullgraph=True)
    cache, expected = (kernels.KVCache(1, 2, 16, 4, like=drawn(1)) for _ in range(2))
    for n in range(12):
        x = drawn(1, 2, 1, 4, seed=n)
        torch.testing.assert_close(compiled(cache, x), decode(expected, x))
    assert len(found) <= 4


def test_a_cache_of_blocks_breaks_graphs_and_is_not_compiled() -> None:
    """Which blocks it takes is nothing that a graph could hold for the next step."""
    found: list[Any] = []

    def backend(graph: Any, _: Any) -> Any:
        found.append(graph)
        return graph

    def decode(cache: Any, x: Any) -> Any:
        cache.append(x * 2, x + 1)
        y = cache.attend(x - 1) * 3
        if cache.table().shape[1] == 3:
            cache.free(0)
        return y

    torch._dynamo.reset()
    compiled = torch.compile(decode, backend=backend)
    cache, expected = (kernels.PagedKVCache(2, 2, 20, 2, 4, like=drawn(1)) for _ in range(2))
    for n in range(20):
        x = drawn(2, 2, 1, 4, seed=n)
        torch.testing.assert_close(compiled(cache, x), decode(expected, x))
        np.testing.assert_array_equal(cache.table(), expected.table())
        np.testing.assert_array_equal(cache.lengths, expected.lengths)
    assert len(found) <= 3  # before it, between its calls and after them
    q = drawn(2, 2, 1, 4).requires_grad_()
    torch.compile(lambda q: cache.attend(q * 2), backend=backend)(q).sum().backward()
    assert q.grad is not None


@pytest.mark.parametrize("first", ["import torch", "from corepy import kernels"])
def test_the_first_call_may_be_compiled(first: str) -> None:
    """Before any backend is loaded, which torch cannot trace."""
    code = (
        f"{first}\nimport torch\nfrom corepy import kernels\n"
        "f = torch.compile(kernels.silu, backend='eager', fullgraph=True)\n"
        "x = torch.ones(64, 64)\n"
        "torch.testing.assert_close(f(x), torch.nn.functional.silu(x))\n"
        "f(torch.nn.Parameter(x))\n"
    )
    command = [sys.executable, "-W", "ignore", "-c", code]
    found = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    assert found.returncode == 0, found.stderr


@pytest.mark.parametrize("size", [3, 3000])
def test_leaves_are_written_while_no_gradient_is_recorded(size: int) -> None:
    x, leaf = torch.ones(size), torch.nn.Parameter(torch.zeros(size))
    with pytest.raises(ValueError, match="silu: out is read-only; expected writable memory"):
        kernels.silu(x, out=leaf)
    with torch.no_grad():
        assert kernels.silu(x, out=leaf) is leaf
    assert leaf.requires_grad
    torch.testing.assert_close(leaf.detach(), torch.nn.functional.silu(x))
