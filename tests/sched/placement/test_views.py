from hamid.model.request import ContainerKind
from hamid.sched.placement.views import Views, amounts, do_in_turn, usages_found
from tests.sched.builders import make_container, make_node, make_request, make_share

SHARE = (make_share(memory_mib=1_000),)


def memory_of(usages):
    return [usage.memory_used_mib for usage in usages]


def test_what_init_containers_have_had_is_there_for_others_and_known_as_such():
    usages = make_node().usages
    fresh = Views(init=usages, app=usages)

    after_init = fresh.with_shares(ContainerKind.INIT, SHARE)
    after_app = after_init.with_shares(ContainerKind.APP, SHARE)

    assert (after_init.app, after_init.reusable) == (usages, {"card-a"})
    assert memory_of(after_app.of(ContainerKind.APP)) == [1_000]
    assert (after_app.of(ContainerKind.INIT), after_app.reusable) == (usages, frozenset())


def test_a_sidecar_stays_for_those_after_it():
    usages = make_node().usages

    after = Views(init=usages, app=usages).with_shares(ContainerKind.SIDECAR, SHARE)

    assert memory_of(after.init) == memory_of(after.app) == [1_000]
    assert amounts(after.app[0])[:2] == (1, 1_000)


def test_the_next_container_finds_what_those_before_it_left():
    request = make_request(make_container("a"), make_container("b"))

    assert memory_of(usages_found(request, make_node(), [SHARE])) == [1_000]


def test_what_containers_are_given_does_only_if_it_does_for_each_in_turn():
    request, usages = make_request(make_container("a"), make_container("b")), make_node().usages

    def lacks(usage, share):
        return usage.memory_used_mib + share.memory_mib > 1_500

    assert do_in_turn(request, usages, [SHARE, (make_share(memory_mib=500),)], lacks)
    assert not do_in_turn(request, usages, [SHARE, SHARE], lacks)
