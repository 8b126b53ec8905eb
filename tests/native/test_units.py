"""The C unit tests of `native/`: as they are, and under the sanitizers."""

import pytest

from tests.native.container import build

pytestmark = [pytest.mark.native, pytest.mark.slow]


@pytest.mark.parametrize("target", ["check", "check-asan", "check-tsan"])
def test_the_c_suite_passes(target):
    build(target)
