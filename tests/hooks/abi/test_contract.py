from hamid.hooks.abi import contract


def test_the_preload_file_names_the_library_and_nothing_else():
    assert contract.PRELOAD_TEXT.split() == [contract.LIBRARY_PATH]


def test_slots_and_the_slow_lock_have_bytes_of_their_own_behind_the_page():
    offsets = [contract.slot_lock_offset(index) for index in range(contract.SLOTS_MAX)]

    assert len({contract.LOCK_SLOW_OFFSET, *offsets}) == contract.SLOTS_MAX + 1
    assert min(offsets) > contract.LOCK_SLOW_OFFSET
