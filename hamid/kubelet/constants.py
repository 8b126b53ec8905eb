"""Paths, names and numbers of the kubelet's APIs, as upstream has them.

Mirrors `kubernetes/kubelet:pkg/apis/deviceplugin/v1beta1/constants.go` and the kubelet's defaults.
Directories are settings (k0s, k3s and MicroK8s have others); these are their defaults.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

API_VERSION: Final = "v1beta1"
HEALTHY: Final = "Healthy"
UNHEALTHY: Final = "Unhealthy"

DEVICE_PLUGIN_DIRECTORY: Final = Path("/var/lib/kubelet/device-plugins")
KUBELET_SOCKET_NAME: Final = "kubelet.sock"
CHECKPOINT_NAME: Final = "kubelet_internal_checkpoint"
POD_RESOURCES_SOCKET: Final = Path("/var/lib/kubelet/pod-resources/kubelet.sock")
PODS_API_SOCKET: Final = Path("/var/lib/kubelet/pods-api/pods-api.sock")

PRE_START_TIMEOUT_S: Final = 30.0
"""How long the kubelet waits for PreStartContainer; its other calls wait for ever."""

DIAL_BACK_TIMEOUT_S: Final = 10.0
"""How long the kubelet, inside Register, tries to connect to the plugin."""

MAX_MESSAGE_BYTES: Final = 4 * 1024 * 1024
"""The largest message the kubelet takes; a larger device list ends its stream, silently."""
