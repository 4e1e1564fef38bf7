"""What was aimed at, and what was found: the targets of this project, checked on recorded rows."""

from __future__ import annotations

from typing import NamedTuple

import matrix_tables
from page import amount, number
from records import Section


class Target(NamedTuple):
    """A bound of our value, or of its ratio to a baseline, for the rows of a metric and a case."""

    area: str
    what: str
    section: str
    metric: str
    case: str
    wanted: float
    baseline: str = ""
    side: str = "at most"
    ratio: bool = False
    # The rows, pictures or tokens that one answer must be for, if it counts.
    batch: int | None = None


class Outcome(NamedTuple):
    """A target with what was found; `met` is none if nothing was measured."""

    area: str
    what: str
    wanted: str
    found: str
    met: bool | None


def faster(area: str, what: str, section: str, metric: str, case: str, baseline: str, times: float) -> Target:
    """At least so many times better than a baseline."""
    return Target(area, what, section, metric, case, times, baseline, "at least", True)


def at_least(area: str, what: str, section: str, metric: str, case: str, wanted: float) -> Target:
    """Our value at least so much."""
    return Target(area, what, section, metric, case, wanted, side="at least")


LEVELS = ("full", "half", "lowest")
BOOT, BOOT_AVX2 = "bootstrap, n16_boot_depth10_scale50", "bootstrap, n16_boot_depth10_scale50, avx2"
EMBEDDING = "embedding, log p = 10, d ="
MILLION = "search: a million documents", "synthetic, 1000000 x 384"
STORIES = "stories260K, 12 private and 64 generated tokens"
SMOL = "SmolLM2-135M-Instruct,"
OWN_TIMES = (
    ("breast cancer, logistic regression", 128, 0.05),
    ("customers, logistic regression", 128, 0.05),
    ("breast cancer, 3 x 128, 7 bits", 128, 1.0),
    ("breast cancer, 3 x 128, 8 bits", 128, 1.0),
    ("customers, 3 x 128, 7 bits", 128, 1.0),
    ("customers, 3 x 128, 8 bits", 128, 1.0),
    ("digits, LeNet-5 with squares", 128, 2.0),
    ("digits, LeNet-5 with ReLU", 128, 2.0),
    ("digits, ResNet-20", 1, 60.0),
)
AGREEMENT = 0.995

