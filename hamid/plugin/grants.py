"""The files of a grant on the host: its private directory, control page and CDI spec.

    <state>/grants/<grant id>/limits/control.page    mounted read-only: what the tenant may use
    <state>/grants/<grant id>/usage/usage.page       mounted writable: what its processes report
    <CDI dir>/hamid-<grant id>.json                  in CDI mode

All but the usage page are derived from the journal: they can be written anew at any time.
"""

from __future__ import annotations

import asyncio
import itertools
import os
import secrets
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from hamid.errors import HookError
from hamid.hooks.abi import contract
from hamid.hooks.abi.injection import (
    CONTROL_NODES,
    HostPaths,
    MemoryTerms,
    TimeTerms,
    container_limits,
    injection,
)
from hamid.hooks.abi.pages import decode_control_page, encode_control_page
from hamid.hooks.files import replace_file
from hamid.kubelet.port import ContainerGrant, DeviceNode, Mount
from hamid.model.names import ENV_VISIBLE_DEVICES, NOT_VISIBLE
from hamid.model.sharing import SharingMode
from hamid.plugin.cdi import cdi_file_name, cdi_name, encode_cdi_spec
from hamid.plugin.disk import needing_the_disk
from hamid.plugin.settings import GrantMode

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from hamid.aiokit.blocking import OneThread
    from hamid.hooks.abi.injection import Injection
    from hamid.hooks.install import InstalledLibrary
    from hamid.model.device import DeviceUuid
    from hamid.plugin.journal import Grant

DIRECTORY_MODE: Final = 0o755
FILE_MODE: Final = 0o644
_DIRECTORY: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


@dataclass(slots=True, kw_only=True)
class GrantFiles:
    """Writes and removes what grants need on the host.

    Args:
        directory: holds a directory per grant.
        node_by_uuid: the device node of each card; replaced when the inventory changes.
        takes_cdi_names: the kubelet hands them on to the runtime. One that drops them is answered
            in CDI mode, too, as by environment: else a container would start without limits.
        sharing_mode: of containers whose pods say nothing of it.
        trusts_mps: the node runs MPS, and the library need not cap whom MPS does.
    """

    directory: Path
    cdi_dir: Path
    mode: GrantMode
    library: InstalledLibrary
    thread: OneThread
    host_root: Path
    takes_cdi_names: bool = True
    terms: MemoryTerms = field(default_factory=MemoryTerms)
    node_by_uuid: Mapping[DeviceUuid, str] = field(default_factory=dict)
    sharing_mode: SharingMode = SharingMode.HARD
    trusts_mps: bool = False

    @property
    def can_mend(self) -> bool:
        """Whether a grant's devices can still be changed after the kubelet was answered."""
        return self.mode is GrantMode.CDI and self.takes_cdi_names

    async def write(self, grant: Grant) -> ContainerGrant:
        """Write the grant's files, and return what the kubelet is answered.

        Raises:
            StateError: the disk does not take them.
        """
        entering = self._injection(grant)
        with needing_the_disk(
            f"limits for container {grant.container_name!r} of pod {grant.pod_key} cannot be "
            f"written to {self.directory}",
            then="delete the pod",
        ):
            await self.thread.call(self._write, grant, encode_cdi_spec(grant.grant_id, entering))
        return self._answer(grant.grant_id, entering)

    async def remove(self, grant_id: str) -> None:
        """Remove the grant's files; raises `StateError` if some of them stay."""
        # Not in our thread: a tenant may have left a million files, and Allocate must not wait.
        with needing_the_disk(f"files of grant {grant_id} cannot be removed from {self.directory}"):
            await asyncio.to_thread(self._remove, grant_id)

    async def grant_ids(self) -> frozenset[str]:
        """The grants that have files; raises `StateError` if that cannot be seen."""
        with needing_the_disk(f"the files of grants in {self.directory} cannot be listed"):
            return await self.thread.call(_names_in, self.directory)

    def limits_dir(self, grant_id: str) -> Path:
        """The directory that is mounted read-only."""
        return self.directory / grant_id / "limits"

    def usage_dir(self, grant_id: str) -> Path:
        """Where the page is that the tenant writes; nothing in it may be trusted.

        Containers of earlier releases have the whole directory mounted, and may have put anything
        there.
        """
        return self.directory / grant_id / "usage"

    def _injection(self, grant: Grant) -> Injection:
        paths = HostPaths(
            library=self.library.library_path,
            preload=self.library.preload_path,
            limits=self.limits_dir(grant.grant_id),
            usage_page=self.usage_dir(grant.grant_id) / contract.USAGE_PAGE_NAME,
            node_by_uuid={u: n for u, n in self.node_by_uuid.items() if self._is_there(n)},
            control_nodes=tuple(filter(self._is_there, CONTROL_NODES)),
        )
        return injection(
            grant.shares, priority=grant.priority, grant_id=grant.grant_id, paths=paths
        )

    def _is_there(self, node: str) -> bool:
        # A runtime refuses to create a container with a node that does not exist; where NVIDIA's
        # runtime is in use, it makes missing ones itself.
        return (self.host_root / node[1:]).exists()

    def _answer(self, grant_id: str, entering: Injection) -> ContainerGrant:
        if self.can_mend:
            # The id stands in the environment too: the kubelet's checkpoint keeps this answer,
            # and by the id we know at PreStartContainer which grant its entry is about. And a
            # runtime without CDI drops the name: then the image's word, which may be all cards,
            # must not count. The spec's value takes the place of ours.
            return ContainerGrant(
                envs={contract.ENV_GRANT_ID: grant_id, ENV_VISIBLE_DEVICES: NOT_VISIBLE},
                cdi_devices=(cdi_name(grant_id),),
            )
        return ContainerGrant(
            envs=entering.envs,
            mounts=tuple(
                Mount(
                    container_path=mount.container_path,
                    host_path=mount.host_path,
                    is_read_only=mount.is_read_only,
                )
                for mount in entering.mounts
            ),
            device_nodes=tuple(
                DeviceNode(container_path=node, host_path=node) for node in entering.device_nodes
            ),
        )

    def _write(self, grant: Grant, spec: bytes) -> None:
        limits, usage = self.limits_dir(grant.grant_id), self.usage_dir(grant.grant_id)
        limits.mkdir(parents=True, exist_ok=True)
        usage.mkdir(exist_ok=True)
        # Containers run as any user, and the daemon's umask may be strict.
        limits.chmod(DIRECTORY_MODE)
        usage.chmod(DIRECTORY_MODE)
        make_usage_page(usage / contract.USAGE_PAGE_NAME)
        page_path = limits / contract.CONTROL_PAGE_NAME
        page = encode_control_page(
            container_limits(
                grant.shares,
                generation=_generation(page_path) + 1,
                terms=self.terms,
                time=self._time_terms(grant),
            )
        )
        replace_file(page_path, page, mode=FILE_MODE)
        if self.mode is GrantMode.CDI:
            self.cdi_dir.mkdir(parents=True, exist_ok=True)
            spec_path = self.cdi_dir / cdi_file_name(grant.grant_id)
            replace_file(spec_path, spec, mode=FILE_MODE)

    def _time_terms(self, grant: Grant) -> TimeTerms:
        return TimeTerms(
            mode=grant.sharing.mode or self.sharing_mode,
            weight=grant.sharing.weight or 1,
            priority=grant.priority,
            trusts_mps=self.trusts_mps,
        )

    def _remove(self, grant_id: str) -> None:
        (self.cdi_dir / cdi_file_name(grant_id)).unlink(missing_ok=True)
        remove_tree(self.directory, grant_id)


