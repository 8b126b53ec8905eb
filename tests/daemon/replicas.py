"""Replicas of the scheduler role on one API server, in virtual time, and a kube-scheduler for them.

A replica can be killed: it stops, and nothing that it still does reaches the API server. And it can be
frozen: none of its tasks takes a step, as in a process that is stopped, while time goes on; what came
for it meanwhile (answers, deadlines, calls) it finds when it thaws.

The kube-scheduler is the simulator's, with watches of its own. It calls the replica that the Lease
names, as the EndpointSlice would lead it there, and waits as long as the chart says.

What is not imitated: sockets. A call is the route's handler, a request to the API server happens at
once; so nothing is ever frozen half-way through a request.
"""

import asyncio
from collections import Counter
from collections.abc import Coroutine
from contextlib import asynccontextmanager
from contextvars import ContextVar, copy_context

import orjson
from aiohttp.test_utils import make_mocked_request
from prometheus_client import CollectorRegistry

from hamid.aiokit.services import running
from hamid.aiokit.ticker import every
from hamid.codec.node_annotation import encode_node_inventory
from hamid.daemon.scheduler_role import SchedulerPorts, SchedulerRole
from hamid.daemon.settings import Identity, Settings
from hamid.daemon.simulate.extender_client import ExtenderClient
from hamid.daemon.simulate.scheduler import SimulatedScheduler
from hamid.daemon.simulate.view import ClusterView
from hamid.errors import ExtenderError, HamidError
from hamid.kube.fake import FakeApi, FakeKube
from hamid.kube.port import LEASES, NODES, PODS, ObjectList
from hamid.kube.watch import Reflector, WatchMetrics
from hamid.model import names as wire
from hamid.model.node import NodeInventory
from hamid.sched.extender import PREFIX
from tests.builders import container_object, node_object, pod_object
from tests.sched.builders import make_device

EPOCH_S = 1_700_000_000.0
HTTP_TIMEOUT_S = 5.0
ALLOCATABLE = {"cpu": "64", "memory": "512Gi", "pods": "250"}

_OWNER = ContextVar("owner", default=None)


class Held(Coroutine):
    """A task of a replica: takes no step while that is frozen."""

    def __init__(self, steps, replica):
        self._steps, self._replica = steps, replica
        self._error = None

    def send(self, _):
        return self._step()

    def throw(self, error, *_):
        self._error = error  # a deadline that passed meanwhile, say; it is told later
        return self._step()

    def close(self):
        self._steps.close()

    def __await__(self):
        raise AssertionError("it is a task's alone")

    def _step(self):
        if self._replica.is_frozen:
            return next(self._replica.until_thawed().__await__())
        error, self._error = self._error, None
        return self._steps.send(None) if error is None else self._steps.throw(error)


def _owned(loop, coroutine, *, context=None):
    """The loop's task factory: what a replica's task starts is the replica's, too."""
    owner = (context or copy_context()).get(_OWNER)
    steps = coroutine if owner is None else Held(coroutine, owner)
    return asyncio.Task(steps, loop=loop, context=context)


class Replica:
    """A daemon, as far as it schedules."""

    def __init__(self, api, name):
        loop = asyncio.get_running_loop()
        self.name, self.identity = name, f"{name}_uid"
        self.kube = FakeKube(api=api, caller=name)
        self.registry = CollectorRegistry()
        self.is_frozen = self.is_dead = False
        self._thawing = []
        self.role = SchedulerRole.assemble(
            Settings(identity=Identity(node_name=name)),
            SchedulerPorts(
                kube=self.kube,
                identity=self.identity,
                registry=self.registry,
                watch_metrics=WatchMetrics(self.registry),
                clock=loop.time,
                wall_clock=lambda: EPOCH_S + loop.time(),
            ),
        )
        self._handlers = {route.path: route.handler for route in self.role.extender_routes()}

    async def run(self):
        """Stand for election, and lead when it is our turn, until cancelled."""
        _OWNER.set(self)
        self._context = copy_context()
        async with asyncio.TaskGroup() as self._calls, self.role.running():
            await asyncio.Event().wait()

    @property
    def leads(self):
        """Whether it leads and knows the cluster."""
        return self.role.knows_leader() == (True, "leads")

    def freeze(self):
        """Let it stand still."""
        self.is_frozen = True

    def thaw(self):
        """Let it go on."""
        self.is_frozen = False
        for future in self._thawing:
            if not future.done():
                future.set_result(None)
        self._thawing.clear()

    def until_thawed(self):
        """What a task waits for; each its own, for it may be cancelled."""
        future = asyncio.get_running_loop().create_future()
        self._thawing.append(future)
        return future

    def ask(self, verb, body):
        """A call of the extender, as a task of its own: its answer, or the error."""
        return self._calls.create_task(self._answer(verb, body), context=self._context.copy())

    async def _answer(self, verb, body):
        request = make_mocked_request("POST", f"{PREFIX}/{verb}")
        request._read_bytes = orjson.dumps(body)
        try:
            response = await self._handlers[request.path](request)
        except HamidError as error:
            return error
        return orjson.loads(response.body)

    def metric(self, name, **labels):
        """What its /metrics says."""
        return self.registry.get_sample_value(name, labels)


