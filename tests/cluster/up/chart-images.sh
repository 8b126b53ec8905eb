#!/usr/bin/env bash
# Make the images that the chart runs, without docker and without a registry, as archives in
# $HAMID_CLUSTER_CACHE/chart-images: hamid.tar from deploy/Dockerfile, with buildah; and
# kube-scheduler.tar, from what build.sh has built. What is there already, made from these very
# files, is left alone.
#
#   chart-images.sh           install buildah and mmdebstrap where they are missing, and make them
#   chart-images.sh make      install nothing, and exit with 4 when something is missing
#
# debian:trixie-slim, on which the Dockerfile builds, is put together from Debian's packages. Where
# those and PyPI's come from is this machine's own affair: its apt's and pip's configuration is
# mounted while the image is built, and nothing of it stays.
#
# Exit code 3: this machine cannot, and the last line says why.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
# shellcheck source=lib.sh
. "$here/lib.sh"
python=${PYTHON:-python3}
root=$(cd "$here/../../.." && pwd)
folder=$cache/chart-images
suite=trixie
base=docker.io/library/debian:$suite-slim
name=localhost/hamid:$(sed -n 's/^appVersion: //p' "$root/deploy/chart/hamid/Chart.yaml")

ensure_packages() {
    local packages=() tool
    for tool in buildah mmdebstrap; do
        command -v $tool > /dev/null || packages+=("$tool")
    done
    [ ${#packages[@]} -gt 0 ] || return 0
    missing "${packages[*]}"
    command -v apt-get > /dev/null || cannot "no apt-get to install ${packages[*]} with"
    apt-get update -qq >&2
    DEBIAN_FRONTEND=noninteractive apt-get install -qq -y --no-install-recommends "${packages[@]}" >&2 ||
        cannot "${packages[*]} cannot be installed"
}

missing() {
    [ "$what" = make ] || return 0
    echo "chart-images.sh: $* not there: run chart-images.sh (make cluster-build)" >&2
    exit 4
}

# write_configuration: of apt and pip, as this machine has them, into the folder that the build
# sees as /mnt
write_configuration() {
    local sites ca=/etc/ssl/certs/ca-certificates.crt
    sites=$(debian_sites)
    [ -n "$sites" ] || { apt-get update -qq >&2 && sites=$(debian_sites); }
    mkdir "$scratch/mnt" "$scratch/mnt/sources"
    {
        sed -n "s|^Debian \(.*\)|deb \1 $suite main\ndeb \1 $suite-updates main|p" <<< "$sites"
        sed -n "s|^Debian-Security \(.*\)|deb \1 $suite-security main|p" <<< "$sites"
    } > "$scratch/mnt/sources/debian.list"
    apt-config dump | grep -E '^Acquire::https?::([^ ]*::)?Proxy ' > "$scratch/mnt/proxy.conf" || true
    {
        cat "$scratch/mnt/proxy.conf"
        echo 'Dir::Etc::sourcelist "/dev/null";'
        echo 'Dir::Etc::sourceparts "/mnt/sources";'
        [ ! -f $ca ] || echo 'Acquire::https::CaInfo "/mnt/ca.crt";'
    } > "$scratch/mnt/apt.conf"
    [ ! -f $ca ] || cp $ca "$scratch/mnt/ca.crt"
    {
        echo '[global]'
        [ ! -f $ca ] || echo 'cert = /mnt/ca.crt'
        # The last of several wins, as with pip itself.
        "$python" -m pip config list 2> /dev/null |
            sed -nE "s/^(global|install|:env:)\.((extra-)?index-url|trusted-host|proxy|(default-)?timeout)='(.*)'$/\2 = \5/p" |
            sed 's/\\n/\n    /g' | awk '/^[^ ]/ { key = $1; value[key] = "" } { value[key] = value[key] $0 "\n" }
                END { for (key in value) printf "%s", value[key] }' || true
    } > "$scratch/mnt/pip.conf"
    chmod -R a+rX "$scratch"
}

# debian_sites: where this machine's apt has Debian from, a line "Debian URL" or "Debian-Security URL" each
# shellcheck disable=SC2016
debian_sites() {
    apt-get indextargets --format '$(LABEL) $(SITE)' 'Created-By: Packages' | grep -E '^Debian(-Security)? ' | sort -u
}

# make_base: what the official image of this name is, made as it is made
make_base() {
    mmdebstrap --quiet --variant=minbase --aptopt="$scratch/mnt/proxy.conf" \
        --dpkgopt='path-exclude=/usr/share/man/*' --dpkgopt='path-exclude=/usr/share/info/*' \
        --dpkgopt='path-exclude=/usr/share/locale/*' --dpkgopt='path-exclude=/usr/share/doc/*' \
        --dpkgopt='path-include=/usr/share/doc/*/copyright' \
        --customize-hook='cd "$1"/etc && rm -rf apt/sources.list* resolv.conf hostname && mkdir apt/sources.list.d' \
        "$suite" "$1" - < "$scratch/mnt/sources/debian.list" >&2
}

import_base() {
    local container
    container=$(images from scratch)
    images add --quiet "$container" "$1" / > /dev/null
    images config --cmd bash "$container"
    images commit --quiet "$container" "$base" > /dev/null
    images rm "$container" > /dev/null
}

images() { buildah --root "$folder/$driver" --runroot "$scratch/run" --storage-driver "$driver" "$@"; }

# build TARGET NAME
build() {
    images bud --isolation chroot --layers --pull-never --target "$1" --tag "$2" \
        --volume "$scratch/mnt:/mnt:ro" --build-arg APT_CONFIG=/mnt/apt.conf --build-arg PIP_CONFIG_FILE=/mnt/pip.conf \
        --file "$root/deploy/Dockerfile" --ignorefile "$root/deploy/Dockerfile.dockerignore" "$root"
}

# inputs: a sum over all that goes into the image
inputs() {
    cd "$root"
    find deploy/Dockerfile deploy/Dockerfile.dockerignore requirements.lock hamid native tests/cluster/up/chart-images.sh \
        \( -path native/build -o -name __pycache__ \) -prune -o -type f -print0 |
        LC_ALL=C sort -z | xargs -0 sha256sum | sha256sum
}

make_hamid() {
    local sum base_sum base_archive
    sum=$(inputs)
    if [ -f "$folder/hamid.tar" ] && [ "$(cat "$folder/hamid.sum" 2> /dev/null)" = "$sum" ]; then return; fi
    can_run_nodes
    ensure_packages
    echo "chart-images.sh: building $name; only the first time takes minutes" >&2
    write_configuration
    driver=overlay
    images info > /dev/null 2>&1 || driver=vfs
    base_sum=$(declare -f make_base import_base | sha256sum | head -c 16)
    base_archive=$folder/base-$base_sum.tar
    if [ ! -f "$base_archive" ]; then
        rm -f "$folder"/base-*.tar
        make_base "$scratch/base.tar" || cannot "$base cannot be put together from Debian's packages"
        mv "$scratch/base.tar" "$base_archive"
        import_base "$base_archive"
    fi
    [ -n "$(images images --quiet "$base" 2> /dev/null)" ] || import_base "$base_archive"
    # The first has a name of its own so that what it was made of is there when the sources change.
    if ! { build build localhost/hamid-build && build image "$name"; } > "$folder/hamid.log" 2>&1; then
        tail -n 40 "$folder/hamid.log" >&2
        echo "chart-images.sh: $name was not built; all of it is in $folder/hamid.log" >&2
        exit 1
    fi
    images push --quiet "$name" "docker-archive:$scratch/hamid.tar:$name" > /dev/null
    mv "$scratch/hamid.tar" "$folder/hamid.tar"
    echo "$sum" > "$folder/hamid.sum"
    images rmi --prune > /dev/null
}

make_scheduler() {
    local out=$folder/kube-scheduler.tar version
    [ -x "$bin/kubenode" ] || { missing "$bin/kubenode" && cannot "no $bin/kubenode: run build.sh first"; }
    if [ "$out" -nt "$bin/kubenode" ] && [ "$out" -nt "$here/image.py" ]; then return; fi
    version=$(sed -n 's/^.*k8s.io\/kubernetes \(v[0-9.]*\)$/\1/p' "$here/build/go.mod" | head -n 1)
    "$python" "$here/image.py" "$bin/kube-scheduler" "registry.k8s.io/kube-scheduler:$version" "$out"
    touch "$out"
}

what=${1:-all}
case $what in all | make) ;; *) echo "usage: $0 [make]" >&2 && exit 2 ;; esac
mkdir -p "$folder"
# One at a time: a second one waits and then finds everything done.
exec 9> "$folder/lock"
flock 9
scratch=$(mktemp -d "$folder/draft.XXXXXX")
trap 'rm -rf "$scratch"' EXIT
make_hamid
make_scheduler
echo "$folder"
