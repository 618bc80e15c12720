"""Inspection.

https://data-apis.org/array-api/2025.12/API_specification/inspection.html
"""

from __future__ import annotations

from typing import TypedDict

from corepy import _dtypes
from corepy._dtypes import DType
from corepy.array_api._data_type import kind_dtypes
from corepy.devices._device import Device
from corepy.dispatch import default_dtype, default_placement, devices_present, dtypes_on

Capabilities = TypedDict(
    "Capabilities",
    {"boolean indexing": bool, "data-dependent shapes": bool, "max dimensions": int | None},
)
DefaultDTypes = TypedDict(
    "DefaultDTypes",
    {
        "real floating": DType,
        "complex floating": DType,
        "integral": DType,
        "indexing": DType,
    },
)


class Info:
    """What `__array_namespace_info__` returns: capabilities, devices and dtypes."""

    __slots__ = ()

    def capabilities(self) -> Capabilities:
        """Return what the default device's backend can do.

        Returns
        -------
        dict
            ``"boolean indexing"`` and ``"data-dependent shapes"``, bool; ``"max dimensions"``,
            int or None.
        """
        placement = default_placement()
        found = placement.backend.capabilities(placement.device)
        return {
            "boolean indexing": found.boolean_indexing,
            "data-dependent shapes": found.data_dependent_shapes,
            "max dimensions": found.max_dimensions,
        }

    def default_device(self) -> Device:
        """Return the device on which arrays are created where none is named.

        Returns
        -------
        Device
        """
        return default_placement().device

    def default_dtypes(self, *, device: Device | str | None = None) -> DefaultDTypes:
        """Return the dtypes that are taken where none is named.

        Parameters
        ----------
        device : Device or None
            None for the default device.

        Returns
        -------
        dict of str to DType
            ``"real floating"``, ``"complex floating"``, ``"integral"`` and ``"indexing"``: float64,
            complex128 and int64, or those of single precision on a device without them. One that
            stores int64 but does not compute with it has int64 for indices.

        Raises
        ------
        BackendUnavailableError
            If the device is not present.
        """
        there = dtypes_on(device, "default_dtypes")
        return {
            "real floating": default_dtype(_dtypes.float64, device),
            "complex floating": default_dtype(_dtypes.complex128, device),
            "integral": default_dtype(_dtypes.int64, device),
            "indexing": _dtypes.int64 if _dtypes.int64 in there else _dtypes.int32,
        }

    def devices(self) -> tuple[Device, ...]:
        """Return the devices that are present, the default one first.

        Returns
        -------
        tuple of Device
        """
        return devices_present()

    def dtypes(
        self, *, device: Device | str | None = None, kind: str | tuple[str, ...] | None = None
    ) -> dict[str, DType]:
        """Return the dtypes of a device.

        Parameters
        ----------
        device : Device or None
            None for the default device.
        kind : str, tuple of str or None
            As in ``isdtype``; None for all.

        Returns
        -------
        dict of str to DType

        Raises
        ------
        BackendUnavailableError
            If the device is not present.
        ValueError
            If `kind` is no kind.
        """
        there = dtypes_on(device)
        return {name: dtype for name, dtype in kind_dtypes(kind).items() if dtype in there}


_INFO = Info()


def __array_namespace_info__() -> Info:
    """Return the object that tells of this namespace's capabilities, devices and dtypes.

    Returns
    -------
    Info
    """
    return _INFO
