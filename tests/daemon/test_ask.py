"""What people read at the command line, asked over HTTP of a server in a thread."""

import json
import socket
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest
from click.testing import CliRunner

from hamid.cli import main
from hamid.daemon.ask import LeaderRefused, ask, explain_lines, fit_lines
from hamid.errors import RequestError, SettingsError

PENDING = {
    "pod": "default/p",
    "state": "pending",
    "sentence": "no card of 1 fits",
    "reasons": [
        {"text": "1 card on 1 node lacks memory", "lacking": 5, "unit": "MiB"},
        {"text": "1 card on 1 node is cordoned", "lacking": 0, "unit": ""},
    ],
    "changes": [{"text": "drop a", "node": "n"}],
    "node_problems": {"unreadable": ["x", "y"]},
    "decision": None,
}
PLACED = {
    "pod": "default/p",
    "state": "placed",
    "node": "n",
    "containers": [{"name": "main", "cards": [{"uuid": "u", "memory_mib": 7, "core_percent": 30}]}],
    "cards": [
        {
            "uuid": "u",
            "index": 0,
            "model": "T4",
            "is_chosen": True,
            "memory_used_mib": 7,
            "memory_mib": 10,
            "core_used_percent": 30,
            "slots_used": 1,
            "slots": 10,
        }
    ],
    "node_problems": {},
    "decision": {
        "fitting_nodes": 2,
        "policies": ["binpack"],
        "best": [
            {
                "node": "n",
                "terms": {"binpack": -1_500_000, "numa": 1},
                "load_ppm": 1_500_000,
                "cards": [
                    {"container": "main", "index": 0, "is_chosen": True}
                    | {"terms": {"fragmentation": 700_000_000}, "lacking": []},
                    {"container": "main", "index": 1, "is_chosen": False}
                    | {"terms": {}, "lacking": ["is cordoned", "is unhealthy"]},
                ],
            },
            {"node": "m", "terms": {"binpack": 0, "numa": 2}, "load_ppm": 0, "cards": []},
        ],
    },
}
FIT = {
    "pods": 21,
    "pods_now": 30,
    "nodes": [{"node": f"n{n}", "pods": 1} for n in range(21)],
    "what_if": {
        "without_nodes": ["a"],
        "without_cards": ["c"],
        "with_nodes": ["+1 (like b)"],
        "evicted": 2,
        "resettled": 1,
        "homeless": ["default/q"],
    },
}


def test_why_no_change_helps_is_told():
    answer = {**PENDING, "changes": [], "remark": "No change of the pod would make it fit: x"}

    assert answer["remark"] in list(explain_lines(answer))


def test_it_is_told_who_is_evicted_for_a_pod():
    room = {"node": "n", "leaving": ["default/a", "team/b"]}

    told = list(explain_lines(PENDING | {"making_room": room}))

    assert told[2] == "  - evicted for it from node n: default/a, team/b"
    gone = explain_lines(PENDING | {"making_room": room | {"leaving": []}})
    assert list(gone) == list(explain_lines(PENDING))


@contextmanager
def answering(status, body):
    """A server that answers all with the same, or the last of a list, and what it was asked for."""
    paths = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            paths.append(self.path)
            self.send_response(status)
            self.end_headers()
            self.wfile.write((body if isinstance(body, str) else body[-1]).encode())

        def log_message(self, *_):
            """Say nothing."""

    server = HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", paths
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def test_path_and_query_reach_the_server_quoted():
    query = [("x", "1"), ("x", "a=b")]
    with answering(200, json.dumps(PENDING)) as (server, paths):
        answer = ask(f"{server}/", ("explain", "a b", "c/d"), lines=explain_lines, query=query)

    assert answer == PENDING

    assert paths == ["/explain/a%20b/c%2Fd?x=1&x=a%3Db"]


