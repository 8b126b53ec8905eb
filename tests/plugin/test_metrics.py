from prometheus_client import CollectorRegistry

from hamid.plugin.metrics import PluginMetrics


def test_metrics_live_in_the_registry_that_was_handed_in():
    registry = CollectorRegistry()
    metrics = PluginMetrics.create(registry)

    metrics.unsteered.inc()
    metrics.mended.inc(2)
    metrics.drift.labels(kind="not_granted").set(3)

    value = registry.get_sample_value
    assert value("hamid_plugin_unsteered_allocations_total") == 1
    assert value("hamid_plugin_mended_grants_total") == 2
    assert value("hamid_plugin_drift", {"kind": "not_granted"}) == 3


def test_two_registries_do_not_know_of_each_other():
    one, other = CollectorRegistry(), CollectorRegistry()

    PluginMetrics.create(one).mended.inc()
    PluginMetrics.create(other)

    assert other.get_sample_value("hamid_plugin_mended_grants_total") == 0
