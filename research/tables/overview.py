"""docs/benchmarks.md: what was found, for a reader, from the recorded rows."""

from __future__ import annotations

from typing import NamedTuple

import gpu_tables
import plots
import targets
from page import amount, line, number, paragraph
from records import Section, file_name

INTRODUCTION = """\
What was measured, beside what, where it is slower, and how to measure it again. Every figure is from a row in
[benchmarks](benchmarks): a file of JSON lines for each section, which says date, version, machine and what was done in
its first line. `make benchmarks` measures all of it and writes the files, this page, its plots and the pages beside
papers' tables; the command of an area measures that area. `make benchmarks-render` makes the pages from the files,
`make benchmarks-quick` compares a machine with them in 20 minutes. [compare.md](compare.md) has other systems, and what
they publish.

Times are of one thread unless a row says otherwise. Those with a baseline are medians of repetitions that alternated in
one run; "times" is the median of the pairwise ratios, **bold below 1, where ours is worse**. Lost are rows of times,
rates, bytes and precision beside others with a ratio below 1.
"""

# Units of counts, which say how something is done and not how well.
COUNTS = ("switches", "keys", "masks", "products", "count", "rotations", "levels", "vectors")


class Other(NamedTuple):
    """What stands beside our value: the baseline of the row, or our value of another case."""

    name: str
    baseline: str = ""
    case: str = ""


class Line(NamedTuple):
    """One line of an area's table."""

    what: str
    section: str
    metric: str
    case: str
    others: tuple[Other, ...] = ()


class Area(NamedTuple):
    """A heading of the page."""

    name: str
    claim: str
    command: str
    lines: tuple[Line, ...]
    # Beginnings of the names of baselines that others wrote, published or use, for the count of lost rows.
    peers: tuple[str, ...]
    sections: tuple[str, ...]
    plot: str = ""
    page: str = ""
    after: str = ""


OPENFHE, LATTIGO = Other("OpenFHE", "OpenFHE"), Other("Lattigo", "Lattigo")
SEAL = Other("SEAL", "SEAL, public key")
KIM = Other("Kim et al.", "Kim")
PLAN = Other("the paper's plan", "ive-paper")
RT = Other("Rizomiliotis and Triakosia", "Rizomiliotis")
DOUBLINGS = Other("the paper's", "the paper's")
CONCRETE = Other("Concrete ML", "Concrete ML")
BOOT = "bootstrap, n16_boot_depth10_scale50"
BOOT_PEERS = (
    Other("OpenFHE, 4 levels of 59 bits", "OpenFHE, sparse encapsulated secret, 4"),
    Other("Lattigo, N16QP1767", "Lattigo, N16QP1767"),
    Other("Lattigo, N16QP1788", "Lattigo, N16QP1788"),
)
FORM = "fastText, compact queries, n16_boot_depth9_scale50"
ONE_HOT = Other("one-hot", case="fastText, one-hot queries, n15_depth8_scale50")
BREAST, WIDE = "breast cancer, logistic regression", "breast cancer, 3 x 128, 7 bits"
SMOL = "SmolLM2-135M-Instruct"
BLOCK = "Llama-2-7B, generation, 8 tokens"


def operations(level: str) -> tuple[Line, ...]:
    """The engine's operations at a level."""
    names = (
        "rotate",
        "multiply and relinearise",
        "rescale",
        "hoisted rotation, each",
        "multiply by a plaintext",
        "add",
    )
    return tuple(Line(name, "engine", "time", f"{name}, {level} level, avx2", (OPENFHE, LATTIGO)) for name in names)


