#!/usr/bin/env bash
# Start a Kubernetes cluster of real parts on this machine.
#
#   up.sh STATE_DIR [NODES]
#
# NODES (1) is how many nodes it gets, each with a containerd and a kubelet of
# its own. With 0, Node objects that a test creates stay as it left them, since
# nothing watches their heartbeats.
#
# Everything that the cluster writes goes under STATE_DIR (keep its path under
# 50 characters: unix sockets live in it). When the script returns, the nodes are
# Ready and STATE_DIR/kubeconfig is an administrator's kubeconfig. A node's
# /var/lib/kubelet is STATE_DIR/node-1/kubelet, its CDI specs go into
# STATE_DIR/node-1/cdi. Stop with `down.sh STATE_DIR`.
#
# Environment:
#   HAMID_CLUSTER_CACHE      where build.sh put its files ($HOME/.cache/hamid-cluster)
#   HAMID_CLUSTER_PORT       first of 5 + 2 * NODES ports used (16443)
#   HAMID_SCHEDULER_CONFIG   a KubeSchedulerConfiguration to use instead of the
#                            default; the words KUBECONFIG and PKI in it are replaced
#   HAMID_CONTROLLERS        what kube-controller-manager runs (see its --controllers)
#   HAMID_APISERVER_ARGS     more kube-apiserver flags
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
# shellcheck source=lib.sh
. "$here/lib.sh"

