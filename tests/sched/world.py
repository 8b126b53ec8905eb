"""The scheduler over a fake API server, with a clock that tests set."""

from prometheus_client import CollectorRegistry

from hamid.codec.extender import BindingArgs, FilterArgs
from hamid.kube.fake import FakeKube
from hamid.kube.port import NODES, PODS, RESOURCE_QUOTAS
from hamid.sched.bind import Binder, BindMetrics
from hamid.sched.cache import ClusterCache
from hamid.sched.extender import Extender, ExtenderMetrics
from hamid.sched.leadership import FixedLeadership
from hamid.sched.lookup import PodLookup
from hamid.sched.nominations import Nominations
from hamid.sched.settings import SchedSettings
from hamid.sched.sinks import NodeSink, PodSink, QuotaSink
from tests.sched.recount import assert_books_are_right

_RESOURCES = {"Node": NODES, "Pod": PODS, "ResourceQuota": RESOURCE_QUOTAS}


class Clock:
    """Seconds that pass only when told to."""

    def __init__(self, now_s=1_000.0):
        self.now_s = now_s

    def __call__(self):
        return self.now_s

    def advance(self, seconds):
        self.now_s += seconds


def make_cache(clock=None, **settings):
    return ClusterCache(
        settings=SchedSettings(**settings), clock=clock or Clock(), registry=CollectorRegistry()
    )


class World:
    """One leader; `sync` brings its cache up to date with the API server."""

    def __init__(self, **settings):
        self.clock = Clock()
        self.kube = FakeKube()
        self.registry = CollectorRegistry()
        self.settings = SchedSettings(**settings)
        self.cache = ClusterCache(settings=self.settings, clock=self.clock, registry=self.registry)
        self.leadership = FixedLeadership()
        lookup = PodLookup(kube=self.kube, cache=self.cache)
        self.binder = Binder(
            kube=self.kube.guarded(self.leadership.may_act),
            cache=self.cache,
            lookup=lookup,
            leadership=self.leadership,
            nominations=Nominations(clock=self.clock, freed=self.cache.freed.on),
            settings=self.settings,
            wall_clock=lambda: 1_755_757_239.5,
            metrics=BindMetrics.declared_in(self.registry),
        )
        self.extender = Extender(
            cache=self.cache,
            lookup=lookup,
            binder=self.binder,
            leadership=self.leadership,
            settings=self.settings,
            clock=self.clock,
            wall_clock=lambda: 1_755_757_239.5,
            metrics=ExtenderMetrics.declared_in(self.registry),
        )

    async def create(self, *objects):
        """Create objects; returns the pods' calls, with the UIDs that the server gave."""
        calls = []
        for item in objects:
            resource = _RESOURCES[item["kind"]]
            created = await self.kube.create(resource, item)
            if item["kind"] == "Pod":
                meta = created["metadata"]
                calls.append(Call(meta["uid"], meta["namespace"], meta["name"]))
        await self.sync()
        return calls

    async def sync(self):
        nodes = await self.kube.list(NODES)
        pods = await self.kube.list(PODS)
        quotas = await self.kube.list(RESOURCE_QUOTAS)
        NodeSink(self.cache).replace(nodes.items)
        PodSink(self.cache).replace(pods.items)
        QuotaSink(self.cache).replace(quotas.items)

    async def node_names(self):
        return tuple(n["metadata"]["name"] for n in (await self.kube.list(NODES)).items)

    async def filter(self, call, *names):
        return await self.extender.filter(call.filter(names or await self.node_names()))

    async def pod(self, call):
        return await self.kube.get(PODS, call.name, namespace=call.namespace)

    def metric(self, name, **labels):
        return self.registry.get_sample_value(name, labels)

    def assert_books_are_right(self):
        assert_books_are_right(self.cache)


class Call:
    """A pod as kube-scheduler speaks of it."""

    def __init__(self, uid, namespace, name):
        self.uid, self.namespace, self.name = uid, namespace, name

    def filter(self, names):
        return FilterArgs(
            pod_uid=self.uid,
            namespace=self.namespace,
            pod_name=self.name,
            node_names=None if names is None else tuple(names),
        )

    def bind(self, node_name):
        return BindingArgs(
            pod_uid=self.uid, namespace=self.namespace, pod_name=self.name, node_name=node_name
        )