AREAS = (
    Area(
        "Engine",
        "The lattice arithmetic of everything else, beside OpenFHE and Lattigo at N = 2^16, full level, AVX2.",
        "make tables-engine",
        (
            *operations("full"),
            Line("bytes of a rotation key", "engine", "wire_bytes", "rotation key", (OPENFHE, LATTIGO)),
            Line("two threads, rotate", "engine", "time", "rotate, 2 threads", (Other("one thread", "ours"),)),
        ),
        ("OpenFHE", "Lattigo"),
        ("engine",),
        "engine",
    ),
    Area(
        "Bootstrap",
        "2^15 complex slots at 128 bits, one thread, AVX2 (precision and sizes do not depend on it).",
        "make tables-engine",
        (
            Line("time", "bootstrap", "time", f"{BOOT}, avx2", BOOT_PEERS),
            Line("precision, root mean square", "bootstrap", "precision_rms", BOOT, BOOT_PEERS),
            Line("levels left", "bootstrap", "levels_left", BOOT, BOOT_PEERS),
            Line("bytes of keys", "bootstrap", "key_wire", BOOT, BOOT_PEERS),
            Line("log2 of failures", "bootstrap", "log2_failure", BOOT),
        ),
        ("OpenFHE", "Lattigo"),
        ("bootstrap",),
        "bootstrap",
    ),
    Area("GPU", "", "scripts/gpu_check.sh", (), (), (), page="gpu"),
    Area(
        "Lookup and classification",
        "Encrypted tokens in, embeddings or classes out; 128 tokens a message, four subtables. Compact queries cost "
        "the service more than one-hot ones, and send a fraction of the bytes.",
        "make tables-lookup",
        (
            Line(
                "fastText, a message",
                "lookup",
                "time_per_message",
                "fastText, baby-giant-8, n15_depth8_scale50",
                (PLAN,),
            ),
            Line(
                "fastText, beside an indicator",
                "lookup",
                "time_per_message",
                "fastText, baby-giant-8, against the indicator extrapolated from 3 of 1024 columns",
                (Other("Kim et al., extrapolated", "Kim"),),
            ),
            Line(
                "a token, p = 256, d = 50, all columns run",
                "lookup",
                "whole_lookup_per_token",
                "embedding, log p = 8, d = 50, baby-giant-32, n15_depth10_scale50, all columns of Kim et al.",
                (KIM,),
            ),
            Line("bytes of a token, compact", "lookup", "form_bytes_per_token", FORM, (ONE_HOT,)),
            Line("time of a message, compact", "lookup", "form_time_per_message", FORM, (ONE_HOT,)),
            Line("bytes of keys, compact", "lookup", "form_key_wire_bytes", FORM, (ONE_HOT,)),
            Line(
                "accuracy, SMS, encrypted",
                "lookup",
                "accuracy",
                "fastText, SMS",
                (Other("in the clear", "in the clear"),),
            ),
        ),
        ("ive-paper", "Kim"),
        ("lookup", "embeddings"),
        "lookup",
        "lookup",
    ),
    Area(
        "Matrices",
        "Products, permutations and a small network on encrypted matrices, beside the published methods in the same "
        "engine.",
        "make tables-matrix",
        (
            Line("product, d = 32", "matrix: products", "time_per_product", "product, d = 32, 32 blocks", (RT,)),
            Line(
                "product, d = 64, one block",
                "matrix: products",
                "time_per_product",
                "product, d = 64, 1 blocks",
                (DOUBLINGS, Other("Jiang et al.", "Jiang")),
            ),
            Line(
                "replication, d = 32, step 1",
                "matrix: products",
                "time_per_product",
                "replication, d = 32, step 1",
                (Other("no steps before the mask", "no steps"),),
            ),
            Line(
                "plain product, d = 32",
                "matrix: products",
                "time_per_product",
                "plain product, d = 32",
                (Other("Jiang et al.", "Jiang"), Other("on coefficients", "coefficients")),
            ),
            Line(
                "transpose, d = 128, depth 5",
                "matrix: permutations",
                "time",
                "transpose, d = 128, depth 5",
                (Other("Jiang et al., 30 keys", "Jiang et al.: all diagonals, about 30"),),
            ),
            Line(
                "random permutation of 2^12",
                "matrix: permutations",
                "time",
                "random permutation, n = 2^12",
                (Other("Benes", "Benes, one key"),),
            ),
            Line(
                "E2DM-lite, 8 images",
                "matrix: digits",
                "time",
                "E2DM-lite, batch 8",
                (Other("E2DM", "E2DM's"),),
            ),
            Line(
                "the same, in another round",
                "matrix: digits",
                "time",
                "E2DM-lite, batch 8",
                (Other("a vector for each pixel", "a vector"),),
            ),
            Line("E2DM-lite, 256 images", "matrix: digits", "time", "E2DM-lite, batch 256", (Other("E2DM", "E2DM's"),)),
        ),
        ("Rizomiliotis", "the same, hoisted", "the paper's", "Jiang", "Benes", "no steps", "E2DM's", "slots", "coeff"),
        ("matrix: permutations", "matrix: products", "matrix: digits", "matrix: number of keys"),
        "matrix",
        "matrix",
    ),
    Area(
        "Client encryption",
        "16,384 numbers in CKKS at N = 2^15, encoded and encrypted, beside SEAL through tenseal. The published methods "
        "that cache ciphertexts are broken ([why](cached-encryption.md)); these are not.",
        "make tables-encrypt",
        (
            Line(
                "from a pool made ahead", "encrypt: modes", "encode_and_encrypt", "CKKS, pool of the secret's", (SEAL,)
            ),
            Line(
                "seeded, secret key",
                "encrypt: modes",
                "encode_and_encrypt",
                "CKKS, seeded",
                (Other("SEAL, symmetric", "SEAL, symmetric"),),
            ),
            Line("public key", "encrypt: modes", "encode_and_encrypt", "CKKS, public key", (SEAL,)),
            Line("encryption alone, pool", "encrypt: modes", "encrypt", "CKKS, pool of the secret's", (SEAL,)),
            Line(
                "bytes of a ciphertext",
                "encrypt: modes",
                "ciphertext_bytes",
                "CKKS, secret",
                (Other("SEAL, compressed", "SEAL"),),
            ),
        ),
        ("SEAL",),
        ("encrypt: modes", "encrypt: schemes", "encrypt: tables"),
        "encrypt",
        "encrypt",
    ),
    Area(
        "Retrieval",
        "One record of 256 bytes from a database of 2^22; the service learns nothing of the index.",
        "make tables-pir",
        (
            Line("compact query, 1 GB", "pir: answers", "answer_time", "1 GB, compact"),
            Line("its bytes", "pir: answers", "query_bytes", "1 GB, compact"),
            Line("its keys, once", "pir: answers", "key_bytes", "compact"),
            Line(
                "packed query, 1 GB",
                "pir: answers",
                "answer_time",
                "1 GB, packed",
                (Other("Respire's program", "Respire"),),
            ),
            Line("its bytes", "pir: answers", "query_bytes", "1 GB, packed"),
            Line(
                "dense table, 1 GB",
                "pir: dense",
                "dense_answer_time",
                "1 GB, beside InsPIRe's program",
                (Other("InsPIRe's program", "InsPIRe"),),
            ),
            Line(
                "the same, beside another",
                "pir: dense",
                "dense_answer_time",
                "1 GB, beside YPIR's program",
                (Other("YPIR's program", "YPIR"),),
            ),
            Line(
                "bytes of its query",
                "pir: dense",
                "query_bytes",
                "1 GB, beside InsPIRe's program",
                (Other("InsPIRe's program", "InsPIRe"),),
            ),
            Line(
                "expansion of a compact index",
                "pir: published",
                "index_expansion_time",
                "22 bits",
                (Other("the paper's form", "published"),),
            ),
            Line(
                "dense service, 256 MB, 64 clients",
                "pir: service",
                "queries_per_second",
                "256 MB, dense, packed, 64 at a time",
            ),
        ),
        ("Respire", "InsPIRe", "YPIR", "published", "T-Respire"),
        ("pir: answers", "pir: dense", "pir: published", "pir: service", "pir: database", "pir: shards", "pir: sealed"),
        "retrieval",
        "pir",
    ),
    Area(
        "Search",
        "The ten nearest of a million vectors of 384 numbers, unseen. Search in the clear is several times faster, "
        "and Tiptoe's ranking, by its formulas, sends fewer bytes after its hint.",
        "make tables-search",
        (
            Line(
                "core seconds, a million",
                "search: a million documents",
                "core_seconds",
                "synthetic, 1000000 x 384",
            ),
            Line(
                "recall of the ten nearest",
                "search: a million documents",
                "recall",
                "synthetic, 1000000 x 384",
            ),
            Line(
                "answer, one thread",
                "search: a million documents",
                "answer_time",
                "synthetic, 1000000 x 384",
                (Other("exact search in the clear", "exact"),),
            ),
            Line("bytes up", "search: a million documents", "query_bytes", "synthetic, 1000000 x 384"),
            Line("bytes down", "search: a million documents", "answer_bytes", "synthetic, 1000000 x 384"),
            Line(
                "all of 8,192 scored",
                "search: beside other encryption",
                "product_time",
                "8192 x 384, all scored",
                (Other("product in CKKS, as Apple's in BFV", "matrix product"),),
            ),
            Line(
                "bytes up, planned, a million",
                "search: beside other encryption",
                "planned_query_bytes",
                "1000000 x 384",
                (Other("Tiptoe's ranking, by formula", "Tiptoe"),),
            ),
            Line(
                "hint, planned, a million",
                "search: beside other encryption",
                "planned_hint_bytes",
                "1000000 x 384",
                (Other("Tiptoe's", "Tiptoe"),),
            ),
            Line("a question by command, 100,000", "search: service", "command_time", "synthetic, 100000 x 384"),
        ),
        ("matrix product", "Tiptoe", "exact"),
        (
            "search: collections",
            "search: a million documents",
            "search: beside other encryption",
            "search: service",
            "search: in the clear",
            "search: the planner",
        ),
    ),
    Area(
        "Language model",
        "The private end of a prompt stays encrypted; tokens are those of the model in the clear. Blocks of 7B models "
        "are counted and predicted, not run.",
        "make tables-llama",
        (
            Line(
                "stories260K, a pass of 16 tokens",
                "llama: passes",
                "pass_time",
                "stories260K, 16 tokens, chunk 2",
            ),
            Line(
                "same top token as in the clear",
                "llama: passes",
                "chain_same_top_token",
                "stories260K, 12 private and 64 generated tokens",
            ),
            Line(
                "SmolLM2-135M, 64 private tokens",
                "llama: SmolLM2",
                "chain_pass_time",
                f"{SMOL}, 64 private and 1 generated tokens",
            ),
            Line(
                "same top token as in the clear",
                "llama: SmolLM2",
                "chain_same_top_token",
                f"{SMOL}, 64 private and 1 generated tokens",
            ),
            Line(
                "SmolLM2-135M, a pass of 8",
                "llama: SmolLM2",
                "chain_pass_time",
                f"{SMOL}, 8 private and 2 generated tokens",
            ),
            Line(
                "product with a matrix, 512 x 512",
                "llama: linear algebra and polynomials",
                "time",
                "product on coefficients, 512 x 512, 64 tokens",
                (Other("diagonals on slots", "diagonals"),),
            ),
            Line(
                "slim polynomial, degree 127",
                "llama: linear algebra and polynomials",
                "time",
                "slim polynomial, degree 127",
                (Other("Paterson and Stockmeyer", "Paterson"),),
            ),
            Line("block of Llama-2-7B, predicted, one core", "llama: blocks", "predicted_block_time", BLOCK),
        ),
        ("diagonals", "Paterson", "slots", "Jiang", "coefficients"),
        (
            "llama: linear algebra and polynomials",
            "llama: passes",
            "llama: SmolLM2",
            "llama: blocks",
            "llama: in the clear",
        ),
        page="llama",
        after="The paper's block of Llama-2-7B takes 1.182 s on four RTX 4090 GPUs for one token (its Table 5).",
    ),
    Area(
        "Own models",
        "Models from ONNX files, 128 rows at a time, beside Concrete ML, which answers one row at a time on all cores.",
        "make tables-model",
        (
            Line("logistic regression, 128 rows, all cores", "own models", "answer_time", f"{BREAST}, all cores"),
            Line("three layers of 128, 128 rows, all cores", "own models", "answer_time", f"{WIDE}, all cores"),
            Line("logistic regression, each row", "own models", "beside_row_time", BREAST, (CONCRETE,)),
            Line("logistic regression, one row alone", "own models", "beside_first_row_time", BREAST, (CONCRETE,)),
            Line("bytes of its query", "own models", "beside_query_bytes", BREAST, (CONCRETE,)),
            Line("three layers of 128, each row", "own models", "beside_row_time", WIDE, (CONCRETE,)),
            Line("three layers of 128, one row alone", "own models", "beside_first_row_time", WIDE, (CONCRETE,)),
            Line("bytes of its query", "own models", "beside_query_bytes", WIDE, (CONCRETE,)),
            Line("its accuracy in the clear", "own models", "beside_accuracy", WIDE, (CONCRETE,)),
            Line("its labels as in the clear", "own models", "label_agreement", WIDE),
            Line(
                "LeNet-5 with ReLU, full batch, all cores",
                "own models",
                "answer_time",
                "digits, LeNet-5 with ReLU, all cores",
            ),
            Line("ResNet-20, one picture, all cores", "own models", "answer_time", "digits, ResNet-20, all cores"),
            Line(
                "its labels as in the clear, with polynomials",
                "own models",
                "label_agreement",
                "digits, ResNet-20, with polynomials",
            ),
        ),
        ("Concrete ML",),
        ("own models",),
        "own-models",
    ),
    Area(
        "Browser",
        "The same client as a module in Chromium ([all steps](browser.md)).",
        "make tables-browser",
        (
            Line("digits, encrypt", "browser", "encrypt_time", "digits", (Other("native", "native"),)),
            Line("digits, make keys", "browser", "key_time", "digits", (Other("native", "native"),)),
            Line("a vector of 8,192", "browser", "encrypt_vector_time", "degree 2^14", (Other("node-seal", "node"),)),
            Line("first private digit, keys included", "browser", "first_answer_time", "digits"),
        ),
        ("node-seal",),
        ("browser",),
    ),
)


