#!/bin/sh
# Installs Chromium for the tests of the page, where that is possible. Never fails: without it the tests are skipped.
set -u

for name in chromium chromium-browser google-chrome; do
    if command -v "$name" > /dev/null; then
        exit 0
    fi
done
if [ "$(id -u)" = 0 ] && command -v apt-get > /dev/null; then
    echo "installing chromium for the tests of the page"
    export DEBIAN_FRONTEND=noninteractive
    apt-get update -qq && apt-get install -y -qq --no-install-recommends chromium > /dev/null && exit 0
fi
cat >&2 <<'MESSAGE'
*************************************************************************************************************
No Chromium, so the tests of the page are SKIPPED. Install the package chromium of this system and run again.
*************************************************************************************************************
MESSAGE
