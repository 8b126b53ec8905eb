from hypothesis import given

from hamid.model.device import DeviceUsage
from hamid.model.quantities import MemoryMib
from hamid.sched.placement.place import Placement, place
from hamid.sched.placement.policy import Policies
from hamid.sched.placement.room import has_room, room_of
from tests.sched.builders import make_container, make_device, make_request
from tests.sched.placement.test_smallest_change import clusters, requests


@given(requests(), clusters())
def test_where_there_is_no_room_nothing_fits(request_, nodes):
    """Whatever is not searched for that reason would have been searched in vain."""
    for node in nodes:
        outcome = place(request_, [node], policies=Policies()) if node.usages else None
        if isinstance(outcome, Placement):
            assert has_room(request_, room_of(node.usages))


def test_a_card_on_which_too_much_is_promised_takes_nothing_from_the_others():
    """As after its memory was lowered."""
    over = DeviceUsage(device=make_device("over"), memory_used_mib=90_000, slots_used=1)
    free = DeviceUsage(device=make_device("free"))
    both = make_request(*(make_container(n, memory=MemoryMib(mib=15_000)) for n in "ab"))

    assert has_room(both, room_of([over, free]))
