#!/bin/sh
# Builds the fuzz targets, runs them one after the other and prints a row of results for each.
#   fuzz/run.sh [SECONDS [TARGET...]]       default: 120 seconds, every target
#   fuzz/run.sh --list                      the names of all targets
# Needs a nightly toolchain and `cargo install cargo-fuzz`. Reproducers of failures go to fuzz/artifacts.
set -eu
cd "$(dirname "$0")/.."

seeds() {
    cargo run --release --quiet -p unspoken-fuzz -- "$@"
}
if [ "${1-}" = --list ]; then
    seeds --list
    exit
fi
seconds=${1:-120}
[ $# -eq 0 ] || shift
[ $# -gt 0 ] || set -- $(seeds --list)

directory=${CARGO_TARGET_DIR:-fuzz/target}
cargo +nightly fuzz build --target-dir "$directory"
decoder=$directory/$(rustc +nightly -vV | sed -n 's/^host: //p')/release/decoder
seeds fuzz/corpus

log=$(mktemp)
trap 'rm -f "$log"' EXIT
# The last number in the log that follows the given text.
last() {
    number=$(grep -o "$1 *[0-9][0-9]*" "$log" | tail -n 1 | grep -o '[0-9]*$') || true
    echo "${number:--}"
}

export RAYON_NUM_THREADS=1
export LSAN_OPTIONS="suppressions=$PWD/fuzz/leaks.txt:print_suppressions=0"
failed=0
row='%-24s %10s %7s %7s %7s %8s  %s\n'
printf "$row" target executions cover feature corpus peak_MiB result
for target in "$@"; do
    mkdir -p "fuzz/artifacts/$target"
    result=clean
    FUZZ_TARGET=$target "$decoder" "fuzz/corpus/$target" "-artifact_prefix=fuzz/artifacts/$target/" \
        "-max_total_time=$seconds" -max_len=262144 -len_control=0 -timeout=20 -rss_limit_mb=2048 \
        -malloc_limit_mb=256 -print_final_stats=1 \
        >"$log" 2>&1 || result=FAILED
    if [ "$result" = FAILED ]; then
        failed=1
        tail -n 40 "$log"
    fi
    printf "$row" "$target" "$(last number_of_executed_units:)" "$(last ' cov:')" "$(last ' ft:')" \
        "$(last ' corp:')" "$(last peak_rss_mb:)" "$result"
done
exit "$failed"