@pytest.mark.parametrize(
    ("status", "body", "words"),
    [
        pytest.param(404, '{"message": "no pod", "hint": "look"}', r"no pod \(look\)", id="ours"),
        pytest.param(403, "this machine only", "403: this machine only", id="text"),
        pytest.param(500, "", "500: Internal Server Error", id="nothing"),
        pytest.param(502, '{"message": 1, "hint": 2}', r'502: {"message": 1', id="like ours"),
        pytest.param(404, '["no", "pod"]', r'404: \["no", "pod"\]', id="a list"),
        pytest.param(599, "", "599: ", id="a code that nobody knows"),
        pytest.param(404, "x" * 5_000, r"x … \(5000 characters in all\)", id="a page"),
        pytest.param(404, "[" * 100_000, r"404: \[\[", id="nested without end"),
        pytest.param(200, "<html>", "no JSON: b'<html>'", id="no JSON"),
        pytest.param(200, "", "no JSON: b''", id="no answer"),
        pytest.param(200, "[" * 100_000, "no JSON", id="an answer nested without end"),
        pytest.param(200, "[1, 2]", r"answers \[1, 2\], which is no object", id="no object"),
        pytest.param(200, "null", "answers None", id="null"),
        pytest.param(200, '{"status": "ok"}', "answers without 'nodes', not as", id="foreign"),
    ],
)
def test_what_goes_wrong_is_told(status, body, words):
    with answering(status, body) as (server, _), pytest.raises(LeaderRefused, match=words):
        ask(server, ("fit",), lines=fit_lines)


def test_what_the_leader_cannot_understand_is_the_askers_to_mend():
    body = '{"message": "no card is asked for", "hint": "ask for one"}'
    with answering(400, body) as (server, _), pytest.raises(RequestError, match="no card"):
        ask(server, ("fit",), lines=fit_lines)


def test_a_server_that_is_not_there_is_told():
    with answering(200, "") as (server, _):
        pass

    with pytest.raises(LeaderRefused, match="does not answer"):
        ask(server, ("fit",), lines=fit_lines)


@contextmanager
def saying(text):
    """A server that says this to one caller, whatever it is asked."""

    def answer():
        caller, _ = listening.accept()
        with caller:
            caller.recv(4_096)
            caller.sendall(text)

    with socket.create_server(("127.0.0.1", 0)) as listening:
        thread = threading.Thread(target=answer)
        thread.start()
        yield f"http://127.0.0.1:{listening.getsockname()[1]}"
        thread.join()


def test_a_server_that_speaks_no_http_is_told():
    with (
        saying(b"SSH-2.0-OpenSSH\r\n") as server,
        pytest.raises(LeaderRefused, match="does not answer"),
    ):
        ask(server, ("fit",), lines=fit_lines)


def test_an_error_that_is_cut_off_is_told():
    with (
        saying(b"HTTP/1.1 503 Busy\r\nTransfer-Encoding: chunked\r\n\r\n9\r\n{") as server,
        pytest.raises(LeaderRefused, match="503: Busy"),
    ):
        ask(server, ("fit",), lines=fit_lines)


def test_a_server_with_blanks_in_its_name_is_told():
    with pytest.raises(LeaderRefused, match="does not answer"):
        ask("http://a b", ("fit",), lines=fit_lines)


def test_a_server_needs_a_scheme():
    with pytest.raises(SettingsError, match="no URL"):
        ask("file:///etc/passwd", ("fit",), lines=fit_lines)


def test_a_waiting_pod_in_words():
    assert list(explain_lines(PENDING)) == [
        "default/p: pending",
        "  no card of 1 fits",
        "  - 1 card on 1 node lacks memory; short by 5 MiB",
        "  - 1 card on 1 node is cordoned",
        "  - 2 nodes: unreadable",
        "It would fit with any one of these:",
        "  - drop a; node n would take it",
    ]


def test_a_placed_pod_in_words():
    assert list(explain_lines(PLACED)) == [
        "default/p: placed",
        "  on node n",
        "  - main: 7 MiB, 30 % of u (T4)",
        "    card 0 * 7 of 10 MiB, 30 % of the cores, 1 of 10 slots in use",
        "Decided among 2 nodes:",
        "  by binpack (the smaller the better)",
        "  - n: binpack -1.500, numa 1; 50.0% full with it",
        "    main: card 0 * fragmentation 0.350 cards",
        "    main: card 1   is cordoned, is unhealthy",
        "  - m: binpack 0.000, numa 2; 0.0% full with it",
    ]


