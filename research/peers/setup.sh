#!/usr/bin/env bash
# Sets up the peers that this machine can have, in .peers of the repository.
# Run by `make peers`. Safe to run again: what is already there is kept.
# Peers are optional: a peer that cannot be had is reported as skipped, with the
# reason, and the exit status is still 0.
set -euo pipefail

readonly OPENFHE_PIN="openfhe==1.6.1.0.22.4"
readonly TENSEAL_PIN="tenseal==0.3.16"
readonly NUMPY_PIN="numpy==2.2.6"

root="$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)"
venv="$root/.peers/venv"
log="$root/.peers/setup.log"

# True if $1 runs and is Python 3.10. A pyenv shim may exist and still not run.
is_python_310() {
    "$1" -c 'import sys; sys.exit(sys.version_info[:2] != (3, 10))' >/dev/null 2>&1
}

# Prints a Python 3.10: $PEERS_PYTHON, one on PATH, pyenv's, or uv's.
find_python_310() {
    local candidates=("${PEERS_PYTHON:-}" python3.10 python3) candidate
    if command -v pyenv >/dev/null 2>&1; then
        candidates+=("$(pyenv root)"/versions/3.10*/bin/python3.10)
    fi
    if command -v uv >/dev/null 2>&1; then
        candidates+=("$(uv python find --no-python-downloads 3.10 2>/dev/null || true)")
    fi
    for candidate in "${candidates[@]}"; do
        if [ -n "$candidate" ] && is_python_310 "$candidate"; then
            echo "$candidate"
            return 0
        fi
    done
    return 1
}

# Installs the pins $2... and runs peer $1 at a small size; says how it went.
set_up_peer() {
    local peer="$1"
    shift
    echo "peers: setting up $peer ($*)"
    if ! "$venv/bin/python" -m pip install --quiet --disable-pip-version-check "$@" >"$log" 2>&1; then
        echo "peers: $peer skipped: pip could not install it:"
        tail -n 3 "$log" | sed 's/^/    /'
    elif ! "$venv/bin/python" "$root/research/peers/table.py" "$peer" --check >"$log" 2>&1; then
        echo "peers: $peer skipped: installed, but it does not run here:"
        tail -n 3 "$log" | sed 's/^/    /'
    else
        echo "peers: $peer ready: $(tail -n 1 "$log")"
    fi
}

# Builds Lattigo's peer, and runs it at a small size; says how it went.
set_up_lattigo() {
    local small='{"cmd":"setup","log_n":11,"log_qp":500,"digits":3}
{"cmd":"time","op":"hoisted_rotation","level":4,"reps":1}'
    echo "peers: setting up lattigo (Go module github.com/tuneinsight/lattigo/v6 6.1.1)"
    if ! command -v go >/dev/null 2>&1; then
        echo "peers: lattigo skipped: it needs Go 1.21 or later"
    elif ! (cd "$root/research/peers/lattigo" && go build -o "$root/.peers/lattigo" .) >"$log" 2>&1; then
        echo "peers: lattigo skipped: it could not be built:"
        rm -f "$root/.peers/lattigo"
        tail -n 3 "$log" | sed 's/^/    /'
    elif ! "$root/.peers/lattigo" <<<"$small" >"$log" 2>&1 || grep -q '"error"' "$log"; then
        echo "peers: lattigo skipped: built, but it does not run here:"
        rm -f "$root/.peers/lattigo"
        tail -n 3 "$log" | sed 's/^/    /'
    else
        echo "peers: lattigo ready"
    fi
}

mkdir -p "$root/.peers"
set_up_lattigo

if [ "$(uname -s)-$(uname -m)" != "Linux-x86_64" ]; then
    echo "peers: openfhe and seal skipped: their wheels are for Linux on x86_64, this is $(uname -s) on $(uname -m)"
    exit 0
fi

if ! is_python_310 "$venv/bin/python"; then
    if ! python="$(find_python_310)"; then
        echo "peers: openfhe and seal skipped: no Python 3.10 found, and OpenFHE's wheel is for 3.10 only."
        echo "    Get one with 'pyenv install 3.10' or 'uv python install 3.10' or your"
        echo "    distribution's python3.10 and python3.10-venv, or name one in PEERS_PYTHON;"
        echo "    then run 'make peers' again."
        exit 0
    fi
    rm -rf "$venv"
    if ! "$python" -m venv "$venv" >"$log" 2>&1; then
        echo "peers: skipped: $python cannot make a virtual environment (its venv module may"
        echo "    be a package of its own, such as python3.10-venv):"
        tail -n 3 "$log" | sed 's/^/    /'
        rm -rf "$venv"
        exit 0
    fi
fi

set_up_peer openfhe "$OPENFHE_PIN" "$NUMPY_PIN"
set_up_peer seal "$TENSEAL_PIN" "$NUMPY_PIN"
