"""Compares a machine, or a change, with recorded rows in 20 minutes: `make benchmarks-quick`.

`python3 research/tables/quick.py target/release [SUITE ...]` runs each suite in its quick form, which has small rings
and few repetitions, and then some parts in full; it prints how our values stand to the recorded ones. It is no test:
another machine has other times. Rows of one thread are CPU time, so that other programs matter less. Nothing is
written, unless `--record` makes these rows the recorded ones (docs/benchmarks/quick.jsonl).
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from pathlib import Path
from statistics import median
from typing import Any

import records
from page import amount, number
from records import ROOT

SECTION = "quick"
ABOUT = """\
`unspoken-bench SUITE --quick` of every suite: small rings and few repetitions, CPU time in rows of one thread, without
the programs of others. These rows are compared with such rows alone (`make benchmarks-quick`).
"""

# A suite in its quick form ends within a minute on two idle cores.
SUITES = ("engine", "lookup", "matrix", "encrypt", "pir", "llama", "web", "cluster", "search", "model")
MOST_SECONDS = 180
# Parts that are run in full, with the sections that have their recorded rows.
FULL = (
    ("engine", "transforms", "engine"),
    ("engine", "keys", "engine"),
    ("engine", "matrix", "engine"),
    ("encrypt", "modes", "encrypt: modes"),
    ("encrypt", "schemes", "encrypt: schemes"),
    ("pir", "sealed", "pir: sealed"),
    ("matrix", "table8", "matrix: products"),
)

TIMES = ("s", "ms", "us", "ns")
# Rows of these units are the same on every machine: named if they differ at all; others if they do by this factor.
COUNTS = ("bytes", "levels", "keys", "switches", "count", "products", "masks", "rotations", "messages", "vectors")
SAME, CHANGED = 1.0001, 1.5
NAMED = 6

Row = dict[str, Any]


def run(binary: Path, suite: str, *further: str) -> list[Row]:
    """The rows of a suite; none, and a line that says why, if it failed."""
    command = [binary, suite, "--json", "--cpu-time", "--no-peers", "--root", str(ROOT), *further]
    started = time.monotonic()
    try:
        done = subprocess.run(command, check=True, capture_output=True, text=True, timeout=MOST_SECONDS)
    except subprocess.TimeoutExpired:
        print(f"{suite}: stopped after {MOST_SECONDS} s")
        return []
    except subprocess.CalledProcessError as failed:
        print(f"{suite}: {(failed.stderr.strip().splitlines() or ['ended with an error'])[-1]}")
        return []
    print(f"{' '.join((suite, *further))}: {time.monotonic() - started:.0f} s")
    return [json.loads(line) for line in done.stdout.splitlines()]


def key(row: Row) -> tuple[str, str, str]:
    """What two rows of the same measurement have in common, whatever stands beside them."""
    return row["suite"], row["metric"], row["case"]


def ratios(rows: list[Row], known: list[Row]) -> list[tuple[Row, Row, float]]:
    """Rows with their recorded ones, and our value now over the recorded one."""
    recorded = {key(row): row for row in reversed(known)}
    pairs = [(row, recorded[key(row)]) for row in {key(row): row for row in rows}.values() if key(row) in recorded]
    return [(now, before, now["ours"] / before["ours"]) for now, before in pairs if now["ours"] and before["ours"]]


def compared(rows: list[Row], known: list[Row]) -> list[str]:
    """What to print of a suite."""
    found = ratios(rows, known)
    times = [entry for entry in found if entry[0]["unit"] in TIMES]
    measured = [entry for entry in found if entry[0]["unit"] not in COUNTS]
    counted = [entry for entry in found if entry[0]["unit"] in COUNTS and entry[0]["metric"] != "peak_memory"]
    lines = [f"  {len(found)} of {len({*map(key, rows)})} rows have a recorded one"]
    if times:
        middle = median(ratio for *_, ratio in times)
        lines.append(f"  times: {number(middle)} of the recorded ones in the middle of {len(times)}")
    for entries, factor in ((measured, CHANGED), (counted, SAME)):
        changed = [entry for entry in entries if not 1 / factor <= abs(entry[2]) <= factor]
        for now, before, ratio in sorted(changed, key=lambda entry: -max(abs(entry[2]), 1 / abs(entry[2])))[:NAMED]:
            values = f"{amount(now['ours'], now['unit'])}, recorded {amount(before['ours'], now['unit'])}"
            lines.append(f"  {now['case']}, {now['metric']}: {values}, {number(ratio)}")
        if len(changed) > NAMED:
            lines.append(f"  and {len(changed) - NAMED} more")
    return lines


def main() -> None:
    """Runs, compares, and records if asked."""
    parser = argparse.ArgumentParser(description="Compares a machine with recorded rows.")
    parser.add_argument("directory", type=Path, help="directory of unspoken-bench")
    parser.add_argument("suites", nargs="*", metavar="SUITE", help=f"all, or some of: {', '.join(SUITES)}")
    parser.add_argument("--record", action="store_true", help="make the rows of the quick suites the recorded ones")
    wanted = parser.parse_args()
    unknown = sorted(set(wanted.suites) - set(SUITES))
    if unknown:
        parser.error(f"no suite {', '.join(unknown)}; there are {', '.join(SUITES)}")
    binary, suites = wanted.directory / "unspoken-bench", wanted.suites or SUITES
    known = records.read_all()
    before = known.get(SECTION)
    section = records.begin(SECTION, binary, ABOUT)
    if before:
        print(f"recorded: {before.measured()}; now: {section.measured()}")
    for suite in suites:
        rows = run(binary, suite, "--quick")
        section.rows += rows
        print("\n".join(compared(rows, before.rows if before else [])), flush=True)
    if wanted.record:
        kept = [row for row in before.rows if row["suite"] not in suites] if before else []
        section.rows = [*kept, *({**row, "params": {}} for row in section.rows)]
        print(f"recorded {records.write(section).relative_to(ROOT)}")
        return
    for suite, part, name in FULL:
        if suite in suites and name in known:
            rows = run(binary, suite, "--only", part)
            print("\n".join(compared(rows, known[name].rows)), flush=True)


if __name__ == "__main__":
    sys.exit(main())
