"""docs/compare.md: other systems beside this one. Their published figures have a source; the others are our rows."""

from __future__ import annotations

from page import amount, line, number, paragraph
from pir_tables import TABLE_7
from records import Section, file_name

READ = "2026-12-01"

INTRODUCTION = """\
What other systems do and how fast, from three kinds of source, each marked: **run here**, beside ours on the same
machine ([benchmarks.md](benchmarks.md) says how); **published**, by their authors on their machines, which is for
comparison of shape and not of speed; **documented**, features that their own documents name. Machines, parameters and
security differ where a figure is published: read the source before you quote it.
"""

FEATURES_ABOUT = (
    f'Features as the projects\' own READMEs name them, read on {READ}; "-" is not "no": the text that we read does '
    "not say it. SEAL's is that of version 3.6, Lattigo's of version 4; ours is [README.md](../README.md)."
)

# Unspoken, Lattigo, OpenFHE, SEAL, Concrete ML, Swift Homomorphic Encryption.
SYSTEMS = ("Unspoken", "Lattigo", "OpenFHE", "SEAL", "Concrete ML", "Swift HE")
FEATURES = (
    (
        "schemes",
        "CKKS, RGSW; sums in BFV, BGV",
        "CKKS, BFV, BGV, RGSW",
        "CKKS, BFV, BGV, FHEW, TFHE",
        "CKKS, BFV",
        "-",
        "BFV",
    ),
    ("bootstrapping of CKKS", "yes", "yes", "yes", "-", "-", "-"),
    ("several parties, threshold", "-", "yes", "yes", "-", "-", "-"),
    ("language", "Rust, Python", "Go", "C++", "C++, .NET", "Python", "Swift"),
    ("browser", "yes, a client", "yes, a build", "-", "yes, a build", "-", "-"),
    ("private retrieval", "yes", "-", "-", "-", "-", "yes, by key"),
    ("private nearest neighbours", "yes", "-", "-", "-", "-", "yes"),
    ("models of one's own", "ONNX, scikit-learn", "-", "-", "-", "scikit-learn, torch", "-"),
    ("language models", "yes", "-", "-", "-", "-", "-"),
    ("licence", "Apache-2.0", "Apache-2.0", "BSD-2-Clause", "MIT", "BSD-3-Clause-Clear", "-"),
)

SOURCES = """\
Documented: the READMEs of `tuneinsight/lattigo`, `openfheorg/openfhe-development`, `microsoft/SEAL`,
`zama-ai/concrete-ml` and `apple/swift-homomorphic-encryption` on GitHub.
"""

# What was run here: label, section, metric, case, beginning of the baseline.
RUN = (
    ("rotation, N = 2^16, full level", "engine", "time", "rotate, full level, avx2", "OpenFHE"),
    ("rotation, N = 2^16, full level", "engine", "time", "rotate, full level, avx2", "Lattigo"),
    ("product with relinearisation", "engine", "time", "multiply and relinearise, full level, avx2", "OpenFHE"),
    ("product with relinearisation", "engine", "time", "multiply and relinearise, full level, avx2", "Lattigo"),
    ("bytes of a rotation key", "engine", "wire_bytes", "rotation key", "OpenFHE"),
    ("bytes of a rotation key", "engine", "wire_bytes", "rotation key", "Lattigo"),
    *(
        (label, "bootstrap", metric, f"bootstrap, n16_boot_depth10_scale50{backend}", peer)
        for label, metric, backend in (
            ("bootstrap", "time", ", avx2"),
            ("its precision", "precision_rms", ""),
            ("its keys", "key_wire", ""),
        )
        for peer in ("OpenFHE, sparse encapsulated secret, 4", "Lattigo, N16QP1767", "Lattigo, N16QP1788")
    ),
    ("encoding and public-key encryption", "encrypt: modes", "encode_and_encrypt", "CKKS, public key", "SEAL, public"),
    ("encoding and symmetric encryption", "encrypt: modes", "encode_and_encrypt", "CKKS, seeded", "SEAL, symmetric"),
    ("retrieval, 1 GB, packed", "pir: answers", "answer_time", "1 GB, packed", "Respire"),
    ("retrieval, 1 GB, dense", "pir: dense", "dense_answer_time", "1 GB, beside InsPIRe's program", "InsPIRe"),
    ("retrieval, 1 GB, dense", "pir: dense", "dense_answer_time", "1 GB, beside YPIR's program", "YPIR"),
    ("three layers of 128, one row", "own models", "beside_first_row_time", "breast cancer, 3 x 128, 7 bits", "Conc"),
    ("logistic regression, one row", "own models", "beside_first_row_time", "breast cancer, logistic regression", "Co"),
)

