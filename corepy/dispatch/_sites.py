"""Sites of routes: the places where libraries share memory, a row for each kind of device.

A row says who is at home there, who may run what on their arrays, and what a gain has to be.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from corepy.devices._device import Device
from corepy.dispatch._admitted import (
    ADMITTED,
    CANDIDATES,
    HOMES,
    KERNEL_CANDIDATES,
    ROUTABLE,
    Admission,
    KernelAdmission,
)
from corepy.dispatch._admitted_devices import ADMITTED_ON_CUDA, ON_CUDA, DeviceAdmission, form_of

AnyAdmission: TypeAlias = "Admission | DeviceAdmission | KernelAdmission"


@dataclass(frozen=True, slots=True, eq=False)
class Site:
    """Where routes lead from one library to another.

    Attributes
    ----------
    kind : str
        The kind of device.
    homes : tuple of str
        Backends whose arrays they are.
    candidates : tuple of str
        Backends that may run operations of them, in the order in which they are preferred.
    named : tuple of str
        Backends that a table may name.
    admitted : mapping
        Operations that have a router.
    routable : mapping
        All that a table may be about.
    margin : float
        How many times faster than the home a candidate has to be.
    least_seconds : float
        What an operation has to take at home, at the least, for another library with threads of
        its own to be called: as long as these take to wake, which they may have to do whatever was
        measured.
    waking : float
        Seconds for which such threads wake that have slept for long, in the mean of such calls and
        others: what a library that waits for its own has to save beside one that does not.
    digits : int
        Of gains, in words.
    """

    kind: str
    homes: tuple[str, ...]
    candidates: tuple[str, ...]
    named: tuple[str, ...]
    admitted: Mapping[str, Any]
    routable: Mapping[str, AnyAdmission]
    margin: float
    least_seconds: float
    waking: float
    digits: int

    @property
    def is_host(self) -> bool:
        """Whether arrays are NumPy's, and operations done when they return."""
        return self is HOST

    def admits(self, operation: str, dtype: str, backend: str) -> bool:
        """Say whether a backend may run an operation, or a kernel, of a dtype here."""
        admission = self.routable.get(operation)
        return admission is not None and admission.admits(dtype, backend)

    def form(self, home: str, form: str) -> str:
        """Return how tables call the form of operands of a library."""
        return form if self is HOST else form_of(home, form)


#: How many times faster than NumPy a candidate has to be.
MARGIN: Final = 1.15

HOST: Final = Site(
    kind="cpu",
    homes=HOMES,
    candidates=CANDIDATES,
    named=KERNEL_CANDIDATES,
    admitted=ADMITTED,
    routable=ROUTABLE,
    margin=MARGIN,
    least_seconds=3e-5,
    waking=1e-4,
    digits=1,
)
#: A margin of the host's kind would leave the gains that there are, of 5 to 10 %, where they lie.
#: Noise allows for less: in `benchmarks/results/gpu-check-nvidia-h100-2026-11-23.md` a call of CuPy
#: or torch lies within 0.6 % of the same call by corepy, in 27 of 28 pairs. Operations are meant to
#: be within 1.05 of the fastest, so that what gains as much is not left to chance.
CUDA: Final = Site(
    kind="cuda",
    homes=ON_CUDA,
    candidates=ON_CUDA,
    named=ON_CUDA,
    admitted=ADMITTED_ON_CUDA,
    routable=ADMITTED_ON_CUDA,
    margin=1.03,
    least_seconds=0.0,
    waking=0.0,
    digits=2,
)
#: ROCm has no row: nobody has tried there.
SITES: Final = {site.kind: site for site in (HOST, CUDA)}


def site_of(device: Device) -> Site | None:
    """Return the site of a device, None where libraries share nothing."""
    return SITES.get(device.kind)
