"""A plugin under a name of its own, for the tests of this room."""

from __future__ import annotations

from hamid.aiokit.backoff import Backoff
from hamid.aiokit.latest import Latest
from hamid.kubelet.registration import Registrar
from tests.contracts.kubelet_contract import ScriptedPlugin, make_slots

RESOURCE = "nvidia.com/gpu"


def make_plugin(count=6, **overrides):
    return ScriptedPlugin(devices=Latest(make_slots(count)), **overrides)


def make_registrar(kubelet, plugin=None, **overrides):
    """A registrar that does not let a test wait."""
    values = {
        "handler": plugin or make_plugin(),
        "resource_name": RESOURCE,
        "directory": kubelet.device_plugin_directory,
        "poll_s": 0.01,
        "backoff": Backoff(first_s=0.001, max_s=0.01),
    }
    return Registrar(**{**values, **overrides})
