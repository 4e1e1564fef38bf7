#!/bin/sh
# Builds the stripped command for a target into a folder, with the licences of others: `build_command.sh TARGET FOLDER`.
set -eu
cd "$(dirname "$0")/.."
target=$1 folder=$2
if command -v rustup > /dev/null; then rustup target add "$target"; fi
case "$target" in
    *-musl) command -v musl-gcc > /dev/null || { echo "no musl-gcc; install musl-tools" >&2; exit 1; } ;;
esac
CARGO_PROFILE_RELEASE_STRIP=symbols cargo build --release --locked --target "$target" -p unspoken-cli
mkdir -p "$folder"
cp "${CARGO_TARGET_DIR:-target}/$target/release/unspoken" LICENSE "$folder/"
"${PYTHON:-python3}" scripts/third_party.py "$target" > "$folder/THIRD-PARTY.txt"
