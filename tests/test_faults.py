"""What goes wrong on real machines, and how each of it ends: a fallback, or an error that says why.

In all cases the operands are as they were, and everything else goes on.

=============================  =======================================================  =====
fault                          ends in                                                  here
=============================  =======================================================  =====
library import failing         its backend is not usable, and says why                  [1]
driver missing or too old      the library's GPU is not served, and ``corepy info``     [2]
                               says why
device kernel not compiling    `BackendError` with the compiler's words                 yes
out of memory on the host      caches freed, once more, `InsufficientMemoryError`       yes
out of memory on a device      caches of all libraries freed, once more, the host by    [3]
                               the fallback policy, `InsufficientMemoryError`
device that disappears         `BackendError` naming it; other devices go on            [7]
no more memory to pin          the host waits; `InsufficientMemoryError`                [7]
transfer failing midway        `BackendError` naming both devices                       [4]
connection to a server lost    `BackendError`                                           [5]
compiled kernels on disk       they are compiled anew, and kept where there is room     [6]
damaged, or the disk full
=============================  =======================================================  =====

1. ``tests/test_broken_installs.py``, each library in its own way; here for one that breaks at its
   first use inside a program.
2. ``tests/test_broken_installs.py`` (torch, JAX), ``tests/backends/test_cupy.py`` (CuPy).
3. ``tests/backends/memory_on_stand_in_gpu.py``, ``tests/backends/test_tinygrad_memory.py``
   (OpenCL and WebGPU); here with the fake library.
4. ``tests/test_fake_devices.py``; here for operations in place.
5. ``examples/remote_backend/tests``.
6. ``tests/loops/test_compile.py`` (Numba), ``tests/backends/test_tinygrad.py``.
7. ``tests/backends/faults_on_stand_in_gpu.py`` (streams, graphs, pinned memory); here with the fake
   library.
"""

from __future__ import annotations

import copy
import os
import re
import subprocess
import sys
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import corepy
import corepy.array_api as xp
from corepy import kernels
from corepy.devices._device import as_device
from corepy.dispatch import _registry
from corepy.dispatch._table import forget_entries
from corepy.kernels import _device
from corepy.testing import FakeArray, FakeBackend, fake_devices
from tests.kernels.libraries import Kind

DEVICE = "fake:device1"
FAKE = as_device(DEVICE)


@pytest.fixture
def fake() -> Iterator[FakeBackend]:
    with fake_devices() as backend, corepy.set_fallback("raise"):
        yield backend
    forget_entries()


# ---------------------------------------------------------------------------- library import fails


class _Panic(BaseException):
    """As of a library in Rust, whose panics are no `Exception`."""


@pytest.fixture
def frail() -> Iterator[Callable[[BaseException], None]]:
    """Let a library that would come first raise something while it is imported."""

    def break_by(error: BaseException) -> None:
        def loader() -> corepy.Backend:
            raise error

        _registry._add(_registry.BackendRecord("frail", ("cpu",), lambda: None, loader, 1))

    yield break_by
    corepy.unregister_backend("frail")


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (ImportError("libfrail.so.1: undefined symbol"), "ImportError: libfrail.so.1: undefined"),
        (SystemExit("needs a newer Python"), "SystemExit: needs a newer Python"),
        (_Panic("called `Option::unwrap()` on a `None` value"), "_Panic: called `Option::unwrap"),
    ],
)
def test_a_library_that_breaks_at_its_first_use_is_told_and_passed_over(
    frail: Callable[[BaseException], None], error: BaseException, told: str
) -> None:
    frail(error)
    expected = re.escape(f"backend frail is not usable: {told}")
    with pytest.raises(corepy.BackendUnavailableError, match=expected):
        corepy.set_backend("frail")
    assert xp.ones(2).tolist() == [1.0, 1.0]  # though it would come first


def test_who_interrupts_while_a_library_is_imported_is_obeyed(
    frail: Callable[[BaseException], None],
) -> None:
    frail(KeyboardInterrupt())
    with pytest.raises(KeyboardInterrupt):
        corepy.set_backend("frail")
    assert "frail" not in _registry._broken  # it may be tried again


# ---------------------------------------------------------------------------- kernel compile error


