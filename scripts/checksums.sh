#!/bin/sh
# Writes dist/SHA256SUMS, with which people check what they have fetched: sha256sum --check SHA256SUMS
set -eu
cd "$(dirname "$0")/../dist"
for file in unspoken-*.whl unspoken-*.tar.gz; do
    if test -e "$file"; then sha256sum "$file"; fi
done > SHA256SUMS
cat SHA256SUMS