def beside(wanted: Line, section: Section, row: dict) -> str:
    """What stands beside our value, and how many times better ours is."""
    cells = []
    for other in wanted.others:
        if other.case:
            found = section.row(wanted.metric, other.case)
            value = found["ours"] if found else None
            ratio = value / row["ours"] if value is not None and row["ours"] else None
        else:
            found = section.row(wanted.metric, wanted.case, other.baseline)
            value, ratio = (found["baseline"], found["ratio"]) if found else (None, None)
            if value is not None and ratio is None and row["ours"]:
                ratio = value / row["ours"]
        if value is None:
            continue
        times = "" if ratio is None else f" (**{number(ratio)} times**)" if ratio < 1 else f" ({number(ratio)} times)"
        cells.append(f"{other.name}: {amount(value, row['unit'])}{times}")
    return "; ".join(cells)


def lost_rows(area: Area, sections: dict[str, Section]) -> tuple[int, list[dict]]:
    """How many rows stand beside others, and those that are lost, the worst first."""
    rows = [
        row
        for name in area.sections
        if name in sections
        for row in sections[name].rows
        if row["ratio"] is not None and row["unit"] not in COUNTS and row["baseline_name"].startswith(area.peers)
    ]
    return len(rows), sorted((row for row in rows if row["ratio"] < 1), key=lambda row: row["ratio"])


