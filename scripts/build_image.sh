#!/bin/sh
# Makes the image from the archive that `make dist` built: the last stage of deploy/Containerfile, which needs no other
# image. `IMAGE` is its name; `BUILDAH` the command, with its options.
set -eu
cd "$(dirname "$0")/.."
archive=$(ls dist/unspoken-*-musl.tar.gz)
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
tar -C "$folder" -xzf "$archive" --strip-components=1
mkdir "$folder/context"
sh scripts/image_root.sh "$folder/unspoken" "$folder/context/image"
sed -n '/^FROM scratch/,$p' deploy/Containerfile | sed 's/--from=build //' > "$folder/context/Containerfile"
${BUILDAH:-buildah} build --format docker --tag "${IMAGE:-unspoken}" "$folder/context"
