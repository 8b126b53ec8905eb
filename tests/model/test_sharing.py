from hamid.model.sharing import Sharing, SharingMode


def test_a_pod_that_says_nothing_has_neither_mode_nor_weight():
    assert Sharing() == Sharing(mode=None, weight=None)


def test_modes_are_the_words_of_annotations_and_settings():
    assert [str(mode) for mode in SharingMode] == ["hard", "lend", "priority"]
