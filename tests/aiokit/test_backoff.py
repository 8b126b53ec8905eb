import random

import pytest

from hamid.aiokit.backoff import Backoff


def test_delays_grow_by_the_factor_up_to_the_largest():
    backoff = Backoff(first_s=1.0, factor=2.0, max_s=5.0, jitter=0.0)

    assert [backoff.next_delay_s() for _ in range(5)] == [1.0, 2.0, 4.0, 5.0, 5.0]


def test_success_starts_over():
    backoff = Backoff(first_s=1.0, jitter=0.0)
    backoff.next_delay_s()
    backoff.next_delay_s()

    backoff.reset()

    assert backoff.failures == 0
    assert backoff.next_delay_s() == 1.0


def test_jitter_only_shortens_a_delay():
    backoff = Backoff(first_s=8.0, max_s=8.0, jitter=0.5, rng=random.Random(1))

    delays = [backoff.next_delay_s() for _ in range(200)]

    assert all(4.0 <= delay <= 8.0 for delay in delays)
    assert max(delays) - min(delays) > 3.0


def test_two_clients_that_fail_together_try_again_apart():
    one, other = Backoff(rng=random.Random(1)), Backoff(rng=random.Random(2))

    assert one.next_delay_s() != other.next_delay_s()


@pytest.mark.parametrize("failures", [64, 10_000])
def test_endless_failures_do_not_overflow(failures):
    backoff = Backoff(max_s=30.0, jitter=0.0, failures=failures)

    assert backoff.next_delay_s() == 30.0
