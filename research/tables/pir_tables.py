"""Tables of private retrieval, with the figures of the paper (Pirouette)."""

from __future__ import annotations

from page import line, number, paragraph

ANSWERS, DENSE, DATABASE, SERVICE = "pir: answers", "pir: dense", "pir: database", "pir: service"
PUBLISHED, SEALED, SHARDS = "pir: published", "pir: sealed", "pir: shards"

NOTES = {
    ANSWERS: """\
Records of 256 bytes, random, in memory; 1 MB is 2^20 bytes. Seconds are those of the server from a query that was read
to responses that are not yet written; every response is opened and compared. The modes take turns, on one thread and
on all cores. A session query is answered as a compact one is. `noise_over_prediction` is the deviation of a response's
noise over the predicted one; `log2_failure` is that of the probability that a query fails, from the predictions.
Respire's program (github.com/AMACB/respire, its own benchmark, native processor features, one thread) ran after ours on
the same machine: both tables together do not fit. Its expansion makes the selectors, too. Records are encoded, and
keys made and loaded, once: those times are of one run.
`projected_time` at 8 GB, one thread: expansion in proportion to the blind rotations, one for each bit of the index and
one for each bit that is refreshed, sums over rows and selection in proportion to the bytes, selectors and compression
as measured, all from the largest table measured.
""",
    DENSE: """\
Records of 256 bytes, random, in memory; 1 GB is 2^30 bytes, and a rate of 1 GB/s is 10^9 bytes of records a second, for
all queries of a pass together. Each query is of a client with keys of its own. Seconds are those of the server from
queries that were read to responses that are not yet written; every response is opened and compared. The baseline reads
all bytes of the table once, on one thread, and adds them up. Loads take turns. A service answers at most 16 queries in
a pass. InsPIRe's and YPIR's programs ran before ours on the same machine, native processor features, one thread; YPIR
with SimplePIR, with 2^16 and 2^18 records of 3,584 bytes: seven eighths of our bytes. InsPIRe's first dimension (8,192
and 16,384) is the fastest of five at 256 MB, and was not varied at 1 GB. Their queries are counted with the keys that
come with each; ours has keys that are sent once besides ("pir: answers", packed).
""",
    PUBLISHED: """\
The forms of the paper that this project replaced, built as published at parameters with 128 bits for every key
(`crates/research/bench/src/pir/published`), beside ours, in turn, on one thread, by the wall clock. Every bit and every
record is decrypted and compared.
Expansion: from the encrypted index to RGSW ciphertexts of its bits. The published form takes digits out of the index
(two blind rotations for each but the last), bits out of the digits (one each), and bootstraps the bits. Its LWE secret
is the ring's, so it has no key switch for digits; its digits have 4 bits, because those of 5 would fail too often. The
paper's own sets are in the rows that name them: security to first order, keys by the formulas of its Table 6, and a
lower estimate of its failures at 25 bits from the roundings of the floors alone. Keys of the response are left out on
both sides.
Large records: the published selectors have a ciphertext for each of two digits of three bits, so that a record of 1,536
bytes is one entry; ours are in six tables. The switch of the published form to a ring of responses is not built.
T-Respire: the paper's point of comparison, with stand-ins. AES-128 is a circuit of this engine's operations (a circuit
bootstrap for each bit of the state in each round, tables rotated by the bits), of which one column of one round is
measured and multiplied by 40 for a block; Respire is our packed mode. The number of blocks is
inferred from the bytes of the paper's query, of which 16 are taken for the counter.
""",
    DATABASE: """\
On disk, by key, two candidates: values of 192 bytes, one for each 256 bytes of the size. `build_time` and `open_time`
(which checks every byte) are on all cores. An update is a `put`; each commit is durable. `refresh_time` is what a
reader takes to see all commits of the rows above, `compaction_time` to write the tables anew. All but the updates are
done once. `table_per_byte` is over the bytes of values: buckets have room to spare.
""",
    SERVICE: """\
Over HTTP on this machine, service and clients on the same cores: records of 256 bytes by index, a query a request. So
many clients at a time, each with a connection and keys of its own, which were sent before and are in the memory of the
service if there is room; `latency` is the median from a question to the record, waiting in the queue included. A
question by key takes two queries, sent in one request.
""",
    SEALED: """\
One thread. So many names are blinded by a client, evaluated by the service with one proof for all, and finalized by the
client, which checks the proof. Requests and answers are counted with their checksums of 32 bytes. `seal_time` is the
owner's, with the evaluation that gives the key of the record; a record has one padded length.
""",
    SHARDS: """\
Dense tables of records of 256 bytes, cut into shards, all cores. The shards are built one after the other; each answers
the same query, from memory, and is dropped. The record that the added answers give is compared. `all_shards_time` is
what one machine needs for all of them, `slowest_shard_time` what as many machines need, without the network.
""",
}

# The paper's Table 7, one core: size to (keys in MB, query in bytes, seconds, MB/s); `packed` is Respire there.
TABLE_7 = {
    "256 MB": {"compact": (1200, 36, 19, 13), "bits": (650, 55, 15, 17), "packed": (4, 4100, 1.5, 170)},
    "1 GB": {"compact": (1200, 36, 26, 39), "bits": (650, 57, 21, 48), "packed": (4, 7700, 4, 256)},
    "8 GB": {"compact": (1200, 36, 60, 137), "bits": (650, 60, 55, 148), "packed": (4, 14800, 30, 273)},
}

