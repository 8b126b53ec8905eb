from pathlib import Path

import pytest

from hamid.daemon.settings import AddressSettings, HookSettings, Settings, Switch, load_settings
from hamid.errors import SettingsError
from hamid.kube.settings import PodAddress

NAMES = (
    "NODE_NAME",
    "POD_NAMESPACE",
    "POD_NAME",
    "POD_IP",
    "KUBERNETES_SERVICE_HOST",
    "KUBERNETES_SERVICE_PORT",
    "KUBECONFIG",
)


@pytest.fixture(autouse=True)
def environment(monkeypatch):
    """An environment that says nothing, and a function to let it say something."""
    for name in NAMES:
        monkeypatch.delenv(name, raising=False)
    return lambda **values: [monkeypatch.setenv(name, value) for name, value in values.items()]


@pytest.fixture
def load(tmp_path):
    """Loads the text as a file, on a node of the name `n` unless told otherwise."""

    def load(text="", **flags):
        path = tmp_path / "config.yaml"
        path.write_text(text)
        return load_settings(path, **({"node_name": "n"} | flags))

    return load


def test_without_a_file_everything_has_its_default():
    settings = load_settings(None, node_name="n")

    assert settings.identity.node_name == "n"
    assert settings.roles.plugin is Switch.AUTO
    assert settings.plugin == Settings(identity=settings.identity).plugin


def test_an_empty_file_is_one_with_the_defaults(load):
    assert load("") == load_settings(None, node_name="n")


def test_who_this_replica_is_comes_from_the_pods_environment(load, environment):
    environment(NODE_NAME="node-1", POD_NAMESPACE="gpu", POD_NAME="hamid-x", POD_IP="10.0.0.7")

    identity = load("identity: {namespace: other}", node_name=None).identity

    assert (identity.node_name, identity.namespace) == ("node-1", "gpu")
    assert (identity.pod_name, identity.pod_ip) == ("hamid-x", "10.0.0.7")


def test_an_empty_variable_says_nothing(load, environment):
    environment(NODE_NAME="", POD_NAMESPACE="")

    assert load("identity: {node_name: node-1, namespace: gpu}", node_name=None).identity == (
        load("identity: {namespace: gpu}", node_name="node-1").identity
    )


def test_the_flag_for_the_nodes_name_wins(load, environment):
    environment(NODE_NAME="node-1")

    assert load("identity: {node_name: node-2}", node_name="node-3").identity.node_name == "node-3"


def test_a_node_without_a_name_is_an_error_that_says_how_to_give_it(load):
    with pytest.raises(SettingsError, match="NODE_NAME, as the chart does, or --node-name"):
        load("", node_name=None)


def test_our_objects_are_in_our_pods_namespace_unless_the_file_says_otherwise(load, environment):
    environment(POD_NAMESPACE="gpu")

    settings = load("endpoint: {namespace: elsewhere}\nlease: {name: other}")

    assert settings.lease.namespace == "gpu"
    assert settings.lease.name == "other"
    assert settings.certificates.namespace == "gpu"
    assert settings.endpoint.namespace == "elsewhere"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("plugin: {device_split_count: ten}", "plugin.device_split_count: found 'ten', expected"),
        ("roles: {plugin: off}", "roles.plugin: found False, expected one of auto, always, never"),
        ("nodes: 5", "unknown is nodes; known are addresses, admission,"),
        ("lease: {lease_duration_s: 1}", "lease: lease_duration_s 1.0 must exceed"),
        ("identity: [1]", "identity: found [1], expected names with values"),
        ("hooks: {usage_interval_s: 0}", "hooks: usage_interval_s is 0, not above 0"),
        ("identity: {pod_ip: here}", "identity: pod_ip is 'here', not an IP address"),
        ("web: {deadline_s: 0}", "web: deadline_s is 0, not above 0"),
        ("sched: {resources: {count: gpu}}", "sched.resources: 'gpu' is no name for a resource"),
        ("addresses: {status_port: 70000}", "addresses: status_port is 70000, not 0 to 65535"),
        ("roles: {plugin: never, scheduler: never}", "roles: plugin and scheduler are both never"),
        ("lease: {slow_poll_s: 864000}", "certificates.server_lifetime_s is 7.776e+06, less than"),
    ],
)
def test_an_error_names_the_file_and_the_place_in_it(load, tmp_path, text, message):
    with pytest.raises(SettingsError) as caught:
        load(text)

    assert caught.value.message.startswith(f"{tmp_path}/config.yaml: {message}")


@pytest.mark.parametrize(
    "text", ["a: [", "- 1\n- 2", "\x00", "just text", "{}\n---\n{}", "log: {}\nlog: {}"]
)
def test_what_is_no_yaml_object_is_an_error(load, text):
    with pytest.raises(SettingsError, match=r"config\.yaml"):
        load(text)


def test_a_file_that_is_not_there_is_an_error(tmp_path):
    with pytest.raises(SettingsError, match="No such file"):
        load_settings(tmp_path / "nothing.yaml", node_name="n")


def test_in_a_pod_the_api_server_is_where_the_kubelet_says(load, environment):
    environment(KUBERNETES_SERVICE_HOST="10.96.0.1", KUBERNETES_SERVICE_PORT="443", KUBECONFIG="/k")

    assert load().kube.in_pod == PodAddress(host="10.96.0.1", port=443)


@pytest.mark.parametrize("port", ["https", "-1", "70000"])
def test_a_port_that_is_none_is_an_error(load, environment, port):
    environment(KUBERNETES_SERVICE_HOST="10.96.0.1", KUBERNETES_SERVICE_PORT=port)

    with pytest.raises(SettingsError, match="KUBERNETES_SERVICE_PORT"):
        load()


def test_outside_a_pod_kubectls_own_variable_counts(load, environment):
    environment(KUBECONFIG="/home/me/config")

    assert load().kube.kubeconfig == Path("/home/me/config")


def test_the_file_counts_over_the_environment_and_the_flag_over_both(load, environment):
    environment(KUBERNETES_SERVICE_HOST="10.96.0.1", KUBERNETES_SERVICE_PORT="443")

    kube = load("kube: {server: 'http://there', page_size: 7}").kube
    flagged = load("kube: {server: 'http://there', page_size: 7}", kubeconfig=Path("/k")).kube

    assert (kube.server, kube.in_pod) == ("http://there", None)
    assert (flagged.kubeconfig, flagged.server, flagged.page_size) == (Path("/k"), None, 7)


def test_no_way_to_the_api_server_is_told_when_one_is_needed(load):
    with pytest.raises(SettingsError, match="0 ways to the API server"):
        load().kube.access(clock=lambda: 0.0)


@pytest.mark.parametrize("host", ["127.0.0.1", "::1", "localhost"])
def test_the_extender_may_take_plain_http_from_this_machine(host):
    assert AddressSettings(extender_is_plain=True, extender_host=host).extender_is_plain


@pytest.mark.parametrize("host", ["0.0.0.0", "10.0.0.1", "::", "example.com"])
def test_the_extender_takes_no_plain_http_from_the_network(host):
    with pytest.raises(SettingsError, match="could bind pods"):
        AddressSettings(extender_is_plain=True, extender_host=host)


def test_reports_cannot_be_read_all_the_time():
    with pytest.raises(SettingsError, match="above 0"):
        HookSettings(usage_interval_s=0.0)
