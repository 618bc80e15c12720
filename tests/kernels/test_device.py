"""Device kernels from outside: layouts, results in given memory, queues, errors, who ran."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import replace
from threading import Thread
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import corepy
from corepy import kernels
from corepy.devices._device import as_device
from corepy.kernels._arguments import given
from corepy.kernels._device import Program, _runtime, launch, on_device
from corepy.kernels._device._sharing import groups_of
from corepy.kernels._formulas import by_reference
from tests.kernels import libraries
from tests.kernels import opencl as opencl_devices
from tests.kernels.libraries import Kind, check, device_kinds, exchanged, host, queue, sample

each = pytest.mark.parametrize("kind", device_kinds())
opencl = pytest.mark.device("opencl")


def norm(x: Any, **out: Any) -> Any:
    return kernels.rms_norm(x, None, 1e-5, **out)


def expected_norm(values: Any) -> tuple[Any, Any]:
    """Return what is expected, and the size of its terms."""
    return libraries.rms_norm(values, 1.0, 1e-5), None


def expected_silu(values: Any) -> tuple[Any, Any]:
    return libraries.silu(values), None


def rope(x: Any, **out: Any) -> Any:
    length, size = x.shape[-2:]
    cos, sin = kernels.rope_tables(length, size, like=x)
    return kernels.rope(x, cos, sin, **out)


def expected_rope(values: Any) -> tuple[Any, Any]:
    length, size = values.shape[-2:]
    cos, sin = kernels.rope_tables(length, size, like=np.zeros(1))
    return libraries.rope(values, cos, sin, np.arange(length), False)


def softmax(x: Any, **out: Any) -> Any:
    return kernels.softmax(x, -1, **out)


def expected_softmax(values: Any) -> tuple[Any, Any]:
    return libraries.softmax(values, -1), None


FUNCTIONS = [
    pytest.param(norm, expected_norm, id="norm"),
    pytest.param(kernels.silu, expected_silu, id="silu"),
    pytest.param(softmax, expected_softmax, id="softmax"),
    pytest.param(rope, expected_rope, id="rope"),
]
functions = pytest.mark.parametrize(("function", "oracle"), FUNCTIONS)


Views = dict[str, Callable[[Any], Any]]
#: Of an array of shape (4, 6, 16).
VIEWS: Views = {
    "half of each row": lambda x: x[:, :, :4],
    "from the middle on": lambda x: x[1:, 2:, 2:],
    "every other row": lambda x: x[:, ::2],
    "every other element": lambda x: x[:, :, ::2],
    "axes exchanged": lambda x: exchanged(x, (1, 0, 2)),
    "the last axis first": lambda x: exchanged(x, (2, 1, 0)),
}


@each
@functions
@pytest.mark.parametrize("view", VIEWS)
def test_layouts(kind: Kind, function: Any, oracle: Any, view: str) -> None:
    values = sample(4, 6, 16, dtype="f4")
    x = VIEWS[view](kind.array(values))
    expected, terms = oracle(VIEWS[view](values).astype("f8"))
    check(x, function(x), expected, "float32", terms)


@opencl
def test_layouts_of_pyopencl_run_backwards() -> None:
    kind = Kind("opencl", True)
    values = sample(3, 4, 10, dtype="f4")
    for view in (np.s_[::-1], np.s_[:, :, ::-1], np.s_[::-1, ::-2, 1:]):
        x = kind.array(values)[view]
        check(x, norm(x), expected_norm(values[view].astype("f8"))[0], "float32")


@opencl
def test_integers_that_are_looked_at_may_be_views() -> None:
    kind = Kind("opencl", True)
    places = np.asarray([[4, 1, 0], [8, 3, 2]])
    whole = kind.array(places)
    x, cos, sin = (kind.array(sample(*s), "float32") for s in ((2, 3, 16), (9, 8), (9, 8)))
    for view in (np.s_[:, ::-1], np.s_[::-1, 1:2]):
        found = kernels.rope(x, cos, sin, positions=whole[view])
        expected = kernels.rope(x, cos, sin, positions=kind.array(places[view].copy()))
        np.testing.assert_array_equal(host(found), host(expected))
    q, k = (kind.array(sample(2, 1, n, 4), "float32") for n in (3, 9))
    found = kernels.attention(q, k, k, lengths=whole[::-1, 0])
    expected = kernels.attention(q, k, k, lengths=kind.array(places[::-1, 0].copy()))
    np.testing.assert_array_equal(host(found), host(expected))


@each
def test_numbers_beyond_float32_are_its_greatest(kind: Kind) -> None:
    x = kind.array(np.full((2, 8), 2.0), "float32")
    greatest = float(np.finfo("f4").max)
    np.testing.assert_allclose(host(kernels.rms_norm(x, None, 1e300)), 2.0 * greatest**-0.5, 1e-6)
    assert (host(kernels.layer_norm(x, None, x[0], 1e300)) == 2.0).all()
    p, m, v = (kind.array(np.ones((2, 8)), "float32") for _ in range(3))
    kernels.adam_step(p, x, m, v, step=1, eps=1e300)
    assert (host(p) == 1.0).all()


#: Numbers of equal terms of which one sum was off by more than its bound, as was that of such sums.
MANY, MORE = 1 << 20, 1 << 22


def check_equal(x: Any, out: Any, expected: float) -> None:
    check(x, out, np.full(tuple(out.shape), expected), "float32")


@opencl
def test_products_of_many_terms_keep_their_digits() -> None:
    kind = Kind("opencl", True)
    x, y = kind.array(np.full(MANY, 0.1), "float32"), np.full((9, MANY), 0.7 * 2.0**-5)
    y = kind.array(y, "float32")
    expected = MANY * host(x[:1])[0] * host(y[0, :1])[0]
    check_equal(x, kernels.gemv(y, x), expected)
    check_equal(x, kernels.matmul_vec(x.reshape(1, MANY), y), expected)
    check_equal(x, kernels.weighted_sum_rows(x, y.reshape(MANY, 9)), expected)
    filters = y[0, :].reshape(1, 1, 1024, 1024)
    check_equal(x, kernels.conv2d(x.reshape(1, 1, 1024, 1024), filters), expected)


@opencl
@pytest.mark.parametrize("bits", [8, 4])
@pytest.mark.parametrize("group", [4, 64])
def test_products_of_long_rows_of_integers_keep_their_digits(bits: int, group: int) -> None:
    kind = Kind("opencl", True)
    x = kind.array(np.full(MORE, 0.7 * 2.0**-5), "float32")
    values, scales = kernels.quantize(
        kind.array(np.full((1, MORE), 0.1), "float32"), bits=bits, group_size=group
    )
    product = (kernels.matmul_int8 if bits == 8 else kernels.matmul_int4)(x, values, scales)
    integer = 127 if bits == 8 else 7
    check_equal(x, product, MORE * integer * host(scales[0, :1])[0] * host(x[:1])[0])


@each
def test_norms_and_softmax_of_long_rows_keep_their_digits(kind: Kind) -> None:
    values = np.full((1, MORE), 1 / 3, "f4")
    check(kind.array(values), norm(kind.array(values)), expected_norm(host(values))[0], "float32")
    values[0, ::2] *= 2
    x, wide = kind.array(values), host(values)
    expected, terms = libraries.layer_norm(wide, 1.0, 0.0, 1e-5)
    check(x, kernels.layer_norm(x, None, None, 1e-5), expected, "float32", terms)
    values[:] = 0
    values[0, 0] = 0.4
    expected = np.exp(values.astype("f8"))
    expected /= expected.sum()
    x = kind.array(values)
    check(x, softmax(x), expected, "float32")
    columns = kind.array(np.concatenate([values, values]).T.copy())
    expected = np.concatenate([expected, expected]).T
    check(columns, kernels.softmax(columns, 0), expected, "float32")


@each
@pytest.mark.parametrize("queries", [1, 20])
def test_many_keys_weigh_as_exactly_as_few(kind: Kind, queries: int) -> None:
    keys = 8192 if queries > 1 else MORE  # of few queries groups share the keys
    q = kind.array(np.full((1, 1, queries, 4), 0.3), "float32")
    k = np.zeros((1, 1, keys, 4), "f4")
    k[0, 0, 0] = 1.0
    v = kind.array(np.full((1, 1, keys, 4), 0.1), "float32")
    out = kernels.attention(q, kind.array(k), v)
    np.testing.assert_allclose(host(out), float(np.float32(0.1)), rtol=2e-5)


@opencl
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_softmax_of_vectors_on_every_device_of_opencl(dtype: str) -> None:
    """Each compiler chooses among four exponentials; that of one made zeros of them."""
    import pyopencl as cl
    import pyopencl.array as cla

    values = sample(7, 16)
    values[0, 3] = np.nan
    values[1, 5:9] = -np.inf
    for device in opencl_devices.devices()[0]:
        x = cla.to_device(cl.CommandQueue(cl.Context([device])), values.astype(dtype))
        check(x, softmax(x), libraries.softmax(host(x), -1), dtype)


@opencl
def test_many_axes_are_copied() -> None:
    kind = Kind("opencl", True)
    values = sample(2, 3, 2, 3, 2, 3, 4)
    order = (5, 3, 1, 6, 4, 2, 0)
    x = kind.array(values, "float32").transpose(order)
    expected = libraries.silu(values.transpose(order).astype("f4").astype("f8"))
    check(x, kernels.silu(x), expected, "float32")


@each
@functions
def test_results_in_given_memory(kind: Kind, function: Any, oracle: Any) -> None:
    values = sample(4, 6)
    x, out = kind.array(values, "float32"), kind.array(np.zeros((4, 6)), "float32")
    expected, terms = oracle(host(x))
    assert function(x, out=out) is out
    check(x, out, expected, "float32", terms)
    assert function(x, out=x) is x  # in place
    check(x, x, expected, "float32", terms)
    memory = kind.array(np.full((8, 12), 7.0), "float32")
    part = memory[::2, 1::2]
    x = kind.array(values, "float32")
    assert function(x, out=part) is part
    whole = np.full((8, 12), 7.0)
    whole[::2, 1::2] = host(out)
    np.testing.assert_array_equal(host(memory), whole)  # and nothing between


@each
@functions
def test_results_over_parts_of_operands(kind: Kind, function: Any, oracle: Any) -> None:
    memory = kind.array(sample(9, 6), "float32")
    x, out = memory[:8], memory[1:]
    expected, terms = oracle(host(memory)[:8])
    function(x, out=out)
    check(x, out, expected, "float32", terms)


def _spread(kind: Kind, x: Any, rows: int) -> Any:
    """Return an array whose rows are all in the memory of the one that another has."""
    shape = rows, x.shape[1]
    if kind.library == "cuda":
        return x.expand(shape)
    if kind.library == "cupy":
        import cupy

        return cupy.broadcast_to(x, shape)
    import pyopencl.array as cla

    steps = 0, x.dtype.itemsize
    return cla.Array(queue(), shape, x.dtype, strides=steps, data=x.base_data)


@each
def test_elements_that_share_their_memory_hold_no_result(kind: Kind) -> None:
    x, one = kind.array(sample(4, 6), "float32"), kind.array(sample(1, 6), "float32")
    before, words = host(one), "has elements that share their memory; expected memory for each"
    with pytest.raises(ValueError, match=f"^silu: out {words}$"):
        kernels.silu(x, out=_spread(kind, one, 4))
    with pytest.raises(ValueError, match=f"^adam_step: parameter {words}$"):
        kernels.adam_step(_spread(kind, one, 4), x, x * 2, x * 3, step=1)
    np.testing.assert_array_equal(host(one), before)
    empty = kind.array(np.zeros((0, 6)), "float32")  # has strides of zero in CuPy
    out = kind.array(np.zeros((0, 6)), "float32")
    assert kernels.silu(empty, out=out) is out


@each
def test_more_than_the_grid(kind: Kind) -> None:
    """Work-items go on where the grid ends, which is short on a device of few units."""
    x = kind.array(sample(5001, 3), "float32")
    check(x, norm(x), expected_norm(host(x))[0], "float32")
    x = kind.array(sample(400_003), "float32")
    check(x, kernels.silu(x), libraries.silu(host(x)), "float32")


@each
def test_rows_longer_than_registers(kind: Kind) -> None:
    x = kind.array(np.abs(sample(2, 9001)) + 1.0, "float32")
    check(x, norm(x), expected_norm(host(x))[0], "float32")
    norms = libraries.layer_norm(host(x), 1.0, 0.0, 1e-5)
    check(x, kernels.layer_norm(x, None, None, 1e-5), norms[0], "float32", norms[1])
    check(x, softmax(x), expected_softmax(host(x))[0], "float32")
    mask = np.random.default_rng(0).random(9001) < 0.5
    out = kernels.softmax(x, -1, mask=kind.array(mask))
    check(x, out, libraries.softmax(host(x), -1, 1.0, mask), "float32")


# ---------------------------------------------------------------------------- pyopencl's own


@opencl
def test_arrays_in_the_middle_of_a_buffer() -> None:
    import pyopencl.array as cla

    values = sample(600, dtype="f4")
    whole = cla.to_device(queue(), values)
    buffer = whole.base_data.get_sub_region(1024, 1024)  # a multiple of what devices align to
    x = cla.Array(queue(), (2, 100), "f4", data=buffer, offset=8)
    check(x, norm(x), libraries.rms_norm(values[258:458].reshape(2, 100), 1.0, 1e-5), "float32")
    out = cla.Array(queue(), (2, 100), "f4", data=whole.base_data, offset=1032 + 400)
    norm(x, out=out)  # the second row of x is where the first one of out is
    expected = libraries.rms_norm(values[258:458].reshape(2, 100).astype("f8"), 1.0, 1e-5)
    np.testing.assert_allclose(whole.get()[358:558].reshape(2, 100), expected, rtol=1e-5)


@opencl
def test_queues_that_run_out_of_order() -> None:
    import pyopencl as cl
    import pyopencl.array as cla

    modes = cl.command_queue_properties.OUT_OF_ORDER_EXEC_MODE_ENABLE
    anyhow = cl.CommandQueue(queue().context, properties=modes)
    values = sample(64, 1000, dtype="f4")
    x = cla.to_device(anyhow, values)
    y = x
    for _ in range(5):
        y = norm(y)
    expected = values.astype("f8")
    for _ in range(5):
        expected = libraries.rms_norm(expected, 1.0, 1e-5)
    assert y.queue == anyhow
    np.testing.assert_allclose(y.get(), expected, rtol=1e-5)


@opencl
def test_without_a_queue() -> None:
    x = Kind("opencl", True).array(sample(3, 4), "float32").with_queue(None)
    with pytest.raises(ValueError, match="silu: x has no queue; expected one, from Array.with_q"):
        kernels.silu(x)


@opencl
def test_contexts_do_not_mix() -> None:
    import pyopencl as cl
    import pyopencl.array as cla

    x = Kind("opencl", True).array(sample(3, 4), "float32")
    other = cla.to_device(cl.CommandQueue(cl.Context(queue().context.devices)), x.get())
    with pytest.raises(corepy.DeviceMismatchError, match="swiglu: .* another context of opencl:0"):
        kernels.swiglu(x, other)


@opencl
def test_libraries_do_not_mix() -> None:
    x = Kind("opencl", True).array(sample(3, 4), "float32")
    with pytest.raises(TypeError, match="gate is an array of numpy; expected one of pyopencl"):
        kernels.swiglu(x, x.get())
    with pytest.raises(TypeError, match="gate is an array of pyopencl; expected one of numpy"):
        kernels.swiglu(x.get(), x)


@opencl
def test_functions_without_a_kernel() -> None:
    x = given("relu", "x", Kind("opencl", True).array(sample(3, 4), "float32"))
    with pytest.raises(TypeError, match="relu: x is of type pyopencl.array.Array; .* no kernel in"):
        by_reference(lambda xp, x, *, wide: x, x, ())


@opencl
def test_other_dtypes() -> None:
    with pytest.raises(TypeError, match="silu: x has dtype int64 on opencl:0; expected a floating"):
        kernels.silu(Kind("opencl", True).array(np.arange(3)))


@opencl
def test_bad_shapes_are_told_before_any_launch() -> None:
    x = Kind("opencl", True).array(sample(3, 4), "float32")
    with pytest.raises(ValueError, match="swiglu: gate has shape .4,.; expected .3, 4."):
        kernels.swiglu(x, x[0])
    with pytest.raises(ValueError, match="rms_norm: weight has shape .3, 4.; expected .4,."):
        kernels.rms_norm(x, x, 1e-5)


@opencl
def test_devices_that_are_too_small() -> None:
    """Those without float64, or with groups of few work-items, are told of before any launch."""
    x = given("silu", "x", Kind("opencl", True).array(sample(3, 4), "float64"))
    small = SimpleNamespace(double_fp_config=0, max_work_group_size=64)
    context = x.native.context
    lacking = replace(
        x, native=SimpleNamespace(queue=SimpleNamespace(device=small, context=context), offset=0)
    )
    with pytest.raises(TypeError, match="silu: x has dtype float64 on opencl:0; .* lacks float64"):
        on_device(lacking)
    with pytest.raises(corepy.UnsupportedOperationError, match="groups have up to 64 work-items"):
        launch(lacking, Program(__file__), "any", grid=(1,), block=(256,), arguments=())


@each
def test_who_ran_is_told(kind: Kind) -> None:
    x = kind.array(sample(3, 4), "float32")
    (row,) = corepy.explain(kernels.silu, x).records
    device = "opencl:0" if kind.library == "opencl" else "cuda:0"
    assert (row.operation, row.device) == ("silu", device)
    assert row.backend == ("opencl" if kind.library == "opencl" else "cupy")
    assert "device kernels" in row.reason


@pytest.mark.backend("tinygrad")
def test_a_broken_pyopencl_leaves_tinygrad_to_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_runtime, "is_there", lambda name: True)
    monkeypatch.setitem(sys.modules, "pyopencl", None)
    monkeypatch.delitem(sys.modules, "corepy.kernels._device._tinygrad", raising=False)
    told = "tinygrad's functions compute .* pyopencl is broken: import"
    with pytest.warns(RuntimeWarning, match=told):
        assert _runtime._tinygrad.__wrapped__() is None


def test_a_broken_cupy_is_told_of(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_runtime, "is_there", lambda name: True)
    monkeypatch.setitem(sys.modules, "cupy", None)
    monkeypatch.delitem(sys.modules, "corepy.kernels._device._cupy", raising=False)
    with pytest.warns(RuntimeWarning, match="torch's functions compute .* CuPy is broken: import"):
        assert _runtime._cupy.__wrapped__() is None


@pytest.mark.device("cuda")
def test_gradients_pass_through_the_formula() -> None:
    import torch

    x = torch.randn(3, 4, device="cuda", requires_grad=True)
    kernels.silu(x).sum().backward()
    assert x.grad is not None
    (row,) = corepy.explain(kernels.silu, x).records
    assert row.backend == "torch"


@pytest.mark.device("cuda")
def test_torch_sees_its_tensors_change_on_its_stream() -> None:
    import torch

    stream = torch.cuda.Stream()
    x = torch.randn(1000, 1000, device="cuda")
    expected = torch.nn.functional.silu(x.double()).float()
    stream.wait_stream(torch.cuda.current_stream())
    version = x._version
    with torch.cuda.stream(stream):
        torch.cuda._sleep(10_000_000)
        kernels.silu(x, out=x)
    stream.synchronize()
    assert x._version > version
    torch.testing.assert_close(x, expected)


@opencl
def test_a_kernel_may_be_asked_for_while_it_is_being_launched(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As by a signal's handler, which runs in the thread that it interrupts."""
    import pyopencl

    array, found = Kind("opencl", True).array, []
    outer, inner = (array(np.full(8, value), "float32") for value in (1.0, 2.0))
    kernels.silu(outer)  # compiled by now
    enqueue, interrupted = pyopencl.enqueue_nd_range_kernel, []

    def launch(*args: Any, **params: Any) -> Any:
        if not interrupted:
            interrupted.append(True)
            found.append(kernels.silu(inner))
        return enqueue(*args, **params)

    monkeypatch.setattr(pyopencl, "enqueue_nd_range_kernel", launch)
    thread = Thread(target=lambda: found.append(kernels.silu(outer)), daemon=True)
    thread.start()
    thread.join(60)
    assert len(found) == 2
    for made, x in zip(found, (inner, outer), strict=True):
        np.testing.assert_allclose(host(made), expected_silu(host(x))[0], 1e-6)


