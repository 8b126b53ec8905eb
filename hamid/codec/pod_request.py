"""What a Pod object asks for, and what the webhook must write so that it is said plainly.

Amounts are read from limits, or from requests where limits are silent; where both speak they
must agree. The table of defaults is in `model.request`; what a suffix means is in
`model.quantities`. Besides that table:

- a count of 0 that stands alone asks for nothing; with memory, percentage, cores or a priority
  it contradicts itself and is refused, and so is a priority that stands alone;
- ephemeral containers cannot be given devices, and are refused when they ask;
- what is too much for one pod is refused, see `codec.pod_bounds`.

Annotations of the pod's author:

- model and UUID lists are separated by commas; blanks around and empty entries do not count;
- policies are words of `model.request.PolicyName` in the order of their weight;
- weights are `slot=1,core=1,memory=3`: whole numbers from 0, not all 0; what is left out is 0; those
  of nodes may name `cpu` and `host-memory`, too;
- indices are whole numbers separated by commas, those of the node's driver;
- whether devices are bound to one NUMA node is `true` or `false`, in any spelling of Go's;
- `vgpu-mode` allows every mode that its text contains, as in HAMi.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from hamid.codec.jsontext import is_number, kind_of, quoted
from hamid.codec.pod import pod_containers, pod_meta
from hamid.codec.pod_bounds import MAX_ENTRIES, size_problems
from hamid.codec.pod_host import decode_pod_host
from hamid.codec.sharing import sharing_problems
from hamid.errors import RequestError
from hamid.model import names as wire
from hamid.model.device import WHOLE_DEVICE_PERCENT, DeviceMode, model_matches
from hamid.model.quantities import (
    MAX_DEVICE_COUNT,
    WHOLE_CARD,
    MemoryMib,
    MemoryPercent,
    QuantityError,
    parse_memory_mib,
    parse_quantity,
    parse_whole,
)
from hamid.model.request import (
    EVEN_WEIGHTS,
    ContainerRequest,
    DeviceSelection,
    LoadWeights,
    PodRequest,
    PolicyError,
    parse_policies,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from hamid.codec.jsontext import JsonObject
    from hamid.codec.pod import PodContainer
    from hamid.model.names import ResourceNames
    from hamid.model.quantities import MemoryRequest
    from hamid.model.request import PolicyName, RequestDefaults

LIMITS: Final = "limits"
REQUESTS: Final = "requests"

_TRUE: Final = frozenset({"1", "t", "true"})
_FALSE: Final = frozenset({"", "0", "f", "false"})
_DEVICE_WEIGHTS: Final = {"slot": "slots", "core": "cores", "memory": "memory"}
_NODE_WEIGHTS: Final = {**_DEVICE_WEIGHTS, "cpu": "cpu", "host-memory": "host_memory"}
"""Words of an annotation, and the fields of `LoadWeights` that they mean."""
_MAX_WEIGHT: Final = 1_000
_MAX_INDEX: Final = 1_000

_HINT: Final = "change the pod as said and create it again"


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerFix:
    """One amount that the webhook must write.

    Attributes:
        list_name: the list of the spec that the container stands in.
        index: its place in that list.
        section: `limits` or `requests`.
        value: None where the amount must be taken out.
    """

    list_name: str
    index: int
    container_name: str
    section: str
    resource: str
    value: str | None


def asked_resources(pod: JsonObject, names: ResourceNames) -> bool:
    """Whether any container, ephemeral ones included, names any of our resources."""
    return any(_names_any(container, names) for container in pod_containers(pod))


def decode_pod_request(
    pod: JsonObject, *, names: ResourceNames, defaults: RequestDefaults
) -> PodRequest | None:
    """What the pod asks for after defaults, or None when it asks for no device.

    Raises:
        RequestError: with one sentence for each thing that is wrong with the pod.
    """
    containers = pod_containers(pod)
    if not any(_names_any(container, names) for container in containers):
        return None
    meta = pod_meta(pod)
    problems: list[str] = []
    requests = _container_requests(containers, names, defaults, problems)
    annotations = _Annotations(meta.annotations, problems)
    request = PodRequest(
        pod_uid=meta.uid,
        namespace=meta.namespace,
        pod_name=meta.name,
        container_names=tuple(c.name for c in containers if c.kind is not None),
        requests=requests,
        selection=annotations.selection(),
        node_policies=annotations.policies(wire.NODE_POLICY),
        device_policies=annotations.policies(wire.DEVICE_POLICY),
        load_weights=annotations.weights(wire.LOAD_WEIGHTS, _DEVICE_WEIGHTS),
        node_weights=annotations.weights(wire.NODE_WEIGHTS, _NODE_WEIGHTS),
        is_numa_bound=annotations.is_numa_bound(),
        allowed_modes=annotations.modes(),
        host=decode_pod_host(pod),
    )
    problems += sharing_problems(meta.annotations)
    problems += size_problems(requests, meta.annotations, container_count=len(containers))
    if problems:
        raise RequestError(". ".join(problems), hint=_HINT)
    return request if requests else None


def _container_requests(
    containers: Iterable[PodContainer],
    names: ResourceNames,
    defaults: RequestDefaults,
    problems: list[str],
) -> tuple[ContainerRequest, ...]:
    requests = []
    for container in containers:
        reader = _Reader(container, names, defaults)
        if (request := reader.request()) is not None:
            requests.append(request)
        problems += reader.problems
    return tuple(requests)


def required_limits(
    pod: JsonObject, names: ResourceNames, defaults: RequestDefaults
) -> tuple[ContainerFix, ...]:
    """What to write so that limits equal requests and each asking container states its count.

    What is right already is not touched. Call it for a pod that `decode_pod_request` takes:
    here amounts are copied as they are written.
    """
    fixes: list[ContainerFix] = []
    for container in pod_containers(pod):
        if container.kind is None:
            continue
        stated = {name: _stated(container, name) for name in names.all()}
        asks = any(
            stated[n] is not None for n in (names.memory, names.memory_percentage, names.cores)
        )
        if asks and stated[names.count] is None and defaults.device_count > 0:
            stated[names.count] = str(defaults.device_count)
        for name, value in stated.items():
            fixes += [
                ContainerFix(
                    list_name=container.list_name,
                    index=container.index,
                    container_name=container.name,
                    section=section,
                    resource=name,
                    value=str(value),
                )
                for section, amounts in ((LIMITS, container.limits), (REQUESTS, container.requests))
                if value is not None and amounts.get(name) is None
            ]
    return tuple(fixes)


def _names_any(container: PodContainer, names: ResourceNames) -> bool:
    return any(_stated(container, name) is not None for name in names.all())


def _stated(container: PodContainer, name: str) -> object:
    limit = container.limits.get(name)
    return container.requests.get(name) if limit is None else limit


@dataclass(slots=True)
class _Reader:
    """Reads one container; what is wrong with it goes to the problems, one sentence each."""

    container: PodContainer
    names: ResourceNames
    defaults: RequestDefaults
    problems: list[str] = field(default_factory=list)

    def request(self) -> ContainerRequest | None:
        """What the container asks for, or None when that is nothing, or wrong."""
        container, names = self.container, self.names
        if not _names_any(container, names):
            return None
        if container.kind is None:
            self._refuse("is an ephemeral container; only init and app containers get devices")
            return None
        count = self._whole(names.count, 0, MAX_DEVICE_COUNT)
        mib = self._amount(names.memory, parse_memory_mib)
        percent = self._whole(names.memory_percentage, 1, 100)
        cores = self._whole(names.cores, 0, WHOLE_DEVICE_PERCENT)
        priority = self._whole(names.priority, 0, 1)
        if not self.problems:
            count = self._count(count)
        if self.problems or not count:
            return None
        memory = self._memory(mib, percent)
        return ContainerRequest(
            container_name=container.name,
            kind=container.kind,
            device_count=count,
            memory=memory,
            core_percent=self._cores(cores, memory),
            priority=priority,
        )

    def _count(self, count: int | None) -> int:
        """The number of devices, 0 for none, where the container names any resource."""
        names = self.names
        others = [n for n in names.all()[1:] if _stated(self.container, n) is not None]
        if count == 0 and others:
            self._refuse(
                f"asks for 0 {names.count}, but sets {' and '.join(others)}; "
                f"leave these out, or ask for 1 to {MAX_DEVICE_COUNT} {names.count}"
            )
        if count is not None:
            return count
        if others == [names.priority]:
            self._refuse(f"sets {names.priority} but asks for no device; set {names.count} too")
        elif not self.defaults.device_count:
            self._refuse(
                f"sets {' and '.join(others)} but no number of devices; "
                f"set {names.count}, 1 to {MAX_DEVICE_COUNT}"
            )
        return self.defaults.device_count

    def _memory(self, mib: int | None, percent: int | None) -> MemoryRequest:
        if mib is not None:
            return MemoryMib(mib=mib)
        if percent is not None:
            return MemoryPercent(percent=percent)
        if self.defaults.memory_mib:
            return MemoryMib(mib=self.defaults.memory_mib)
        return WHOLE_CARD

    def _cores(self, cores: int | None, memory: MemoryRequest) -> int:
        if cores is not None:
            return cores
        return WHOLE_DEVICE_PERCENT if memory == WHOLE_CARD else self.defaults.core_percent

    def _whole(self, name: str, minimum: int, maximum: int) -> int | None:
        return self._amount(name, lambda text: parse_whole(text, minimum=minimum, maximum=maximum))

    def _amount(self, name: str, parse: Callable[[str], int]) -> int | None:
        limit, request = self.container.limits.get(name), self.container.requests.get(name)
        value = request if limit is None else limit
        if value is None:
            return None
        try:
            amount = parse(_quantity_text(value))
        except QuantityError as error:
            self._refuse(f"{name}: {error}")
            return None
        if limit is not None and request is not None and not _is_same(limit, request):
            self._refuse(
                f"{name} is {quoted(str(limit))} in limits but {quoted(str(request))} "
                f"in requests; make them equal"
            )
        return amount

    def _refuse(self, what: str) -> None:
        self.problems.append(f"container {self.container.name!r}: {what}")


def _quantity_text(value: object) -> str:
    """The text of an amount: manifests may write plain numbers, which JSON keeps as such."""
    if isinstance(value, str):
        return value
    if isinstance(value, int | float) and not isinstance(value, bool):
        return repr(value)
    raise QuantityError(f"{kind_of(value)} is no quantity; write a number such as 3000")


def _is_same(one: object, other: object) -> bool:
    try:
        return (
            parse_quantity(_quantity_text(one)).value == parse_quantity(_quantity_text(other)).value
        )
    except QuantityError:
        return False


@dataclass(slots=True)
class _Annotations:
    """Reads the wishes in a pod's annotations; what is wrong goes to the problems."""

    annotations: dict[str, str]
    problems: list[str]

    def selection(self) -> DeviceSelection:
        return DeviceSelection(
            use_models=self._models(wire.USE_MODEL),
            avoid_models=self._models(wire.AVOID_MODEL),
            use_uuids=self._list(wire.USE_UUID),
            avoid_uuids=self._list(wire.AVOID_UUID),
            use_indices=self._indices(),
        )

    def policies(self, key: str) -> tuple[PolicyName, ...]:
        try:
            return parse_policies(self._list(key))
        except PolicyError as error:
            self.problems.append(f"annotation {key}: {error}")
            return ()

    def weights(self, key: str, fields: Mapping[str, str]) -> LoadWeights:
        entries = self._list(key)
        if not entries:
            return EVEN_WEIGHTS
        found = dict.fromkeys(("slots", "cores", "memory"), 0)
        for entry in entries:
            name, _, text = (part.strip() for part in entry.partition("="))
            if name not in fields or not is_number(text, _MAX_WEIGHT):
                *others, last = fields
                self.problems.append(
                    f"annotation {key}: {quoted(entry)} is not one of {', '.join(others)} "
                    f"and {last}, =, and a whole number from 0 to {_MAX_WEIGHT}"
                )
                return EVEN_WEIGHTS
            found[fields[name]] = int(text)
        if not any(found.values()):
            self.problems.append(f"annotation {key}: one of them must not be 0")
        return LoadWeights(**found)

    def is_numa_bound(self) -> bool:
        text = self.annotations.get(wire.NUMA_BIND, "").strip().casefold()
        if text not in _TRUE | _FALSE:
            self.problems.append(
                f"annotation {wire.NUMA_BIND}: {quoted(text)} is neither true nor false"
            )
        return text in _TRUE

    def _indices(self) -> tuple[int, ...]:
        entries = self._list(wire.USE_INDEX)
        wrong = [entry for entry in entries if not is_number(entry, _MAX_INDEX)]
        if wrong:
            self.problems.append(
                f"annotation {wire.USE_INDEX}: {quoted(wrong[0])} is no whole number "
                f"from 0 to {_MAX_INDEX}"
            )
            return ()
        return tuple(int(entry) for entry in entries)

    def modes(self) -> tuple[str, ...]:
        key = next((key for key in wire.VGPU_MODES if key in self.annotations), wire.VGPU_MODE)
        text = self.annotations.get(key, "")
        modes = tuple(mode.value for mode in DeviceMode if mode in text)
        if text.strip() and not modes:
            self.problems.append(
                f"annotation {key}: {quoted(text)} names no mode; "
                f"allowed are {', '.join(DeviceMode)}"
            )
        return modes

    def _models(self, key: str) -> tuple[str, ...]:
        models = self._list(key)
        for model in models:
            if not model_matches(model, model):
                self.problems.append(f"annotation {key}: {quoted(model)} names no model")
        return models

    def _list(self, key: str) -> tuple[str, ...]:
        entries = tuple(filter(None, map(str.strip, self.annotations.get(key, "").split(","))))
        if len(entries) <= MAX_ENTRIES:
            return entries
        self.problems.append(
            f"annotation {key} has {len(entries)} entries; allowed are {MAX_ENTRIES}"
        )
        return ()