PHASES = ("expansion_time", "selectors_time", "rows_time", "selection_time", "compression_time")

PUBLISHED_PHASES = ("published_digits_time", "published_bits_time", "published_conversion_time")


def find(found: list[dict], metric: str, case: str) -> dict | None:
    """The row of a metric and a case."""
    return next((row for row in found if (row["metric"], row["case"]) == (metric, case)), None)


def value(found: list[dict], metric: str, case: str) -> float | None:
    """Our value, if it was measured."""
    row = find(found, metric, case)
    return row["ours"] if row else None


def table_seven(found: list[dict]) -> str:
    """Bytes and seconds by size and mode, with those of the paper."""
    lines = [
        "### By size and mode (Table 7)\n",
        paragraph(
            "One thread; the paper's are of one core of another machine: for comparison of shape, not of speed. "
            "`packed` beside the paper's Respire. Keys are sent once."
        ),
        "| size | mode | keys, MB | query, bytes | response, bytes | seconds | MB/s | all cores, s | Respire here, s "
        "| keys (paper) | query (paper) | seconds (paper) | MB/s (paper) |",
        "| --- | --- |" + " ---: |" * 11,
    ]
    for size, modes in TABLE_7.items():
        for mode, (keys, query, seconds, rate) in modes.items():
            case = f"{size}, {mode}"
            row = find(found, "answer_time", case)
            if row is None:
                continue
            wire = value(found, "key_bytes", mode)
            ours = [
                wire / 1e6 if wire else None,
                *(value(found, f"{what}_bytes", case) for what in ("query", "response")),
            ]
            ours += [row["ours"], value(found, "answer_rate", case), value(found, "answer_time", f"{case}, all cores")]
            ours.append(row["baseline"])
            lines.append(line(size, mode, *ours, float(keys), float(query), float(seconds), float(rate)))
    return "\n".join(lines)


def phases(found: list[dict]) -> str:
    """Seconds of each phase, ours and Respire's."""
    lines = [
        "### Phases, seconds\n",
        "| case | expansion | selectors | sums over rows | selection | compression | all |",
        "| --- |" + " ---: |" * 6,
    ]
    for total in (row for row in found if row["metric"] == "answer_time"):
        rows = [find(found, phase, total["case"]) for phase in PHASES]
        lines.append(line(total["case"], *(row["ours"] if row else None for row in rows), total["ours"]))
        if total["baseline_name"].startswith("Respire"):
            theirs = [row["baseline"] if row else None for row in rows]
            lines.append(line(f"{total['case']}, Respire's program", *theirs, total["baseline"]))
    return "\n".join(lines)


def projected(found: list[dict]) -> str:
    """Projected times for 8 GB, with those of the paper."""
    lines = [
        "### 8 GB, projected, one thread\n",
        "| mode | from | seconds | seconds (paper) | growth of phases | answered |",
        "| --- | --- | ---: | ---: | --- | --- |",
    ]
    for row in (row for row in found if row["metric"] == "projected_time"):
        size, _, mode = row["case"].partition(", ")
        paper = float(TABLE_7[size][mode][2])
        growth = ", ".join(number(factor) for factor in row["params"]["growth_of_phases"])
        answered = "yes" if row["params"]["answered"] else "no"
        lines.append(line(mode, row["params"]["from"], row["ours"], paper, growth, answered))
    return "\n".join(lines)


def dense_beside(found: list[dict]) -> str:
    """A single query beside the programs of others."""
    rows = [row for row in found if row["metric"] == "dense_answer_time"]
    if not rows:
        return "The programs of others were not installed.\n"
    lines = [
        "### One query beside other programs, one thread\n",
        "| table | program | seconds, ours | theirs | query, bytes, ours | theirs | response, bytes, ours | theirs |",
        "| --- | --- |" + " ---: |" * 6,
    ]
    for row in rows:
        size, _, program = row["case"].partition(", beside ")
        pairs = [find(found, metric, row["case"]) for metric in ("query_bytes", "response_bytes")]
        values = [side for pair in (row, *pairs) for side in (pair["ours"], pair["baseline"])]
        lines.append(line(size, program, *values))
    return "\n".join(lines)


def published_expansions(found: list[dict]) -> str:
    """Seconds of the expansion of an index, ours and the phases of the published one."""
    lines = [
        "### Expansion of an index, seconds\n",
        "| index | ours | published | ratio | digits | bits of digits | circuit bootstraps | digits, bits of each |",
        "| --- |" + " ---: |" * 7,
    ]
    for row in (row for row in found if row["metric"] == "index_expansion_time"):
        phases = (value(found, phase, row["case"]) for phase in PUBLISHED_PHASES)
        shape = f"{row['params']['digits']}, {row['params']['digit_bits']}"
        lines.append(line(row["case"], row["ours"], row["baseline"], row["ratio"], *phases, shape))
    return "\n".join(lines)


TABLES = {
    ANSWERS: (table_seven, phases, projected),
    DENSE: (dense_beside,),
    PUBLISHED: (published_expansions,),
}
