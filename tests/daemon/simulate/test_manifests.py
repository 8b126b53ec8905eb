from __future__ import annotations

import pytest

from hamid.daemon.simulate.manifests import load_manifests
from hamid.errors import SettingsError
from tests.daemon.simulate.manifests import pod, write


def test_objects_come_in_the_order_of_files_and_documents(tmp_path):
    one = write(tmp_path / "one.yaml", pod("b"), None, pod("a"))
    two = write(tmp_path / "two.yaml", pod("c"))

    found = load_manifests([two, one])

    assert [manifest.name for manifest in found] == ["c", "b", "a"]


def test_a_list_is_taken_apart(tmp_path):
    document = {"apiVersion": "v1", "kind": "List", "items": [pod("a"), pod("b")]}

    found = load_manifests([write(tmp_path / "list.yaml", document)])

    assert [(manifest.kind, manifest.name) for manifest in found] == [("Pod", "a"), ("Pod", "b")]


def test_a_generated_name_stands_for_the_name(tmp_path):
    document = pod()
    document["metadata"] = {"generateName": "job-"}

    (found,) = load_manifests([write(tmp_path / "pod.yaml", document)])

    assert found.name == "job-"
    assert found.where == f"{tmp_path}/pod.yaml: Pod 'job-'"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        pytest.param("", "is empty", id="an empty file"),
        pytest.param("---\n---\n", "is empty", id="a file of empty documents"),
        pytest.param("a: [1,\nb", "is not YAML: line", id="broken YAML"),
        pytest.param("a: 1\nb: 2\na: 3", "line 1: the key 'a' is there twice", id="a doubled key"),
        pytest.param("? [a]\n: b", "is not YAML", id="a key that is no text"),
        pytest.param("just text", "no Kubernetes object (found: str)", id="text"),
        pytest.param("a: 1", "no Kubernetes object (found: object without kind)", id="no kind"),
        pytest.param("kind: Pod", "holds a Pod without apiVersion", id="no apiVersion"),
        pytest.param(
            "{kind: Pod, apiVersion: v1}", "a Pod without metadata.name", id="no metadata"
        ),
        pytest.param(
            "{kind: Pod, apiVersion: v1, metadata: {name: 12}}",
            "metadata.name is 12, which YAML takes for no text",
            id="a number for a name",
        ),
        pytest.param(
            "{kind: Pod, apiVersion: v1, metadata: {name: a, namespace: true}}",
            "metadata.namespace is True",
            id="a truth for a namespace",
        ),
    ],
)
def test_what_cannot_be_read_is_an_error_that_names_the_file(tmp_path, text, said):
    path = tmp_path / "given.yaml"
    path.write_text(text)

    with pytest.raises(SettingsError) as caught:
        load_manifests([path])

    assert str(path) in caught.value.message
    assert said in caught.value.message
    assert caught.value.hint


def test_a_file_that_is_not_there_is_an_error(tmp_path):
    with pytest.raises(SettingsError, match=r"cannot read .*nothing.yaml: No such file"):
        load_manifests([tmp_path / "nothing.yaml"])


def test_a_file_that_is_no_text_is_an_error(tmp_path):
    path = tmp_path / "bytes.yaml"
    path.write_bytes(b"a: \xff\xfe")

    with pytest.raises(SettingsError, match="not UTF-8"):
        load_manifests([path])


def test_merge_keys_work(tmp_path):
    path = tmp_path / "merged.yaml"
    path.write_text(
        "apiVersion: v1\nkind: ConfigMap\nmetadata: &m {name: a}\n"
        "data: {one: &d {x: y}, two: {<<: *d, z: w}}\n"
    )

    (found,) = load_manifests([path])

    assert found.object["data"]["two"] == {"x": "y", "z": "w"}


def test_the_items_of_the_api_servers_own_lists_are_what_the_list_says(tmp_path):
    bare = {key: value for key, value in pod("a").items() if key in ("metadata", "spec")}
    document = {"apiVersion": "v1", "kind": "PodList", "items": [bare]}

    (found,) = load_manifests([write(tmp_path / "list.yaml", document)])

    assert (found.object["apiVersion"], found.kind, found.name) == ("v1", "Pod", "a")