def lost(area: Area, sections: dict[str, Section]) -> str:
    """How many rows are lost, and the worst of them."""
    count, rows = lost_rows(area, sections)
    if not rows:
        return f"0 of {count}" if count else ""
    row = rows[0]
    worst = f"{row['case']}, {row['metric']}, to {row['baseline_name']}"
    return f"{len(rows)} of {count}; most: {worst}: {number(row['ratio'])}"


def gpu() -> str:
    """The area of GPUs."""
    runs = gpu_tables.runs()
    if not runs:
        said = (
            "No GPU has run the engine yet: no figure is claimed. [docs/gpu](gpu/README.md) says what was tested "
            "without one, and `scripts/gpu_check.sh` measures on a machine that has one."
        )
    else:
        said = f"What devices said, the newest run {runs[-1].name}: [benchmarks/gpu.md](benchmarks/gpu.md)."
    return paragraph(said)


def area_text(area: Area, sections: dict[str, Section]) -> str:
    """One area of the page."""
    parts = [f"## {area.name}\n"]
    if area.name == "GPU":
        return "\n".join([*parts, gpu()])
    parts.append(paragraph(area.claim))
    table = ["| what | ours | beside it |", "| --- | ---: | --- |"]
    for wanted in area.lines:
        section = sections.get(wanted.section)
        first = wanted.others[0].baseline if wanted.others else ""
        row = section.row(wanted.metric, wanted.case, first) if section else None
        if section and row:
            table.append(line(wanted.what, amount(row["ours"], row["unit"]), beside(wanted, section, row)))
    parts.append("\n".join(table) + "\n")
    shown = dict.fromkeys(shown.section for shown in area.lines if shown.section in sections)
    remarks = (remark for name in shown for remark in sections[name].remarks)
    said = " ".join(part for part in (area.after, *remarks) if part)
    if said:
        parts.append(paragraph(said))
    if area.plot in plots.drawn(sections):
        parts.append(f"![{area.name}](benchmarks/{area.plot}.svg)\n")
    return "\n".join(parts)


