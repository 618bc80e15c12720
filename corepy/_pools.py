"""One pool of memory for all libraries on a GPU."""

from __future__ import annotations

from corepy._errors import UnsupportedOperationError, bad_type
from corepy.backends._base import Backend
from corepy.devices._device import GPU_KINDS
from corepy.dispatch import load
from corepy.dispatch._registry import load_each, records, why_not

__all__ = ["share_memory_pool"]


def share_memory_pool(owner: str | None = "torch") -> dict[str, str]:
    """Let libraries on GPUs take their memory from the pool of one of them, or each from its own.

    Each library keeps the memory of arrays that are gone for its own next ones, so that two on one
    GPU hold more than either needs. With one pool that memory serves both.

    Parameters
    ----------
    owner : str or None
        The backend that lends: ``"torch"``. None: back to a pool for each.

    Returns
    -------
    dict
        Why a library keeps its own pool, by the name of its backend; empty if all share.

    Raises
    ------
    TypeError
        If `owner` is neither a str nor None.
    BackendUnavailableError
        If there is no such backend, or it is not usable.
    UnsupportedOperationError
        If it lends no memory, for want of a GPU as well.

    Notes
    -----
    Holds for the process and for arrays that are made from now on; earlier ones stay where they
    are. CuPy can borrow from torch, JAX cannot.
    """
    if owner is None:
        for backend in _others(None):
            backend.use_allocator(None)
        return {}
    if not isinstance(owner, str):
        raise bad_type("share_memory_pool", "owner", owner, "the name of a backend, or None")
    lender = load(owner, "share_memory_pool")
    allocator = lender.lend_allocator()
    if allocator is None:
        has_gpu = any(device.kind in GPU_KINDS for device in lender.devices())
        lacks = "lends no memory" if has_gpu else "has no GPU here"
        raise UnsupportedOperationError(
            f"share_memory_pool: owner is {owner!r}, which {lacks}; expected a backend that lends "
            f"a GPU's memory, as torch does{why_not(*GPU_KINDS)}"
        )
    kinds = {device.kind for device in lender.devices()} - {"cpu"}
    borrowers = [
        backend
        for backend in _others(lender)
        if kinds & {device.kind for device in backend.devices()}
    ]
    told = {backend.name: backend.use_allocator(allocator) for backend in borrowers}
    return {name: why for name, why in told.items() if why is not None}


def _others(lender: Backend | None) -> list[Backend]:
    """Return the usable backends for accelerators but one."""
    wanted = (name for name, record in records().items() if set(record.kinds) != {"cpu"})
    return [backend for backend in load_each(wanted) if backend is not lender]