@opencl
def test_sums_of_many_products_do_not_drift() -> None:
    """Of equal terms each rounding may go the same way."""
    tenth, bound = float(np.float32(0.1)), 2e-6
    array = Kind("opencl", True).array
    for n in (4096, 50_000, 50_007):
        rows, columns = (array(np.full(s, 0.1), "float32") for s in ((n, 5), (5, n)))
        weights, expected = array(np.full(n, 0.1), "float32"), n * tenth**2
        for found in (
            kernels.weighted_sum_rows(weights, rows),
            kernels.gemm(columns, rows),
            kernels.gemv(columns, weights),
        ):
            np.testing.assert_allclose(host(found), expected, rtol=bound)
    image = array(np.full((1, 512, 5, 5), 0.1), "float32")
    for filters in (1, 16):  # one by one, and in tiles
        weight = array(np.full((filters, 512, 5, 5), 0.1), "float32")
        found = host(kernels.conv2d(image, weight))
        np.testing.assert_allclose(found, 12_800 * tenth**2, rtol=bound)


def test_no_more_groups_are_begun_than_a_gpu_counts() -> None:
    """In HIP 32 bits count the work-items of all groups along an axis, in CUDA 31 the groups."""
    for kind, most, unit in (("cuda", 2**31 - 1, 1), ("rocm", 2**32 - 1, 1024)):
        x: Any = SimpleNamespace(device=as_device(f"{kind}:0"))
        assert groups_of(x, 1 << 20) == 1 << 20
        assert most - unit < groups_of(x, 1 << 40) * unit <= most
