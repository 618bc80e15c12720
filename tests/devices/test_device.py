"""`corepy.Device`: one object per device, which its name finds."""

from __future__ import annotations

import copy
import pickle

import pytest

import corepy

xp = corepy.array_api


def test_a_name_finds_the_one_object() -> None:
    cpu = xp.ones(1).device
    assert corepy.Device("cpu") is corepy.Device(cpu) is cpu
    first = corepy.Device("cuda")
    assert first is corepy.Device("cuda:0") is corepy.devices.as_device("cuda:0")
    assert (first.name, first.kind, first.index) == ("cuda:0", "cuda", 0)
    for each in (cpu, first):
        assert eval(repr(each)) is pickle.loads(pickle.dumps(each)) is copy.deepcopy(each) is each


@pytest.mark.parametrize(
    ("name", "kind", "told"),
    [
        ("bad name", ValueError, "name is 'bad name'; expected a device name such as"),
        ("cuda:x", ValueError, "name is 'cuda:x'; expected a device name such as"),
        ("", ValueError, "name is ''; expected a device name such as"),
        ("numpy", ValueError, "name is 'numpy'; expected .*: this is a backend, see corepy.to"),
        (1, TypeError, "name is of type int; expected a Device or its name"),
        (None, TypeError, "name is of type NoneType; expected a Device or its name"),
    ],
)
def test_what_is_no_name_makes_no_device(name: object, kind: type[Exception], told: str) -> None:
    with pytest.raises(kind, match=f"^Device: {told}"):
        corepy.Device(name)  # type: ignore[arg-type]
    with pytest.raises(kind, match="^as_device: device is "):  # nor is one there from now on
        corepy.devices.as_device(name)
