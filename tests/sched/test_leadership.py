from hamid.sched.leadership import FixedLeadership


def test_a_leadership_set_by_hand_is_what_it_was_set_to():
    alone = FixedLeadership()
    follower = FixedLeadership(is_leader=False, holder="node-a_1")

    assert alone.may_act()
    assert (follower.may_act(), follower.holder) == (False, "node-a_1")
