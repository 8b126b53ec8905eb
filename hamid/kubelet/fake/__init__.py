"""A kubelet in memory, over the real unix sockets and with the real messages.

It serves Registration, dials plugins back, follows their device streams, admits pods, allocates,
pre-starts, writes the checkpoint, answers pod resources and the Pods API, and restarts as the real
one does (sources read: 1.36 and 1.37). Not imitated:

- containers and images: a started container is a word in a status;
- the topology manager: no NUMA hints, so the ids offered are all the free ones;
- several resources in one container, DRA, quantities that change, ephemeral containers;
- the removal of a resource five minutes after its plugin went away;
- the plugin watcher (`plugins_registry`), `GetAllocatableResources`' CPUs and memory, `WatchPods`;
- allocating again while a container starts, after the kubelet lost its state;
- the checkpoint's checksum, which is over a dump of Go's data;
- retries: a caller starts a failed container again.
"""

from hamid.kubelet.fake.devices import PluginCall
from hamid.kubelet.fake.kubelet import FakeFeatures, FakeKubelet
from hamid.kubelet.fake.pods import (
    ContainerState,
    FakeContainer,
    FakeContainerStatus,
    FakePod,
    FakePodStatus,
    Phase,
)
from hamid.kubelet.fake.services import GetSupport

__all__ = [
    "ContainerState",
    "FakeContainer",
    "FakeContainerStatus",
    "FakeFeatures",
    "FakeKubelet",
    "FakePod",
    "FakePodStatus",
    "GetSupport",
    "Phase",
    "PluginCall",
]
