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
    cargo build --release --package unspoken-gpu-check --package unspoken-cli
    rm -rf .gpu
    mkdir .gpu
    for program in unspoken-gpu-check unspoken; do
        strip -o ".gpu/$program" "target/release/$program"
    done
    # What is carried to the other machine is limited.
    xz -3 .gpu/unspoken
    target/release/unspoken llama prepare --model models/stories260K/stories260K.bin --public 48 --private 48 \
        --tokens 3000 --out .gpu/stories
    git rev-parse HEAD >.gpu/commit
    du -sh .gpu
    exit
fi
device=${DEVICE:-cuda:0}
out=${1:-${OUT:-.gpu}}
mkdir -p "$out"
{
    date -u +%Y-%m-%dT%H:%M:%SZ
    cat .gpu/commit || true
    ldd --version | head -1
    nvidia-smi --query-gpu=name,driver_version,memory.total,clocks.max.sm --format=csv || true
    lscpu | grep -E 'Model name|^CPU\(s\)|avx512f' | cut -c1-200 || true
} 2>&1 | tee "$out/machine.txt"
export RUST_BACKTRACE=1

# A text of a language model through the service and its client, as people run them.
pass() {
    work=$(mktemp -d)
    python3 -c 'import lzma, shutil, sys; shutil.copyfileobj(lzma.open(sys.argv[1]), open(sys.argv[2], "wb"))' \
        .gpu/unspoken.xz "$work/unspoken"
    chmod +x "$work/unspoken"
    "$work/unspoken" serve --chat .gpu/stories --device "$device" --memory-mib 14000 --data-dir "$work/data" \
        --listen 127.0.0.1:8089 --metrics-listen 127.0.0.1:8090 >"$out/serve.txt" 2>&1 &
    service=$!
    result=0
    for number in 1 2; do
        "$work/unspoken" chat --url http://127.0.0.1:8089 --timeout 300 --state-dir "$work/state" \
            --model .gpu/stories/client --check .gpu/stories --max-tokens "${TOKENS:-16}" --json \
            --public "Once upon a time, there was a little girl named Lily." --private " One day, she" \
            >"$out/pass-$number.json" 2>"$out/pass-$number.txt" || result=$?
        cat "$out/pass-$number.json"
    done
    python3 -c 'import urllib.request as u; print(u.urlopen("http://127.0.0.1:8090/metrics").read().decode())' |
        grep unspoken_device >"$out/metrics.txt" || true
    kill "$service"
    wait "$service" || true
    rm -rf "$work"
    return "$result"
}

failed=0
for part in bits rates bootstraps pass retrieval threads; do
    case $part in
    pass) pass ;;
    *) .gpu/unspoken-gpu-check --device "$device" --only "$part" --out "$out/$part.json" ;;
    esac || {
        echo "part $part failed"
        failed=1
    }
done
exit "$failed"
