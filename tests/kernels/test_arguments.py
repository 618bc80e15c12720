"""What every kernel has in common: bad input, `out`, layouts, gradients and traces."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import numpy as np
import pytest

import corepy
from corepy import kernels, testing
from corepy.kernels import _formulas, _memory
from tests.kernels.calls import CALLS, NUMPY, Call, every, ones
from tests.kernels.libraries import Kind, host, kinds, select

# ---------------------------------------------------------------------------- bad input

X = ones(2, 3, 4)
C = ones(3, 2)
Q, K = ones(2, 4, 3, 5), ones(2, 2, 6, 5)


def attend(q: Any = Q, k: Any = K, v: Any = None, **options: Any) -> Any:
    return kernels.attention(q, k, k if v is None else v, **options)


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda: kernels.silu([1.0]), TypeError, "silu: x is of type list; expected an array"),
        (
            lambda: kernels.gelu(ones(2, dtype=int)),
            TypeError,
            "gelu: x has dtype int64 on cpu; expe",
        ),
        (lambda: kernels.gelu(X, approximate="erf"), ValueError, "gelu: approximate is 'erf'; exp"),
        (
            lambda: kernels.gelu(X, approximate=np.asarray(["none", "tanh"])),
            ValueError,
            "gelu: approximate is array(['none', 'tanh'], dtype='<U4'); expected 'none' or 'tanh'",
        ),
        (
            lambda: kernels.swiglu(X, ones(4)),
            ValueError,
            "swiglu: gate has shape (4,); expected (2,",
        ),
        (
            lambda: kernels.swiglu(X, ones(2, 3, 4, dtype=np.float64)),
            TypeError,
            "swiglu: gate has dtype float64 on cpu; expected float32 beside x of float32",
        ),
        (
            lambda: kernels.rms_norm(np.float32(1), None, 0),
            ValueError,
            "rms_norm: x has shape (); expected at",
        ),
        (
            lambda: kernels.rms_norm(X, ones(3), 0),
            ValueError,
            "rms_norm: weight has shape (3,); exp",
        ),
        (lambda: kernels.rms_norm(X, [1.0] * 4, 0), TypeError, "rms_norm: weight is of type list"),
        (
            lambda: kernels.rms_norm(X, ones(4, dtype=np.float16), 0),
            TypeError,
            "rms_norm: weight has dtype float16 on cpu; expected float32 beside x of float32",
        ),
        (
            lambda: kernels.rms_norm(X, None, -1.0),
            ValueError,
            "rms_norm: eps is -1.0; expected a fin",
        ),
        (lambda: kernels.rms_norm(X, None, np.nan), ValueError, "rms_norm: eps is nan; expected a"),
        (lambda: kernels.rms_norm(X, None, 10**400), ValueError, "eps is inf; expected a finite n"),
        (
            lambda: kernels.rms_norm(X, None, "1"),
            TypeError,
            "rms_norm: eps is of type str; expected",
        ),
        (
            lambda: kernels.rms_norm(X, None, True),
            TypeError,
            "rms_norm: eps is of type bool; expec",
        ),
        (
            lambda: kernels.rms_norm(X, None, 0, residual=ones(3, 4)),
            ValueError,
            "rms_norm: residual has shape (3, 4); expected (2, 3, 4) beside x",
        ),
        (
            lambda: kernels.rms_norm(X, None, 0, residual=X, out=X.copy()),
            TypeError,
            "rms_norm: out is of type numpy.ndarray; expected a tuple of two arrays",
        ),
        (
            lambda: kernels.rms_norm(X, None, 0, residual=X, out=(X, X, X)),
            ValueError,
            "rms_norm: out has 3 entries; expected two, with residual",
        ),
        (
            lambda: kernels.rms_norm(X, None, 0, residual=X, out=(X, X)),
            ValueError,
            "rms_norm: out[1] has memory of out[0]; expected another array",
        ),
        (lambda: kernels.layer_norm(X, None, ones(5), 0), ValueError, "layer_norm: bias has shape"),
        (
            lambda: kernels.softmax(X, 3),
            IndexError,
            "softmax: axis is 3; expected an axis of x, whi",
        ),
        (
            lambda: kernels.softmax(X, 0.0),
            TypeError,
            "softmax: axis is of type float; expected an i",
        ),
        (
            lambda: kernels.softmax(X, True),
            TypeError,
            "softmax: axis is of type bool; expected an integer",
        ),
        (
            lambda: kernels.softmax(ones(), 0),
            IndexError,
            "softmax: axis is 0; expected an axis of x",
        ),
        (
            lambda: kernels.softmax(X, 0, scale=np.inf),
            ValueError,
            "softmax: scale is inf; expected",
        ),
        (
            lambda: kernels.softmax(X, 0, mask=X),
            TypeError,
            "softmax: mask has dtype float32 on cpu;",
        ),
        (
            lambda: kernels.softmax(X, 0, mask=ones(2, 4, dtype=bool)),
            ValueError,
            "softmax: mask has shape (2, 4); expected one that broadcasts to (2, 3, 4)",
        ),
        (
            lambda: kernels.rope(ones(4), C, C),
            ValueError,
            "rope: x has shape (4,); expected (..., le",
        ),
        (lambda: kernels.rope(ones(3, 5), C, C), ValueError, "rope: x has shape (3, 5); expected"),
        (
            lambda: kernels.rope(X, C[:2], C[:2]),
            ValueError,
            "cos has shape (2, 2); expected at least",
        ),
        (
            lambda: kernels.rope(X, ones(3, 4), C),
            ValueError,
            "rope: cos has shape (3, 4); expected (t",
        ),
        (
            lambda: kernels.rope(X, C, C[:2]),
            ValueError,
            "rope: sin has shape (2, 2); expected (3, 2)",
        ),
        (
            lambda: kernels.rope(X, C, C.astype(np.float64)),
            TypeError,
            "rope: sin has dtype float64 on cpu; expected float32 beside x of float32",
        ),
        (
            lambda: kernels.rope(X, C, C, layout="neox"),
            ValueError,
            "rope: layout is 'neox'; expected",
        ),
        (
            lambda: kernels.rope(X, C, C, positions=C),
            TypeError,
            "rope: positions has dtype float32",
        ),
        (
            lambda: kernels.rope(X, C, C, positions=np.arange(2)),
            ValueError,
            "rope: positions has shape (2,); expected one that broadcasts to (2, 3), the rows of x",
        ),
        (
            lambda: kernels.rope(X, C, C, positions=np.arange(1, 4)),
            IndexError,
            "rope: positions has values from 1 to 3; expected 0 to 2, the rows of cos and sin",
        ),
        (
            lambda: kernels.rope(X, C, C, positions=np.arange(-1, 2)),
            IndexError,
            "rope: positions has values from -1 to 1; expected 0 to 2",
        ),
        (
            lambda: kernels.rope(X, C[:0], C[:0], positions=np.arange(3)),
            IndexError,
            "rope: positions has values from 0 to 2; expected cos to have rows",
        ),
        (
            lambda: attend(q=ones(3, 5)),
            ValueError,
            "attention: q has shape (3, 5); expected (batch, heads, queries, head_dim)",
        ),
        (
            lambda: attend(q=ones(2, 4, 3, 0)),
            ValueError,
            "attention: q has shape (2, 4, 3, 0); expected (batch",
        ),
        (
            lambda: attend(q=ones(2, 4, 3, 5, dtype=int)),
            TypeError,
            "attention: q has dtype int64 on cpu; expected a floating",
        ),
        (
            lambda: attend(k=ones(2, 2, 6, 4)),
            ValueError,
            "attention: k has head_dim 4 in shape (2, 2, 6, 4); expected 5, that of q",
        ),
        (
            lambda: attend(k=ones(2, 3, 6, 5)),
            ValueError,
            "attention: k has 3 heads in shape (2, 3, 6, 5); expected a divisor of the 4 of q",
        ),
        (lambda: attend(k=ones(2, 0, 6, 5)), ValueError, "attention: k has 0 heads in shape"),
        (
            lambda: attend(k=ones(1, 2, 6, 5)),
            ValueError,
            "attention: k has shape (1, 2, 6, 5); expected a batch of 2",
        ),
        (
            lambda: attend(k=ones(6, 5)),
            ValueError,
            "attention: k has shape (6, 5); expected (batch, kv_heads, keys, head_dim)",
        ),
        (
            lambda: attend(k=ones(2, 2, 6, 5, dtype=np.float64)),
            TypeError,
            "attention: k has dtype float64 on cpu; expected float32 beside q",
        ),
        (
            lambda: attend(v=K[:, :, 1:]),
            ValueError,
            "attention: v has shape (2, 2, 5, 5); expected (2, 2, 6, 5), that of k",
        ),
        (lambda: attend(v=[1.0]), TypeError, "attention: v is of type list; expected an array"),
        (lambda: attend(causal=1), TypeError, "attention: causal is of type int; expected a bool"),
        (
            lambda: attend(return_lse=None),
            TypeError,
            "attention: return_lse is of type NoneType; expected a bool",
        ),
        (
            lambda: attend(causal_align="left"),
            ValueError,
            "attention: causal_align is 'left'; expected 'bottom-right' or 'top-left'",
        ),
        (
            lambda: attend(mask=ones(3, 6)),
            TypeError,
            "attention: mask has dtype float32 on cpu; expected bool beside q",
        ),
        (
            lambda: attend(mask=ones(6, 3, dtype=bool)),
            ValueError,
            "attention: mask has shape (6, 3); expected one that broadcasts to (2, 4, 3, 6)",
        ),
        (
            lambda: attend(bias=ones(3, 6, dtype=np.float64)),
            TypeError,
            "attention: bias has dtype float64 on cpu; expected float32 beside q",
        ),
        (
            lambda: attend(bias=ones(2, 2, 3, 6)),
            ValueError,
            "attention: bias has shape (2, 2, 3, 6); expected one that",
        ),
        (
            lambda: attend(scale=np.nan),
            ValueError,
            "attention: scale is nan; expected a finite number",
        ),
        (
            lambda: attend(window=-1),
            ValueError,
            "attention: window is -1; expected an integer of at least 0",
        ),
        (
            lambda: attend(window=(2, -3)),
            ValueError,
            "attention: window is -3; expected an integer of at least 0",
        ),
        (
            lambda: attend(window=(2, 3, 4)),
            ValueError,
            "attention: window is (2, 3, 4); expected an integer, or a pair",
        ),
        (
            lambda: attend(window=1.5),
            TypeError,
            "attention: window is of type float; expected an integer",
        ),
        (
            lambda: attend(window=[1, 2]),
            TypeError,
            "attention: window is of type list; expected an integer, or a pair of them",
        ),
        (
            lambda: attend(window=(1, True)),
            TypeError,
            "attention: window is of type bool; expected an integer, or a pair of them",
        ),
        (
            lambda: attend(window=True),
            TypeError,
            "attention: window is of type bool; expected an integer, or a pair of them",
        ),
        (
            lambda: attend(lengths=np.asarray([1, 7])),
            ValueError,
            "attention: lengths has values from 1 to 7; expected 0 to 6",
        ),
        (
            lambda: attend(query_lengths=np.asarray([-1, 2])),
            ValueError,
            "attention: query_lengths has values from -1 to 2; expected 0 to 3",
        ),
        (
            lambda: attend(lengths=np.asarray([1])),
            ValueError,
            "attention: lengths has shape (1,); expected (2,) beside q",
        ),
        (
            lambda: attend(lengths=np.asarray([1.0, 2.0])),
            TypeError,
            "attention: lengths has dtype float64 on cpu; expected int32 or int64",
        ),
        (
            lambda: attend(out=ones(2, 4, 3, 4)),
            ValueError,
            "attention: out has shape (2, 4, 3, 4); expected (2, 4, 3, 5) beside q",
        ),
    ],
)
def test_bad_input(call: Call, error: type[Exception], words: str) -> None:
    with pytest.raises(error) as caught:
        call()
    assert words in str(caught.value)


@every
def test_bad_out(call: Call) -> None:
    x = ones(4, 6)
    frozen = ones(4, 6)
    frozen.flags.writeable = False
    for out, error, words in (
        (ones(6, 4), ValueError, "out has shape (6, 4); expected (4, 6)"),
        (ones(4, 6, dtype=np.float64), TypeError, "out has dtype float64 on cpu; expected float32"),
        (frozen, ValueError, "out is read-only; expected writable memory"),
        ([1.0], TypeError, "out is of type list; expected an array"),
    ):
        with pytest.raises(error) as caught:
            call(x, NUMPY, out=out)
        assert words in str(caught.value)


def test_scalars_of_numpy_are_no_out() -> None:
    x = np.float32(1.0)
    assert kernels.silu(x).shape == ()
    with pytest.raises(ValueError, match="silu: out is read-only; expected writable memory"):
        kernels.silu(x, out=np.float32(0.0))
    with pytest.raises(ValueError, match="adam_step: parameter is read-only; expected writable"):
        kernels.adam_step(x, x * 1, x * 2, x * 3, step=1)


@pytest.mark.parametrize(
    "library", ["numpy", pytest.param("torch", marks=pytest.mark.backend("torch"))]
)
def test_elements_that_share_their_memory_hold_no_result(library: str) -> None:
    kind = Kind(library, compiled=True)
    x = kind.array(ones(4, 6), "float32")
    one = kind.array(ones(1, 6), "float32")
    spread = (
        np.lib.stride_tricks.as_strided(one, (4, 6), (0, 4))
        if library == "numpy"
        else one.expand(4, 6)
    )
    words = "has elements that share their memory; expected memory for each"
    with pytest.raises(ValueError, match=f"^silu: out {words}$"):
        kernels.silu(x, out=spread)
    with pytest.raises(ValueError, match=f"^rms_norm: out\\[1\\] {words}$"):
        kernels.rms_norm(x, None, 1e-5, residual=x, out=(x, spread))
    with pytest.raises(ValueError, match=f"^adam_step: parameter {words}$"):
        kernels.adam_step(spread, x, x * 2, x * 3, step=1)


@pytest.mark.backend("torch")
def test_libraries_do_not_mix() -> None:
    import torch

    with pytest.raises(
        TypeError, match="swiglu: gate is an array of torch; expected one of numpy, as x"
    ):
        kernels.swiglu(X, torch.ones(2, 3, 4))


@pytest.mark.backend("torch")
@pytest.mark.filterwarnings("ignore:.*nested tensors is in prototype stage")
def test_tensors_are_dense() -> None:
    import torch

    x, sparse = torch.ones(3, 3), torch.eye(3).to_sparse()
    for call, argument in (
        (lambda: kernels.silu(sparse), "silu: x"),
        (lambda: kernels.swiglu(x, sparse), "swiglu: gate"),
        (lambda: kernels.gelu(x, out=sparse), "gelu: out"),
    ):
        with pytest.raises(TypeError) as caught:
            call()
        assert str(caught.value) == (
            f"{argument}: its layout is torch.sparse_coo; expected a dense tensor"
        )
    nested = torch.nested.nested_tensor([x, x[:2]])
    with pytest.raises(TypeError, match="^swiglu: gate: it is nested; expected a dense tensor$"):
        kernels.swiglu(x, nested)


@pytest.mark.backend("jax")
def test_arrays_of_jax_are_no_out() -> None:
    import jax.numpy as jnp

    with pytest.raises(
        TypeError, match="silu: out is of type .*; expected None, for arrays of jax"
    ):
        kernels.silu(jnp.ones(3), out=jnp.ones(3))


def test_other_devices() -> None:
    with testing.fake_devices():
        first, second, *_ = corepy.testing.DEVICES
        here, there = (corepy.to(ones(4), device=d) for d in (first, second))
        with pytest.raises(corepy.DeviceMismatchError) as caught:
            kernels.swiglu(here, there)
        assert str(caught.value) == f"swiglu: gate is on {second}; expected {first}, where x is"
        out = kernels.rms_norm(there, there, 0.0)
        assert out.device is there.device
        assert host(out).tolist() == [1.0] * 4
        with pytest.raises(TypeError, match="rms_norm: weight is an array of numpy; expected one"):
            kernels.rms_norm(here, ones(4), 1e-5)


# ---------------------------------------------------------------------------- out and layouts


@every
@pytest.mark.parametrize("kind", kinds("numpy", "torch", "array"))
def test_out(call: Call, kind: Kind, monkeypatch: pytest.MonkeyPatch) -> None:
    select(monkeypatch, kind)
    values = np.random.default_rng(0).standard_normal((4, 6))
    x = kind.array(values, "float32")
    expected = host(call(x, kind))
    out = kind.array(np.zeros((4, 6)), "float32")
    assert call(x, kind, out=out) is out
    np.testing.assert_array_equal(host(out), expected)
    np.testing.assert_array_equal(host(x), values.astype("f4"))  # untouched
    assert call(x, kind, out=x) is x  # in place
    np.testing.assert_array_equal(host(x), expected)


@every
@pytest.mark.parametrize("kind", kinds("numpy"))
def test_out_that_overlaps(call: Call, kind: Kind, monkeypatch: pytest.MonkeyPatch) -> None:
    select(monkeypatch, kind)
    memory = np.random.default_rng(0).standard_normal(30).astype("f4")
    x, out = memory[:24].reshape(4, 6), memory[6:].reshape(4, 6)
    expected = call(x.copy(), kind)
    np.testing.assert_array_equal(call(x, kind, out=out), expected)
    np.testing.assert_array_equal(memory[6:].reshape(4, 6), expected)
    turned = np.zeros((6, 4), "f4").T  # not in C order
    assert call(expected.copy(), kind, out=turned) is turned
    np.testing.assert_array_equal(turned, call(expected, kind))


@pytest.mark.parametrize("kind", kinds("numpy", "torch", "array"))
def test_out_of_a_norm_with_residual(kind: Kind, monkeypatch: pytest.MonkeyPatch) -> None:
    select(monkeypatch, kind)
    x, r = (kind.array(np.full((3, 6), v), "float32") for v in (1.0, 2.0))
    expected = [host(y) for y in kernels.rms_norm(x, None, 0.5, residual=r)]
    made = kernels.rms_norm(x, None, 0.5, residual=r, out=(x, r))
    assert made[0] is x
    assert made[1] is r
    for got, value in zip(made, expected, strict=True):
        np.testing.assert_array_equal(host(got), value)


@every
@pytest.mark.parametrize("kind", kinds("numpy", "torch"))
def test_layouts_and_read_only_memory(
    call: Call, kind: Kind, monkeypatch: pytest.MonkeyPatch
) -> None:
    select(monkeypatch, kind)
    values = np.random.default_rng(0).standard_normal((8, 12)).astype("f4")
    expected = host(call(kind.array(values[::2, 1::2].copy()), kind))
    views = [kind.array(values)[::2, 1::2], kind.array(values[::2, 1::2].T.copy()).T]
    if kind.library == "numpy":
        frozen = values[::2, 1::2].copy()
        frozen.flags.writeable = False
        shifted = np.zeros(24 * 4 + 1, np.uint8)[1:].view("f4").reshape(4, 6)  # unaligned
        shifted[...] = frozen
        views += [frozen, shifted, frozen[::-1].copy()[::-1], frozen.astype(">f4")]
    for x in views:
        out = call(x, kind)
        assert out.dtype == x.dtype
        np.testing.assert_allclose(host(out), expected, rtol=1e-5, atol=1e-7)


# ---------------------------------------------------------------------------- gradients and traces


@every
@pytest.mark.backend("torch")
def test_gradients_pass_through_torch(call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    import torch

    kind = Kind("torch", compiled=True)
    select(monkeypatch, kind)
    x = torch.linspace(-2.0, 3.0, 24, dtype=torch.float64).reshape(4, 6).requires_grad_()

    assert torch.autograd.gradcheck(lambda x: _double(call, x, kind), (x,))
    with torch.no_grad():
        assert not call(x.detach().to(torch.float32), kind).requires_grad


def _double(call: Call, x: Any, kind: Kind) -> Any:
    """Call with parameters of float64."""

    class Double(Kind):
        def array(self, values: Any, dtype: str | None = None) -> Any:
            return Kind.array(self, values, dtype or "float64")

    return call(x, Double(kind.library, kind.compiled))


@every
@pytest.mark.backend("jax")
def test_jax_traces(call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    import jax

    kind = Kind("jax", compiled=True)
    select(monkeypatch, kind)
    x = kind.array(np.random.default_rng(0).standard_normal((4, 6)), "float32")
    tables = kernels.rope_tables(4, 6, like=x)  # of constants, not of what is traced

    def function(y: Any) -> Any:
        return kernels.rope(y, *tables) if call is CALLS["rope"] else call(y, kind)

    traced = jax.jit(function)(x)
    np.testing.assert_allclose(host(traced), host(function(x)), rtol=2e-5, atol=1e-7)


@every
@pytest.mark.parametrize("kind", kinds("torch"))
def test_torch_sees_memory_change(call: Call, kind: Kind, monkeypatch: pytest.MonkeyPatch) -> None:
    select(monkeypatch, kind)
    x = kind.array(ones(4, 6))
    out = kind.array(ones(4, 6))
    before = out._version
    call(x, kind, out=out)
    assert out._version > before


def test_without_numba_the_reference_computes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_memory, "_compiler", lambda: False)
    monkeypatch.setitem(sys.modules, "corepy.kernels._compiled", None)  # an import would fail
    x = np.random.default_rng(0).standard_normal((2000, 6)).astype("f4")
    np.testing.assert_allclose(kernels.softmax(x, -1).sum(-1), 1.0, rtol=1e-6)
    assert kernels.gelu(x).shape == x.shape
    monkeypatch.setattr(_formulas, "is_there", lambda name: False)
    (record,) = corepy.explain(kernels.gelu, x).records
    formula = "by its formula, in the functions of the library"
    assert record.reason == f"{formula}; Numba is not installed (extra numba)"
    monkeypatch.undo()
    (record,) = corepy.explain(kernels.gelu, x[:1, :1]).records  # too small, with Numba or without
    assert record.reason == formula


def test_import_loads_no_library() -> None:
    code = (
        "import sys, corepy\n"
        "assert 'corepy.kernels' not in sys.modules\n"
        "from corepy import kernels\n"
        "print(*[m for m in ('numba', 'torch', 'jax', 'array_api_compat') if m in sys.modules])\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout.strip()) == (0, ""), done.stderr
