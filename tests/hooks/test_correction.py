import pytest

from hamid.hooks.correction import FACTOR_MAX, FACTOR_MIN, Correction

SECOND_NS = 1_000_000_000


class Seen:
    """A container whose library charges so many percent of what the driver sees."""

    def __init__(self, *, is_new=False):
        self.correction = Correction()
        self.now_ns = SECOND_NS
        self.charged_ns = 5
        self.correction.close_window(self.charged_ns, self.now_ns)
        if not is_new:
            self.second(charged=30, observed=30, allowed=30)

    def second(self, *, charged, observed, allowed) -> float:
        self.now_ns += SECOND_NS
        self.charged_ns += charged * SECOND_NS // 100
        self.correction.allow(10 * allowed)
        self.correction.observe(observed)
        self.correction.close_window(self.charged_ns, self.now_ns)
        return self.correction.factor


def test_a_measure_that_is_right_is_left_as_it_is():
    assert Seen().second(charged=30, observed=30, allowed=30) == pytest.approx(1)


def test_what_ran_before_anybody_decided_is_held_against_nobody():
    """It was launched uncharged: where there is no core limit, and the daemon had been away."""
    seen = Seen(is_new=True)

    assert seen.second(charged=5, observed=100, allowed=100) == 1
    assert seen.second(charged=50, observed=100, allowed=100) == pytest.approx(0.75)


def test_who_is_charged_too_much_gets_more_until_it_is_right():
    seen = Seen()

    factors = [seen.second(charged=30, observed=20, allowed=30) for _ in range(8)]

    assert factors[0] == pytest.approx(1.25)
    assert factors[-1] == pytest.approx(1.5, abs=0.01)


def test_who_is_charged_too_little_gets_less():
    seen = Seen()

    factors = [seen.second(charged=30, observed=40, allowed=40) for _ in range(8)]

    assert factors[-1] == pytest.approx(0.75, abs=0.01)


def test_a_claim_does_not_bring_more_than_the_share():
    seen = Seen()

    factors = [seen.second(charged=1000, observed=60, allowed=30) for _ in range(3)]

    assert factors == [0.5, 0.25, FACTOR_MIN]


def test_the_factor_has_bounds():
    seen = Seen()
    for _ in range(20):
        seen.second(charged=90, observed=3, allowed=30)

    assert seen.correction.factor == pytest.approx(FACTOR_MAX, abs=0.01)


@pytest.mark.parametrize(("charged", "observed"), [(1, 30), (30, 1)])
def test_little_says_nothing(charged, observed):
    assert Seen().second(charged=charged, observed=observed, allowed=30) == 1


def test_a_window_without_observation_says_nothing():
    correction = Correction()
    for second in range(1, 4):
        correction.allow(300)
        correction.close_window(second * SECOND_NS, second * SECOND_NS)

    assert correction.factor == 1


@pytest.mark.parametrize(
    ("charged", "observed", "used"),
    [
        pytest.param(30, 20, 20, id="the driver's figure goes before a claim"),
        pytest.param(30, None, 30, id="without one, what was charged"),
        pytest.param(1_000, None, 100, id="nobody used more than all"),
        pytest.param(-50, None, 0, id="nor less than nothing"),
    ],
)
def test_what_was_used_in_the_last_window_is_known(charged, observed, used):
    correction = Correction()
    correction.close_window(SECOND_NS, SECOND_NS)
    if observed is not None:
        correction.observe(observed)
    correction.close_window(SECOND_NS + charged * SECOND_NS // 100, 2 * SECOND_NS)

    assert correction.used_percent == used


def test_within_the_window_nothing_is_corrected():
    seen = Seen()
    seen.correction.allow(300)
    seen.correction.observe(10)
    seen.correction.close_window(seen.charged_ns + SECOND_NS, seen.now_ns + SECOND_NS // 2)

    assert seen.correction.factor == 1


@pytest.mark.parametrize(
    ("uncharged", "share"),
    [
        pytest.param(5, 30, id="some fills"),
        pytest.param(20, 30, id="most of the share goes into copies"),
        pytest.param(50, 30, id="more than the share, without a kernel"),
    ],
)
def test_what_no_launch_is_charged_for_is_taken_off_what_kernels_may(uncharged, share):
    """Copies, fills and decompression: nothing holds them, so the kernels beside them get less."""
    seen = Seen()
    kernels = share

    for _ in range(30):
        factor = seen.second(charged=kernels, observed=kernels + uncharged, allowed=share)
        kernels = share * factor

    assert kernels == pytest.approx(max(share - uncharged, share * FACTOR_MIN), abs=1)


@pytest.mark.parametrize("late", [100, 60])
def test_what_was_seen_under_the_rate_before_is_held_against_nobody(late):
    """The driver tells with up to a second's delay what was used: of what was lent, when it is taken back."""
    seen = Seen()
    seen.second(charged=100, observed=100, allowed=100)

    factors = [
        seen.second(charged=5, observed=late, allowed=5),
        seen.second(charged=5, observed=5, allowed=5),
    ]

    assert factors == [1, 1]


def test_more_than_any_rate_of_late_allowed_is_overruled_all_the_same():
    seen = Seen()
    seen.second(charged=5, observed=30, allowed=30)

    assert seen.second(charged=5, observed=60, allowed=10) < 0.6


def test_a_factor_of_who_does_next_to_nothing_is_forgotten_with_time():
    seen = Seen()
    for _ in range(5):
        seen.second(charged=1000, observed=60, allowed=30)
    for _ in range(60):
        seen.second(charged=1, observed=1, allowed=30)

    assert seen.correction.factor == pytest.approx(1, abs=0.01)
