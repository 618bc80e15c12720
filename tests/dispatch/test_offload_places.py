"""The accelerators that are offered: by which name, since when, and why none is."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

import corepy
from corepy._dtypes import ANY
from corepy.devices._device import as_device
from corepy.dispatch import _offload_places as places
from corepy.dispatch._offload_costs import Costs
from corepy.testing import FakeBackend
from tests.dispatch.fake import DEVICE, registered
from tests.dispatch.offloading import accelerator, costs, is_resident, matrix, use_costs


def test_entries_that_ran_before_anybody_wanted_offload_ask_from_then_on() -> None:
    with registered(FakeBackend(devices={DEVICE.name: ANY})) as fake:
        use_costs(costs(fake))
        assert not places.are_wanted()
        try:
            x = matrix()
            assert not is_resident(x @ x)  # whose entry of the table is there now
            with corepy.offload("auto"):
                assert is_resident(x @ x)
            assert not is_resident(x @ x)
        finally:
            use_costs(None)


def test_an_accelerator_has_the_name_of_its_own_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    names = {DEVICE: "H200", as_device("cuda:7"): "Tesla T4"}
    gpus = [SimpleNamespace(device=device, name=name) for device, name in names.items()]
    monkeypatch.setattr(places, "detect_devices", lambda: SimpleNamespace(gpus=gpus))
    with accelerator() as fake:
        assert places.version_of(fake, DEVICE) == "FakeBackend H200"


def test_costs_of_no_accelerator_are_told_to_be_such() -> None:
    assert places._usable(Costs({}, {}, {}, ())) == ((), ["no accelerator was found"])
