#!/bin/sh
# Compiles the kernels of devices, and prints what each uses. Needs no device: the compiler comes from PyPI.
set -eu
cd "$(dirname "$0")/.."
tools=target/device-compiler
if [ ! -x "$tools/bin/python" ]; then
    python3 -m venv "$tools"
    "$tools/bin/pip" install --quiet 'nvidia-cuda-nvcc==13.0.*' 'nvidia-nvvm==13.0.*' 'nvidia-cuda-crt==13.0.*' \
        'nvidia-cuda-runtime==13.0.*' 'nvidia-cuda-cccl==13.0.*' 'blake3==1.*'
fi
nvcc=$(echo "$tools"/lib/python3*/site-packages/nvidia/cu13/bin/nvcc)
sources=crates/engine/device/kernels
images=crates/engine/cuda/images
mkdir -p "$images"
codes=
for arch in 80 89 90 100; do
    codes="$codes -gencode arch=compute_$arch,code=sm_$arch"
done
# shellcheck disable=SC2086
"$nvcc" -std=c++17 -O3 -Xptxas -v $codes -gencode arch=compute_80,code=compute_80 -fatbin -Xfatbin -compress-all \
    -o "$images/kernels.fatbin" "$sources/kernels.cu" 2>"$tools/resources.txt"
"$tools/bin/python" - "$sources" "$tools/resources.txt" >"$images/sources.blake3" <<'PYTHON'
import pathlib
import re
import sys

import blake3

sources, resources = map(pathlib.Path, sys.argv[1:])
digest = blake3.blake3()
for path in sorted(sources.iterdir()):
    digest.update(path.read_bytes())
print(digest.hexdigest())

#: Registers of a multiprocessor, threads, and bytes of shared memory.
REGISTERS, MOST_THREADS, SHARED, THREADS = 65536, 2048, {"80": 167936, "89": 102400, "90": 233472, "100": 233472}, 256
rows = re.findall(
    r"Compiling entry function '(\w+)' for 'sm_(\d+)'.*?(\d+) bytes stack frame, (\d+) bytes spill stores, "
    r"(\d+) bytes spill loads.*?Used (\d+) registers(?:[^\n]*?, (\d+) bytes smem)?",
    resources.read_text(),
    re.DOTALL,
)
write = sys.stderr.write
write(f"{'kernel':16} {'card':>5} {'registers':>9} {'spills':>6} {'shared':>7} {'blocks':>6} {'occupancy':>9}\n")
for name, card, stack, stores, loads, registers, shared in sorted(rows):
    each = -(-int(registers) // 8) * 8 * THREADS
    blocks = min(REGISTERS // each, MOST_THREADS // THREADS if card != "89" else 6)
    if shared:
        blocks = min(blocks, SHARED[card] // (int(shared) + 1024))
    spills = int(stack) + int(stores) + int(loads)
    most = 1536 if card == "89" else MOST_THREADS
    row = f"{name:16} {'sm_' + card:>5} {registers:>9} {spills:>6} {shared or 0:>7} {blocks:>6}"
    write(f"{row} {100 * blocks * THREADS // most:>8}%\n")
    if spills:
        sys.exit(f"{name} spills registers")
PYTHON
