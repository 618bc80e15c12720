"""What backends have on which kinds of device, told without importing their libraries.

The adapters of this package take it from here, and so does the page ``docs/devices.md``.
"""

from __future__ import annotations

from typing import Final

from corepy import _dtypes
from corepy._dtypes import DType

_DOUBLE: Final = frozenset({_dtypes.float64, _dtypes.complex128})

#: Dtypes that a backend lacks on a kind of device; it has all others.
LACKING: Final[dict[tuple[str, str], frozenset[DType]]] = {
    # A TPU keeps a float64 as two float32: the digits suffice, the range of exponents does not. It
    # has no complex128 at all.
    ("jax", "tpu"): _DOUBLE,
    ("mlx", "mps"): _DOUBLE,
    # "Cannot convert a MPS Tensor to float64 dtype as the MPS framework doesn't support float64".
    ("torch", "mps"): _DOUBLE,
}

#: Dtypes that it lacks on some devices of a kind, as their drivers tell.
PERHAPS_LACKING: Final[dict[tuple[str, str], frozenset[DType]]] = {("torch", "xpu"): _DOUBLE}

_PRODUCTS: Final = ("matmul", "tensordot", "vecdot")
#: What takes eigenvalues or singular values, for some arguments at least.
_SPECTRAL: Final = (
    *("linalg.eig", "linalg.eigh", "linalg.eigvals", "linalg.eigvalsh"),
    *("linalg.matrix_norm", "linalg.matrix_rank", "linalg.pinv", "linalg.svd", "linalg.svdvals"),
)
#: What factors matrices, likewise.
_FACTORING: Final = (
    *("linalg.cholesky", "linalg.det", "linalg.inv", "linalg.matrix_power"),
    *("linalg.qr", "linalg.slogdet", "linalg.solve"),
)

#: Operations by the dtypes for which a kind of device lacks them, though the library's host does
#: not: other backends run them.
LEFT_OUT: Final[dict[tuple[str, str], dict[str, frozenset[DType]]]] = {
    # JAX computes them on the host whatever the device, without telling.
    **dict.fromkeys(
        (("jax", "cuda"), ("jax", "rocm"), ("jax", "tpu")),
        dict.fromkeys(("linalg.eig", "linalg.eigvals"), _dtypes.FLOATING),
    ),
    # '"addmm_cuda" not implemented for 'Int''; cuBLAS multiplies floats.
    **dict.fromkeys(
        (("torch", "cuda"), ("torch", "rocm")), dict.fromkeys(_PRODUCTS, _dtypes.INTEGER)
    ),
    ("torch", "mps"): {
        # Of eigenvalues and singular values Metal has none (torch's native_functions.yaml), and
        # torch would compute some on the host without telling (its MPSFallback.mm).
        **dict.fromkeys(_SPECTRAL, _dtypes.FLOATING),
        # "MPS doesn't support complex types", say its factorisations.
        **dict.fromkeys(_FACTORING, _dtypes.COMPLEX),
    },
    ("torch", "xpu"): {
        # "Long is not supported in oneDNN".
        **dict.fromkeys(_PRODUCTS, _dtypes.INTEGER),
        # torch computes them on the host, those of single matrices at least, and tells once or not
        # at all (XPUFallback.cpp and BatchLinearAlgebra.cpp of torch-xpu-ops).
        **dict.fromkeys((*_SPECTRAL, *_FACTORING), _dtypes.FLOATING),
    },
}


def dtypes_on(backend: str, kind: str) -> frozenset[DType]:
    """Return the dtypes that a backend has on a kind of device."""
    return _dtypes.ANY - LACKING.get((backend, kind), frozenset())


def left_out(backend: str, kind: str) -> dict[str, frozenset[DType]]:
    """Return the operations that a kind of device lacks, with the dtypes for which it does."""
    return LEFT_OUT.get((backend, kind), {})
