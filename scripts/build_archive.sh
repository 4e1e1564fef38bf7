#!/bin/sh
# Builds the archive of the command into dist/: `sh scripts/build_archive.sh [TARGET]`.
#
# The usual target is linked statically with musl: the command runs on every Linux of this processor, also without any
# other file. It cannot open the driver of a GPU. For a GPU take the target x86_64-unknown-linux-gnu, which needs a
# glibc as new as that of the machine that builds.
set -eu
cd "$(dirname "$0")/.."
target=${1:-x86_64-unknown-linux-musl}
version=$(sed -n 's/^version = "\(.*\)"$/\1/p' Cargo.toml)
name=unspoken-$version-$target
# The time of the commit, so that the same commit gives the same archive.
time=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct)}
stage=$(mktemp -d)
trap 'rm -rf "$stage"' EXIT
sh scripts/build_command.sh "$target" "$stage/$name"
mkdir -p "$stage/$name/docs" dist
cp docs/service.md docs/deploy.md docs/runbook.md docs/upgrade.md "$stage/$name/docs/"
cp -r deploy "$stage/$name/deploy"
chmod -R u=rwX,go=rX "$stage/$name"
tar -C "$stage" --sort=name --owner=0 --group=0 --numeric-owner --mtime="@$time" -cf - "$name" |
    gzip -9 -n > "dist/$name.tar.gz"
sh scripts/checksums.sh