@pytest.mark.device("opencl")
def test_a_device_kernel_that_does_not_compile_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    x = Kind("opencl", True).array(np.asarray([[1.0, -2.0]]), "float32")
    monkeypatch.setattr(
        _device.Program, "text", lambda self, *args: "__kernel void silu(float x) { no such; }"
    )
    from corepy.kernels._device import _opencl

    _opencl._built.cache_clear()
    with pytest.raises(corepy.BackendError) as caught:
        kernels.silu(x)
    message = str(caught.value)
    assert message.startswith("silu: the device kernel ")
    assert "could not be built or launched on opencl:0; the operands are untouched" in message
    assert "BUILD_PROGRAM_FAILURE" in message
    assert x.get().tolist() == [[1.0, -2.0]]
    monkeypatch.undo()
    _opencl._built.cache_clear()
    assert kernels.silu(x).get().shape == (1, 2)  # and the next one is built


# ---------------------------------------------------------------------------- out of memory


def test_the_hosts_pool_is_freed_first() -> None:
    values = xp.ones(1 << 20)
    failing = [MemoryError("Unable to allocate")]
    pooled = -values
    del pooled

    def once(x: Any) -> Any:
        if failing:
            raise failing.pop()
        return np.negative(x)

    assert _with(values, "negative", once, lambda: float((-values)[0])) == -1.0
    assert corepy.memory_stats().cached_bytes == 0


def _with(x: Any, name: str, native: Callable[..., Any], run: Callable[[], Any]) -> Any:
    """Run something while a table has another callable for an operation."""
    table = x._table
    forget_entries()  # the compiled hot path keeps loops
    table[name] = (native, table)
    try:
        return run()
    finally:
        forget_entries()


def test_the_host_without_memory_raises_and_the_operand_is_whole() -> None:
    x = xp.asarray([1.0, 2.0])
    with pytest.raises(corepy.InsufficientMemoryError) as caught:
        xp.ones(1 << 45)
    message = str(caught.value)
    assert message.startswith("ones: the memory of cpu does not suffice, and its operands are unto")
    assert " bytes are free" in message
    with pytest.raises(MemoryError, match="^negative: the memory of cpu does not suffice"):
        -xp.broadcast_to(x[:1], (1 << 45,))
    assert x.tolist() == [1.0, 2.0]


SHORT_OF_MEMORY = r"""
import re
import resource
import numpy as np
import corepy
import corepy.array_api as xp

x = xp.ones(30_000_000)
x + x, x < x
corepy.empty_cache()
with open("/proc/self/statm") as file:
    limit = int(file.read().split()[0]) * resource.getpagesize() + (100 << 20)
resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
for name, call in {
    "add": lambda: x + x,
    "multiply": lambda: x * 2,
    "sqrt": lambda: xp.sqrt(x),
    "clip": lambda: xp.clip(x, 0, 1),
    "astype": lambda: xp.astype(x, xp.float32),
    "concat": lambda: xp.concat((x, x)),
    "stack": lambda: xp.stack((x, x)),
    "roll": lambda: xp.roll(x, 3),
}.items():
    try:
        call()
    except corepy.InsufficientMemoryError as error:
        assert str(error).startswith(f"{name}: the memory of cpu does not suffice"), error
        left = re.search(r"(\d+) of \d+ bytes are free", str(error))
        assert left and int(left[1]) < x.nbytes, error  # though the machine may have more
    else:
        raise AssertionError(name)
assert float(xp.sum(x)) == 30_000_000
"""


