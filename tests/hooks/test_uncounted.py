from hamid.hooks.uncounted import READINGS, Uncounted

GIB = 1 << 30


def test_what_the_driver_sees_and_nobody_is_charged_is_believed_after_some_readings():
    uncounted = Uncounted()
    believed = []
    for _ in range(READINGS):
        uncounted.note(3 * GIB, (2 * GIB, 2 * GIB))
        believed.append(uncounted.believed_bytes)

    assert believed == [0] * (READINGS - 1) + [GIB]


def test_what_is_taken_or_given_back_between_the_readings_is_not_uncounted():
    uncounted = Uncounted()
    for charged in ((2 * GIB, 0), (0, 2 * GIB), (2 * GIB, 2 * GIB)):
        uncounted.note(2 * GIB, charged)

    assert uncounted.believed_bytes == 0


def test_a_single_reading_that_is_off_does_not_count():
    uncounted = Uncounted()
    for held in (9 * GIB, 2 * GIB, 9 * GIB):
        uncounted.note(held, (2 * GIB, 2 * GIB))

    assert uncounted.believed_bytes == 0


def test_what_is_charged_for_more_than_is_there_is_no_credit():
    uncounted = Uncounted()
    for _ in range(READINGS):
        uncounted.note(GIB, (2 * GIB, 2 * GIB))

    assert uncounted.believed_bytes == 0


def test_what_was_given_back_is_forgotten_at_once():
    uncounted = Uncounted()
    for _ in range(READINGS):
        uncounted.note(3 * GIB, (0, 0))
    uncounted.note(0, (0, 0))

    assert uncounted.believed_bytes == 0
