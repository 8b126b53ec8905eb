from hamid.daemon.conditions import Conditions


class Clock:
    now_s = 100.0

    def __call__(self):
        return self.now_s


def make(**probes):
    clock = Clock()
    conditions = Conditions(clock=clock)
    for name, answer in probes.items():
        conditions.declare(name, lambda answer=answer: answer)
    return conditions, clock


def test_a_condition_says_why_it_is_as_it_is():
    conditions, _ = make(kubelet=(False, "no kubelet there"))

    assert conditions.look()["kubelet"].reason == "no kubelet there"


def test_since_when_counts_from_the_change_and_not_from_a_new_reason():
    conditions, clock = make(kubelet=(False, "no kubelet"))
    conditions.look()
    clock.now_s = 200.0
    conditions.declare("kubelet", lambda: (False, "it refused us"))
    assert conditions.look()["kubelet"].since_s == 100.0
    clock.now_s = 300.0
    conditions.declare("kubelet", lambda: (True, "registered"))

    assert conditions.look()["kubelet"].since_s == 300.0