#: Of as many elements as the compiled hot path takes for operations that are routed from there on.
SHORTER = """
import resource
import corepy
import corepy.array_api as xp

x, whole = xp.linspace(0, 1, 2_000_000), xp.arange(2_000_000, dtype=xp.int32)
pairs = xp.reshape(x, (-1, 2))
calls = {
    "sort": lambda: xp.sort(x),
    "unique_values": lambda: xp.unique_values(x),
    "subtract": lambda: whole - x,
    "matmul": lambda: pairs @ pairs[:2, :],
    "vecdot": lambda: xp.vecdot(pairs, pairs),
}
for call in calls.values():
    call()
every_other = x[::2]
beside_gaps = xp.asarray(every_other @ pairs, copy=True)
corepy.empty_cache()
with open("/proc/self/statm") as file:
    limit = int(file.read().split()[0]) * resource.getpagesize() + (4 << 20)
resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
for name, call in calls.items():
    try:
        call()
    except corepy.InsufficientMemoryError:
        pass
    else:
        raise AssertionError(name)
# Beside a matrix a vector with gaps is copied where there is memory, and needs none.
assert xp.all(xp.abs(every_other @ pairs - beside_gaps) < 1e-9 * beside_gaps)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="memory is limited by Linux's means")
@pytest.mark.parametrize("code", [SHORT_OF_MEMORY, SHORTER])
def test_large_operations_of_the_host_without_memory_raise_too(code: str) -> None:
    """Which the compiled hot path makes the results of."""
    # Else the C library keeps what was freed, and has it for the results.
    environment = {**os.environ, "MALLOC_MMAP_THRESHOLD_": "65536"}
    made = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, check=False, text=True, env=environment
    )
    assert (made.returncode, made.stderr) == (0, "")


class Shortage(RuntimeError):
    """As XLA's and torch's: no ``MemoryError``."""


def short(backend: FakeBackend, times: int, hint: list[str]) -> Callable[..., Any]:
    """Return an operation that lacks memory some times, and count what the dispatcher did."""
    plain = type(backend).operation(backend, "exp")
    assert plain is not None

    def exp(x: Any) -> Any:
        hint.append("ran")
        if hint.count("ran") <= times:
            raise Shortage("RESOURCE_EXHAUSTED")
        return plain(x)

    return exp


@pytest.fixture
def scarce(fake: FakeBackend, monkeypatch: pytest.MonkeyPatch) -> Callable[[int], list[str]]:
    """Let the fake library's ``exp`` lack memory; return what happened, in order."""
    monkeypatch.setattr(
        FakeBackend, "is_out_of_memory", lambda self, error: isinstance(error, Shortage)
    )

    def begin(times: int) -> list[str]:
        happened: list[str] = []

        def emptied(self: Any, device: Any) -> int:
            happened.append(f"freed {device}")
            return 5

        monkeypatch.setattr(FakeBackend, "empty_cache", emptied)
        exp = short(fake, times, happened)
        plain = type(fake).operation
        monkeypatch.setattr(
            fake, "operation", lambda name: exp if name == "exp" else plain(fake, name)
        )
        forget_entries()
        return happened

    return begin


def test_caches_are_freed_before_anything_else(scarce: Callable[[int], list[str]]) -> None:
    x = xp.asarray([0.0], device=DEVICE)
    happened = scarce(1)
    assert xp.exp(x).tolist() == [1.0]
    assert happened == ["ran", f"freed {DEVICE}", "ran"]


def test_then_the_policy_decides(fake: FakeBackend, scarce: Callable[[int], list[str]]) -> None:
    x = xp.asarray([0.0], device=DEVICE)
    happened = scarce(99)
    left = fake.left
    with pytest.raises(corepy.InsufficientMemoryError) as caught:
        xp.exp(x)
    message = str(caught.value)
    assert message.startswith(f"exp: the memory of {DEVICE} does not suffice, and its operands are")
    assert "libraries gave back " in message
    assert 'fallback="raise" forbids that the host computes it' in message
    assert isinstance(caught.value.__cause__, Shortage)
    assert (fake.left, happened) == (left, ["ran", f"freed {DEVICE}", "ran"])
    with (
        corepy.set_fallback("warn"),
        pytest.warns(
            corepy.FallbackWarning,
            match=f"^exp: fake on {DEVICE} lacks the memory for it; numpy on cpu runs it and 8 byt",
        ),
    ):
        y = xp.exp(x)
    assert (y.device.name, y.tolist(), x.tolist()) == (DEVICE, [1.0], [0.0])