@pytest.mark.parametrize(
    ("rank", "said"),
    [(2, "its node is number 2 of 3 nodes:"), (0, "none of the 3 nodes that fit:")],
)
def test_a_pod_whose_decision_is_not_known_is_decided_anew(rank, said):
    anew = PLACED["decision"] | {"rank": rank, "fitting_nodes": 3}

    lines = list(explain_lines(PLACED | {"decision": None, "anew": anew}))

    assert lines[4].startswith("The decision is not known here. Decided anew")
    assert lines[4].endswith(said)
    assert lines[6] == "  - n: binpack -1.500, numa 1; 50.0% full with it"
    assert "not known here" in list(explain_lines(PLACED | {"decision": None}))[-1]


def test_capacity_in_words():
    lines = list(fit_lines(FIT))

    assert lines[:4] == [
        "21 more pods on 21 nodes",
        "  without a, c, and with +1 (like b); 30 fit now",
        "  2 pods would have to leave; 1 would find room elsewhere",
        "  - default/q would not",
    ]
    assert lines[-1] == "  … and 1 more (all with --json)"
    assert len(list(fit_lines(FIT | {"what_if": None}))) == 22


def test_a_quota_with_less_room_is_told():
    assert list(fit_lines(FIT | {"quota_pods": 2}))[1] == (
        "  but the namespace's quota leaves room for 2"
    )


def test_the_command_line_asks_and_prints():
    with answering(200, json.dumps(FIT)) as (server, paths):
        arguments = ["fit", "--gpu", "1", "--gpumem", "3000", "--gpucores", "30"]
        arguments += ["--without-node", "a", "--without-node", "b", "--server", server]
        words = CliRunner().invoke(main, arguments)
        whole = CliRunner().invoke(main, [*arguments, "--json"])

    assert words.output.startswith("21 more pods on")
    assert json.loads(whole.output) == FIT
    assert paths[0] == "/fit?gpu=1&gpumem=3000&gpucores=30&without-node=a&without-node=b"


def test_the_command_line_explains_and_complains():
    with answering(200, json.dumps(PENDING)) as (server, paths):
        good = CliRunner().invoke(main, ["explain", "default/p", "--server", server])
        bad = CliRunner().invoke(main, ["explain", "p", "--server", server])
    gone = CliRunner().invoke(main, ["explain", "default/p", "--server", server])

    assert (good.exit_code, paths) == (0, ["/explain/default/p"])
    assert bad.exit_code == 2
    assert "write NAMESPACE/POD" in bad.output
    assert gone.exit_code == 1
    assert "→ let --server lead to the replica that leads" in gone.output


WRONG = [None, "text", 7, 1.5, True, [], [None], {}, {"a": None}]
"""What other services may have in a field."""


@pytest.mark.parametrize(
    ("command", "answer"),
    [
        (["explain", "default/p"], PENDING),
        (["explain", "default/p"], PLACED),
        (["fit", "--gpu", "1"], FIT),
    ],
)
def test_a_service_with_other_fields_gets_an_error_at_most(command, answer):
    bodies = []
    refused = set()

    with answering(200, bodies) as (server, _):
        for field in answer:
            others = [{name: answer[name] for name in answer if name != field}]
            others += [answer | {field: wrong} for wrong in WRONG]
            for other in others:
                bodies.append(json.dumps(other))
                done = CliRunner().invoke(main, [*command, "--server", server])
                assert done.exit_code in {0, 1}
                assert isinstance(done.exception, SystemExit | None), field
                if done.exit_code:
                    assert "not as a leader of hamid" in done.output
                    refused.add(field)

    assert refused > {"pod", "decision", "node_problems"} & answer.keys()


@pytest.mark.parametrize("command", [["explain", "default/p"], ["fit", "--gpu", "1"]])
def test_what_another_service_says_is_not_printed_as_the_answer(command):
    with answering(200, '{"status": "ok"}') as (server, _):
        done = CliRunner().invoke(main, [*command, "--json", "--server", server])

    assert done.exit_code == 1
    assert "answers without" in done.output
    assert "not as a leader of hamid" in done.output
