"""Which pod the kubelet says it is admitting."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pytest

from hamid.kubelet.errors import CallFailed
from hamid.kubelet.port import ContainerDevices, KubeletPod, PodDevices
from hamid.model.request import ContainerKind
from hamid.plugin.admission_view import FEW, AdmissionView
from hamid.plugin.matching import AskingContainer, Match, PodOnNode

if TYPE_CHECKING:
    from collections.abc import Mapping

UNREACHABLE = CallFailed("the kubelet does not answer", hint="wait")


@dataclass(slots=True, kw_only=True)
class Kubelet:
    """The kubelet's two views: per pod name, whether its container has slots; and UIDs."""

    has_slots: Mapping[str, bool] = field(default_factory=dict)
    uids: tuple[str, ...] | None = None
    error: Exception | None = None
    can_get: bool = True
    calls: list[str] = field(default_factory=list)

    @property
    def is_served(self) -> bool:
        return self.uids is not None

    async def list_pods(self) -> tuple[KubeletPod, ...]:
        self.calls.append("pods")
        return tuple(KubeletPod(namespace="default", name=uid, uid=uid) for uid in self.uids or ())

    async def get(self, namespace: str, name: str) -> PodDevices | None:
        self.calls.append("get")
        if self.error is not None:
            raise self.error
        return self._pod(namespace, name) if name in self.has_slots else None

    async def list(self) -> tuple[PodDevices, ...]:
        self.calls.append("list")
        return tuple(self._pod("default", name) for name in self.has_slots)

    def _pod(self, namespace: str, name: str) -> PodDevices:
        slots = ("slot",) if self.has_slots[name] else ()
        container = ContainerDevices(container_name="c", slot_ids=slots)
        return PodDevices(namespace=namespace, name=name, containers=(container,))


def match(name: str) -> Match:
    container = AskingContainer(name="c", kind=ContainerKind.APP, position=0, slot_count=1)
    pod = PodOnNode(
        pod_uid=name,
        namespace="default",
        name=name,
        created_at="",
        asking=(container,),
        allocation=None,
    )
    return Match(pod=pod, container=container)


async def names(kubelet: Kubelet, *pods: str) -> list[str]:
    view = AdmissionView(pod_resources=kubelet, pods_api=kubelet)
    return [m.pod.name for m in await view.under_admission([match(pod) for pod in pods])]


@pytest.mark.parametrize("uids", [None, ("waits", "runs", "admitted")])
async def test_the_pod_that_is_known_and_empty_remains(uids):
    kubelet = Kubelet(has_slots={"admitted": False, "runs": True}, uids=uids)

    assert await names(kubelet, "waits", "runs", "admitted") == ["admitted"]


async def test_a_pod_of_the_same_name_and_another_uid_does_not():
    kubelet = Kubelet(has_slots={"web-0": False}, uids=("another",))

    assert await names(kubelet, "web-0") == []


async def test_a_single_match_is_asked_about_too():
    kubelet = Kubelet(has_slots={"runs": True}, uids=("runs",))

    assert await names(kubelet, "runs") == []


async def test_a_kubelet_that_does_not_answer_leaves_all_in_question(assert_logged):
    kubelet = Kubelet(error=UNREACHABLE)

    assert await names(kubelet, "a", "b") == ["a", "b"]
    assert_logged("kubelet not asked", matches=2)


@pytest.mark.parametrize(
    ("count", "can_get", "calls"),
    [
        pytest.param(FEW, True, ["get"] * FEW, id="a few are asked about one by one"),
        pytest.param(FEW + 1, True, ["list"], id="many are listed at once"),
        pytest.param(2, False, ["list"], id="without Get they are listed"),
    ],
)
async def test_the_kubelet_is_asked_seldom(count, can_get, calls):
    kubelet = Kubelet(can_get=can_get)

    await names(kubelet, *[f"pod-{n}" for n in range(count)])

    assert kubelet.calls == calls