def index(sections: dict[str, Section]) -> str:
    """A table with a line for each area: command, machine, date, rows, papers' tables, and lost rows."""
    lines = [
        "| area | command | machine | measured | rows | papers' tables | lost |",
        "| --- | --- | --- | --- | --- | --- | --- |",
    ]
    for area in AREAS:
        known = [name for name in area.sections if name in sections]
        dates = sorted({sections[name].date for name in known})
        machines = "; ".join(sorted({sections[name].machine for name in known}))
        rows = ", ".join(f"[{name.split(': ')[-1]}](benchmarks/{file_name(name)})" for name in known)
        page = f"[{area.page}.md](benchmarks/{area.page}.md)" if area.page and (known or gpu_tables.runs()) else ""
        measured = " to ".join(dict.fromkeys((dates[0], dates[-1]))) if dates else "not yet"
        name = f"[{area.name}](#{area.name.lower().replace(' ', '-')})"
        lines.append(line(name, f"`{area.command}`", machines, measured, rows, page, lost(area, sections)))
    return "\n".join(lines) + "\n"


def missed(sections: dict[str, Section]) -> str:
    """All targets that are not met."""
    found = targets.outcomes(sections)
    met = sum(outcome.met is True for outcome in found)
    parts = [
        "## Targets\n",
        paragraph(
            f"{met} of {len(found)} targets are met (`research/tables/targets.py` has all of them). These are not, or "
            "were not measured; those of GPUs are not counted, because no row has them."
        ),
        "| area | what | target | found |\n| --- | --- | --- | --- |",
    ]
    parts += [
        f"| {outcome.area} | {outcome.what} | {outcome.wanted} | {outcome.found} |"
        for outcome in found
        if outcome.met is not True
    ]
    return "\n".join(parts) + "\n"


def page(sections: dict[str, Section]) -> str:
    """The whole page."""
    areas = (area_text(area, sections) for area in AREAS)
    return "\n".join(["# Benchmarks\n", INTRODUCTION, index(sections), *areas, missed(sections)])
