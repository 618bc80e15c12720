"""Arrays pass between the libraries of the host: where memory is shared, and that values survive.

What is shared stands here as rules; `conformance/interop.py` publishes the same as a table.
"""

from __future__ import annotations

import gc
import itertools
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import corepy
import corepy.array_api as xp
from conformance import interop
from conformance.interop import KINDS, LIBRARIES, address, aligned, cross
from tests.conftest import backends
from tests.conftest import expected as expected_here
from tests.together import together

ROOT = Path(__file__).resolve().parent.parent


def needing(*names: str) -> Any:
    marks = [pytest.mark.backend(name) for name in dict.fromkeys(names)]
    return pytest.param(*names, id="-".join(names), marks=marks)


HERE = [param.id for param in backends() if param.id in LIBRARIES]
EACH = [needing(name) for name in HERE]
PAIRS = [needing(*pair) for pair in itertools.permutations(HERE, 2)]
#: Memory that nobody can write to, or not by this way.
FROZEN = ("broadcast", "read-only view", "read-only")
ROWS_APART = ("transposed", "strided", "reversed", "broadcast", "misaligned", "odd address")


def expected(source: str, target: str, kind: str) -> bool | None:
    """Say whether two libraries share memory; None where they do for ``copy=False`` only."""
    if kind == "empty" or target in ("numpy", "numba"):
        return True
    if target == "torch":  # has no read-only tensors and no negative strides
        return source != "jax" and kind not in (*FROZEN, "reversed")
    if target == "jax":  # wants whole rows at 64 bytes, and memory that never changes
        if kind in ROWS_APART:
            return False
        return True if kind == "read-only" else None
    return target == "mlx" and kind == "complex"  # complex128, which MLX leaves to NumPy


# ---------------------------------------------------------------------------- every pair


@pytest.mark.parametrize(("source", "target"), PAIRS)
@together("kind", KINDS)
def test_memory_is_shared_where_both_can(source: str, target: str, kind: str) -> None:
    values = KINDS[kind]()
    wanted = np.array(values)
    crossing, first, second = cross(source, target, values)
    if not crossing.held:
        kind = "contiguous"  # what crossed is the first library's copy
    for x, name in ((first, source), (second, target)):
        assert (x.backend, x.dtype.name, x.shape) == (name, wanted.dtype.name, wanted.shape)
        assert x.tolist() == wanted.tolist()
    shares = expected(source, target, kind)
    if crossing.held:
        assert crossing.shared is (shares is True)
        assert crossing.on_request is (shares is not False)
    found = corepy.explain(corepy.to, first, backend=target)
    assert found.bytes_moved == (0 if crossing.shared else wanted.nbytes)
    assert found.result.tolist() == wanted.tolist()


@pytest.mark.parametrize(("source", "target"), PAIRS)
@pytest.mark.parametrize("function", ["asarray", "from_dlpack"])
@together("kind", KINDS)
def test_the_standards_functions_share_as_to_does(
    source: str, target: str, kind: str, function: str
) -> None:
    values = KINDS[kind]()
    wanted = values.tolist()
    crossing, first, _ = cross(source, target, values)
    native = first.unwrap()
    convert = getattr(xp, function)
    with corepy.backend_priority([target]):
        found = corepy.explain(convert, native)
        x = found.result
        assert (x.backend, x.dtype, x.tolist()) == (target, first.dtype, wanted)
        if values.size:
            assert (address(x.unwrap()) == address(native)) is crossing.shared
        assert found.bytes_moved == (0 if crossing.shared else values.nbytes)
        assert convert(native, device=x.device).backend == target
        copied = convert(native, copy=True)
        assert copied.tolist() == wanted
        if values.size:
            assert address(copied.unwrap()) != address(native)
        if crossing.on_request:
            again = convert(native, copy=False)
            assert not values.size or address(again.unwrap()) == address(native)
        else:
            error = ValueError if function == "asarray" else BufferError
            with pytest.raises(error):
                convert(native, copy=False)


@pytest.mark.parametrize(("source", "target"), PAIRS)
def test_a_refusal_says_why(source: str, target: str) -> None:
    for kind, make in KINDS.items():
        crossing, first, _ = cross(source, target, make())
        if crossing.on_request:
            continue
        message = f"^to: copy is False; expected True or None, for {source} and {target} cannot sha"
        with pytest.raises(ValueError, match=message):
            corepy.to(first, backend=target, copy=False)
        assert len(crossing.why_not) > 10, kind


@pytest.mark.parametrize(("source", "target"), PAIRS)
@pytest.mark.parametrize("copy", [None, True])
def test_values_outlive_the_owner(source: str, target: str, copy: bool | None) -> None:
    wanted = np.arange(50_000.0)
    x = corepy.to(aligned(wanted), backend=source)
    y = corepy.to(x, backend=target, copy=copy)
    rest = y[10:20]
    del x
    gc.collect(1)  # what is young: to look through all the libraries takes a second
    noise = [np.full(50_000, -1.0) for _ in range(8)]  # would take memory that was given back
    assert np.array_equal(np.asarray(y), wanted)
    del y
    gc.collect(1)
    noise += [np.full(50_000, -2.0) for _ in range(8)]
    assert rest.tolist() == list(range(10, 20))


@pytest.mark.parametrize(("source", "target"), PAIRS)
def test_writes_go_to_the_array_they_are_written_to(source: str, target: str) -> None:
    first = corepy.to(aligned([1.0, 2.0, 3.0]), backend=source, copy=True)
    second = corepy.to(first, backend=target)
    shared = address(first.unwrap()) == address(second.unwrap())
    second[0] = 9.0
    assert second.tolist() == [9.0, 2.0, 3.0]
    assert first.tolist()[1:] == [2.0, 3.0]
    if not shared:
        assert first.tolist() == [1.0, 2.0, 3.0]
    second += 1.0
    assert second.tolist() == [10.0, 3.0, 4.0]


