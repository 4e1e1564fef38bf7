"""Runs the benchmark suites and writes docs/benchmarks.md: `python3 scripts/benchmarks.py target/release/unspoken`."""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
from collections import defaultdict
from datetime import date
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TARGET = ROOT / "docs" / "benchmarks.md"
# Heading, suite, parts of it (none: the whole), and whether its table has a row per metric instead of a table.
SECTIONS = (
    ("engine", "engine", ("operations", "keys", "threads", "transforms", "matrix"), False),
    ("bootstrap", "engine", ("bootstrap",), True),
    ("lookup", "lookup", (), False),
)

NOTES = {
    "bootstrap": """\
All slots hold complex numbers, each part at most 1. Precision is `-log2` of the error over all slots. OpenFHE's rows
were measured after ours and not in turn, because its keys and matrices take 12 to 17 GB; its key bytes are the number
of its keys times one serialised rotation key. `time_per_slot_and_bit_left` divides the time by the slots and by the
bits of modulus that are left for a circuit: OpenFHE at 59 bits a level has fewer levels left than we have.
""",
}

PAPER = """\
## The lookup paper's figures

For comparison of shape, not of speed: one thread of a Xeon Gold 6542Y, HEaaN, N = 2^16 (fastText) and 2^17 (Table 3).

| what | IVE-PEL (paper) | Kim et al. (paper) |
| --- | ---: | ---: |
| fastText on Enron-Spam, seconds per example | 0.0832 | 9.1017 |
| of it VecGen | 0.0552 | 9.063 |
| of it Linear | 0.0280 | 0.0386 |
| GloVe 6B 50d, log p = 6, ms per token | 0.348 | 11.944 |
| GloVe 6B 50d, log p = 8, ms per token | 1.348 | 70.109 |
| GloVe 6B 50d, log p = 10, ms per token | 5.446 | 427.020 |

Our fastText rows use the SMS spam collection in place of Enron-Spam, which cannot be had here; the shape of the model
(4 subtables of 256 columns, 128 tokens, 2 classes) is the paper's.
"""


def processor() -> str:
    """The processor's name, as the system gives it."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()


def rows(binary: str, suite: str, parts: tuple[str, ...]) -> list[dict]:
    """Runs one suite, or parts of it, and returns its rows."""
    only = [argument for part in parts for argument in ("--only", part)]
    command = [binary, "bench", suite, "--json", "--root", str(ROOT), *only]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    return [json.loads(line) for line in done.stdout.splitlines()]


def number(value: float | None) -> str:
    """A number with four significant digits, or a dash."""
    if value is None:
        return "-"
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"


def cells(row: dict) -> str:
    """Ours, the baseline, what it is, and the ratio."""
    ours, baseline, ratio = (number(row[field]) for field in ("ours", "baseline", "ratio"))
    return f"{ours} | {baseline} | {row['baseline_name']} | {ratio} |"


def single_table(found: list[dict]) -> str:
    """One Markdown table, the metric in a column of its own."""
    lines = ["| case | metric | ours | baseline | baseline is | ratio |", "| --- | --- | ---: | ---: | --- | ---: |"]
    lines += [f"| {row['case']} | {row['metric']} ({row['unit']}) | {cells(row)}" for row in found]
    return "\n".join(lines)


def table(found: list[dict]) -> str:
    """One Markdown table per metric, in the order of appearance."""
    groups: dict[tuple[str, str], list[dict]] = defaultdict(list)
    for row in found:
        groups[row["metric"], row["unit"]].append(row)
    parts = []
    for (metric, unit), members in groups.items():
        lines = [
            f"### {metric} ({unit})\n",
            "| case | ours | baseline | baseline is | ratio |",
            "| --- | ---: | ---: | --- | ---: |",
        ]
        lines += [f"| {row['case']} | {cells(row)}" for row in members]
        parts.append("\n".join(lines))
    return "\n\n".join(parts)


def main() -> None:
    """Measures everything and writes the page."""
    if len(sys.argv) != 2:
        sys.exit("usage: python3 scripts/benchmarks.py PATH_TO_UNSPOKEN")
    binary = sys.argv[1]
    version = subprocess.run([binary, "--version"], check=True, stdout=subprocess.PIPE, text=True).stdout.strip()
    parts = [
        "# Benchmarks\n",
        f"Made by `make benchmarks` on {date.today()} with {version}: {processor()}, {os.cpu_count()} cores, "
        f"{platform.system()}. Ours and baseline are medians of repetitions that alternated in one run; the ratio is "
        "the median of the pairwise ratios, above 1 where ours is better. One thread unless a row says otherwise.\n",
    ]
    for heading, suite, only, single in SECTIONS:
        found = rows(binary, suite, only)
        notes = [NOTES[heading]] if heading in NOTES else []
        parts += [f"## {heading}\n", *notes, (single_table if single else table)(found) + "\n"]
    parts.append(PAPER)
    TARGET.write_text("\n".join(parts))
    print(f"wrote {TARGET.relative_to(ROOT)}")


if __name__ == "__main__":
    main()
