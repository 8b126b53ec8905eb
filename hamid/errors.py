"""The errors of hamid: who must act, what was found, and what to do next.

The class says who must act; the message names the object, what was found and what was expected;
the hint says what to do. "It does not fit" is no error: it is a value with reasons.

    HamidError
    ├── SettingsError                 the operator must change a setting
    ├── RequestError                  the author of a pod asked for something that cannot be
    ├── TraceError                    a trace to be replayed cannot be read
    ├── WireError                     a peer sent what we cannot read
    │   ├── AnnotationError           … in an annotation
    │   ├── AdmissionError            … in an AdmissionReview
    │   └── ExtenderError             … in an extender's call
    ├── KubeError                     the API server (see kube.errors for its children)
    ├── NvmlError                     the driver (see nvml.errors)
    ├── KubeletError                  the kubelet (see kubelet.errors)
    ├── HookError                     the pages shared with the hook library
    │   ├── PageCorrupt
    │   └── AbiMismatch
    ├── StateError                    the operator must mend the disk that our state is on
    └── ServiceEnded                  a service returned; it must run until cancelled

Those that one room alone raises stand there: in web.errors, sched.bind and daemon.ask.
"""

from __future__ import annotations


class HamidError(Exception):
    """An error that says what to do next.

    Args:
        message: the object, what was found, what was expected.
        hint: what a person (or program) should do about it.
    """

    def __init__(self, message: str, *, hint: str) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return f"{self.message} ({self.hint})"


class SettingsError(HamidError):
    """The operator must change a setting."""


def require_above_zero(settings: object, *names: str) -> None:
    """Raise `SettingsError` for the first of these fields that is not above 0."""
    for name in names:
        if not (value := getattr(settings, name)) > 0:
            raise SettingsError(
                f"{name} is {value:g}, not above 0", hint="leave it out to get the default"
            )


class RequestError(HamidError):
    """A pod asks for something that cannot be; its author must change it."""


class TraceError(HamidError):
    """A trace to be replayed cannot be read."""


class WireError(HamidError):
    """A peer sent what we cannot read."""


class AnnotationError(WireError):
    """An annotation cannot be read."""


class AdmissionError(WireError):
    """An AdmissionReview cannot be read."""


class ExtenderError(WireError):
    """A call of the scheduler's extender protocol cannot be read."""


class KubeError(HamidError):
    """The Kubernetes API did not do what was asked."""


class NvmlError(HamidError):
    """The driver did not do what was asked."""


class KubeletError(HamidError):
    """The kubelet did not do what was asked."""


class HookError(HamidError):
    """The pages shared with the hook library are not as agreed."""


class PageCorrupt(HookError):
    """A page holds values that no correct writer writes."""


class AbiMismatch(HookError):
    """A page was written by another version of the agreement."""


class StateError(HamidError):
    """The daemon's own files on this node cannot be written."""


class ServiceEnded(HamidError):
    """A service returned; services run until they are cancelled."""


def shortened(said: str, *, longest: int) -> str:
    """No more characters of it than this, and then how many there are."""
    return said if len(said) <= longest else f"{said[:longest]} … ({len(said)} characters in all)"
