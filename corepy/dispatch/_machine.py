"""What decides how fast operations are here: the machine, the libraries and their settings."""

from __future__ import annotations

import os
import platform
import sys
from collections.abc import Iterable, Mapping
from functools import cache
from typing import Any, Final

from corepy._budget import cores
from corepy._signals import suppressed
from corepy.devices._probe import FAILURES, Ground, cpu_flags, has_avx512
from corepy.dispatch._hot import PURE
from corepy.dispatch._threads import get_num_threads

#: Environment variables that change how long operations take.
_SETTINGS: Final = (
    "MKL_NUM_THREADS",
    "NUMBA_NUM_THREADS",
    "OMP_NUM_THREADS",
    "OMP_WAIT_POLICY",
    "OPENBLAS_NUM_THREADS",
)
_DISTRIBUTIONS: Final = ("numpy", "numba", "torch")
#: Where Linux has the generation, on x86 and on Arm.
_MODEL: Final = ("cpu family", "model", "CPU implementer", "CPU part")


def machine_key() -> dict[str, Any]:
    """Return what decides how fast operations are here: a table of another key does not apply."""
    return {
        "cpu": processor(),
        "vectors": vectors(),
        "architecture": platform.machine(),
        "cores": cores(),
        "threads": get_num_threads(),
        "versions": versions(_DISTRIBUTIONS),
        "settings": {
            **{name: os.environ[name] for name in _SETTINGS if name in os.environ},
            **({} if PURE is None else {"hot path": "Python"}),
        },
    }


def processor() -> str:
    """Return the processor's name and generation as the system tells them.

    Clouds give one name to processors of several generations, which differ in what is fastest: a
    sort of NumPy's that takes 36 ms on one "AMD EPYC" takes 3 ms on another.
    """
    found, kind = _processor_says(), generation()
    name = found.get("model name") or found.get("Model")
    name = name or platform.processor() or platform.machine()
    return f"{name} ({kind})" if kind else name


def generation() -> str:
    """Return the processor's generation, such as "family 25, model 1"; "" if none is told."""
    found = _processor_says()
    return ", ".join(f"{key.removeprefix('cpu ')} {found[key]}" for key in _MODEL if key in found)


@cache
def _processor_says() -> Mapping[str, str]:
    """Return what the system tells of the first processor; nothing where it is not Linux."""
    found: dict[str, str] = {}
    # Only Linux has it.
    with suppressed(OSError), open("/proc/cpuinfo", encoding="utf-8", errors="replace") as file:
        for line in file:
            key, _, value = line.partition(":")
            if not key.strip():
                break  # what follows is the next processor
            found[key.strip()] = value.strip()
    return found


@cache
def vectors() -> str:
    """Return the vector instructions that libraries find here, "" if none that decide are known.

    More than anything else these decide who is fastest: with AVX-512 NumPy's `exp` of float64 takes
    as long as anybody's, and with AVX2 four times as long.
    """
    try:
        flags = cpu_flags(Ground())
    except FAILURES:
        return ""  # `corepy info` says what could not be read
    if has_avx512(flags):
        return "avx512"
    return "avx2" if "avx2" in flags else ""


def versions(distributions: Iterable[str]) -> dict[str, str]:
    """Return the versions of corepy and of the distributions that are there, by name."""
    # Not as corepy is imported: this loads what reads e-mail.
    from importlib.metadata import PackageNotFoundError, version

    from corepy import __version__  # here: the package imports this module

    found = {"corepy": __version__}
    for name in distributions:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue  # it takes no part then
    return found


def is_akin(machine: Mapping[str, Any]) -> bool:
    """Say whether the key of a table is that of a machine of this one's kind."""
    return (machine.get("cpu"), machine.get("cores")) == (processor(), cores())


def differences(machine: Mapping[str, Any], key: Mapping[str, Any]) -> list[str]:
    """Say in words where the machine, or the key, of a table differs from a key."""
    found = []
    for name, here in key.items():
        there = machine.get(name)
        if isinstance(here, dict) and isinstance(there, dict):
            found += [
                f"{item} {there.get(item, 'absent')} then, {here.get(item, 'absent')} now"
                for item in sorted({*here, *there})
                if here.get(item) != there.get(item)
            ]
        elif here != there:
            found.append(f"{name} {there!r} then, {here!r} now")
    return found


def environment() -> str:
    """Return the installation of Python that runs now: each has libraries of its own."""
    return os.path.realpath(sys.prefix)
