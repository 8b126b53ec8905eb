"""What can go wrong with the driver, by who must act.

NvmlError                     something else; the message says what
├── DriverUnavailable         no driver, or one that does not fit its library: the operator
├── DriverStuck               a call did not return in time: the operator, by a reboot at worst
├── DeviceLost                one card fell off the bus: the operator
└── NotSupported              this card or driver does not have it: nobody
"""

from __future__ import annotations

from hamid.errors import NvmlError


class DriverUnavailable(NvmlError):
    """There is no driver to talk to, or it cannot be talked to as a whole."""


class DriverStuck(NvmlError):
    """A call into the driver did not return before its deadline."""


class DeviceLost(NvmlError):
    """One card does not answer any more; the others may."""


class NotSupported(NvmlError):
    """The card or the driver cannot do it."""


__all__ = ["DeviceLost", "DriverStuck", "DriverUnavailable", "NotSupported", "NvmlError"]
