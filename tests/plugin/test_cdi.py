import orjson

from hamid.hooks.abi.injection import InjectedMount, Injection
from hamid.plugin.cdi import cdi_file_name, cdi_name, encode_cdi_spec

INJECTION = Injection(
    envs={"NVIDIA_VISIBLE_DEVICES": "GPU-1", "HAMID_GRANT_ID": "a1"},
    mounts=(
        InjectedMount(container_path="/in/ro", host_path="/on/ro", is_read_only=True),
        InjectedMount(container_path="/in/rw", host_path="/on/rw", is_read_only=False),
    ),
    device_nodes=("/dev/nvidia1", "/dev/nvidiactl"),
)


def test_a_spec_puts_the_whole_injection_into_the_container():
    spec = orjson.loads(encode_cdi_spec("a1", INJECTION))

    assert spec == {
        "cdiVersion": "0.5.0",
        "kind": "hamid.io/grant",
        "devices": [
            {
                "name": "a1",
                "containerEdits": {
                    "env": ["NVIDIA_VISIBLE_DEVICES=GPU-1", "HAMID_GRANT_ID=a1"],
                    "mounts": [
                        {
                            "hostPath": "/on/ro",
                            "containerPath": "/in/ro",
                            "options": ["rbind", "ro", "nosuid", "nodev"],
                        },
                        {
                            "hostPath": "/on/rw",
                            "containerPath": "/in/rw",
                            "options": ["rbind", "rw", "nosuid", "nodev"],
                        },
                    ],
                    "deviceNodes": [
                        {
                            "path": "/dev/nvidia1",
                            "hostPath": "/dev/nvidia1",
                            "permissions": "rw",
                        },
                        {
                            "path": "/dev/nvidiactl",
                            "hostPath": "/dev/nvidiactl",
                            "permissions": "rw",
                        },
                    ],
                },
            }
        ],
    }


def test_lists_with_nothing_in_them_are_left_out():
    spec = orjson.loads(encode_cdi_spec("a1", Injection(envs={}, mounts=(), device_nodes=())))

    assert spec["devices"] == [{"name": "a1", "containerEdits": {}}]


def test_the_kubelet_is_given_the_specs_only_device():
    spec = orjson.loads(encode_cdi_spec("a1", INJECTION))

    assert cdi_name("a1") == f"{spec['kind']}={spec['devices'][0]['name']}"


def test_each_grant_has_a_file_that_runtimes_read():
    assert cdi_file_name("a1") == "hamid-a1.json"
