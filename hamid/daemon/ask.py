"""`hamid explain` and `hamid fit`: asks the leader over HTTP, and tells a person what it said."""

from __future__ import annotations

import json
from http import HTTPStatus
from http.client import HTTPException
from typing import TYPE_CHECKING, Any, Final
from urllib.error import HTTPError
from urllib.parse import quote, urlencode
from urllib.request import urlopen

from hamid import __version__
from hamid.errors import HamidError, RequestError, SettingsError, shortened

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

JsonObject = dict[str, Any]

TIMEOUT_S: Final = 30.0
LONGEST_ANSWER_BYTES: Final = 64 << 20
LONGEST_QUOTE: Final = 256
_ASK_THE_LEADER: Final = "let --server lead to the replica that leads, as with kubectl port-forward"
NODES_SHOWN: Final = 20
RUNNERS_UP_IN_FULL: Final = 1
"""Of how many runners-up the single cards are shown, too."""
_PPM: Final = 1_000_000
_FULL_PPM: Final = 3 * _PPM
"""The load of a node that is full in slots, memory and cores."""
_UNITS: Final = {
    "fragmentation": (2_000 * _PPM, " cards"),  # twice milli-cards, weighted in parts per million
    "binpack": (_PPM, ""),
    "spread": (_PPM, ""),
    "host": (_PPM, ""),
}
"""Of a policy's cost, how much of it people count as one, and of what."""


class LeaderRefused(HamidError):
    """The leader cannot be reached, or does not answer what was asked."""


def ask(
    server: str,
    path: Sequence[str],
    *,
    lines: Callable[[JsonObject], Iterable[str]],
    query: Iterable[tuple[str, str]] = (),
) -> JsonObject:
    """What the server answers, of which these lines can be made.

    Raises:
        SettingsError: the URL is none.
        RequestError: what is asked cannot be meant.
        LeaderRefused: there is no answer, or another than was asked for.
    """
    if not server.startswith(("http://", "https://")):
        raise SettingsError(
            f"--server is {server!r}, which is no URL", hint="write http://HOST:PORT"
        )
    url = "/".join([server.rstrip("/"), *(quote(part, safe="") for part in path)])
    asked = urlencode(list(query))
    try:
        # The scheme was looked at above.
        with urlopen(f"{url}?{asked}" if asked else url, timeout=TIMEOUT_S) as answer:  # noqa: S310
            said = answer.read(LONGEST_ANSWER_BYTES)
    except HTTPError as error:
        raise _refusal(error) from error
    except (OSError, HTTPException, ValueError) as error:
        raise LeaderRefused(
            f"{server} does not answer: {getattr(error, 'reason', error)}", hint=_ASK_THE_LEADER
        ) from error
    found = _read(server, said)
    _assert_tellable(server, found, lines)
    return found


def _read(server: str, said: bytes) -> JsonObject:
    try:
        found = json.loads(said)
    except (ValueError, RecursionError) as error:
        shown = shortened(repr(said), longest=LONGEST_QUOTE)
        raise LeaderRefused(f"{server} answers no JSON: {shown}", hint=_ASK_THE_LEADER) from error
    if not isinstance(found, dict):
        shown = shortened(repr(found), longest=LONGEST_QUOTE)
        raise LeaderRefused(f"{server} answers {shown}, which is no object", hint=_ASK_THE_LEADER)
    return found


def _assert_tellable(
    server: str, answer: JsonObject, lines: Callable[[JsonObject], Iterable[str]]
) -> None:
    """Whoever else answers on that port has other fields, or others in them."""
    try:
        list(lines(answer))
    except (LookupError, TypeError, AttributeError, ValueError) as error:
        what = f"without {error}" if isinstance(error, KeyError) else f"with other fields ({error})"
        raise LeaderRefused(
            f"{server} answers {what}, not as a leader of hamid {__version__} does",
            hint=_ASK_THE_LEADER,
        ) from error


def _refusal(error: HTTPError) -> HamidError:
    try:
        text = error.read(LONGEST_ANSWER_BYTES).decode(errors="replace").strip()
    except (OSError, HTTPException):
        text = ""  # cut off: the code says most of it
    try:
        said = json.loads(text)
        message, hint = said["message"], said["hint"]
    except (ValueError, RecursionError, LookupError, TypeError):
        message = hint = None
    if isinstance(message, str) and isinstance(hint, str):
        kind = RequestError if error.code == HTTPStatus.BAD_REQUEST else LeaderRefused
        return kind(message, hint=hint)
    words = shortened(text or str(error.reason), longest=LONGEST_QUOTE)
    return LeaderRefused(f"{error.code}: {words}", hint="compare --server with the settings")


