"""The NVML client on a real driver: what the simulated library cannot prove."""

from __future__ import annotations

import pytest

from hamid.nvml.client import NvmlClient

pytestmark = pytest.mark.gpu


async def test_every_card_has_its_facts_and_a_sample():
    async with NvmlClient.open() as nvml:
        devices = await nvml.list_devices()
        samples = await nvml.sample_devices()

    assert devices
    assert [s.device_uuid for s in samples] == [d.device_uuid for d in devices]
    for device, sample in zip(devices, samples, strict=True):
        assert device.device_uuid.startswith("GPU-")
        assert device.memory_bytes > 0
        assert sample.fault is None
        assert 0 <= (sample.memory_used_bytes or 0) <= device.memory_bytes
