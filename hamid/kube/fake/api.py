"""The server itself, without HTTP: one method per verb, from count and fault to stored object.

`FakeKube` calls it in the process and `FakeApiServer` from its routes, so that both behave alike.
What is handed in is the server's from then on; what comes out must be copied before it is changed.
"""

from __future__ import annotations

import asyncio
import random
import uuid
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from hamid.kube import shapes
from hamid.kube.errors import AlreadyExists, Conflict, Invalid, NotFound
from hamid.kube.fake import rules
from hamid.kube.fake.admission import Admission, Operation
from hamid.kube.fake.binding import bound
from hamid.kube.fake.catalog import Catalog
from hamid.kube.fake.eviction import charge_budget
from hamid.kube.fake.faults import FaultKind, RequestLog
from hamid.kube.fake.features import FakeFeatures
from hamid.kube.fake.gate import Gate
from hamid.kube.fake.pages import OpenLists
from hamid.kube.fake.patches import patched
from hamid.kube.fake.selectors import selector
from hamid.kube.fake.store import Store, copied
from hamid.kube.fake.values import Dropped, Page
from hamid.kube.port import LEASES, NAMESPACES, PODS, EventKind, PatchKind

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator, Callable

    from hamid.kube.fake.catalog import ServedResource
    from hamid.kube.fake.faults import Faults
    from hamid.kube.fake.selectors import Predicate
    from hamid.kube.fake.store import Subscription
    from hamid.kube.fake.values import Selection, Target
    from hamid.kube.port import JsonObject, PatchBody, Resource

STANDING_CLOCK_S: Final = 1_704_067_200.0  # the beginning of 2024, for who does not care
NAME_SUFFIX_CHARS: Final = "bcdfghjklmnpqrstvwxz2456789"
FIRST_NAMESPACES: Final = ("default", "kube-node-lease", "kube-public", "kube-system")
PATCH_TRIES: Final = 5