def explain_lines(answer: JsonObject) -> Iterator[str]:
    """The answer of /explain, for people."""
    yield f"{answer['pod']}: {answer['state']}"
    if "sentence" in answer:
        yield f"  {answer['sentence']}"
    if (room := answer.get("making_room")) and room["leaving"]:
        yield f"  - evicted for it from node {room['node']}: {', '.join(room['leaving'])}"
    for reason in answer.get("reasons", ()):
        lacking = f"; short by {reason['lacking']} {reason['unit']}" if reason["unit"] else ""
        yield f"  - {reason['text']}{lacking}"
    for problem, nodes in answer["node_problems"].items():
        yield f"  - {_counted(len(nodes), 'node')}: {problem}"
    if answer.get("changes"):
        yield "It would fit with any one of these:"
        yield from (f"  - {c['text']}; node {c['node']} would take it" for c in answer["changes"])
    if answer.get("remark"):
        yield answer["remark"]
    yield from _placed_lines(answer)
    yield from _decision_lines(answer)


def _placed_lines(answer: JsonObject) -> Iterator[str]:
    if "containers" not in answer:
        return
    yield f"  on node {answer['node']}"
    by_uuid = {card["uuid"]: card for card in answer["cards"]}
    for container in answer["containers"]:
        for share in container["cards"]:
            model = by_uuid.get(share["uuid"], {}).get("model", "unknown")
            yield (
                f"  - {container['name']}: {share['memory_mib']} MiB, {share['core_percent']} % of "
                f"{share['uuid']} ({model})"
            )
    yield from (
        f"    card {card['index']} {'*' if card['is_chosen'] else ' '} {card['memory_used_mib']} of "
        f"{card['memory_mib']} MiB, {card['core_used_percent']} % of the cores, "
        f"{card['slots_used']} of {card['slots']} slots in use"
        for card in answer["cards"]
    )


def _decision_lines(answer: JsonObject) -> Iterator[str]:
    decision, anew = answer["decision"], answer.get("anew")
    if decision is None and answer["state"] in {"placed", "reserved"}:
        yield (
            "The decision is not known here: another replica took it, or long ago."
            if anew is None
            else _anew_line(anew)
        )
    found = decision or anew
    if not found or not found["best"]:
        return
    if decision is not None:
        yield f"Decided among {_counted(found['fitting_nodes'], 'node')}:"
    yield f"  by {', '.join(found['policies'])} (the smaller the better)"
    for rank, node in enumerate(found["best"]):
        yield f"  - {node['node']}: {_terms(node)}; {node['load_ppm'] / _FULL_PPM:.1%} full with it"
        if rank <= RUNNERS_UP_IN_FULL:
            yield from (_card_line(card) for card in node.get("cards", ()))


def _anew_line(anew: JsonObject) -> str:
    nodes = _counted(anew["fitting_nodes"], "node")
    place = f"number {anew['rank']} of {nodes}" if anew["rank"] else f"none of the {nodes} that fit"
    return (
        f"The decision is not known here. Decided anew, by what is there now, its node is {place}:"
    )


def _card_line(card: JsonObject) -> str:
    chosen = "*" if card["is_chosen"] else " "
    said = ", ".join(card["lacking"]) or _terms(card) or "alike"
    return f"    {card['container']}: card {card['index']} {chosen} {said}"


def _terms(found: JsonObject) -> str:
    return ", ".join(f"{name} {_cost(name, cost)}" for name, cost in found["terms"].items())


def _cost(policy: str, cost: int) -> str:
    if policy not in _UNITS:
        return str(cost)
    one, unit = _UNITS[policy]
    return f"{cost / one:.3f}{unit}"


def fit_lines(answer: JsonObject) -> Iterator[str]:
    """The answer of /fit, for people."""
    nodes, what_if = answer["nodes"], answer["what_if"]
    yield f"{_counted(answer['pods'], 'more pod')} on {_counted(len(nodes), 'node')}"
    if answer.get("quota_pods") is not None:
        yield f"  but the namespace's quota leaves room for {answer['quota_pods']}"
    if what_if is not None:
        lost = [*what_if["without_nodes"], *what_if["without_cards"]]
        words = [f"without {', '.join(lost)}"] if lost else []
        words += [f"with {', '.join(what_if['with_nodes'])}"] if what_if.get("with_nodes") else []
        yield f"  {', and '.join(words)}; {answer['pods_now']} fit now"
        if lost:
            yield (
                f"  {_counted(what_if['evicted'], 'pod')} would have to leave; "
                f"{what_if['resettled']} would find room elsewhere"
            )
        yield from (f"  - {pod_key} would not" for pod_key in what_if["homeless"])
    yield from (f"  - {each['node']}: {each['pods']}" for each in nodes[:NODES_SHOWN])
    if len(nodes) > NODES_SHOWN:
        yield f"  … and {len(nodes) - NODES_SHOWN} more (all with --json)"


def _counted(count: int, noun: str) -> str:
    return f"{count} {noun}{'' if count == 1 else 's'}"
