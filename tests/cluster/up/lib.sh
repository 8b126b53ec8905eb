# shellcheck shell=bash disable=SC2034,SC2154
# What the scripts beside it (and a test that restarts a part) share. Needs $state
# once a function is called that starts or stops something.
cache=${HAMID_CLUSTER_CACHE:-$HOME/.cache/hamid-cluster}
bin=$cache/bin
port=${HAMID_CLUSTER_PORT:-16443}
sandbox_image=localhost/pause:1

# cannot WHY: leave with the exit code that says "not on this machine"
cannot() {
    echo "${0##*/}: cannot run a cluster here: $*" >&2
    exit 3
}

can_run_nodes() {
    [ "$(uname -s)" = Linux ] || cannot "$(uname -s) is not Linux"
    [ "$(id -u)" = 0 ] || cannot "a node needs root"
    unshare --mount true 2>/dev/null || cannot "no mount namespace may be made (a container without privileges?)"
}

# start NAME PROGRAM [ARGUMENT...]: in the background, with a log and a pid file (and
# without file 9, which is a lock of hold.sh)
start() {
    local name=$1 program=$2
    shift 2
    [ ! -x "$bin/$program" ] || program=$bin/$program
    setsid "$program" "$@" >> "$state/logs/$name.log" 2>&1 < /dev/null 9>&- &
    echo $! > "$state/pids/$name"
}

# alive PID: is it one of our programs? (not one that reused the number, nor a
# zombie, whose command line is empty: some inits reap only now and then)
alive() { head -c ${#bin} "/proc/$1/cmdline" 2>/dev/null | grep -qxF "$bin"; }

# stop NAME [SIGNAL]: end what start began, and wait for it; after 10 s by force
stop() {
    local pid file=$state/pids/$1 limit=$((SECONDS + 10))
    [ -f "$file" ] || return 0
    pid=$(cat "$file")
    ! alive "$pid" || kill -"${2:-TERM}" "$pid" || true
    while alive "$pid"; do
        [ $SECONDS -lt $limit ] || kill -KILL "$pid" || true
        sleep 0.05
    done
    rm -f "$file"
}

# node N: set what belongs to the Nth node, counted from 1. Its name is node-N,
# its files are under $state/node-N, its bridge and cgroup are called hamidN.
node() {
    node=node-$1
    home=$state/$node
    bridge=hamid$1
    subnet=10.88.$1
    kubelet_port=$((port + 3 + 2 * $1))
}

# start_kubelet N: in the mount namespace of the node's containerd
start_kubelet() {
    node "$1"
    start "kubelet-$node" nsenter --mount --target "$(cat "$state/pids/containerd-$node")" "$bin/kubelet" \
        --config "$home/kubelet.yaml" --kubeconfig "$state/pki/$node.kubeconfig" --cert-dir "$home/pki" \
        --hostname-override "$node" --node-ip "$subnet.1"
    wait_for 30 "the kubelet of $node" kubelet_is_up
}

# The socket for device plugins is the last thing that it opens; the one of its
# predecessor lies there until then.
kubelet_is_up() {
    [ "$home/kubelet/device-plugins/kubelet.sock" -nt "$state/pids/kubelet-$node" ] &&
        port_is_open "$((kubelet_port + 1))"
}

# start_scheduler [CONFIG]: with a KubeSchedulerConfiguration in which the words
# KUBECONFIG and PKI stand for the scheduler's kubeconfig and the folder of keys
start_scheduler() {
    local config=$state/scheduler.yaml
    if [ -n "${1:-}" ]; then
        cp "$1" "$config"
    else
        cat > "$config" <<YAML
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
leaderElection: {leaderElect: false}
clientConnection: {kubeconfig: KUBECONFIG, qps: 1000, burst: 2000}
YAML
    fi
    sed -i "s|KUBECONFIG|$state/pki/scheduler.kubeconfig|g; s|PKI|$state/pki|g" "$config"
    start kube-scheduler kube-scheduler --config "$config" --bind-address 127.0.0.1 --secure-port "$((port + 3))"
    wait_for 30 kube-scheduler port_is_open "$((port + 3))"
}

# wait_for SECONDS WHAT COMMAND...: until the command succeeds
wait_for() {
    local limit=$((SECONDS + $1)) what=$2
    shift 2
    until "$@" > /dev/null 2>&1; do
        [ $SECONDS -lt $limit ] || { echo "gave up waiting for $what; see $state/logs" >&2; return 1; }
        sleep 0.2
    done
}

port_is_open() { (exec 3<> "/dev/tcp/127.0.0.1/$1") 2> /dev/null; }

kubectl() { "$bin/kubectl" --kubeconfig "$state/kubeconfig" "$@"; }
ctr() { "$bin/ctr" --address "$home/containerd.sock" "$@"; }