[[ $# = 1 || ($# = 2 && $2 =~ ^[0-9]$) ]] || { echo "usage: $0 STATE_DIR [NODES]" >&2; exit 2; }
nodes=${2:-1}
if [ "$nodes" = 0 ]; then
    controllers="*,-node-lifecycle-controller"
else
    can_run_nodes
    controllers="*"
fi
for tool in etcd kubelet containerd; do
    [ -x "$bin/$tool" ] || { echo "$0: no $bin/$tool: run build.sh first" >&2; exit 2; }
done
mkdir -p "$1"
state=$(cd "$1" && pwd)
[ -z "$(ls -A "$state")" ] || { echo "$0: $state is not empty" >&2; exit 2; }
mkdir -p "$state"/{pids,logs,pki,etcd}

make_certificates() (
    umask 077
    local pki=$state/pki
    key() { openssl ecparam -name prime256v1 -genkey -noout -out "$pki/$1.key" 2>/dev/null; }
    # cert NAME SUBJECT EXTENSIONS: a key and a certificate signed by the CA
    cert() {
        key "$1"
        openssl req -new -key "$pki/$1.key" -subj "$2" -out "$pki/$1.csr"
        openssl x509 -req -in "$pki/$1.csr" -CA "$pki/ca.crt" -CAkey "$pki/ca.key" -CAcreateserial \
            -days 365 -extfile <(echo "$3") -out "$pki/$1.crt" 2>/dev/null
        rm "$pki/$1.csr"
    }
    local client=extendedKeyUsage=clientAuth
    key ca
    openssl req -x509 -new -key "$pki/ca.key" -subj /CN=cluster-ca -days 365 -out "$pki/ca.crt"
    key service-account
    openssl ec -in "$pki/service-account.key" -pubout -out "$pki/service-account.pub" 2>/dev/null
    cert apiserver /CN=kube-apiserver "extendedKeyUsage=serverAuth
subjectAltName=IP:127.0.0.1,IP:10.96.0.1,DNS:localhost,DNS:kubernetes,DNS:kubernetes.default,DNS:kubernetes.default.svc"
    cert kubelet-client /O=system:masters/CN=kube-apiserver-kubelet-client "$client"
    cert admin /O=system:masters/CN=admin "$client"
    cert scheduler /CN=system:kube-scheduler "$client"
    cert controller-manager /CN=system:kube-controller-manager "$client"
    local who users=(admin scheduler controller-manager) n
    for ((n = 1; n <= nodes; n++)); do
        cert "node-$n" "/O=system:nodes/CN=system:node:node-$n" "$client"
        users+=("node-$n")
    done
    for who in "${users[@]}"; do make_kubeconfig "$pki/$who" > "$pki/$who.kubeconfig"; done
    cp "$pki/admin.kubeconfig" "$state/kubeconfig"
)

make_kubeconfig() {
    cat <<YAML
apiVersion: v1
kind: Config
current-context: cluster
contexts: [{name: cluster, context: {cluster: cluster, user: user}}]
clusters: [{name: cluster, cluster: {server: "https://127.0.0.1:$port", certificate-authority-data: $(base64 -w0 "$state/pki/ca.crt")}}]
users: [{name: user, user: {client-certificate-data: $(base64 -w0 "$1.crt"), client-key-data: $(base64 -w0 "$1.key")}}]
YAML
}

start_api_server() {
    local pki=$state/pki
    # Data is thrown away with the cluster: no fsync.
    start etcd etcd --data-dir "$state/etcd" --unsafe-no-fsync --log-level warn \
        --listen-client-urls "http://127.0.0.1:$((port + 1))" --advertise-client-urls "http://127.0.0.1:$((port + 1))" \
        --listen-peer-urls "http://127.0.0.1:$((port + 2))"
    # No endpoint reconciler: it refuses the loopback address. There is no
    # kube-proxy: a webhook's Service is resolved to its endpoints instead.
    # shellcheck disable=SC2086
    start kube-apiserver kube-apiserver --etcd-servers "http://127.0.0.1:$((port + 1))" \
        --bind-address 127.0.0.1 --advertise-address 127.0.0.1 --secure-port "$port" --endpoint-reconciler-type none \
        --enable-aggregator-routing \
        --tls-cert-file "$pki/apiserver.crt" --tls-private-key-file "$pki/apiserver.key" --client-ca-file "$pki/ca.crt" \
        --authorization-mode Node,RBAC --enable-admission-plugins NodeRestriction --allow-privileged \
        --kubelet-client-certificate "$pki/kubelet-client.crt" --kubelet-client-key "$pki/kubelet-client.key" \
        --kubelet-preferred-address-types InternalIP --service-cluster-ip-range 10.96.0.0/24 \
        --service-account-issuer https://kubernetes.default.svc --service-account-key-file "$pki/service-account.pub" \
        --service-account-signing-key-file "$pki/service-account.key" --profiling=false ${HAMID_APISERVER_ARGS:-}
}

start_controller_manager() {
    local pki=$state/pki
    start kube-controller-manager kube-controller-manager --kubeconfig "$pki/controller-manager.kubeconfig" \
        --bind-address 127.0.0.1 --secure-port "$((port + 4))" --leader-elect=false \
        --controllers "${HAMID_CONTROLLERS:-$controllers}" --kube-api-qps 500 --kube-api-burst 1000 \
        --use-service-account-credentials --service-account-private-key-file "$pki/service-account.key" \
        --root-ca-file "$pki/ca.crt" --profiling=false
}

# start_containerd N: the Nth node's bridge, configuration and containerd
start_containerd() {
    node "$1"
    mkdir -p "$home"/{cdi,cni,containerd,run,kubelet,var/cni,var/log}
    # The node's own address; pods that are not on the host network get theirs
    # from this bridge, and reach nothing but this machine.
    # One that a killed run has left behind would be in the way.
    ip link del "$bridge" 2>/dev/null || true
    ip link add "$bridge" type bridge
    # Of its own, for one that it takes from a pod's end changes as pods come and go, and other pods
    # then do not reach it for half a minute.
    ip link set "$bridge" address "02:00:0a:58:0$1:01"
    ip addr add "$subnet.1/24" dev "$bridge"
    ip link set "$bridge" up
    cat > "$home/cni/10-bridge.conflist" <<JSON
{"cniVersion": "0.4.0", "name": "pods", "plugins": [{"type": "bridge", "bridge": "$bridge",
 "ipam": {"type": "host-local", "dataDir": "$home/var/cni",
          "ranges": [[{"subnet": "$subnet.0/24", "rangeStart": "$subnet.10", "gateway": "$subnet.1"}]]}}]}
JSON
    cat > "$home/containerd.toml" <<TOML
version = 4
root = "$home/containerd"
state = "/run/containerd"
disabled_plugins = ["io.containerd.nri.v1.nri"]
[plugins."io.containerd.server.v1.grpc"]
address = "$home/containerd.sock"
[plugins."io.containerd.server.v1.ttrpc"]
address = "$home/containerd.sock.ttrpc"
[plugins."io.containerd.internal.v1.opt"]
path = "$home/containerd/opt"
[plugins."io.containerd.cri.v1.images".pinned_images]
sandbox = "$sandbox_image"
[plugins."io.containerd.cri.v1.runtime"]
cdi_spec_dirs = ["$home/cdi"]
netns_mounts_under_state_dir = true
# Without CAP_SYS_RESOURCE a negative OOM score fails, and runc with it.
restrict_oom_score_adj = true
[plugins."io.containerd.cri.v1.runtime".cni]
bin_dirs = ["/usr/lib/cni"]
conf_dir = "$home/cni"
TOML
    cat > "$home/kubelet.yaml" <<YAML
apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
authentication: {x509: {clientCAFile: $state/pki/ca.crt}, anonymous: {enabled: false}}
authorization: {mode: Webhook}
containerRuntimeEndpoint: unix://$home/containerd.sock
port: $kubelet_port
healthzPort: $((kubelet_port + 1))
cgroupDriver: cgroupfs
cgroupRoot: /$bridge
failCgroupV1: false
failSwapOn: false
enforceNodeAllocatable: []
evictionHard: {memory.available: 50Mi, nodefs.available: 0%, nodefs.inodesFree: 0%, imagefs.available: 0%}
imageGCHighThresholdPercent: 100
maxOpenFiles: 16384
makeIPTablesUtilChains: false
podLogsDir: $home/logs
volumePluginDir: $home/var/volume-plugins
resolvConf: ""
# New device counts are seen after a second, not after ten.
nodeStatusUpdateFrequency: 1s
YAML
    # One cgroup per node, in every controller's tree (v1) or in the one tree (v2).
    local tree
    if [ -f /sys/fs/cgroup/cgroup.controllers ]; then
        # What a child may use is named in its parent; refused where the parent
        # has processes of its own and is not the real root.
        for tree in $(cat /sys/fs/cgroup/cgroup.controllers); do
            echo "+$tree" > /sys/fs/cgroup/cgroup.subtree_control 2>/dev/null || true
        done
        mkdir -p "/sys/fs/cgroup/$bridge"
    else
        for tree in /sys/fs/cgroup/*/; do [ ! -f "$tree/cgroup.procs" ] || mkdir -p "$tree/$bridge"; done
    fi
    # containerd and the kubelet live in a mount namespace of their own, where
    # the paths that they have built in lead into STATE_DIR. What they mount
    # is gone with them.
    mkdir -p /var/lib/kubelet /run/containerd /var/lib/cni /var/log/containers
    cat > "$home/containerd.sh" <<SH
mount --make-rshared /
mount --bind "$home/kubelet" /var/lib/kubelet
mount --bind "$home/run" /run/containerd
mount --bind "$home/var/cni" /var/lib/cni
mount --bind "$home/var/log" /var/log/containers
exec "$bin/containerd" --config "$home/containerd.toml"
SH
    PATH=$bin:$PATH start "containerd-$node" unshare --mount --propagation private sh -e "$home/containerd.sh"
    wait_for 30 containerd ctr version
    local image
    for image in "$cache"/images/*.tar; do ctr -n k8s.io images import --local "$image" > /dev/null; done
}

node_is_ready() {
    kubectl get node "$node" -o 'jsonpath={.status.conditions[?(@.type=="Ready")].status}' | grep -q True
}

make_certificates
start_api_server
for ((n = 1; n <= nodes; n++)); do start_containerd "$n"; done
# Only now: who asks too early is refused and waits long before it asks again.
wait_for 60 "the API server" kubectl get --raw /readyz
start_controller_manager
start_scheduler "${HAMID_SCHEDULER_CONFIG:-}"
for ((n = 1; n <= nodes; n++)); do start_kubelet "$n"; done
for ((n = 1; n <= nodes; n++)); do node "$n"; wait_for 60 "$node" node_is_ready; done
wait_for 30 "the default service account" kubectl get serviceaccount default
echo "up: export KUBECONFIG=$state/kubeconfig"
