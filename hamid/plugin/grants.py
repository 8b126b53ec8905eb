"""The files of a grant on the host: its private directory, control page and CDI spec.

    <state>/grants/<grant id>/limits/control.page    mounted read-only: what the tenant may use
    <state>/grants/<grant id>/usage/                 mounted writable: what its processes report
    <CDI dir>/hamid-<grant id>.json                  in CDI mode

All are derived from the journal: they can be written anew at any time.
"""

from __future__ import annotations

import shutil
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from hamid.hooks.abi import contract
from hamid.hooks.abi.injection import (
    CONTROL_NODES,
    HostPaths,
    container_limits,
    injection,
)
from hamid.hooks.abi.pages import encode_control_page
from hamid.kubelet.port import ContainerGrant, DeviceNode, Mount
from hamid.plugin.cdi import cdi_file_name, cdi_name, encode_cdi_spec
from hamid.plugin.settings import GrantMode

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping
    from pathlib import Path

    from hamid.aiokit.blocking import OneThread
    from hamid.hooks.abi.injection import (
        Injection,
    )
    from hamid.hooks.install import InstalledLibrary
    from hamid.model.device import DeviceUuid
    from hamid.plugin.journal import Grant


@dataclass(slots=True, kw_only=True)
class GrantFiles:
    """Writes and removes what grants need on the host.

    Args:
        directory: holds a directory per grant.
        node_by_uuid: the device node of each card; replaced when the inventory changes.
    """

    directory: Path
    cdi_dir: Path
    mode: GrantMode
    library: InstalledLibrary
    thread: OneThread
    host_root: Path
    node_by_uuid: Mapping[DeviceUuid, str] = field(default_factory=dict)
    _generation: int = 0

    @property
    def can_mend(self) -> bool:
        """Whether a grant's devices can still be changed after the kubelet was answered."""
        return self.mode is GrantMode.CDI

    async def write(self, grant: Grant) -> ContainerGrant:
        """Write the grant's files, and return what the kubelet is answered."""
        self._generation += 1
        page = encode_control_page(
            container_limits(grant.shares, priority=grant.priority, generation=self._generation)
        )
        entering = self._injection(grant)
        spec = encode_cdi_spec(grant.grant_id, entering)
        await self.thread.call(self._write, grant.grant_id, page, spec)
        return self._answer(grant.grant_id, entering)

    async def remove(self, grant_id: str) -> None:
        """Remove the grant's files."""
        await self.thread.call(self._remove, grant_id)

    async def remove_others(self, grant_ids: Collection[str]) -> tuple[str, ...]:
        """Remove the files of all grants but these; returns whose they were."""
        return await self.thread.call(self._remove_others, frozenset(grant_ids))

    def limits_dir(self, grant_id: str) -> Path:
        """The directory that is mounted read-only."""
        return self.directory / grant_id / "limits"

    def usage_dir(self, grant_id: str) -> Path:
        """The directory that the tenant writes; nothing in it may be trusted."""
        return self.directory / grant_id / "usage"

    def _injection(self, grant: Grant) -> Injection:
        paths = HostPaths(
            library=self.library.library_path,
            preload=self.library.preload_path,
            limits=self.limits_dir(grant.grant_id),
            usage=self.usage_dir(grant.grant_id),
            node_by_uuid=self.node_by_uuid,
            control_nodes=tuple(n for n in CONTROL_NODES if (self.host_root / n[1:]).exists()),
        )
        return injection(
            grant.shares, priority=grant.priority, grant_id=grant.grant_id, paths=paths
        )

    def _answer(self, grant_id: str, entering: Injection) -> ContainerGrant:
        if self.mode is GrantMode.CDI:
            # The id stands in the environment too: the kubelet's checkpoint keeps this answer,
            # and by the id we know at PreStartContainer which grant its entry is about.
            return ContainerGrant(
                envs={contract.ENV_GRANT_ID: grant_id}, cdi_devices=(cdi_name(grant_id),)
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

    def _write(self, grant_id: str, page: bytes, spec: bytes) -> None:
        limits, usage = self.limits_dir(grant_id), self.usage_dir(grant_id)
        limits.mkdir(parents=True, exist_ok=True)
        usage.mkdir(exist_ok=True)
        # Containers run as any user.
        usage.chmod(contract.USAGE_DIR_MODE)
        replace_file(limits / contract.CONTROL_PAGE_NAME, page)
        if self.mode is GrantMode.CDI:
            self.cdi_dir.mkdir(parents=True, exist_ok=True)
            replace_file(self.cdi_dir / cdi_file_name(grant_id), spec)

    def _remove(self, grant_id: str) -> None:
        (self.cdi_dir / cdi_file_name(grant_id)).unlink(missing_ok=True)
        shutil.rmtree(self.directory / grant_id, ignore_errors=True)

    def _remove_others(self, grant_ids: frozenset[str]) -> tuple[str, ...]:
        if not self.directory.is_dir():
            return ()
        others = sorted(
            path.name for path in self.directory.iterdir() if path.name not in grant_ids
        )
        for grant_id in others:
            self._remove(grant_id)
        return tuple(others)


def replace_file(path: Path, content: bytes) -> None:
    """Put the content in the file's place in one step: readers see the old or the new, whole."""
    # A name that CDI runtimes, which watch the directory for *.json and *.yaml, do not look at.
    beside = path.with_name(f".{path.name}.tmp")
    beside.write_bytes(content)
    beside.chmod(0o644)
    beside.rename(path)
