"""What adapters do to the DLPack exports of their libraries."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final


def runs_backwards(native: Any, copy: bool | None = None) -> bool:
    """Say whether an array has a negative stride, so that a copy of it has to be exported.

    torch ends the process where it meets one: https://github.com/pytorch/pytorch/issues/59786

    Raises
    ------
    BufferError
        If it has, and `copy` is False.
    """
    backwards: bool = min(native.strides, default=0) < 0
    if backwards and copy is False:
        raise BufferError("x has a negative stride; expected none for copy=False")
    return backwards


#: The host's memory, as DLPack names it: kDLCPU, and its only one.
_ON_HOST: Final = (1, 0)


class HostExporter:
    """Exports what a function returns on the host, which is asked when somebody takes it.

    Nothing that is written there reaches the array. So who wants no copy gets read-only memory,
    unless he comes from before DLPack 1.0, which knows none.
    """

    def __init__(self, values: Callable[[], Any]) -> None:
        self._values = values

    def __dlpack_device__(self) -> tuple[int, int]:
        return _ON_HOST

    def __dlpack__(
        self,
        *,
        max_version: tuple[int, int] | None = None,
        copy: bool | None = None,
        **options: Any,
    ) -> Any:
        values = self._values()
        values = values.copy() if runs_backwards(values) else values.view()
        if copy is False and max_version is not None:
            values.flags.writeable = False
        return values.__dlpack__(max_version=max_version, copy=copy, **options)


class Unordered:
    """Exports memory to a consumer that works in the same stream."""

    def __init__(self, exporter: Any) -> None:
        self._exporter = exporter

    def __dlpack_device__(self) -> Any:
        return self._exporter.__dlpack_device__()

    def __dlpack__(self, *, stream: Any = None, **params: Any) -> Any:
        return self._exporter.__dlpack__(stream=-1, **params)
