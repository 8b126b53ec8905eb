from hamid.errors import KubeError
from hamid.sched.trouble import Trouble

ERROR = KubeError("the API server is away", hint="wait")


def told(logs):
    return [(entry["log_level"], entry["event"]) for entry in logs]


def test_what_fails_again_and_again_is_told_once_and_so_is_its_end(logs):
    trouble = Trouble("not done", "done again")

    delays = [trouble.begin(ERROR) for _ in range(3)]
    trouble.end()
    trouble.end()

    assert told(logs) == [("warning", "not done"), ("info", "done again")]
    assert delays[0] <= 0.5
    assert max(delays) <= 2.0


def test_after_its_end_it_is_told_anew_and_tried_again_soon(logs):
    trouble = Trouble("not done", "done again")
    for _ in range(20):
        trouble.begin(ERROR)
    trouble.end()

    assert trouble.begin(ERROR) <= 0.5
    assert told(logs)[-1] == ("warning", "not done")


def test_what_is_to_be_expected_at_first_is_a_warning_only_when_it_lasts(logs):
    trouble = Trouble("not done", "done again")

    for _ in range(5):
        trouble.begin(ERROR, patience=3)

    assert told(logs) == [("info", "not done"), ("warning", "not done")]
