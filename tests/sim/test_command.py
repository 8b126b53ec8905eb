import gzip
import json

import pytest
from click.testing import CliRunner

from hamid.cli import main
from tests.sched.builders import make_devices
from tests.sched.objects import bound, registered, waiting

NODES = "\n".join(json.dumps({"name": f"n-{n}", "cards": 2, "cardmem": "16Gi"}) for n in range(3))
TASKS = "\n".join(
    json.dumps({"name": f"t-{n}", "gpu": 1, "gpumem-percentage": p, "gpucores": p})
    for n, p in enumerate((100, 50, 25, 70))
)


@pytest.fixture
def files(tmp_path):
    (tmp_path / "nodes.jsonl").write_text(NODES)
    (tmp_path / "tasks.jsonl").write_text(TASKS)
    return tmp_path


def sim(folder, *args):
    paths = [
        "--nodes",
        str(folder / "nodes.jsonl"),
        "--tasks",
        str(folder / "tasks.jsonl"),
    ]
    return CliRunner().invoke(main, ["sim", *paths, *map(str, args)])


def test_a_trace_is_replayed_as_recorded(files):
    done = sim(files)

    assert done.exit_code == 0, done.output
    assert "fragmentation" in done.stdout
    assert "40.83" in done.stdout  # 2.45 of 6 cards
    assert "100%" in done.stderr  # what is left of the bar


OPENB_NODES = """sn,cpu_milli,memory_mib,gpu,model
n-0,64000,262144,2,T4
n-1,64000,262144,2,P100
plain,64000,262144,0,
"""
OPENB_TASKS = """name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,creation_time,deletion_time
whole,12000,16384,2,1000,P100,LS,Running,1,0
half,6000,12288,1,500,T4|V100M16,LS,Running,2,0
rest,6000,12288,1,500,T4,LS,Running,3,0
too-large,1000,1000,1,1000,A10,LS,Running,4,0
no-card,1000,1000,0,0,,LS,Running,5,0
"""


@pytest.mark.parametrize("ending", ["csv", "csv.gz"])
def test_tables_of_openb_are_replayed(tmp_path, ending):
    opened = gzip.open if ending.endswith("gz") else open
    paths = {}
    for option, text in (("--nodes", OPENB_NODES), ("--tasks", OPENB_TASKS)):
        paths[option] = tmp_path / f"{option[2:]}.{ending}"
        with opened(paths[option], "wt") as file:
            file.write(text)
    report = tmp_path / "out.json"

    args = [str(word) for pair in paths.items() for word in pair]
    done = CliRunner().invoke(main, ["sim", *args, "--json", str(report)])

    assert done.exit_code == 0, done.output
    found = json.loads(report.read_text())
    outcome = found["policies"]["fragmentation"]
    assert found["cards"] == 4
    assert (outcome["placed"], outcome["refused"]) == (4, 1)
    assert outcome["allocated"] == 75  # both of P100, one of T4 by its two halves
    assert "75.00" in done.stdout


def test_policies_are_compared_in_table_report_and_picture(files):
    report, picture = files / "out.json", files / "out.svg"

    done = sim(
        files,
        *("--policy", "fragmentation", "--policy", "binpack,numa/spread"),
        *("--load", 130, "--seeds", 2, "--json", report, "--plot", picture),
    )

    assert done.exit_code == 0, done.output
    found = json.loads(report.read_text())
    assert set(found["policies"]) == {"fragmentation", "binpack,numa/spread"}
    assert found["cards"] == 6
    runs = found["policies"]["fragmentation"]["runs"]
    assert [run["seed"] for run in runs] == [42, 43]
    assert runs[0]["curve"]
    assert "<svg" in picture.read_text()
    head, *lines = done.stdout.splitlines()
    assert " ".join(head.split()) == (
        "policy allocated % least cores % memory % wasted % placed refused"
    )
    assert [line.split()[0] for line in lines] == ["fragmentation", "binpack,numa/spread"]


def test_a_picture_that_cannot_be_drawn_is_2_before_anything_is_replayed(files):
    done = sim(files, "--plot", files / "out.pdf")

    assert done.exit_code == 2
    assert "neither PNG nor SVG" in done.stderr
    assert done.stdout == ""


def test_a_snapshot_is_replayed(tmp_path):
    path = tmp_path / "cluster.json"
    items = [registered("node-a", make_devices(2)), bound(uid="a"), bound(uid="b")]
    path.write_text(json.dumps({"items": items}))

    done = CliRunner().invoke(main, ["sim", "--snapshot", str(path)])

    assert done.exit_code == 0, done.output
    piped = CliRunner().invoke(main, ["sim", "--snapshot", "-"], input=path.read_text())
    assert piped.stdout == done.stdout


