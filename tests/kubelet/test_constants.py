"""The constants are those of the vendored proto's release."""

from __future__ import annotations

from hamid.kubelet import constants, v1beta1


def test_the_api_version_is_the_generated_package():
    assert v1beta1.__name__.endswith(f".{constants.API_VERSION}")


def test_the_kubelets_sockets_are_in_its_directory():
    kubelet = constants.DEVICE_PLUGIN_DIRECTORY.parent

    assert constants.POD_RESOURCES_SOCKET.is_relative_to(kubelet)
    assert constants.PODS_API_SOCKET.is_relative_to(kubelet)