VERSIONS = (
    "Versions are those that `make peers` and `make tables-model` set up: OpenFHE 1.6.1, Lattigo 6.1.1, SEAL in "
    "tenseal 0.3.16, Concrete ML 1.9.0; [research/peers](../research/peers/README.md) has the programs on retrieval."
)

PIROUETTE = "Pirouette, Table 7"
OURS = {
    "a compact query": ("pir: answers", "answer_time", "1 GB, compact"),
    "a packed query": ("pir: answers", "answer_time", "1 GB, packed"),
    "bits": ("pir: answers", "answer_time", "1 GB, bits"),
    "keys": ("pir: answers", "key_bytes", "compact"),
    "fastText": ("lookup", "time_per_message", "fastText, baby-giant-8, n15_depth8_scale50"),
    "embedding": ("lookup", "lookup_per_token", "embedding, log p = 10, d = 50, cosine-64, n15_real_depth11_scale50"),
    "transpose": ("matrix: permutations", "time", "transpose, d = 128, depth 4"),
    "product": ("matrix: products", "time_per_product", "product, d = 32, 32 blocks"),
    "digits": ("matrix: digits", "time", "E2DM-lite, batch 8"),
    "zinc": ("encrypt: modes", "encrypt", "CKKS, pool of the secret's"),
    "vanilla": ("encrypt: modes", "encrypt", "CKKS, vanilla"),
    "block": ("llama: blocks", "predicted_block_time", "Llama-2-7B, generation, 8 tokens"),
    "wide": ("search: collections", "answer_time", "synthetic, 100000 x 384"),
    "million": ("search: a million documents", "core_seconds", "synthetic, 1000000 x 384"),
    "resnet": ("own models", "answer_time", "digits, ResNet-20"),
    "": ("", "", ""),
}
GB = TABLE_7["1 GB"]
# What, who, published value, on what, source, and our row.
PUBLISHED = (
    ("retrieval, 1 GB, 36-byte query", "Pirouette", f"{GB['compact'][2]} s", "one core", PIROUETTE, "a compact query"),
    ("its keys", "Pirouette", "1.2 GB", "-", PIROUETTE, "keys"),
    ("retrieval, 1 GB, 57-byte query", "Pirouette^H", f"{GB['bits'][2]} s", "one core", PIROUETTE, "bits"),
    ("retrieval, 1 GB", "Respire", f"{GB['packed'][2]} s, 7.7 KB", "one core", PIROUETTE, "a packed query"),
    ("retrieval, 1 GB, 208-byte query", "T-Respire", "296 s", "one core", PIROUETTE, "a compact query"),
    ("fastText, 128 tokens", "IVE-PEL", "83.2 ms", "Xeon 6542Y, one thread", "IVE-PEL, Table 5", "fastText"),
    ("fastText, 128 tokens", "Kim et al.", "9.10 s", "Xeon 6542Y, one thread", "IVE-PEL, Table 5", "fastText"),
    ("a token, p = 1024, d = 50", "IVE-PEL", "5.446 ms", "Xeon 6542Y, one thread", "IVE-PEL, Table 3", "embedding"),
    ("a token, p = 1024, d = 50", "Kim et al.", "427 ms", "Xeon 6542Y, one thread", "IVE-PEL, Table 3", "embedding"),
    ("transpose, d = 128, depth 4", "permutations", "598 ms", "i7-13700K, one thread", "its Table 3", "transpose"),
    ("product, d = 32", "permutations", "1,842 ms", "i7-13700K, one thread", "its Table 4", "product"),
    ("E2DM-lite, 8 images", "permutations", "363 ms", "i7-13700K, one thread", "its Table 6", "digits"),
    ("vanilla encryption", "Zinc's SEAL 4.1", "57.6 ms", "EPYC 7302P, one thread", "Zinc, Table 1", "vanilla"),
    ("block of Llama-2-7B, one token", "Llama in CKKS", "1.025 s", "8 RTX 4090", "its Table 5", "block"),
    ("ResNet-20, CIFAR-10, one image", "Orion", "618 s", "one CPU thread", "Orion, ASPLOS 2025", "resnet"),
    ("ResNet-20, CIFAR-10, one image", "Cheddar", "1.05 s", "one H100", "Cheddar, 2024", "resnet"),
    ("bootstrap at 2^40", "Cheddar", "31.2 ms", "H100", "Cheddar, 2024", ""),
    ("100,000 documents, recall 0.72 (ours above 0.95)", "PRAG", "1.29 s", "-", "PRAG, 2026", "wide"),
    ("360 million pages", "Tiptoe", "145 core seconds, 57 MB", "-", "Tiptoe, SOSP 2023", ""),
    ("retrieval, 1 GB, 0.57 KB", "VIA-C", "0.83 s, 110 bits, records of 4 bits", "-", "VIA-C, 2025", "a packed query"),
)

