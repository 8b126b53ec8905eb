"""Two nodes with a card each, pods on them, and a preemptor that may make room."""

from hamid.kube.events import EventWriter
from hamid.kube.fake.api import STANDING_CLOCK_S
from hamid.kube.port import POD_DISRUPTION_BUDGETS, PODS, PatchKind
from hamid.sched.preemptor import PreemptionMetrics, Preemptor
from tests.sched.builders import make_devices
from tests.sched.objects import registered, waiting
from tests.sched.world import World


def preemptor_of(world):
    return Preemptor(
        kube=world.kube,
        writer=EventWriter(kube=world.kube, clock=lambda: STANDING_CLOCK_S, host="node-1"),
        cache=world.cache,
        refused=world.extender.refused,
        nominations=world.extender.nominations,
        leadership=world.leadership,
        settings=world.settings,
        clock=world.clock,
        wall_clock=lambda: STANDING_CLOCK_S,
        metrics=PreemptionMetrics.declared_in(world.registry),
    )


def pod(name, *, mib=30_000, priority=0, grace_s=0, labels=None, **spec):
    made = waiting(name, mib=mib, name=name)
    made["metadata"]["labels"] = labels or {}
    made["spec"] |= {"priority": priority, "terminationGracePeriodSeconds": grace_s, **spec}
    return made


class Crowd:
    """Two nodes with one card of 40,000 MiB each."""

    def __init__(self, **settings):
        self.world = World(**settings)
        self.preemptor = preemptor_of(self.world)
        self.nodes = [registered(name, make_devices(1)) for name in ("node-a", "node-b")]

    async def place(self, *pods):
        """Create nodes, if need be, and pods, and bind them."""
        nodes, self.nodes = self.nodes, []
        calls = await self.world.create(*nodes, *pods)
        for call in calls:
            found = await self.world.filter(call)
            await self.world.binder.bind(call.bind(found.node_names[0]))
        await self.world.sync()
        return calls

    async def refuse(self, *pods):
        calls = await self.world.create(*pods)
        for call in calls:
            assert not (await self.world.filter(call)).node_names
        return calls

    async def names(self):
        return {item["metadata"]["name"] for item in (await self.world.kube.list(PODS)).items}

    def count(self, outcome, what="evictions"):
        return self.world.metric(f"hamid_sched_{what}_total", outcome=outcome)


async def protect(crowd, *, allowed, name="kept"):
    budget = {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"selector": {"matchLabels": {"app": "kept"}}},
    }
    await crowd.world.kube.create(POD_DISRUPTION_BUDGETS, budget)
    await crowd.world.kube.patch(
        POD_DISRUPTION_BUDGETS,
        name,
        {"status": {"disruptionsAllowed": allowed}},
        kind=PatchKind.MERGE,
        namespace="default",
        subresource="status",
    )
