"""Memory: what is free on a device, whether it suffices, and what a language model takes."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

from corepy._errors import (
    BackendUnavailableError,
    InsufficientMemoryError,
    bad_argument,
    bad_type,
)
from corepy._signals import let_through
from corepy.devices._capabilities import Findings, are_unordered, read_gpus, read_host_memory
from corepy.devices._device import CPU, Device, as_device
from corepy.devices._libraries import serving
from corepy.devices._probe import Ground, MemoryInfo

__all__ = [
    "InferenceMemory",
    "MemoryInfo",
    "estimate_inference_memory",
    "memory_info",
    "require_memory",
]

_GIB: Final = 2**30
_ESTIMATE: Final = "estimate_inference_memory"


def memory_info(device: Device | str) -> MemoryInfo:
    """Tell how much memory a device has and how much of it is free now.

    Parameters
    ----------
    device : Device or str
        ``cpu``, ``cuda:0``, ``rocm:0`` or ``mps``; others, such as ``opencl:0``, once a library
        is in use there that tells.

    Returns
    -------
    MemoryInfo
        Total and free bytes, read at each call. On the host both are narrowed to the process's
        control group, and on Linux to its own limits (``ulimit -v``). What libraries hold in pools
        of their own counts as used. On OpenCL, WebGPU and TPUs what other programs have taken is
        not known, and counts as free.

    Raises
    ------
    TypeError, ValueError
        If `device` is no device.
    BackendUnavailableError
        If the device is not there, or its memory cannot be read; the message says why.
    """
    return _read_memory(as_device(device, "memory_info"), Ground(), "memory_info")


def _read_memory(device: Device, ground: Ground, function: str) -> MemoryInfo:
    findings = Findings()
    host = read_host_memory(ground, findings)
    if device is CPU:
        found = host
    else:
        gpus = read_gpus(ground, findings, host, [device.kind])
        found = {gpu.device: gpu.memory for gpu in gpus}.get(device)
        if found is None and gpus:
            findings.note(
                device.kind, f"its devices are {', '.join(gpu.device.name for gpu in gpus)}"
            )
        if found is None or are_unordered(gpus, ground):
            found = _told(device, findings) or found
    if found is None:
        why = "; ".join(findings.problems) or "no library that is in use there tells of it"
        raise BackendUnavailableError(
            f"{function}: device is {device.name!r}; expected one whose memory can be read ({why})"
        )
    return found


def _told(device: Device, findings: Findings) -> MemoryInfo | None:
    """Return what a library in use says of the memory of a device, None if none does."""
    for backend in serving(device):
        try:
            found = backend.memory_info(device)
        except RuntimeError as error:  # of a device that is lost
            let_through(error)
            findings.note(backend.name, " ".join(str(error).split()) or type(error).__name__)
            continue
        if found is not None:
            return found
    return None


def require_memory(
    device: Device | str, required_bytes: int, function: str = "require_memory"
) -> MemoryInfo:
    """Refuse to go on when a device has less free memory than is needed.

    Parameters
    ----------
    device : Device or str
        As for `memory_info`.
    required_bytes : int
        What will be allocated there.
    function : str
        What messages name.

    Returns
    -------
    MemoryInfo
        The device's memory, which suffices.

    Raises
    ------
    InsufficientMemoryError
        If less is free; the message gives the figures.
    BackendUnavailableError
        If the device's memory cannot be read.
    TypeError, ValueError
        If an argument is none that it can be.
    """
    return _require(as_device(device, function), required_bytes, Ground(), function)


def _require(device: Device, required: int, ground: Ground, function: str) -> MemoryInfo:
    if isinstance(required, bool) or not isinstance(required, int):
        raise bad_type(function, "required_bytes", required, "a number of bytes")
    if required < 0:
        raise bad_argument(function, "required_bytes", required, "0 or more")
    memory = _read_memory(device, ground, function)
    if required > memory.free_bytes:
        raise InsufficientMemoryError(
            f"{function}: required_bytes is {_figures(required)}; expected at most the "
            f"{_figures(memory.free_bytes)} free of {_figures(memory.total_bytes)} on {device.name}"
        )
    return memory


def _figures(size: int) -> str:
    return f"{size} ({size / _GIB:.2f} GiB)"


# ---------------------------------------------------------------------------- language models


@dataclass(frozen=True, slots=True)
class InferenceMemory:
    """What a language model takes to run; see `estimate_inference_memory`.

    ``str()`` gives a table.

    Attributes
    ----------
    n_parameters : int
        The model's parameters.
    weights, kv_cache, activations : tuple of (str, int)
        The bytes of each part by its name.
    """

    n_parameters: int
    weights: tuple[tuple[str, int], ...]
    kv_cache: tuple[tuple[str, int], ...]
    activations: tuple[tuple[str, int], ...]

    @property
    def weights_bytes(self) -> int:
        """The bytes of all weights."""
        return sum(size for _, size in self.weights)

    @property
    def kv_cache_bytes(self) -> int:
        """The bytes of the keys and values of all layers at full length."""
        return sum(size for _, size in self.kv_cache)

    @property
    def activations_bytes(self) -> int:
        """The bytes of intermediate results that are alive at once."""
        return sum(size for _, size in self.activations)

    @property
    def total_bytes(self) -> int:
        """The bytes of everything."""
        return self.weights_bytes + self.kv_cache_bytes + self.activations_bytes

    @property
    def breakdown(self) -> dict[str, int]:
        """The bytes of each part by its name; they add up to `total_bytes`."""
        return dict(self.weights + self.kv_cache + self.activations)

    def __str__(self) -> str:
        lines = [f"{'part':<20}{'GiB':>12}{'share':>8}"]
        for title, size, parts in (
            ("weights", self.weights_bytes, self.weights),
            ("kv cache", self.kv_cache_bytes, self.kv_cache),
            ("activations", self.activations_bytes, self.activations),
        ):
            lines.append(self._line(title, size))
            lines += [self._line(f"  {name}", part) for name, part in parts]
        lines.append(self._line("total", self.total_bytes))
        return "\n".join(lines)

    def _line(self, title: str, size: int) -> str:
        return f"{title:<20}{size / _GIB:>12.3f}{size / self.total_bytes:>8.1%}"


def estimate_inference_memory(
    dim: int,
    hidden_dim: int,
    n_layers: int,
    vocab_size: int,
    n_heads: int,
    n_kv_heads: int,
    seq_len: int,
    bytes_per_weight: float,
    *,
    batch_size: int = 1,
    bytes_per_kv: float = 2,
    bytes_per_activation: float = 4,
    tied_embeddings: bool = False,
) -> InferenceMemory:
    """Estimate the memory that a Llama-like language model takes to run.

    Parameters
    ----------
    dim : int
        Width of the residual stream; a multiple of `n_heads`.
    hidden_dim : int
        Width inside the SwiGLU feed-forward network.
    n_layers, vocab_size : int
        Number of layers, and of tokens in the vocabulary.
    n_heads, n_kv_heads : int
        Heads of the queries, and of the keys and values; the first a multiple of the second.
    seq_len : int
        Tokens of a sequence, prompt and answer together.
    bytes_per_weight : float
        2 for float16 and bfloat16, 1 for int8, 0.5625 for 4 bits with a float16 scale for 32.
    batch_size : int
        Sequences at once.
    bytes_per_kv, bytes_per_activation : float
        Bytes of an element of the cache, and of an intermediate result.
    tied_embeddings : bool
        Whether the output head is the embedding's matrix, which then counts once.

    Returns
    -------
    InferenceMemory
        The bytes, in all and by part.

    Raises
    ------
    TypeError
        If an argument is no number, or no integer where one is due.
    ValueError
        If a number is not positive, or the heads do not divide what they must.

    Notes
    -----
    With ``kv_dim = dim // n_heads * n_kv_heads`` and ``tokens = batch_size * seq_len``, the
    weights are

    ===========================  =========================================
    embedding                    ``vocab_size * dim``
    attention_q, attention_o     ``n_layers * dim * dim`` each
    attention_k, attention_v     ``n_layers * dim * kv_dim`` each
    mlp                          ``n_layers * 3 * dim * hidden_dim``
    norms                        ``(2 * n_layers + 1) * dim``
    output_head                  ``vocab_size * dim``, 0 when tied
    ===========================  =========================================

    the cache holds ``2 * n_layers * tokens * kv_dim`` elements, and the activations, of which
    only one layer's are alive at once when the whole sequence goes through, are

    ===========================  =========================================
    residual                     ``2 * tokens * dim``: the stream, and it normalised
    layer                        ``tokens * max(2 * dim + 2 * kv_dim, 2 * hidden_dim)``: queries,
                                 keys, values and their result; or gate and up projection
    logits                       ``batch_size * vocab_size``: of the last token
    ===========================  =========================================

    Fused attention never holds its scores. One that does takes
    ``batch_size * n_heads * seq_len ** 2`` elements more.

    Examples
    --------
    >>> llama2_7b = estimate_inference_memory(4096, 11008, 32, 32000, 32, 32, 4096, 2)
    >>> llama2_7b.n_parameters
    6738415616
    """
    sizes = {
        "dim": dim,
        "hidden_dim": hidden_dim,
        "n_layers": n_layers,
        "vocab_size": vocab_size,
        "n_heads": n_heads,
        "n_kv_heads": n_kv_heads,
        "seq_len": seq_len,
        "batch_size": batch_size,
    }
    widths = {
        "bytes_per_weight": bytes_per_weight,
        "bytes_per_kv": bytes_per_kv,
        "bytes_per_activation": bytes_per_activation,
    }
    _check_numbers(sizes, widths)
    _check_multiple("dim", dim, "n_heads", n_heads)
    _check_multiple("n_heads", n_heads, "n_kv_heads", n_kv_heads)
    if not isinstance(tied_embeddings, bool):
        raise bad_type(_ESTIMATE, "tied_embeddings", tied_embeddings, "a bool")

    kv_dim = dim // n_heads * n_kv_heads
    tokens = batch_size * seq_len
    weights = {
        "embedding": vocab_size * dim,
        "attention_q": n_layers * dim * dim,
        "attention_k": n_layers * dim * kv_dim,
        "attention_v": n_layers * dim * kv_dim,
        "attention_o": n_layers * dim * dim,
        "mlp": n_layers * 3 * dim * hidden_dim,
        "norms": (2 * n_layers + 1) * dim,
        "output_head": 0 if tied_embeddings else vocab_size * dim,
    }
    kv_cache = {
        "keys": n_layers * tokens * kv_dim,
        "values": n_layers * tokens * kv_dim,
    }
    activations = {
        "residual": 2 * tokens * dim,
        "layer": tokens * max(2 * dim + 2 * kv_dim, 2 * hidden_dim),
        "logits": batch_size * vocab_size,
    }
    return InferenceMemory(
        n_parameters=sum(weights.values()),
        weights=_bytes(weights, bytes_per_weight),
        kv_cache=_bytes(kv_cache, bytes_per_kv),
        activations=_bytes(activations, bytes_per_activation),
    )


def _check_numbers(sizes: dict[str, int], widths: dict[str, float]) -> None:
    for name, value in {**sizes, **widths}.items():
        wanted = "a positive integer" if name in sizes else "a positive number"
        types = int if name in sizes else (int, float)
        if not isinstance(value, types) or isinstance(value, bool):
            raise bad_type(_ESTIMATE, name, value, wanted)
        if not 0 < value < math.inf:
            raise bad_argument(_ESTIMATE, name, value, wanted)


def _check_multiple(name: str, value: int, of: str, divisor: int) -> None:
    if value % divisor:
        raise bad_argument(_ESTIMATE, name, value, f"a multiple of {of}, which is {divisor}")


def _bytes(elements: dict[str, int], width: float) -> tuple[tuple[str, int], ...]:
    return tuple((name, math.ceil(count * width)) for name, count in elements.items())