TARGETS = (
    *(
        faster("engine", f"{what}, {level} level, AVX2", "engine", "time", f"{what}, {level} level, avx2", "OpenFHE", x)
        for what, x in (("rotate", 3.5), ("multiply and relinearise", 3.5), ("rescale", 3.0))
        for level in LEVELS
    ),
    faster("engine", "hoisted rotation over a whole one", "engine", "time", "hoisted rotation against a whole one",
           "ours", 2),
    faster("engine", "rotate, two threads over one", "engine", "time", "rotate, 2 threads", "ours", 1.6),
    faster("engine", "multiply, two threads over one", "engine", "time", "multiply and relinearise, 2 threads",
           "ours", 1.6),
    faster("engine", "bytes of a rotation key", "engine", "wire_bytes", "rotation key", "OpenFHE", 2),
    at_least("engine", "product of matrices, AVX2", "engine", "rate", "PCMM 64 x 256, avx2", 10),
    Target("bootstrap", "seconds, AVX2", "bootstrap", "time", BOOT_AVX2, 9),
    at_least("bootstrap", "precision", "bootstrap", "precision_rms", BOOT, 20),
    at_least("bootstrap", "levels left", "bootstrap", "levels_left", BOOT, 8),
    Target("bootstrap", "keys in memory", "bootstrap", "key_memory", BOOT, 4e9),
    Target("bootstrap", "keys on the wire", "bootstrap", "key_wire", BOOT, 2e9),
    Target("bootstrap", "log2 of failures", "bootstrap", "log2_failure", BOOT, -40),
    *(
        faster("lookup", f"fastText over the paper's plan, {preset}", "lookup", "time_per_message", case, "ive", 5)
        for preset in ("n14_depth8_scale30", "n15_depth8_scale50")
        for case in (f"fastText, baby-giant-8, {preset}",)
    ),
    faster("lookup", "d = 50, p = 1024, over Kim et al.", "lookup", "lookup_per_token",
           f"{EMBEDDING} 50, cosine-64, n15_real_depth11_scale50", "Kim", 400),
    faster("lookup", "d = 50, p = 1024, over the paper's plan", "lookup", "lookup_per_token",
           f"{EMBEDDING} 50, cosine-64, n15_real_depth11_scale50", "ive", 3),
    faster("lookup", "d = 300, p = 1024, over the paper's plan", "lookup", "lookup_per_token",
           f"{EMBEDDING} 300, complex-first, n15_depth10_scale50", "ive", 1.5),
    faster("client encryption", "pool of the secret's, over SEAL", "encrypt: modes", "encrypt",
           "CKKS, pool of the secret's", "SEAL, public key", 20),
    faster("client encryption", "pool of a public key's, over SEAL", "encrypt: modes", "encrypt",
           "CKKS, pool of a public key's", "SEAL, public key", 20),
    faster("client encryption", "seeded, over SEAL's symmetric", "encrypt: modes", "encrypt", "CKKS, seeded",
           "SEAL, symmetric", 4),
    faster("client encryption", "public key, over SEAL", "encrypt: modes", "encrypt", "CKKS, public key",
           "SEAL, public key", 5),
    Target("retrieval", "256 MB, compact", "pir: answers", "answer_time", "256 MB, compact", 5),
    Target("retrieval", "256 MB, bits", "pir: answers", "answer_time", "256 MB, bits", 4),
    Target("retrieval", "keys, compact", "pir: answers", "key_bytes", "compact", 300e6),
    Target("retrieval", "keys, bits", "pir: answers", "key_bytes", "bits", 300e6),
    Target("retrieval", "response, compact", "pir: answers", "response_bytes", "256 MB, compact", 2048),
    Target("retrieval", "memory for each byte", "pir: answers", "memory_per_byte", "256 MB", 16),
    faster("retrieval", "256 MB, packed, over Respire", "pir: answers", "answer_time", "256 MB, packed", "Respire", 1),
    faster("retrieval", "1 GB, packed, over Respire", "pir: answers", "answer_time", "1 GB, packed", "Respire", 1),
    at_least("retrieval", "dense, 1 GB, one query", "pir: dense", "dense_rate", "1 GB, 1 query", 4),
    at_least("retrieval", "dense, 8 GB, one query", "pir: dense", "dense_rate", "8 GB, 1 query", 4),
    Target("retrieval", "dense, memory for each byte", "pir: dense", "memory_per_byte", "8 GB, dense", 2),
    at_least("search", "recall, 100,000", "search: collections", "recall", "synthetic, 100000 x 384, for 0.98", 0.98),
    Target("search", "core seconds, 100,000", "search: collections", "core_seconds",
           "synthetic, 100000 x 384, for 0.98", 0.1),
    at_least("search", "recall, a million", MILLION[0], "recall", MILLION[1], 0.95),
    Target("search", "core seconds, a million", MILLION[0], "core_seconds", MILLION[1], 0.6),
    Target("search", "query, a million", MILLION[0], "query_bytes", MILLION[1], 2e6),
    Target("search", "answer, a million", MILLION[0], "answer_bytes", MILLION[1], 1e6),
    Target("search", "memory for each number, a million", MILLION[0], "memory_per_coordinate", MILLION[1], 3),
    at_least("language model", "product on coefficients, 512 x 512", "llama: linear algebra and polynomials", "rate",
             "product on coefficients, 512 x 512, 64 tokens", 8),
    at_least("language model", "product on coefficients, 256 x 256", "llama: linear algebra and polynomials", "rate",
             "product on coefficients, 256 x 256, 128 tokens", 8),
    faster("language model", "slim polynomial, degree 127", "llama: linear algebra and polynomials", "time",
           "slim polynomial, degree 127", "Paterson", 2),
    Target("language model", "a pass of stories260K", "llama: passes", "pass_time",
           "stories260K, 16 tokens, chunk 1", 60),
    Target("language model", "its second pass", "llama: passes", "pass_time", "stories260K, 16 tokens, chunk 2", 60),
    faster("language model", "a pass, two threads over one", "llama: passes", "pass_time_by_threads",
           "stories260K, 16 tokens, chunk 2 again, 2 threads", "", 1.6),
    at_least("language model", "same top token, stories260K", "llama: passes", "chain_same_top_token_above_error",
             STORIES, 1),
    Target("language model", "SmolLM2, 64 tokens", "llama: SmolLM2", "chain_pass_time",
           f"{SMOL} 64 private and 1 generated tokens", 1800),
    Target("language model", "SmolLM2, 8 tokens", "llama: SmolLM2", "chain_pass_time",
           f"{SMOL} 8 private and 2 generated tokens", 720),
    at_least("language model", "same top token, SmolLM2, 64", "llama: SmolLM2", "chain_same_top_token_above_error",
             f"{SMOL} 64 private and 1 generated tokens", 1),
    at_least("language model", "same top token, SmolLM2, 8", "llama: SmolLM2", "chain_same_top_token_above_error",
             f"{SMOL} 8 private and 2 generated tokens", 1),
    Target("language model", "memory, SmolLM2", "llama: SmolLM2", "peak_memory", "this process", 20e9),
    *(
        Target("own models", f"{case}: {batch} at a time", "own models", "answer_time", f"{case}, all cores", most,
               batch=batch)
        for case, batch, most in OWN_TIMES
    ),
    *(
        Target("own models", f"{case}: a query", "own models", "query_bytes", case, 500e3)
        for case, _, _ in OWN_TIMES[:2]
    ),
)  # fmt: skip


