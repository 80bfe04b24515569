#!/usr/bin/env bash
# Installs what the benchmarks need beside what everything needs. The peers'
# own programs are not installed: see peers.sh.
set -euo pipefail
cd "$(dirname "$0")/.."

exec scripts/packages.sh \
    /usr/bin/time:time \
    /usr/bin/pigz:pigz \
    /usr/bin/xz:xz-utils \
    /usr/bin/zstd:zstd \
    /usr/bin/cmp:diffutils \
    /usr/bin/tar:tar \
    /usr/sbin/blkdiscard:util-linux \
    /usr/bin/unshare:util-linux
