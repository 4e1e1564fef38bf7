#!/bin/sh
# Runs on a machine with a GPU whatever was built for it: build first, where there is a Rust toolchain, with
#     scripts/gpu_check.sh build
# which puts one stripped program into .gpu/. Then, on the machine with the GPU (no toolchain, no network):
#     scripts/gpu_check.sh [DIRECTORY FOR RESULTS]
# Parts run in the order of their worth; each prints lines of JSON as it ends, and the file has all of them however the
# script ends.
set -eu
cd "$(dirname "$0")/.."
if [ "${1:-}" = build ]; then
    CARGO_PROFILE_RELEASE_DEBUG=none cargo build --release --package unspoken-gpu-check
    mkdir -p .gpu
    cp target/release/unspoken-gpu-check .gpu/
    strip .gpu/unspoken-gpu-check
    git rev-parse HEAD >.gpu/commit
    ls -l .gpu
    exit
fi
out=${1:-${OUT:-.gpu}}
mkdir -p "$out"
{
    date -u +%Y-%m-%dT%H:%M:%SZ
    cat .gpu/commit
    ldd --version | head -1
    nvidia-smi --query-gpu=name,driver_version,memory.total,clocks.max.sm --format=csv || true
    lscpu | grep -E 'Model name|^CPU\(s\)|avx512f' | cut -c1-200 || true
} 2>&1 | tee "$out/machine.txt"
export RUST_BACKTRACE=1
for part in bits rates bootstraps threads; do
    .gpu/unspoken-gpu-check --device cuda:0 --only "$part" --out "$out/$part.json" || echo "part $part failed"
done
