#!/bin/sh
# Builds the wheel for Linux into dist/: for every Python from 3.9 on (abi3), and for the glibc of WHEEL_GLIBC or later.
# Zig links against that glibc, whatever glibc this machine has. auditwheel then says whether the tag is true.
set -eu
cd "$(dirname "$0")/.."
glibc=${WHEEL_GLIBC:-2_28}
tools=.peers/release
test -x $tools/bin/python || "${PYTHON:-python3}" -m venv $tools
$tools/bin/pip install --quiet --requirement scripts/build_wheel.txt
rm -f dist/unspoken-*.whl
# maturin runs the `python3` of PATH to find Zig.
PATH="$PWD/$tools/bin:$PATH" $tools/bin/maturin build --release --zig --compatibility "manylinux_$glibc" --out dist
wheel=$(ls dist/unspoken-*.whl)
case "$wheel" in
    *-cp39-abi3-manylinux_"$glibc"_*.whl) ;;
    *) echo "found $wheel, needed a wheel of cp39-abi3 and manylinux_$glibc" >&2; exit 1 ;;
esac
PATH="$PWD/$tools/bin:$PATH" $tools/bin/auditwheel show "$wheel"
sh scripts/checksums.sh