def test_what_failed_lets_its_memory_go_before_the_next_try(
    fake: FakeBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Part:
        """A result of some part of the operation."""

    made: list[weakref.ref[Part]] = []
    alive: list[int] = []
    plain = type(fake).operation

    def exp(x: Any) -> Any:
        alive.append(sum(ref() is not None for ref in made))
        part = Part()
        made.append(weakref.ref(part))
        raise Shortage("RESOURCE_EXHAUSTED")

    def sent(self: Any, native: Any, *, copy: Any = None) -> Any:
        alive.append(sum(ref() is not None for ref in made))
        return FakeBackend.to_numpy(self, native, copy=copy)

    monkeypatch.setattr(
        FakeBackend, "is_out_of_memory", lambda self, error: isinstance(error, Shortage)
    )
    x = xp.asarray([0.0], device=DEVICE)
    monkeypatch.setattr(fake, "operation", lambda name: exp if name == "exp" else plain(fake, name))
    monkeypatch.setattr(fake, "to_numpy", sent.__get__(fake))
    forget_entries()
    with corepy.set_fallback("allow"):
        y = xp.exp(x)
    assert alive == [0, 0, 0]  # at both tries, and when the host takes over
    monkeypatch.undo()
    assert y.tolist() == [1.0]


CASTS: list[tuple[str, str, Callable[[Any], Any]]] = [
    ("__getitem__", "__getitem__", lambda x: x[1:]),
    ("__getitem__", "__getitem__", lambda x: x[xp.asarray([1], device=DEVICE)]),
    ("astype", "copy", lambda x: copy.copy(x)[1:]),
    ("astype", "add", lambda x: x + xp.ones(2, dtype=xp.complex64, device=DEVICE)[1:]),
    ("astype", "multiply", lambda x: x * (1 + 0j)),
    ("astype", "concat", lambda x: xp.concat([x, xp.ones(1, dtype=xp.complex128, device=DEVICE)])),
    ("astype", "fft", xp.fft.fft),
]


@pytest.mark.parametrize(("operation", "function", "call"), CASTS)
def test_selections_copies_and_conversions_are_tried_again_too(
    fake: FakeBackend,
    monkeypatch: pytest.MonkeyPatch,
    operation: str,
    function: str,
    call: Callable[[Any], Any],
) -> None:
    x = xp.asarray([1.0, 2.0], device=DEVICE)
    right = call(x).tolist()
    monkeypatch.setattr(
        FakeBackend, "is_out_of_memory", lambda self, error: isinstance(error, Shortage)
    )
    plain, left = type(fake).operation, [1]

    def offered(name: str) -> Callable[..., Any] | None:
        native = plain(fake, name)

        def short(*args: Any, **params: Any) -> Any:
            assert native is not None
            if left:
                left.pop()
                raise Shortage("RESOURCE_EXHAUSTED")
            return native(*args, **params)

        return short if name == operation else native

    monkeypatch.setattr(fake, "operation", offered)
    forget_entries()
    assert call(x).tolist() == right
    assert left == []
    left += [1] * 99
    with pytest.raises(
        corepy.InsufficientMemoryError, match=f"^{function}: the memory of {DEVICE} does not suff"
    ):
        call(x)
    with corepy.set_fallback("allow"):
        assert call(x).tolist() == right  # the host
    assert x.tolist() == [1.0, 2.0]


def test_an_error_of_another_kind_is_not_tried_again(
    fake: FakeBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = []

    def broken(x: Any) -> Any:
        calls.append(1)
        raise RuntimeError("illegal instruction")

    x = xp.asarray([0.0], device=DEVICE)
    plain = type(fake).operation
    monkeypatch.setattr(
        fake, "operation", lambda name: broken if name == "exp" else plain(fake, name)
    )
    forget_entries()
    with pytest.raises(corepy.BackendError, match="^exp: RuntimeError in fake: illegal instruct"):
        xp.exp(x)
    assert calls == [1]


# ---------------------------------------------------------------------------- device disappears


def test_a_device_that_is_gone_takes_nothing_else_with_it(fake: FakeBackend) -> None:
    x = xp.asarray([1.0, 2.0], device=DEVICE)
    narrow = xp.asarray([1.0, 2.0], dtype=xp.float32, device=DEVICE)
    index, scalar = xp.asarray([0], device=DEVICE), x[0]
    other = xp.asarray([1.0], dtype=xp.float32, device="fake:no_float64")
    host = xp.asarray([3.0])
    gone = f"DeviceLost.* {DEVICE} is gone"
    calls: list[Callable[[], Any]] = [
        lambda: x + x,
        lambda: x + 1.0,
        lambda: x.__iadd__(x),
        lambda: x.__setitem__(0, 5.0),
        lambda: x.__setitem__(0, narrow[0]),
        lambda: x[0],
        lambda: x[1:],
        lambda: x[index],
        lambda: x + narrow,
        lambda: narrow.__radd__(1j),
        lambda: copy.copy(x),
        lambda: copy.deepcopy(x),
        lambda: float(scalar),
        lambda: bool(scalar),
        scalar.item,
        lambda: repr(x),
        lambda: xp.sum(x),
        lambda: xp.concat([x, x]),
        x.tolist,
        lambda: x.to_device("cpu"),
        lambda: xp.ones(2, device=DEVICE),
        lambda: host.to_device(DEVICE),
    ]
    with fake.lose_device(DEVICE):
        for call in calls:
            with pytest.raises(corepy.BackendError, match=gone):
                call()
        assert ((other + other).tolist(), (host + host).tolist()) == ([2.0], [6.0])
    assert (x + x).tolist() == [2.0, 4.0]
    with pytest.raises(ValueError, match="^lose_device: device is 'cpu'; expected one of the back"):
        fake.lose_device("cpu").__enter__()


def test_who_waits_for_a_device_that_is_gone_or_asks_for_its_memory_is_told(
    fake: FakeBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("synchronize", "memory_stats", "empty_cache", "limit_memory"):
        monkeypatch.setattr(fake, name, lambda device, *args: fake._answer(device), raising=False)
    calls: dict[str, Callable[[], Any]] = {
        "memory_stats": lambda: corepy.memory_stats(DEVICE),
        "empty_cache": lambda: corepy.empty_cache(DEVICE),
        "set_memory_limit": lambda: corepy.set_memory_limit(100, DEVICE),
        "synchronize": lambda: corepy.synchronize(DEVICE),
    }
    stream = corepy.stream(DEVICE)
    event = stream.record()
    with fake.lose_device(DEVICE):
        for name, call in calls.items():
            with pytest.raises(corepy.BackendError, match=f"^{name}: DeviceLost on {DEVICE}: "):
                call()
        for name, call in (("synchronize", event.synchronize), ("query", event.query)):
            with pytest.raises(corepy.BackendError, match=f"^{name}: DeviceLost on {DEVICE}: "):
                call()
    corepy.synchronize(DEVICE)
    fake.available = False  # as where a server has gone away
    for name, call in calls.items():
        with pytest.raises(
            corepy.BackendUnavailableError,
            match=f"^{name}: device is '{DEVICE}'; .* \\(fake: installed, but does not answer\\)$",
        ):
            call()


def test_a_fallback_to_a_device_that_is_gone_leaves_its_operand(fake: FakeBackend) -> None:
    x = xp.asarray([4.0], device=DEVICE)

    def and_then_gone(self: FakeBackend, native: FakeArray, *, copy: Any = None) -> Any:
        values = FakeBackend.to_numpy(self, native, copy=copy)
        self._lost.append(FAKE)
        return values

    forget_entries()
    fake.lacks = ["sqrt"]
    fake.to_numpy = and_then_gone.__get__(fake)  # type: ignore[method-assign]
    with (
        corepy.set_fallback("allow"),
        pytest.raises(corepy.BackendError, match=f"^transfer: .* from cpu to {DEVICE}; the array"),
    ):
        xp.sqrt(x)
    del fake.to_numpy
    fake._lost.clear()
    assert x.tolist() == [4.0]


# ---------------------------------------------------------------------------- failing transfers


@pytest.mark.parametrize("after", [0, 1, 2])
def test_in_place_operations_that_cross_are_done_whole_or_not(
    fake: FakeBackend, after: int
) -> None:
    fake.lacks = ["add", "__iadd__"]
    forget_entries()
    x, y = (xp.asarray([value], device=DEVICE) for value in (1.0, 2.0))
    alias = x
    with corepy.set_fallback("allow"):
        with fake.fail_transfers(after=after), pytest.raises(corepy.BackendError, match="does not"):
            x += y
        assert (x is alias, x.tolist(), y.tolist()) == (True, [1.0], [2.0])
        x += y
    assert alias.tolist() == [3.0]
