"""The one module that imports `pynvml`, and what its error codes mean.

The others call the library through `nvml`, only in a worker thread of `client`. `pynvml` has no
annotations, so it is `Any` here; its results are turned into values by `cards` and `events` and go
no further.
"""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING, Any, Final, TypeVar

import pynvml

from hamid.nvml.errors import DeviceLost, DriverUnavailable, NotSupported, NvmlError
from hamid.nvml.port import DeviceFault

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

R = TypeVar("R")

nvml: Final[Any] = pynvml

ABSENT: Final = frozenset(
    {nvml.NVML_ERROR_NOT_SUPPORTED, nvml.NVML_ERROR_FUNCTION_NOT_FOUND,
     nvml.NVML_ERROR_NO_PERMISSION, nvml.NVML_ERROR_NO_DATA}
)  # fmt: skip
"""Codes that mean "you cannot have this here", which is no fault of the card."""

DRIVER_HINTS: Final[Mapping[int, str]] = {
    nvml.NVML_ERROR_UNINITIALIZED: "the library was shut down; restart hamid on this node",
    nvml.NVML_ERROR_DRIVER_NOT_LOADED: "load the NVIDIA kernel driver (see `dmesg`), then restart",
    nvml.NVML_ERROR_LIBRARY_NOT_FOUND: "install the NVIDIA driver, or name its library by setting",
    nvml.NVML_ERROR_LIB_RM_VERSION_MISMATCH: "the driver was upgraded under running programs: "
    "reload the kernel module or reboot the node, then restart hamid",
}
"""Codes that speak of the driver as a whole → what to do."""


def start(library_path: Path | None) -> None:
    """Load the library, from a path or as the loader finds it, and initialise it."""
    if library_path is not None:
        try:
            nvml.nvmlLib = ctypes.CDLL(str(library_path))
        except OSError as error:
            raise DriverUnavailable(
                f"cannot load the driver's library {str(library_path)!r}: {error}",
                hint="install the NVIDIA driver, or correct the setting that names its library",
            ) from error
        nvml._nvmlGetFunctionPointer_cache.clear()  # noqa: SLF001 - else it calls the old one
    nvml.nvmlInit()


def translated(error: Any) -> NvmlError:
    """The error of ours that says who must act on this one of `pynvml`."""
    code, text = error.value, f"NVML error {error.value}: {error}"
    if code in DRIVER_HINTS:
        return DriverUnavailable(text, hint=DRIVER_HINTS[code])
    if code == nvml.NVML_ERROR_GPU_IS_LOST:
        return DeviceLost(text, hint="drain the node and reset or replace the GPU")
    if code in ABSENT:
        return NotSupported(text, hint="this card or driver does not have it")
    return NvmlError(text, hint="see `dmesg` and `nvidia-smi` on the node")


def raise_if_driver_wide(error: Any) -> None:
    """Let an error pass that no single card is to blame for."""
    if error.value in DRIVER_HINTS:
        raise error


def fault_of(error: Any) -> DeviceFault:
    """The error as a value: what is wrong with one card."""
    return DeviceFault(
        reason=f"NVML error {error.value}: {error}",
        is_lost=error.value == nvml.NVML_ERROR_GPU_IS_LOST,
    )


def if_supported(question: Callable[..., R], *args: object) -> R | None:
    """The answer, or None where card or driver does not have it."""
    try:
        return question(*args)
    except nvml.NVMLError as error:
        if error.value in ABSENT:
            return None
        raise
