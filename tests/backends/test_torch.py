"""torch: what compat leaves wrong, native operands, and gradients."""

from __future__ import annotations

import operator
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

import corepy
import corepy.array_api as xp
from corepy._dtypes import DTYPES
from corepy.devices._device import CPU, as_device
from tests.backends.arrays import a
from tests.conftest import required

torch = required("torch")

from torch._subclasses.fake_tensor import FakeTensorMode  # noqa: E402

from corepy.backends.torch import _indexing  # noqa: E402  it imports torch
from corepy.backends.torch._backend import TorchBackend  # noqa: E402

pytestmark = pytest.mark.backend("torch")

BACKEND = TorchBackend()
PREFERRED = "torch"


# ---------------------------------------------------------------------------- native operands


def test_tensors_are_wrapped_without_a_copy() -> None:
    tensor = torch.arange(4.0)
    x = xp.asarray(tensor)
    assert x.backend == "torch"
    assert x.unwrap() is tensor
    assert xp.from_dlpack(tensor).unwrap() is tensor
    assert xp.add(tensor, tensor).tolist() == [0.0, 2.0, 4.0, 6.0]
    assert x.dtype is xp.float32
    assert x.shape == (4,)
    assert type(x.shape) is tuple


OPERATORS = ["add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "eq", "ne", "lt", "le"]


@pytest.mark.parametrize("name", [*OPERATORS, "gt", "ge", "matmul"])
def test_operators_of_tensors_and_arrays_give_arrays(name: str) -> None:
    function = getattr(operator, name)
    left, right = torch.tensor([3.0, 4.0]), torch.tensor([2.0, 5.0])
    expected = function(left, right).tolist()
    for result in (function(left, xp.asarray(right)), function(xp.asarray(left), right)):
        assert type(result) is corepy.Array
        assert result.tolist() == expected


@pytest.mark.parametrize("name", ["and_", "or_", "xor", "lshift", "rshift"])
def test_operators_of_integer_tensors_and_arrays_give_arrays(name: str) -> None:
    function = getattr(operator, name)
    left, right = torch.tensor([12, 7]), torch.tensor([1, 2])
    expected = function(left, right).tolist()
    for result in (function(left, xp.asarray(right)), function(xp.asarray(left), right)):
        assert type(result) is corepy.Array
        assert result.tolist() == expected


@pytest.mark.parametrize(
    ("tensor", "words"),
    [
        (lambda: torch.ones(2, dtype=torch.bfloat16), "its dtype is torch's bfloat16; expected"),
        (lambda: torch.ones(2, 2).to_sparse(), "its layout is torch.sparse_coo"),
        (lambda: torch.nested.nested_tensor([torch.ones(2), torch.ones(3)]), "it is nested"),
    ],
)
@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors is in prototype stage")
def test_tensors_that_the_standard_does_not_know_are_refused(tensor: Any, words: str) -> None:
    with pytest.raises(TypeError, match=words):
        xp.asarray(tensor())


def test_zero_dimensional_operands_promote_like_any_other() -> None:
    assert (a([1.0], "float32") + a(1.0, "float64")).dtype is xp.float64
    assert (a([1], "int8") * a(1, "int64")).dtype is xp.int64
    assert (a([1], "int8") + 1).dtype is xp.int8


@pytest.mark.parametrize("name", list(DTYPES))
def test_scalars(name: str) -> None:
    dtype = DTYPES[name]
    top = {"b": True, "i": 2 ** (dtype.bits - 1) - 1, "u": 2**dtype.bits - 1, "f": 0.5, "c": 1 + 2j}
    made = BACKEND.scalar(top[dtype.kind], dtype, CPU)
    assert BACKEND.dtype_of(made) is dtype
    assert BACKEND.item(made) == top[dtype.kind]
    assert type(BACKEND.item(made)) is type(top[dtype.kind])


# ---------------------------------------------------------------------------- devices


def test_devices() -> None:
    assert BACKEND.is_available()
    assert BACKEND.devices()[0] is CPU
    assert BACKEND.capabilities(CPU).dtypes == frozenset(DTYPES.values())
    assert DTYPES["float64"] not in BACKEND.capabilities(as_device("mps")).dtypes
    assert BACKEND.device_of(torch.empty(1)) is CPU
    assert BACKEND.device_of(torch.empty(1, device="meta")) is as_device("meta")
    BACKEND.synchronize(CPU)


def test_creation_on_a_named_device() -> None:
    cpu = as_device("cpu")
    made = {
        "linspace": xp.linspace(0, 1, 4, device=cpu, endpoint=False),
        "eye": xp.eye(2, 3, k=1, device=cpu),
        "fftfreq": xp.fft.fftfreq(4, device=cpu),
        "rfftfreq": xp.fft.rfftfreq(4, device=cpu),
    }
    assert {x.backend for x in made.values()} == {"torch"}
    assert made["linspace"].tolist() == [0.0, 0.25, 0.5, 0.75]
    assert made["eye"].tolist() == [[0.0, 1.0, 0.0], [0.0, 0.0, 1.0]]
    assert made["fftfreq"].tolist() == [0.0, 0.25, -0.5, -0.25]
    assert made["rfftfreq"].tolist() == [0.0, 0.25, 0.5]


def test_memory_that_cannot_be_had() -> None:
    with pytest.raises(MemoryError, match="^ones: "):
        xp.ones(2**46)


# ---------------------------------------------------------------------------- indexing


@pytest.mark.parametrize(
    "key",
    [
        slice(None, None, -1),
        slice(5, 1, -2),
        slice(1, 5, -1),
        (slice(None), slice(None, None, -1)),
        (..., slice(None, None, -2), 0),
        (None, slice(-1, None, -3), None, ...),
        (slice(None, None, -1), slice(None), slice(None, None, -1)),
        slice(-(2**63), 2**63 - 1),
    ],
)
def test_slices_of_any_step_are_read_and_written(key: Any) -> None:
    values = np.arange(120).reshape(6, 5, 4)
    x = a(values.copy())
    assert np.array_equal(x[key], values[key])
    new = -np.arange(values[key].size).reshape(values[key].shape)
    x[key] = a(new)
    values[key] = new
    assert np.array_equal(x, values)
    x[key] = 7
    values[key] = 7
    assert np.array_equal(x, values)


def test_a_reversed_slice_beside_an_index_array() -> None:
    values = np.arange(24).reshape(4, 6)
    index = np.asarray([2, 0, 2])
    x = a(values.copy())
    assert np.array_equal(x[a(index), ::-1], values[index, ::-1])
    mask = np.asarray([True, False, True, True])
    assert np.array_equal(x[a(mask), ::-2], values[mask, ::-2])
    x[a(index), ::-1] = a(np.arange(6))
    values[index, ::-1] = np.arange(6)
    assert np.array_equal(x, values)


def test_an_int_beside_index_arrays_counts_as_one() -> None:
    values = np.arange(24).reshape(2, 3, 4)
    index = np.asarray([3, 0])
    x = a(values)
    assert np.array_equal(x[0, :, a(index)], values[0, :, index])
    assert np.array_equal(x[a(np.asarray(1)), :, a(index)], values[np.asarray(1), :, index])


@pytest.mark.parametrize("name", [n for n, d in DTYPES.items() if d.rank == 1])
def test_indices_of_every_integer_dtype(name: str) -> None:
    x = a([5.0, 6.0, 7.0])
    index = a([2, 0, 1, 1], name)
    assert x[index].tolist() == [7.0, 5.0, 6.0, 6.0]
    assert xp.take(x, index).tolist() == [7.0, 5.0, 6.0, 6.0]
    assert xp.take_along_axis(x, index).tolist() == [7.0, 5.0, 6.0, 6.0]


@pytest.mark.parametrize(
    "read",
    [
        lambda x: x[3],
        lambda x: x[2**70],
        lambda x: x[a([3])],
        lambda x: xp.take(x, a([3])),
        lambda x: xp.take_along_axis(x, a([3])),
        lambda x: xp.take_along_axis(x, a([-4])),
    ],
)
@pytest.mark.parametrize("looks", [True, False])
def test_indices_out_of_bounds_raise(
    read: Any, looks: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not looks:  # as on a GPU, where torch ends its work instead
        monkeypatch.setattr(_indexing, "_looks", lambda x: False)
    with pytest.raises(IndexError):
        read(a([1, 2, 3]))


def test_indices_out_of_bounds_reach_no_kernel_that_looks_at_none(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    x, far = xp.zeros((3, 4)), a([0, 4])

    def reached(*args: Any) -> Any:
        raise AssertionError(args)

    monkeypatch.setattr(_indexing, "_looks", lambda x: False)
    x[:, a([0, 3])] = 1.0
    assert np.array_equal(x[:, a([3, 1])], [[1.0, 0.0]] * 3)
    assert np.array_equal(xp.take(x, a([3, 1]), axis=1), [[1.0, 0.0]] * 3)
    monkeypatch.setattr(torch.Tensor, "__getitem__", reached)
    monkeypatch.setattr(torch.Tensor, "__setitem__", reached)
    native = x.unwrap()
    for read in (
        lambda: _indexing.getitem(native, (slice(None), far.unwrap())),
        lambda: _indexing.setitem(native, (slice(None), far.unwrap()), torch.tensor(1.0)),
        lambda: _indexing.take(native, far.unwrap(), axis=1),
    ):
        with pytest.raises(IndexError, match="index 4 is out of bounds for axis 1 with size 4"):
            read()


def test_indices_without_values_are_not_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_indexing, "_looks", lambda x: False)
    rows, indices = torch.arange(6.0).reshape(2, 3), torch.tensor([[2, 0], [1, 1]])
    picked = torch.func.vmap(lambda row, index: _indexing.take(row, index, axis=0))(rows, indices)
    assert picked.tolist() == [[2.0, 0.0], [4.0, 4.0]]
    with FakeTensorMode() as mode:
        fake = mode.from_tensor(rows), mode.from_tensor(indices)
    assert _indexing.getitem(*fake).shape == (2, 2, 3)
    meta = rows.to("meta"), indices.to("meta")
    assert _indexing.getitem(*meta).shape == (2, 2, 3)
    with FakeTensorMode():  # nor is asked, which `torch.compile` cannot trace, if a GPU records
        fakes = torch.empty(5, device="cuda"), torch.ones(3, dtype=torch.int64, device="cuda")
        _indexing._check_array(*fakes, 0)


@pytest.mark.parametrize("rows", [[9], [-4], [[9]]])
def test_index_arrays_beside_a_mask_that_selects_nothing_are_within_bounds(rows: Any) -> None:
    x, far, mask = xp.ones((3, 4)), a(rows), xp.zeros(4, dtype=xp.bool)
    for key in ((far, mask), (None, far, mask), (xp.zeros(3, dtype=xp.bool), 2 * far)):
        with pytest.raises(IndexError, match="^__getitem__: "):
            x[key]
        with pytest.raises(IndexError, match="^__setitem__: "):
            x[key] = 5.0
    assert np.array_equal(x, np.ones((3, 4)))


@pytest.mark.parametrize("name", ["fftshift", "ifftshift"])
def test_shifts_along_no_axis(name: str) -> None:
    shift = getattr(xp.fft, name)
    assert shift(a([1, 2, 3]), axes=()).tolist() == [1, 2, 3]
    assert shift(a(5.0)).tolist() == 5.0
    assert shift(a([[1, 2], [3, 4]])).tolist() == [[4, 3], [2, 1]]


def test_masks_without_elements() -> None:
    x = xp.ones((0, 3))
    assert x[xp.zeros((0, 0), dtype=xp.bool)].shape == (0,)
    assert x[xp.zeros((0,), dtype=xp.bool)].shape == (0, 3)
    with pytest.raises(IndexError):
        x[xp.zeros((0, 2), dtype=xp.bool)]


def test_what_stands_for_one_takes_what_stands_for_many() -> None:
    """Inside `vmap` new arrays stand for one, beside operands that stand for many."""

    def shifted(row: Any) -> Any:
        x = corepy.to(row)
        y = xp.zeros_like(x)
        y[1:] = x[:-1]
        y += x
        y %= 4.0
        return y.unwrap()

    def marked(row: Any) -> Any:
        y = corepy.to(xp.zeros(4), backend="torch")
        y[xp.astype(corepy.to(row), xp.int64)] = 1.0
        return y.unwrap()

    rows = torch.tensor([[0.0, 1.0, 3.0], [2.0, 2.0, 2.0]])
    assert torch.func.vmap(shifted)(rows).tolist() == [[0.0, 1.0, 0.0], [2.0, 0.0, 0.0]]
    assert torch.func.vmap(marked)(rows).tolist() == [[1.0, 1.0, 0.0, 1.0], [0.0, 0.0, 1.0, 0.0]]


@pytest.mark.filterwarnings("ignore::torch.jit.TracerWarning", "ignore::DeprecationWarning")
@pytest.mark.parametrize(
    "call",
    [
        xp.fft.rfft,
        xp.fft.fftn,
        lambda x: xp.where(x > 2, x, 0.0),
        lambda x: xp.vecdot(x, x[:1, :]),
        lambda x: xp.linalg.cross(x, x[:1, :]),
        lambda x: xp.broadcast_arrays(x, x[:, :1])[1],
    ],
)
def test_what_torch_jit_traces(call: Any) -> None:
    x = torch.arange(6.0).reshape(2, 3)
    traced = torch.jit.trace(lambda t: call(corepy.to(t)).unwrap(), (x,), check_trace=False)
    assert torch.equal(traced(x + 1), call(corepy.to(x + 1)).unwrap())


def test_negative_indices_count_from_the_end() -> None:
    x = a([[1, 2, 3], [4, 5, 6]])
    assert xp.take(x, a([-1, 0]), axis=1).tolist() == [[3, 1], [6, 4]]
    assert xp.take_along_axis(x, a([[-1], [-2]]), axis=1).tolist() == [[3], [5]]


def test_a_value_that_does_not_fit_raises() -> None:
    x = a([1, 2, 3])
    with pytest.raises(ValueError, match=r"^__setitem__: value: its shape is \(2,\); expected"):
        x[:] = a([1, 2])
    with pytest.raises(ValueError, match="^__setitem__: value: "):
        x[a([True, False, False])] = a([1, 2])
    with pytest.raises(ValueError, match="^__setitem__: value: "):
        x[::-1] = a([1, 2])
    assert x.tolist() == [1, 2, 3]
    x[:] = a([[7, 8, 9]])
    assert x.tolist() == [7, 8, 9]


def test_writing_over_what_is_read() -> None:
    x = a(list(range(16)))
    x[1:] = x[:-1]
    assert x.tolist() == [0, *range(15)]
    x = a([[0, 1, 2], [3, 4, 5]])
    x[:, 1:] = x[:, :-1]
    assert x.tolist() == [[0, 0, 1], [3, 3, 4]]
    x = a(list(range(8)))
    x[...] = x[::-1]
    assert x.tolist() == list(range(8))[::-1]
    x = a(list(range(16)))
    tail = x[2::2]
    tail += x[:-2:2]  # torch adds what it has just written, without a word
    assert x[::2].tolist() == [0, 2, 6, 10, 14, 18, 22, 26]


def test_expanded_memory_is_copied_before_a_write() -> None:
    x = xp.broadcast_to(a([1, 2]), (2, 2))
    assert not BACKEND.is_writable(x.unwrap())
    assert BACKEND.is_writable(x.unwrap()[:0])  # where nothing is shared
    x[0, 0] = 9
    assert x.tolist() == [[9, 2], [1, 2]]
    y = xp.broadcast_to(a([1, 2]), (2, 2))
    y += 1
    assert y.tolist() == [[2, 3], [2, 3]]


@pytest.mark.parametrize(
    ("symbol", "expected"),
    [
        ("iadd", [9, 9]),
        ("isub", [5, 3]),
        ("imul", [14, 18]),
        ("ifloordiv", [3, 2]),
        ("imod", [1, 0]),
        ("ipow", [49, 216]),
        ("iand", [2, 2]),
        ("ior", [7, 7]),
        ("ixor", [5, 5]),
        ("ilshift", [28, 48]),
        ("irshift", [1, 0]),
    ],
)
@pytest.mark.parametrize("dtype", ["int64", "uint8", "uint16", "uint32", "uint64"])
def test_in_place_operators_write_in_place(symbol: str, dtype: str, expected: list[int]) -> None:
    x = a([7, 6, 0], dtype)
    tensor, view = x.unwrap(), x[:2]
    view = getattr(operator, symbol)(view, a([2, 3], dtype))
    assert view.unwrap().data_ptr() == tensor.data_ptr()
    assert view.tolist() == expected
    assert tensor.tolist() == x.tolist() == [*expected, 0]


# ---------------------------------------------------------------------------- what torch lacks


@pytest.mark.parametrize("name", ["uint16", "uint32", "uint64"])
def test_wide_unsigned_integers_compute_in_the_same_memory(name: str) -> None:
    top = 2 ** DTYPES[name].bits - 1
    x, y = a([1, 2, top], name), a([1, 1, 1], name)
    explanation = corepy.explain(lambda: (x + y, x > y, xp.max(x), xp.sort(x)))
    total, greater, greatest, ordered = explanation.result
    assert {record.backend for record in explanation.records} == {"numpy"}
    assert explanation.bytes_moved == 0
    assert total.backend == "torch"
    assert total.dtype is DTYPES[name]
    assert total.tolist() == [2, 3, 0]
    assert greater.tolist() == [False, True, True]
    assert int(greatest) == top
    assert ordered.tolist() == [1, 2, top]
    x[a([True, False, True])] = 5
    x += y
    assert x.tolist() == [6, 3, 6]
    assert x[:0:-1].tolist() == [6, 3]
    assert xp.flip(xp.asarray(x[1:])).tolist() == [6, 3]


def test_everything_else_runs_in_torch() -> None:
    def program() -> Any:
        x = xp.reshape(xp.arange(12.0), (3, 4))
        y = xp.sum(xp.exp(x - xp.max(x, axis=1, keepdims=True)), axis=1)
        q, r = xp.linalg.qr(x)
        return xp.unique_all(xp.round(q @ r)), xp.fft.rfft(y), xp.std(x, correction=1.5), x[::-1]

    explanation = corepy.explain(program)
    assert set(explanation.summary()) == {"torch"}
    assert explanation.bytes_moved == 0


# ---------------------------------------------------------------------------- stacks of matrices


def test_stacks_of_matrices_are_factored_after_the_number_of_threads_has_changed() -> None:
    # torch itself never comes back, or its pivots are wrong, where it has MKL.
    code = """
import numpy as np
import corepy
import corepy.array_api as xp
corepy.set_backend_priority(["torch"])
values = np.random.default_rng(0).standard_normal((1, 2, 200, 200))
vector, one = np.ones(200), np.eye(200)
x = xp.asarray(values)
for threads in (1, 2, 1, 2):
    corepy.set_num_threads(threads)
    inverse = np.asarray(xp.linalg.inv(x))
    assert inverse.shape == values.shape
    assert np.abs(inverse @ values - one).max() < 1e-9
    assert np.abs(np.asarray(xp.linalg.solve(x, x)) - one).max() < 1e-9
    solved = np.asarray(xp.linalg.solve(x, xp.asarray(vector)))
    assert np.abs(solved - inverse @ vector).max() < 1e-9
    one_for_all = np.asarray(xp.linalg.solve(x, xp.asarray(one)))
    assert np.abs(one_for_all - inverse).max() < 1e-9
    sign, logarithm = np.linalg.slogdet(values)
    found = xp.linalg.slogdet(x)
    assert (np.asarray(found.sign) == sign).all()
    np.testing.assert_allclose(np.asarray(found.logabsdet), logarithm, rtol=1e-12)
    determinant = np.asarray(xp.linalg.det(x))
    np.testing.assert_allclose(determinant, sign * np.exp(logarithm), rtol=1e-9)
    power = np.asarray(xp.linalg.matrix_power(x, -2))
    np.testing.assert_allclose(power, inverse @ inverse, rtol=1e-9, atol=1e-9)
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=300)


def test_matrices_of_a_stack_are_factored_in_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    from corepy.backends.torch import _linalg

    monkeypatch.setattr(_linalg, "_SERIAL", 2)
    monkeypatch.setattr(_linalg, "HAS_MKL", True)
    monkeypatch.setattr(torch, "get_num_threads", lambda: 2)
    values = np.random.default_rng(1).standard_normal((2, 3, 4, 4)) + 4 * np.eye(4)
    factored = []
    real = torch.linalg.lu_factor_ex
    monkeypatch.setattr(
        _linalg, "_factors", _linalg.one_by_one(lambda x: factored.append(x.shape) or real(x))
    )
    right = np.random.default_rng(2).standard_normal((3, 4, 2))
    found = xp.linalg.solve(a(values), a(right))
    np.testing.assert_allclose(np.asarray(found), np.linalg.solve(values, right), rtol=1e-9)
    assert factored == [(4, 4)] * 6
    with pytest.raises(ValueError, match="^solve: .*singular; expected x1 to hold matrices"):
        xp.linalg.solve(xp.zeros((2, 4, 4)), a(right[0]))
    with pytest.raises(ValueError, match=r"^inv: .*singular"):
        xp.linalg.inv(xp.zeros((2, 4, 4)))

    x = torch.tensor(values, requires_grad=True)
    for call in (xp.linalg.inv, xp.linalg.det, lambda y: xp.linalg.solve(y, a(right))):
        x.grad = None
        (call(xp.asarray(x)).unwrap() ** 2).sum().backward()
        gradient = x.grad.clone()
        x.grad = None
        with monkeypatch.context() as patch:
            patch.setattr(_linalg, "HAS_MKL", False)
            (call(xp.asarray(x)).unwrap() ** 2).sum().backward()
        np.testing.assert_allclose(gradient.numpy(), x.grad.numpy(), rtol=1e-9)


# ---------------------------------------------------------------------------- gradients


def test_gradients_flow_through_operations() -> None:
    leaf = torch.tensor([0.5, -2.0, 3.0], dtype=torch.float64, requires_grad=True)
    x = xp.asarray(leaf)
    loss = xp.sum(xp.tanh(x) * xp.sign(x) + x[::-1] ** 2 + xp.mean(x, axis=()))
    loss.unwrap().backward()
    tanh = np.tanh([0.5, -2.0, 3.0])
    expected = (1 - tanh**2) * np.asarray([1, -1, 1]) + 2 * np.asarray([0.5, -2.0, 3.0]) + 1
    np.testing.assert_allclose(leaf.grad.numpy(), expected, rtol=1e-14)


def test_gradients_flow_beside_arrays_and_scalars_of_numpys() -> None:
    leaf = torch.tensor([0.5, -2.0], dtype=torch.float64, requires_grad=True)
    x = xp.asarray(leaf)
    loss = xp.sum(np.float64(3) * x + np.asarray([1.0, 2.0]) * x + np.eye(2) @ x)
    loss.unwrap().backward()
    assert leaf.grad.tolist() == [5.0, 6.0]


def test_writing_into_a_leaf_leaves_it_and_passes_gradients() -> None:
    leaf = torch.ones(3, dtype=torch.float64, requires_grad=True)
    x = xp.asarray(leaf)
    x *= 3.0
    y = xp.asarray(leaf)[1:]
    y[0] = 5.0
    (xp.sum(x) + xp.sum(y)).unwrap().backward()
    assert leaf.tolist() == [1.0, 1.0, 1.0]
    assert leaf.grad.tolist() == [3.0, 3.0, 4.0]


def test_writing_passes_through_transformations() -> None:
    def loss(tensor: Any) -> Any:
        x = xp.asarray(tensor) * 2.0
        x[0] = 5.0
        x[1:] = x[:-1]  # of memory that overlaps, though it cannot be seen to
        x += xp.asarray(tensor)
        return xp.sum(x * x).unwrap()

    row = torch.tensor([1.0, 2.0, 3.0], dtype=torch.float64)
    assert torch.func.grad(loss)(row).tolist() == [12.0, 42.0, 14.0]
    assert torch.func.vmap(loss)(torch.stack([row, row])).tolist() == [134.0, 134.0]
    assert loss(row).item() == 134.0


def test_tensors_that_require_gradients_leave_torch_only_when_detached() -> None:
    leaf = torch.tensor([1.0, 2.0], requires_grad=True)
    x = xp.asarray(leaf)
    assert repr(x) == "Array([1., 2.], dtype=float32, device=cpu, backend=torch)"
    assert x.tolist() == [1.0, 2.0]
    assert float(xp.sum(x)) == 3.0
    for read in (np.asarray, lambda x: x.unwrap().numpy()):
        with pytest.raises(RuntimeError, match="requires grad.*detach"):
            read(x)
    with pytest.raises(BufferError, match="^__dlpack__: .*require"):
        x.__dlpack__()
    with pytest.raises(corepy.BackendError, match="requires grad"):
        xp.unique_values(xp.asarray(leaf * (1 + 1j)))
    assert np.asarray(xp.asarray(leaf.detach())).tolist() == [1.0, 2.0]


# ---------------------------------------------------------------------------- good manners


def test_the_settings_of_torch_stay_as_they_were() -> None:
    before = torch.get_default_dtype(), torch.get_num_threads(), torch.is_grad_enabled()
    torch.set_default_dtype(torch.float64)
    try:
        assert xp.ones(2, dtype=xp.float32).dtype is xp.float32
        assert (a([1.0], "float32") * 2.5).dtype is xp.float32
    finally:
        torch.set_default_dtype(before[0])
    xp.sum(xp.linalg.inv(xp.eye(3)))
    after = torch.get_default_dtype(), torch.get_num_threads(), torch.is_grad_enabled()
    assert after == before


def test_threads() -> None:
    def work(seed: int) -> float:
        with corepy.backend_priority(["torch"]):
            x = xp.full((50, 50), float(seed))
            x += 1.0
            return float(xp.sum(x @ xp.eye(50)))

    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(work, range(32))) == [2500.0 * (seed + 1) for seed in range(32)]


def test_memory_that_the_host_cannot_share_is_a_buffer_error(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Elsewhere:
        def __dlpack__(self, **params: Any) -> Any:
            raise ValueError("cannot move")

    monkeypatch.setattr(TorchBackend, "exporter", lambda self, native: Elsewhere())
    x = xp.ones(2)
    for asked in ({"dl_device": (1, 0)}, {"copy": False}):
        with pytest.raises(BufferError, match="^__dlpack__: cannot move"):
            x.__dlpack__(**asked)
    with pytest.raises(ValueError, match="^__dlpack__: cannot move"):  # of a stream, perhaps
        x.__dlpack__(copy=None)


def test_floors_are_found_in_transforms_too() -> None:
    x = torch.tensor([[7.0, -7.0, 0.5], [2.0**52 * 1.25, 9.0, -1.0]], dtype=torch.float64)
    y = torch.tensor([2.0, 2.0, 1.7], dtype=torch.float64)
    expected = (corepy.to(x) // corepy.to(y)).unwrap()
    found = torch.func.vmap(lambda row: (corepy.to(row) // corepy.to(y)).unwrap())(x)
    assert torch.equal(found, expected)
