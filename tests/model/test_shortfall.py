from hamid.model.shortfall import Resource, Shortfall


def test_a_shortfall_without_a_unit_needs_no_numbers():
    lacking = Shortfall(resource=Resource.HEALTH)

    assert (lacking.requested, lacking.used, lacking.capacity) == (0, 0, 0)
    assert lacking.device_uuid is None
