import pytest

from hamid.model.health import FATAL_XIDS, DeviceFaultSeen, DeviceHealth, assess, xid_fault
from tests.builders import UUID, uuid

HEALTHY = DeviceHealth(is_healthy=True, reason="", since_s=0)


def fault(reason="XID 79", device_uuid=UUID):
    return DeviceFaultSeen(device_uuid=device_uuid, reason=reason)


def look(report, *faults, now_s, present=(UUID,)):
    return assess(report, present=present, faults=faults, now_s=now_s, recovery_s=60)


def test_a_device_that_is_new_and_has_no_fault_is_healthy():
    assert look({}, now_s=5) == {UUID: DeviceHealth(is_healthy=True, reason="", since_s=5)}


def test_a_healthy_device_stays_as_it_is():
    assert look({UUID: HEALTHY}, now_s=5) == {UUID: HEALTHY}


@pytest.mark.parametrize("report", [{}, {UUID: HEALTHY}], ids=["new", "healthy so far"])
def test_the_first_fault_makes_a_device_unhealthy(report):
    assert look(report, fault(), now_s=5) == {
        UUID: DeviceHealth(is_healthy=False, reason="XID 79", since_s=5, last_fault_s=5)
    }


def test_a_fault_that_goes_on_keeps_the_time_when_it_began():
    report = look({}, fault(), now_s=5)

    (health,) = look(report, fault(), now_s=9).values()

    assert (health.since_s, health.last_fault_s) == (5, 9)


def test_another_fault_is_news():
    report = look({}, fault(), now_s=5)

    (health,) = look(report, fault("XID 48"), now_s=9).values()

    assert (health.reason, health.since_s) == ("XID 48", 9)


@pytest.mark.parametrize(("now_s", "is_healthy"), [(64, False), (65, True)])
def test_a_device_recovers_once_it_has_been_free_of_faults_for_long_enough(now_s, is_healthy):
    report = look({}, fault(), now_s=5)

    (health,) = look(report, now_s=now_s).values()

    assert health.is_healthy is is_healthy
    assert health.since_s == (now_s if is_healthy else 5)


def test_faults_that_come_and_go_do_not_make_a_device_come_and_go():
    report = look({}, fault(), now_s=0)
    for now_s in range(30, 300, 30):
        report = look(report, *([fault()] if now_s % 60 else []), now_s=now_s)

        assert not report[UUID].is_healthy


def test_a_device_that_the_driver_lists_no_more_is_unhealthy_and_says_so():
    (health,) = look({UUID: HEALTHY}, now_s=5, present=()).values()

    assert (health.is_healthy, health.reason) == (False, "the driver lists it no more")


def test_a_fault_says_more_than_that_the_device_is_gone():
    (health,) = look({UUID: HEALTHY}, fault(), now_s=5, present=()).values()

    assert health.reason == "XID 79"


def test_devices_are_judged_one_by_one():
    report = look({}, fault(device_uuid=uuid(2)), now_s=5, present=(uuid(2), uuid(1)))

    assert [(key, health.is_healthy) for key, health in report.items()] == [
        (uuid(1), True),
        (uuid(2), False),
    ]


@pytest.mark.parametrize("xid", FATAL_XIDS)
def test_an_xid_of_the_card_is_a_fault_in_words(xid):
    found = xid_fault(UUID, xid)

    assert found == fault(f"XID {xid}: {FATAL_XIDS[xid]}")


@pytest.mark.parametrize("xid", [13, 31, 43, 45])
def test_an_xid_that_an_application_causes_is_no_fault_of_the_card(xid):
    assert xid_fault(UUID, xid) is None
