from hamid.sched.placement.score import RANK_STEP, rank_scores

LARGEST_IN_TREE_SUM = 1_200
EXTENDER_FACTOR = 10


def test_scores_follow_the_ranking_without_ties():
    assert list(rank_scores(["b", "a", "c"], step=2).items()) == [("b", 6), ("a", 4), ("c", 2)]


def test_one_step_outweighs_all_in_tree_scores():
    assert RANK_STEP * EXTENDER_FACTOR > LARGEST_IN_TREE_SUM


def test_no_nodes_have_no_scores():
    assert rank_scores([]) == {}
