"""What can go wrong with the kubelet.

KubeletError
├── SocketGone             nothing answers on the socket; wait for the kubelet
├── NotRegistered          the kubelet refused our registration
├── NotServed              this kubelet lacks the API; do without
├── CallFailed             it answered with an error, or not in time
└── CheckpointUnreadable   its checkpoint has a form we do not know
"""

from __future__ import annotations

from hamid.errors import KubeletError


class SocketGone(KubeletError):
    """Nothing answers on the kubelet's socket."""


class NotRegistered(KubeletError):
    """The kubelet refused our registration."""


class NotServed(KubeletError):
    """This kubelet does not serve the API that was asked for."""


class CallFailed(KubeletError):
    """The kubelet answered with an error, or did not answer in time."""


class CheckpointUnreadable(KubeletError):
    """The kubelet's checkpoint has a form we do not know."""