@pytest.mark.parametrize(("source", "target"), PAIRS)
def test_operands_of_two_libraries_meet_in_the_first(source: str, target: str) -> None:
    x = corepy.to(aligned([1.0, 2.0]), backend=source)
    y = corepy.to(aligned([10.0, 20.0]), backend=target)
    for z in (x + y, xp.add(x, y), x + y.unwrap()):
        assert (z.backend, z.tolist()) == (source, [11.0, 22.0])
    assert xp.concat([x, y]).tolist() == [1.0, 2.0, 10.0, 20.0]


@pytest.mark.parametrize("name", EACH)
def test_the_same_library_gets_the_same_array(name: str) -> None:
    x = corepy.to(np.ones(3), backend=name)
    assert corepy.to(x, backend=name) is x
    assert corepy.to(x, backend=name, device="cpu", copy=False) is x
    if name not in ("numpy", "numba"):  # of NumPy's array a view is kept
        assert corepy.to(x.unwrap(), backend=name).unwrap() is x.unwrap()
    copied = corepy.to(x, copy=True)
    assert address(copied.unwrap()) != address(x.unwrap())
    assert (copied.backend, copied.tolist()) == (name, [1.0, 1.0, 1.0])


@pytest.mark.parametrize("name", EACH)
def test_every_dtype_comes_and_goes(name: str) -> None:
    for dtype in xp.__array_namespace_info__().dtypes(device=None).values():
        values = aligned(np.asarray([0, 1, 1]).astype(dtype.name))
        x = corepy.to(values, backend=name)
        assert (x.dtype, x.backend) == (dtype, name)
        back = np.asarray(x)
        assert (back.dtype.name, back.tolist()) == (dtype.name, values.tolist())


# ---------------------------------------------------------------------------- large arrays

LARGE = """
import os, resource, sys
import numpy as np
import corepy, corepy.array_api as xp
from conformance.interop import address, aligned

names = sys.argv[1].split(",")
x = corepy.to(aligned(np.zeros(4096)), backend=names[0], copy=False)

def chain(x):
    total, last = 0.0, x
    for name in names:
        last = corepy.to(last, backend=name, copy=False)
        total += float(xp.sum(last)) + float(xp.max(last))
    return total, last

chain(x)  # imports, compiles
values = aligned(np.ones(100_000_000 // 8))
x = corepy.to(values, backend=names[0], copy=False)
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
found = corepy.explain(chain, x)
after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
total, last = found.result
assert address(last.unwrap()) == address(values)
assert total == len(names) * (values.size + 1.0), total
print(found.bytes_moved, (after - before) * 1024)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="ru_maxrss counts kibibytes on Linux")
def test_chains_across_libraries_copy_nothing_of_100_megabytes() -> None:
    # All libraries in turn, and back to the first. JAX's memory is read-only, which torch does
    # not take, so torch comes before it.
    order = [name for name in ("numpy", "torch", "numba", "jax") if name in HERE]
    done = subprocess.run(
        [sys.executable, "-c", LARGE, ",".join([*order, "numpy"])],
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), *sys.path])},
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    moved, grown = map(int, done.stdout.split())
    assert moved == 0
    assert grown < 50_000_000  # a copy would take 100 million


# ---------------------------------------------------------------------------- the table


@pytest.mark.parametrize(("source", "target"), PAIRS)
def test_the_published_table_says_what_is_so(source: str, target: str) -> None:
    lines = interop.PAGE.read_text(encoding="utf-8").partition(interop.BEGIN)[2].splitlines()
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in lines if line[:1] == "|"]
    header = rows[0]
    assert header[2:] == list(KINDS)
    row = next((row for row in rows if row[:2] == [source, target]), None)
    if row is None and not {source, target} - {*expected_here()}:
        pytest.fail(f"docs/{interop.PAGE.name} has no row of {source} and {target}")
    if row is None:
        pytest.skip(f"docs/{interop.PAGE.name} was made without one of {source} and {target}")
    for kind, cell in zip(header[2:], row[2:], strict=True):
        if not cell:  # the first library cannot hold it
            continue
        word = {True: "yes", None: "asked", False: "no"}[expected(source, target, kind)]
        assert cell.split()[0] == word, kind


def test_the_table_numbers_its_reasons() -> None:
    reasons: dict[str, int] = {}
    crossings = [
        interop.Crossing(True, True, True),
        interop.Crossing(True, False, True),
        interop.Crossing(True, False, False, "too small"),
        interop.Crossing(True, False, False, "too large"),
        interop.Crossing(True, False, False, "too small"),
        interop.Crossing(False, False, False, "too small"),
    ]
    cells = [interop._cell(crossing, reasons) for crossing in crossings]
    assert cells == ["yes", "asked", "no (1)", "no (2)", "no (1)", ""]
    assert reasons == {"too small": 1, "too large": 2}


@pytest.mark.backend("torch")
def test_a_write_from_memory_that_another_library_lends_in_part() -> None:
    def part(values: Any) -> corepy.Array:
        return corepy.to(values, backend="torch", copy=False)

    expected = np.r_[0.0, np.arange(999.0)]
    values = np.arange(1000.0)
    part(values[1:])[...] = values[:-1]
    np.testing.assert_array_equal(values, expected)
    values = np.arange(1000.0)
    x, y = part(values), xp.asarray(values, copy=False)
    x[1:] = y[:-1]
    np.testing.assert_array_equal(values, expected)
    values = np.arange(1000.0)
    x = part(values[1:])
    x += values[:-1]
    np.testing.assert_array_equal(values, np.arange(1000.0) + expected)