def _names_in(directory: Path) -> frozenset[str]:
    return (
        frozenset(path.name for path in directory.iterdir()) if directory.is_dir() else frozenset()
    )


def _generation(page: Path) -> int:
    """That of the page so far, or 0: it must grow across restarts of the daemon, too."""
    try:
        return decode_control_page(page.read_bytes()).generation
    except (OSError, HookError):
        return 0


def make_usage_page(path: Path) -> None:
    """Make an empty page; what is there already, the container's processes have written."""
    try:
        page = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    except FileExistsError:
        return
    try:
        os.fchmod(page, contract.USAGE_PAGE_MODE)
    finally:
        os.close(page)


def remove_tree(parent: Path, name: str) -> None:
    """Remove the directory of this name and all that is in it; one that is not there is no error.

    A tenant of an earlier release may have nested directories without end, which a recursion does
    not survive: what is two levels down is moved up, so that there is never a third level to
    descend to. Links are removed, never followed.
    """
    try:
        top = os.open(parent / name, _DIRECTORY)
    except FileNotFoundError:
        return
    except NotADirectoryError:
        (parent / name).unlink()
        return
    try:
        # Names that no tenant can have foreseen, and taken.
        names = (secrets.token_hex(8) for _ in itertools.count())
        while entries := _entries(top):
            for entry in entries:
                _remove_entry(top, entry, names)
    finally:
        os.close(top)
    (parent / name).rmdir()


def _remove_entry(top: int, name: str, new_names: Iterator[str]) -> None:
    try:
        directory = os.open(name, _DIRECTORY, dir_fd=top)
    except NotADirectoryError:
        os.unlink(name, dir_fd=top)
        return
    try:
        for entry in _entries(directory):
            os.rename(entry, next(new_names), src_dir_fd=directory, dst_dir_fd=top)
    finally:
        os.close(directory)
    os.rmdir(name, dir_fd=top)


def _entries(directory: int) -> list[str]:
    with os.scandir(directory) as entries:
        return [entry.name for entry in entries]