class LeaderClient(ExtenderClient):
    """Calls whoever leads; while it is closed, calls wait."""

    def __init__(self, kube, replicas):
        self.calls = Counter()
        self.opened = asyncio.Event()
        self.opened.set()
        self._kube = kube
        self._by_identity = {replica.identity: replica for replica in replicas}

    async def _call(self, verb, body):
        await self.opened.wait()
        lease = await self._kube.get(LEASES, "hamid-scheduler", namespace="kube-system")
        replica = self._by_identity.get(lease["spec"].get("holderIdentity"))
        if replica is None or replica.is_dead:
            raise ExtenderError("nobody listens there", hint="wait")
        self.calls[verb] += 1
        task = replica.ask(verb, body)
        await asyncio.wait({task}, timeout=HTTP_TIMEOUT_S)  # who is gone is not waited for
        if not task.done():
            raise ExtenderError("no answer in time", hint="wait")
        if isinstance(answer := task.result(), HamidError):
            raise answer
        return answer


class Seen:
    """What kube-scheduler's watch of one resource tells it."""

    def __init__(self, view, resource):
        self._view, self._resource = view, resource

    def replace(self, objects):
        newest = max((int(item["metadata"]["resourceVersion"]) for item in objects), default=0)
        found = ObjectList(items=objects, resource_version=str(newest))
        self._view.list(self._resource, found)

    def apply(self, event):
        self._view.apply(self._resource, event)


class Fleet:
    """The replicas, and the cluster that they are of; made by `fleet`."""

    def __init__(self, api, names):
        self.api = api
        self.admin = FakeKube(api=api, caller="admin")
        self.replicas = [Replica(api, name) for name in names]
        self.tasks = {}
        kube = FakeKube(api=api, caller="kube-scheduler")
        self.extender = LeaderClient(kube, self.replicas)
        settings, view = self.replicas[0].role.settings, ClusterView()
        self.scheduler = SimulatedScheduler(
            kube=kube,
            extender=self.extender,
            view=view,
            our_name=settings.admission.scheduler_name,
            ignored=settings.sched.resources.all(),
            clock=api.clock,
        )
        view.listeners.append(self.scheduler)
        self.services = [self.scheduler]
        for resource in (NODES, PODS):
            sink, name = Seen(view, resource), f"{resource.plural}-of-kube-scheduler"
            self.services.append(
                Reflector(kube=kube, resource=resource, sink=sink, name=name, clock=api.clock)
            )
        api.gate.authorize = lambda attempt: attempt.caller not in self._dead

    @property
    def _dead(self):
        return {replica.name for replica in self.replicas if replica.is_dead}

    async def leader(self):
        """The replica that leads, as soon as one does."""
        return await self.until(lambda: next((r for r in self.replicas if r.leads), None))

    async def until(self, look, *, timeout_s=60.0):
        """What the function returns once it is something; asked twenty times a second."""
        async with asyncio.timeout(timeout_s):
            async for _ in every(0.05):
                if found := look():
                    return found
        raise AssertionError

    async def kill(self, replica):
        """End it without a farewell."""
        replica.is_dead = True
        self.tasks[replica].cancel()
        await asyncio.wait({self.tasks[replica]})

    async def create_node(self, name, *, cards, memory_mib):
        """A node with so many cards of this size."""
        devices = tuple(
            make_device(f"{name}-card-{n}", device_index=n, memory_mib=memory_mib)
            for n in range(cards)
        )
        text = encode_node_inventory(NodeInventory(node_name=name, devices=devices))
        status = {"allocatable": ALLOCATABLE}
        body = node_object(name, annotations={wire.NODE_REGISTER: text}, status=status)
        await self.admin.create(NODES, body)

    async def create_pod(self, name, *, scheduler_name=None, **limits):
        """A pod that asks for this; returns it."""
        scheduler_name = scheduler_name or self.scheduler.our_name
        body = pod_object(container_object("main", limits), name=name, schedulerName=scheduler_name)
        return await self.admin.create(PODS, body)

    async def delete_pod(self, name, *, grace_s=0):
        """Delete it; with a grace it stays until deleted without one."""
        await self.admin.delete(PODS, name, namespace="default", grace_period_s=grace_s)

    def pod(self, name):
        """It, as the API server has it now."""
        return self.api.store.get(PODS, "default", name)

    def node_of(self, name):
        """Where it is bound to, if it is."""
        return self.pod(name)["spec"].get("nodeName")

    def written(self, *, by, since_s=0.0):
        """What this replica changed from then on: kinds of objects."""
        return {
            answered.attempt.resource
            for answered in self.api.requests.recent
            if answered.attempt.caller == by.name
            and answered.attempt.verb in {"create", "update", "patch", "delete"}
            and 200 <= answered.code < 300
            and answered.at_s >= EPOCH_S + since_s
        }

    def bindings(self):
        """How often each pod was bound."""
        return Counter(
            answered.attempt.name
            for answered in self.api.requests.recent
            if answered.attempt.resource == "pods/binding" and answered.code == 201
        )


@asynccontextmanager
async def fleet(*names):
    """Replicas of these names and the rest, for as long as the block lasts."""
    loop = asyncio.get_running_loop()
    loop.set_task_factory(_owned)
    made = Fleet(FakeApi(clock=lambda: EPOCH_S + loop.time()), names)
    try:
        async with running(*made.services), asyncio.TaskGroup() as group:
            made.tasks = {each: group.create_task(each.run()) for each in made.replicas}
            try:
                yield made
            finally:
                for replica, task in made.tasks.items():
                    replica.thaw()
                    task.cancel()
    finally:
        loop.set_task_factory(None)
