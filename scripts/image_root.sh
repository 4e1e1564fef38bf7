#!/bin/sh
# Lays out the files of the image around a static command: `image_root.sh COMMAND FOLDER` makes FOLDER/root, which is
# the root of the image, and FOLDER/state, its empty volume.
set -eu
command=$1 folder=$2
root=$folder/root
mkdir -p "$root/usr/bin" "$root/etc/ssl/certs" "$root/etc/unspoken" "$root/srv/unspoken"
mkdir -p "$root/usr/share/doc/unspoken" "$root/var/lib" "$folder/state"
cp "$command" "$root/usr/bin/unspoken"
for notice in LICENSE THIRD-PARTY.txt; do
    cp "$(dirname "$command")/$notice" "$root/usr/share/doc/unspoken/"
done
# Routers check the certificates of their shards.
cp /etc/ssl/certs/ca-certificates.crt "$root/etc/ssl/certs/"
echo 'unspoken:x:65532:65532::/var/lib/unspoken:/usr/bin/unspoken' > "$root/etc/passwd"
echo 'unspoken:x:65532:' > "$root/etc/group"
chmod -R u=rwX,go=rX "$root"
chmod 755 "$root/usr/bin/unspoken"
chmod 700 "$folder/state"
