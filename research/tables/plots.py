"""The plots of docs/benchmarks.md, from the recorded rows."""

from __future__ import annotations

from charts import Bar, Chart
from page import short
from pir_tables import TABLE_7
from records import Section

Sections = dict[str, Section]
Group = tuple[str, list[Bar]]


def bars(
    sections: Sections, section: str, metric: str, case: str, *others: tuple[str, str, str], ours: str = "ours"
) -> list[Bar]:
    """Our bar, and one for each baseline: kind, name in the legend, and beginning of its name."""
    known = sections.get(section)
    row = known.row(metric, case) if known else None
    if known is None or row is None:
        return []
    found = [Bar("ours", ours, row["ours"])]
    for kind, name, baseline in others:
        other = known.row(metric, case, baseline)
        if other and other["baseline"]:
            found.append(Bar(kind, name, other["baseline"]))
    return found


def grouped(groups: list[Group]) -> list[Group]:
    """The groups that have bars."""
    return [group for group in groups if group[1]]


def engine(sections: Sections) -> Chart:
    """Operations at full level."""
    names = ("rotate", "multiply and relinearise", "rescale", "hoist", "hoisted rotation, each", "add")
    others = ("peer", "OpenFHE", "OpenFHE"), ("second", "Lattigo", "Lattigo")
    groups = [
        (name, bars(sections, "engine", "time", f"{name}, full level, avx2", *others, ours="ours, AVX2"))
        for name in (*names, "multiply by a plaintext")
    ]
    return Chart("Engine: operations at N = 2^16, full level, one thread", "ms", grouped(groups))


def bootstrap(sections: Sections) -> Chart:
    """Times and keys of bootstraps."""
    others = (
        ("peer", "OpenFHE, 4 levels of 59 bits", "OpenFHE, sparse encapsulated secret, 4"),
        ("second", "Lattigo, N16QP1767", "Lattigo, N16QP1767"),
        ("third", "Lattigo, N16QP1788", "Lattigo, N16QP1788"),
    )
    preset = "n16_boot_depth10_scale50"
    groups = [
        (f"{name}, {kind}", bars(sections, "bootstrap", "time", f"bootstrap, {preset}, {backend}", *others))
        for name, kind, backend in (("10 levels of 50 bits", "AVX2", "avx2"), ("the same", "AVX-512", "avx512"))
    ]
    for label, other in (
        ("15 levels of 40 bits, AVX2", "n16_boot_depth15_scale40"),
        ("21 levels of 35 bits, AVX2", "n16_boot_depth21_scale35"),
    ):
        groups.append((label, bars(sections, "bootstrap", "time", f"bootstrap, {other}, avx2")))
    return Chart("Bootstrap of 2^15 complex slots, one thread", "s", grouped(groups))


def retrieval(sections: Sections) -> Chart:
    """Answers by mode, beside programs that ran here and published times."""
    groups: list[Group] = []
    for size in ("256 MB", "1 GB"):
        for mode, paper in (("compact", "Pirouette"), ("bits", "Pirouette^H"), ("packed", "Respire")):
            others = (("peer", "Respire's program, run here", "Respire"),) if mode == "packed" else ()
            found = bars(sections, "pir: answers", "answer_time", f"{size}, {mode}", *others)
            if found:
                seconds = float(TABLE_7[size][mode][2])
                found.append(Bar("published", "published, another machine", seconds))
            groups.append((f"{size}, {mode} ({paper})", found))
        found = []
        for kind, program in (("second", "InsPIRe"), ("third", "YPIR")):
            case = f"{size}, beside {program}'s program"
            both = bars(sections, "pir: dense", "dense_answer_time", case, (kind, f"{program}'s program", program))
            found += both[1:] if found else both
        groups.append((f"{size}, dense table", found))
    return Chart("Retrieval: seconds of an answer, one thread", "s", grouped(groups))