def outcome(target: Target, sections: dict[str, Section]) -> Outcome:
    """What was found for a target."""
    section = sections.get(target.section)
    rows = section.all(target.metric, target.case, target.baseline) if section else []
    values = [row["ratio" if target.ratio else "ours"] for row in rows]
    values = [value for value in values if value is not None]
    guessed = "s" if target.metric.endswith("time") else "bytes" if target.metric.endswith("bytes") else "1"
    unit = rows[0]["unit"] if rows else guessed

    def shown(value: float) -> str:
        return f"{number(value)} times" if target.ratio else amount(value, unit)

    wanted = f"{target.side} {shown(target.wanted)}"
    if not values:
        return Outcome(target.area, target.what, wanted, "not measured", None)
    worst = min(values) if target.side == "at least" else max(values)
    met = worst >= target.wanted if target.side == "at least" else worst <= target.wanted
    batch = rows[0]["params"].get("batch")
    other = target.batch is not None and batch != target.batch
    said = f"{shown(worst)}, for {batch} at a time" if other else shown(worst)
    return Outcome(target.area, target.what, wanted, said, met and not other)


def agreement(sections: dict[str, Section]) -> list[Outcome]:
    """Labels of models of one's own beside those in the clear, and errors beside the predicted ones."""
    section = sections.get("own models")
    rows = section.rows if section else []
    labels = [row for row in rows if row["metric"] == "label_agreement"]
    errors = [row for row in rows if row["metric"] == "result_error" and row["baseline"] is not None]
    outcomes, area = [], "own models"
    if labels:
        worst = min(labels, key=lambda row: row["ours"])
        kept = sum(row["ours"] >= AGREEMENT for row in labels)
        found = f"{kept} of {len(labels)} rows; {worst['case']}: {number(worst['ours'])}"
        wanted = f"at least {AGREEMENT} in all"
        outcomes.append(Outcome(area, "labels of the clear model", wanted, found, kept == len(labels)))
    if errors:
        worst = max(errors, key=lambda row: row["ours"] / row["baseline"])
        kept = sum(row["ours"] <= row["baseline"] for row in errors)
        pair = f"{number(worst['ours'])}, predicted {number(worst['baseline'])}"
        found = f"{kept} of {len(errors)} rows; {worst['case']}: {pair}"
        outcomes.append(Outcome(area, "error of results", "at most as predicted in all", found, kept == len(errors)))
    return outcomes


def matrices(sections: dict[str, Section]) -> list[Outcome]:
    """The paper's ratios in every row, 1.3 times as much in half of them, and a planner that picks the fastest."""
    names = (matrix_tables.PERMUTATIONS, matrix_tables.PRODUCTS, matrix_tables.DIGITS)
    known = [sections[name] for name in names if name in sections]
    over = [ratio for section in known for *_, ratio in matrix_tables.ratios(section.rows)]
    metric = "planned_over_the_fastest_candidate"
    slowest = [row["ours"] for section in known for row in section.rows if row["metric"] == metric]
    outcomes = []
    if over:
        least, half = sum(ratio >= 1 for ratio in over), sum(ratio >= 1.3 for ratio in over)
        counted = f"of {len(over)} rows"
        outcomes.append(
            Outcome("matrices", "rows with the paper's ratio", f"all {counted}", f"{least}", least == len(over))
        )
        said = f"at least half {counted}"
        outcomes.append(Outcome("matrices", "rows with 1.3 times it", said, f"{half}", 2 * half >= len(over)))
    if slowest:
        worst = max(slowest)
        outcomes.append(
            Outcome("matrices", "planner's choice over the fastest", "at most 1.1 times", number(worst), worst <= 1.1)
        )
    return outcomes


def outcomes(sections: dict[str, Section]) -> list[Outcome]:
    """All targets, in the order of the areas."""
    found = [outcome(target, sections) for target in TARGETS]
    return [*found, *agreement(sections), *matrices(sections)]