@dataclass(slots=True, kw_only=True)
class FakeApi:
    """One in-memory API server; see the package for what it does not imitate.

    Attributes:
        clock: seconds since 1970, for creationTimestamp and the like; stands still by default.
        features: the version to imitate.
        bookmark_interval_s: the real server's is about a minute.
        seed: of uids and generated names.
    """

    clock: Callable[[], float] = lambda: STANDING_CLOCK_S
    features: FakeFeatures = field(default_factory=FakeFeatures)
    bookmark_interval_s: float = 60.0
    seed: int = 0
    store: Store = field(default_factory=Store)
    gate: Gate = field(init=False)
    admission: Admission = field(init=False)
    catalog: Catalog = field(init=False)
    _rng: random.Random = field(init=False, repr=False)
    _open_lists: OpenLists = field(default_factory=OpenLists, repr=False)

    def __post_init__(self) -> None:
        self.gate = Gate(requests=RequestLog(self.clock))
        self.admission = Admission(store=self.store)
        self.catalog = Catalog(self.features.server_version, lacks=self.features.lacks)
        self._rng = random.Random(self.seed)  # noqa: S311 - reproducible, not secret
        for name in FIRST_NAMESPACES:
            self._insert(self.catalog.of(NAMESPACES), self._new(NAMESPACES, {"name": name}))

    @property
    def faults(self) -> Faults:
        """What is to go wrong."""
        return self.gate.faults

    @property
    def requests(self) -> RequestLog:
        """What was asked."""
        return self.gate.requests

    async def get(self, target: Target) -> JsonObject:
        """One object."""
        async with self.gate.request(target, "get"):
            return self._existing(target)

    async def list(self, target: Target, selection: Selection) -> Page:
        """A page of objects; the pages of one list are all as of its first."""
        async with self.gate.request(target, "list"):
            self.catalog.of(target.resource)
            if selection.continue_token:
                page = self._open_lists.rest_of(selection.continue_token)
            else:
                matches = _predicate(target, selection)
                found = self.store.select(target.resource, matches)
                page = Page(items=found, version=self.store.version)
            return self._open_lists.cut(page, selection.limit)

    @asynccontextmanager
    async def watching(
        self, target: Target, selection: Selection, *, since: str, timeout_s: float
    ) -> AsyncIterator[AsyncGenerator[tuple[EventKind, JsonObject], None]]:
        """A watch, begun and checked: the events after `since`, `Dropped` where it is to be cut."""
        async with self.gate.request(target, "watch"):
            self.catalog.of(target.resource)
            matches = _predicate(target, selection)
            begin = None if selection.is_streamed else _version_number(since)
            subscription = self.store.subscribe(target.resource, begin, matches)
        try:
            async with aclosing(self._events(target, subscription, timeout_s)) as events:
                yield events
        finally:
            self.store.unsubscribe(target.resource, subscription)

    async def _events(
        self, target: Target, subscription: Subscription, timeout_s: float
    ) -> AsyncGenerator[tuple[EventKind, JsonObject], None]:
        loop = asyncio.get_running_loop()
        ends_at = loop.time() + timeout_s
        while True:
            left_s = ends_at - loop.time()
            is_last_wait = left_s <= self.bookmark_interval_s
            if await subscription.wait(min(left_s, self.bookmark_interval_s)):
                kind, item = subscription.pending.popleft()
            elif is_last_wait:
                return
            elif self.features.has_bookmarks:
                kind, item = EventKind.BOOKMARK, self.store.bookmark(target.resource)
            else:
                continue
            match self.gate.event_fault(target, kind):
                case FaultKind.END_WATCH:
                    return
                case FaultKind.SILENCE_WATCH:
                    await asyncio.Event().wait()
                case FaultKind.CUT_WATCH:
                    raise Dropped
                case FaultKind.LOSE_EVENT:
                    continue
            yield kind, item

    async def create(self, target: Target, body: JsonObject) -> JsonObject:
        """Create an object, webhooks asked."""
        async with self.gate.request(target, "create"):
            served = self.catalog.of(target.resource)
            item = await self._made(target, body)
            name = item["metadata"]["name"]
            if self.store.get(target.resource, target.namespace, name):
                raise AlreadyExists(f'{target.resource.label} "{name}" already exists')
            return item if target.is_dry_run else self._insert(served, item)

    async def update(self, target: Target, body: JsonObject) -> JsonObject:
        """Replace an object or its status."""
        async with self.gate.request(target, "update"):
            shapes.require_shape(target.resource, body)
            return await self._update(target, self._existing(target), body)

    async def patch(self, target: Target, patch: PatchBody, kind: PatchKind) -> JsonObject:
        """Change an object or its status; an apply patch creates what is not there."""
        async with self.gate.request(target, "patch"):
            found = self.store.get(target.resource, target.namespace, str(target.name))
            if found is None and kind is PatchKind.APPLY and isinstance(patch, dict):
                return await self._create_applied(target, patch)
            return await self._patch(target, patch, kind)

    async def delete(
        self, target: Target, *, uid: str | None = None, grace_s: int | None = None
    ) -> JsonObject | None:
        """Delete an object; returns it if it is not gone yet."""
        async with self.gate.request(target, "delete"):
            item = self._existing(target)
            if uid is not None and uid != item["metadata"]["uid"]:
                raise rules.precondition_failed(target, "uid", uid, item["metadata"])
            if target.is_dry_run:
                return item
            return self._delete(self.catalog.of(target.resource), item, grace_s)

    async def delete_collection(self, target: Target, selection: Selection) -> None:
        """Delete all objects that match."""
        async with self.gate.request(target, "deletecollection"):
            served = self.catalog.of(target.resource)
            matches = _predicate(target, selection)
            for item in self.store.select(target.resource, matches):
                self._delete(served, item, None)

    async def bind(self, target: Target, binding: JsonObject) -> None:
        """Give a pod its node and the Binding's annotations: one change, or none."""
        async with self.gate.request(target, "create"):
            pod = self._existing(target)
            version = self.features.server_version
            new = bound(pod, binding, target=target, now=self.now(), version=version)
            self.store.put(PODS, new)

    async def evict(self, target: Target, eviction: JsonObject) -> None:
        """Delete a pod by way of an eviction, if its disruption budget allows that."""
        async with self.gate.request(target, "create"):
            wanted = "policy/v1" if self.features.has_eviction_v1 else "policy/v1beta1"
            given = eviction.get("apiVersion", wanted)
            if given != wanted and (not self.features.has_eviction_v1 or given != "policy/v1beta1"):
                raise Invalid(f"no kind Eviction is registered for version {given}")
            pod = self._existing(target)
            options = eviction.get("deleteOptions") or {}
            uid = (options.get("preconditions") or {}).get("uid")
            if uid is not None and uid != pod["metadata"]["uid"]:
                raise rules.precondition_failed(target, "uid", uid, pod["metadata"])
            is_dry_run = target.is_dry_run or bool(options.get("dryRun"))
            charge_budget(self.store, pod, is_dry_run=is_dry_run)
            if not is_dry_run:
                self._delete(self.catalog.of(PODS), pod, options.get("gracePeriodSeconds"))

    def _existing(self, target: Target) -> JsonObject:
        self.catalog.of(target.resource)
        item = self.store.get(target.resource, target.namespace, str(target.name))
        if item is None:
            raise NotFound(f'{target.resource.label} "{target.name}" not found')
        return item

    def _named(self, target: Target, body: JsonObject) -> JsonObject:
        """The new object with all the metadata that the server gives."""
        metadata = dict(body.get("metadata") or {})
        if not metadata.get("name") and metadata.get("generateName"):
            suffix = "".join(self._rng.choices(NAME_SUFFIX_CHARS, k=5))
            metadata["name"] = metadata["generateName"] + suffix
        rules.check_name(target.resource, metadata.get("name"))
        namespace = target.namespace if target.resource.is_namespaced else None
        if metadata.get("namespace", namespace) != namespace:
            raise Invalid("the namespace of the provided object does not match the request's")
        if namespace is not None:
            if self.store.get(NAMESPACES, None, namespace) is None:
                raise NotFound(f'namespaces "{namespace}" not found')
            metadata["namespace"] = namespace
        elif target.resource.is_namespaced:
            raise Invalid("an empty namespace may not be set during creation")
        metadata.pop("resourceVersion", None)
        return self._new(target.resource, metadata, body)

    def _new(
        self, resource: Resource, metadata: JsonObject, body: JsonObject | None = None
    ) -> JsonObject:
        metadata["uid"] = str(uuid.UUID(int=self._rng.getrandbits(128), version=4))
        metadata["creationTimestamp"] = self.now()
        head = {"kind": resource.kind, "apiVersion": resource.api_version}
        return {**(body or {}), **head, "metadata": metadata}

    def now(self) -> str:
        """The time as the API writes it."""
        return datetime.fromtimestamp(self.clock(), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")

    def _insert(self, served: ServedResource, item: JsonObject) -> JsonObject:
        if served.resource == NAMESPACES:
            rules.defaulted(NAMESPACES, item, self.features)
            rules.begin(served, item)
        return self.store.put(served.resource, item)

    async def _admitted(
        self, target: Target, verb: str, item: JsonObject, before: JsonObject | None
    ) -> JsonObject:
        operation = Operation(
            verb=verb,
            resource=target.resource,
            namespace=target.namespace,
            name=item["metadata"]["name"],
            before=before,
            is_dry_run=target.is_dry_run,
            caller=target.caller,
            subresource=target.subresource or "",
        )
        item = await self.admission.admit(operation, item)
        rules.defaulted(target.resource, item, self.features)
        return item

    async def _made(self, target: Target, body: JsonObject) -> JsonObject:
        """The new object as it is stored, webhooks asked."""
        shapes.require_shape(target.resource, body)
        item = self._named(target, body)
        rules.defaulted(target.resource, item, self.features)
        item = await self._admitted(target, "create", item, None)
        rules.check(target.resource, item)
        rules.begin(self.catalog.of(target.resource), item)
        return item

    async def _create_applied(self, target: Target, patch: JsonObject) -> JsonObject:
        served = self.catalog.of(target.resource)
        shapes.require_shape(target.resource, patch)
        metadata = {"name": target.name, **(patch.get("metadata") or {})}
        item = await self._made(target, {**patch, "metadata": metadata})
        return item if target.is_dry_run else self._insert(served, item)

    async def _patch(self, target: Target, patch: PatchBody, kind: PatchKind) -> JsonObject:
        """Apply the patch; again, if the object changed while webhooks were asked."""
        for _ in range(PATCH_TRIES):
            old = self._existing(target)
            new = copied(patched(old, patch, kind))
            shapes.require_shape(target.resource, new)
            version = (new.get("metadata") or {}).get("resourceVersion")
            is_sure = version == old["metadata"]["resourceVersion"]
            try:
                return await self._update(target, old, new)
            except Conflict:
                if not is_sure or self._existing(target) is old:
                    raise
        raise Conflict(f'{target.resource.label} "{target.name}" changes too often')

    async def _update(self, target: Target, old: JsonObject, new: JsonObject) -> JsonObject:
        served = self.catalog.of(target.resource)
        metadata = new["metadata"] = new.get("metadata") or {}
        wanted_version = metadata.get("resourceVersion") or old["metadata"]["resourceVersion"]
        if not metadata.get("resourceVersion") and target.resource == LEASES:
            raise Invalid(
                "metadata.resourceVersion: Invalid value: 0: must be specified for an update"
            )
        for name in ("name", "namespace"):
            if metadata.setdefault(name, old["metadata"].get(name)) != old["metadata"].get(name):
                raise Invalid(f"metadata.{name}: Invalid value: field is immutable")
            if metadata[name] is None:
                del metadata[name]
        if metadata.get("uid", old["metadata"]["uid"]) != old["metadata"]["uid"]:
            raise rules.precondition_failed(target, "uid", metadata["uid"], old["metadata"])
        new["kind"], new["apiVersion"] = old["kind"], old["apiVersion"]
        rules.defaulted(target.resource, new, self.features)
        new = await self._admitted(target, "update", new, old)
        # Webhooks take time: what counts is the object of now.
        old = self._existing(target)
        if wanted_version != old["metadata"]["resourceVersion"]:
            raise Conflict(
                f'Operation cannot be fulfilled on {target.resource.label} "{target.name}": the'
                " object has been modified; please apply your changes to the latest version and"
                " try again"
            )
        rules.check(target.resource, new)
        rules.succeed(served, old, new, target.subresource)
        new["metadata"]["resourceVersion"] = old["metadata"]["resourceVersion"]
        if new == old or target.is_dry_run:
            return new
        metadata = new["metadata"]
        is_over = "deletionTimestamp" in metadata and not metadata.get("finalizers")
        if is_over and not metadata.get("deletionGracePeriodSeconds"):
            return self._remove(served, new)
        return self.store.put(target.resource, new)

    def _delete(
        self, served: ServedResource, item: JsonObject, asked_s: int | None
    ) -> JsonObject | None:
        """Begin the deletion, or end it; returns the object if it stays for now."""
        grace_s = rules.grace_period_s(served.resource, item, asked_s)
        metadata = item["metadata"]
        if "deletionTimestamp" in metadata:
            grace_s = min(grace_s, metadata.get("deletionGracePeriodSeconds", 0))
        is_over = grace_s == 0 and not metadata.get("finalizers")
        if is_over and served.resource != PODS:
            self._remove(served, item)
            return None
        due = datetime.fromtimestamp(self.clock() + grace_s, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        marked = {**metadata, "deletionTimestamp": due, "deletionGracePeriodSeconds": grace_s}
        if marked != metadata:
            item = self.store.put(served.resource, {**item, "metadata": marked})
        if is_over:  # watchers have seen the pod marked first, as with the real server
            self._remove(served, item)
            return None
        return item

    def _remove(self, served: ServedResource, item: JsonObject) -> JsonObject:
        """Forget the object, what it owns, and what is in it if it is a namespace."""
        last = self.store.remove(served.resource, item)
        uid, name = item["metadata"]["uid"], item["metadata"]["name"]
        for resource, other in self.store.everything():
            metadata = other["metadata"]
            owners = metadata.get("ownerReferences") or ()
            is_owned = any(owner.get("uid") == uid for owner in owners)
            is_inside = served.resource == NAMESPACES and metadata.get("namespace") == name
            if is_owned or is_inside:
                self._delete(self.catalog.of(resource), other, 0 if is_inside else None)
        return last


def _predicate(target: Target, selection: Selection) -> Predicate:
    """What is selected; a watch or list of one name is one with a field selector."""
    named = f"metadata.name={target.name}" if target.name is not None else None
    return selector(
        target.resource,
        labels=selection.labels,
        fields=",".join(filter(None, (named, selection.fields))),
        namespace=target.namespace,
    )


def _version_number(text: str) -> int:
    try:
        return int(text or 0)
    except ValueError as error:
        raise Invalid(f'resourceVersion: Invalid value: "{text}"') from error