def test_pods_of_a_snapshot_that_cannot_be_read_are_counted(tmp_path):
    path = tmp_path / "cluster.json"
    wrong = waiting(name="wrong", mib=0)
    path.write_text(json.dumps({"items": [registered(), bound(), {**wrong, "kind": "Pod"}]}))

    done = CliRunner().invoke(main, ["sim", "--snapshot", str(path)])

    assert done.exit_code == 0, done.output
    assert "pods that cannot be read, and do not come: 1" in done.stderr


def test_a_trace_and_a_cluster_are_not_replayed_at_once(files):
    (files / "cluster.json").write_text(json.dumps({"items": [registered()]}))

    done = sim(files, "--snapshot", files / "cluster.json")

    assert done.exit_code == 2
    assert "a trace and a cluster are given" in done.stderr


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (["--policy", "best"], "--policy is 'best': 'best' is unknown"),
        (["--policy", " / "], "--policy is ' ': ' ' names no policy"),
        (["--nodes", "/nowhere.jsonl"], "/nowhere.jsonl cannot be read"),
        (["--json", "/nowhere/out.json"], "there is no folder /nowhere"),
        (["--json", "/"], "/ is a folder"),
        (["--plot", "/dev/full.svg/x.svg"], "there is no folder /dev/full.svg"),
        (["--load", "inf"], "--load is inf"),
        (["--load", "nan"], "--load is nan"),
        (["--seeds", "0"], "0 is not in the range"),
        (["--seeds", "2"], "is not random"),
        (["--tasks", "/dev/null"], "there is no pod to replay"),
    ],
)
def test_bad_input_is_2_and_says_what_is_wrong(files, args, said):
    done = sim(files, *args)

    assert done.exit_code == 2
    assert said in done.stderr
    assert "Traceback" not in done.output


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        pytest.param("n.jsonl", b"", "no node has a card", id="an empty list"),
        pytest.param("n.csv", b"", "has no column sn", id="an empty table"),
        pytest.param("n.jsonl", b"\x80\x00", "cannot be read", id="a binary file"),
        pytest.param("n.csv", b"\x80\x00", "cannot be read", id="a binary table"),
        pytest.param("n.csv", b"name,gpu\nn,1\n", "has no column sn", id="other columns"),
        pytest.param("n.csv.gz", b"sn,gpu\n", "cannot be read", id="not compressed"),
        pytest.param("n.jsonl.gz", gzip.compress(NODES.encode())[:-9], "cannot be read", id="cut"),
        pytest.param(
            "n.jsonl.gz", gzip.compress(b"")[:10] + b"\xff" * 20, "cannot be read", id="broken"
        ),
        pytest.param(
            "n.jsonl", f"{NODES}\n{NODES}".encode(), "node n-0 is there twice", id="twice"
        ),
    ],
)
def test_a_list_of_nodes_that_cannot_be_taken_is_2(files, name, content, said):
    (files / name).write_bytes(content)

    done = sim(files, "--nodes", files / name)

    assert done.exit_code == 2
    assert said in done.stderr


def test_an_outcome_that_cannot_be_written_is_said_with_the_table_shown(files):
    done = sim(files, "--json", "/dev/full")

    assert done.exit_code == 2
    assert "the outcome cannot be written" in done.stderr
    assert "fragmentation" in done.stdout


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "no JSON"),
        (b"\x80\x00", "no JSON"),
        (b"[]", "the file is a list, not an object"),
        (b'{"items": 3}', "items is a number, not a list"),
        (b'{"items": []}', "has no node"),
        (b'{"items": [{"kind": "Node"}]}', "metadata"),
    ],
)
def test_a_snapshot_that_is_none_is_2(tmp_path, content, said):
    path = tmp_path / "cluster.json"
    path.write_bytes(content)

    done = CliRunner().invoke(main, ["sim", "--snapshot", str(path)])

    assert done.exit_code == 2
    assert said in done.stderr


def test_nothing_to_replay_is_2():
    done = CliRunner().invoke(main, ["sim"])

    assert done.exit_code == 2
    assert "--snapshot" in done.stderr


@pytest.mark.parametrize("policy", ["fragmentation", "binpack"])
def test_pods_that_ask_for_mib_alone_are_load_too(files, policy):
    """As most manifests of HAMi do."""
    (files / "tasks.jsonl").write_text(json.dumps({"name": "t", "gpu": 1, "gpumem": "4Gi"}))

    done = sim(files, "--load", 100, "--seeds", 1, "--policy", policy, "--json", files / "o.json")

    assert done.exit_code == 0, done.output
    found = json.loads((files / "o.json").read_text())["policies"][policy]
    assert (found["placed"], found["memory"], found["refused"]) == (24, 100, 0)


def test_a_load_that_never_comes_is_said(files):
    (files / "tasks.jsonl").write_text(json.dumps({"name": "t", "gpu": 0}))

    done = sim(files, "--load", 100)

    assert done.exit_code != 0
    assert "no pod asks for cards" in done.output