def lookup(sections: Sections) -> Chart:
    """Forms of query: seconds of a message."""
    known = sections.get("lookup")
    if known is None:
        return Chart("", "s", [])
    names = (
        ("direct queries", "fastText, direct queries, n15_depth8_scale50"),
        ("one-hot queries", "fastText, one-hot queries, n15_depth8_scale50"),
        ("compact queries", "fastText, compact queries, n16_boot_depth9_scale50"),
        ("short compact queries", "fastText, short compact queries, n16_query_depth11_scale40"),
    )
    groups: list[Group] = []
    for name, case in names:
        size, row = known.row("form_bytes_per_token", case), known.row("form_time_per_message", case)
        if size and row:
            label = f"{name}, {short(size['ours'])} bytes a token"
            groups.append((label, [Bar("ours", "ours, by form of query", row["ours"])]))
    plan = "fastText, baby-giant-8, n15_depth8_scale50"
    groups.append(
        (
            "direct queries, beside the paper's plan",
            bars(
                sections,
                "lookup",
                "time_per_message",
                plan,
                ("peer", "the paper's plan", "ive-paper"),
                ours="ours, by form of query",
            ),
        )
    )
    kim = "fastText, baby-giant-8, against the indicator extrapolated from 3 of 1024 columns"
    others = (("second", "Kim et al., extrapolated", "Kim"),)
    found = bars(sections, "lookup", "time_per_message", kim, *others, ours="ours, by form of query")
    groups.append(("direct queries, beside an indicator", found))
    return Chart("fastText on encrypted tokens: a message of 128 tokens", "s", grouped(groups))


def matrix(sections: Sections) -> Chart:
    """Products of encrypted matrices."""
    others = (
        ("peer", "Rizomiliotis and Triakosia", "Rizomiliotis"),
        ("second", "the paper's, by doublings", "the paper's"),
        ("third", "Jiang et al.", "Jiang"),
    )
    cases = ("d = 8, 8 blocks", "d = 8, 1 blocks", "d = 16, 16 blocks", "d = 16, 1 blocks", "d = 32, 32 blocks")
    groups = [
        (f"product, {case}", bars(sections, "matrix: products", "time_per_product", f"product, {case}", *others))
        for case in (*cases, "d = 32, 1 blocks", "d = 64, 8 blocks", "d = 64, 1 blocks")
    ]
    return Chart("Products of encrypted d x d matrices, one thread", "ms", grouped(groups))


def encrypt(sections: Sections) -> Chart:
    """Encoding and encryption of all slots."""
    cases = (
        ("pool of the secret's", "pool of the secret's", "SEAL, public key"),
        ("pool of a public key's", "pool of a public key's", "SEAL, public key"),
        ("seeded, secret key", "seeded", "SEAL, symmetric"),
        ("public key", "public key", "SEAL, public key"),
        ("vanilla public key", "vanilla", "SEAL, public key"),
    )
    groups = []
    for label, case, baseline in cases:
        kind = ("second", "SEAL, symmetric", baseline) if "symm" in baseline else ("peer", "SEAL, public key", baseline)
        groups.append((label, bars(sections, "encrypt: modes", "encode_and_encrypt", f"CKKS, {case}", kind)))
    return Chart("Encoding and encrypting 16,384 numbers, CKKS, one thread", "ms", grouped(groups))


def own_models(sections: Sections) -> Chart:
    """Each row of a full batch, and one row alone, beside Concrete ML."""
    known = sections.get("own models")
    groups: list[Group] = []
    for metric, what in (("beside_row_time", "in a batch"), ("beside_first_row_time", "alone")):
        for row in known.rows if known else ():
            if row["metric"] == metric:
                found = [Bar("ours", "ours, all cores", row["ours"])]
                found.append(Bar("peer", "Concrete ML, all cores", row["baseline"]))
                groups.append((f"{row['case']}: {what}".replace("logistic regression", "logistic"), found))
    return Chart("Models of one's own: a row, in a full batch and alone", "s", grouped(groups))


# Names of files, and what makes the pictures; one without bars is left out.
PLOTS = {
    "engine": engine,
    "bootstrap": bootstrap,
    "lookup": lookup,
    "matrix": matrix,
    "encrypt": encrypt,
    "retrieval": retrieval,
    "own-models": own_models,
}


def drawn(sections: Sections) -> dict[str, Chart]:
    """The plots that have bars, by the names of their files."""
    made = {name: plot(sections) for name, plot in PLOTS.items()}
    return {name: chart for name, chart in made.items() if chart.groups}
