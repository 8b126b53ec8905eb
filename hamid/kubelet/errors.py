"""What can go wrong with the kubelet.

KubeletError
├── SocketGone             nothing answers on the socket; wait for the kubelet
├── DirectoryGone          the folder of sockets that we see is none any more
├── CannotListen           we cannot make our own socket
├── CallFailed             it answered with an error, or not in time
│   └── NotRegistered      … to our registration
├── NotServed              this kubelet lacks the API; do without
└── CheckpointUnreadable   its checkpoint has a form we do not know
"""

from __future__ import annotations

from hamid.errors import KubeletError


class SocketGone(KubeletError):
    """Nothing answers on the kubelet's socket."""


class DirectoryGone(KubeletError):
    """The folder of sockets was removed: what is in its place now cannot be seen from here."""


class CannotListen(KubeletError):
    """Our own socket cannot be made."""


class CallFailed(KubeletError):
    """The kubelet answered with an error, or did not answer in time."""


class NotRegistered(CallFailed):
    """The kubelet refused our registration."""


class NotServed(KubeletError):
    """This kubelet does not serve the API that was asked for."""


class CheckpointUnreadable(KubeletError):
    """The kubelet's checkpoint has a form we do not know."""