NOTES = """\
From these papers: IVE-PEL is "Private Embedding Lookup with Encrypted Compact Queries under Fully Homomorphic
Encryption" (June 2026), Pirouette "Pirouette: Query Efficient Single-Server PIR", Zinc "At Least Factor-of-Two
Optimization for RWLE-Based Homomorphic Encryption" (broken: [cached-encryption.md](cached-encryption.md)), permutations
"New Permutation Decomposition Techniques For Efficient Homomorphic Permutation", Llama in CKKS "Scaling up
Privacy-Preserving ML: A CKKS Implementation of Llama-2-7B" (December 2025). Figures of Orion, Cheddar, PRAG, Tiptoe and
VIA-C are as their authors state them, collected by November 2026. Ours of the block is a prediction for one core and
eight tokens. Ours of ResNet-20 is for one thread, of digits with a margin and not of CIFAR-10, with polynomials of
degree 15: their errors change more labels than those of the others are said to do, see
[targets](benchmarks.md#targets).
"""


def run_here(sections: dict[str, Section]) -> str:
    """Rows of other systems beside ours."""
    lines = ["| what | other | theirs | ours | times | measured |", "| --- | --- | ---: | ---: | ---: | --- |"]
    for what, name, metric, case, peer in RUN:
        section = sections.get(name)
        row = section.row(metric, case, peer) if section else None
        if section is None or row is None:
            continue
        theirs, ours = (amount(row[side], row["unit"]) for side in ("baseline", "ours"))
        ratio = row["ratio"] if row["ratio"] is not None else row["baseline"] / row["ours"]
        times = number(ratio) if ratio >= 1 else f"**{number(ratio)}**"
        date = f"[{section.date}](benchmarks/{file_name(name)})"
        lines.append(line(what, row["baseline_name"], theirs, ours, times, date))
    return "\n".join(lines) + "\n"


def published(sections: dict[str, Section]) -> str:
    """Published figures beside our rows."""
    lines = ["| what | who | published | on | source | ours |", "| --- | --- | --- | --- | --- | ---: |"]
    for what, who, value, machine, source, ours in PUBLISHED:
        name, metric, case = OURS[ours]
        section = sections.get(name)
        row = section.row(metric, case) if section else None
        shown = amount(row["ours"], row["unit"]) if row else "-"
        lines.append(line(what, who, value, machine, source, shown))
    return "\n".join(lines) + "\n"


def page(sections: dict[str, Section]) -> str:
    """The whole page."""
    features = [line("", *SYSTEMS), "| --- " * (len(SYSTEMS) + 1) + "|", *(line(*row) for row in FEATURES)]
    machine = ", ".join(sorted({section.machine for section in sections.values()}))
    parts = [
        "# How it compares\n",
        INTRODUCTION,
        "## Run here\n",
        paragraph(f"On {machine}; times above 1 are in our favour, others are bold. {VERSIONS}"),
        run_here(sections),
        "## Published\n",
        NOTES,
        published(sections),
        "## Documented\n",
        paragraph(FEATURES_ABOUT),
        "\n".join(features) + "\n",
        SOURCES,
    ]
    return "\n".join(parts)
