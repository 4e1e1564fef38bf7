"""Tables of encrypted matrices, with the figures of the paper (permutation decomposition)."""

from __future__ import annotations

from collections import defaultdict

from page import number, paragraph

PERMUTATIONS, NUMBER_OF_KEYS = "matrix: permutations", "matrix: number of keys"
PRODUCTS, DIGITS = "matrix: products", "matrix: digits"

NOTES = {
    NUMBER_OF_KEYS: """\
Random permutations: the planner's choice and the Benes network within a number of keys, in turn. Points at which more
keys change neither are left out. Every result has the same level.
""",
    PERMUTATIONS: """\
Everything in a case ends at the same level: deeper plans start higher. Keys of a baseline are counted as its authors
do, a key for each giant step where they have one; it runs with one key for the giant steps of a stage, which takes as
many rotations. `planned` is what the planner chooses with as many keys as the length has bits, and the Benes network
with one key for the giant steps of a stage has the same budget. As published, with a key for each giant step, it does
not exist within that budget; it is the fastest within twice as many keys. `planned_over_the_fastest_candidate` is the
time of what the planner chose over that of the fastest of the other plans within its limits. Of these, all that are
predicted to take at most 1.6 times as long are timed, each by itself, and the fastest three once more in turn with the
planner's choice.
""",
    PRODUCTS: """\
Milliseconds per product with every slot in use; everything ends three levels below the highest. The original of
Rizomiliotis and Triakosia rotates one by one, as published; hoisted, it is a stronger baseline of its own. So does the
replication without steps before the mask double one by one, as published, and with the fastest radix. In plain
products the left factor is not encrypted; everything ends two levels below the highest.
""",
    DIGITS: """\
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


def ratios(found: list[dict]) -> list[tuple[dict, float, float, float]]:
    """Rows that the paper has, too: its time, its ratio, and our ratio over that."""
    beside = []
    for row in found:
        if not row["metric"].startswith("time") or row["metric"] == "time_per_image" or row["ratio"] is None:
            continue
        for (case, baseline), (paper, other) in MATRIX_PAPER.items():
            if row["case"] == case and row["baseline_name"].startswith(baseline):
                beside.append((row, paper, other / paper, row["ratio"] * paper / other))
                break
    return beside


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
    for row, paper, ratio, over in ratios(found):
        values = (number(value) for value in (row["ours"], row["ratio"], paper, ratio, over))
        lines.append(f"| {row['case']} | {row['baseline_name']} | {' | '.join(values)} |")
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


TABLES = {
    PERMUTATIONS: (beside_paper, rotations_by_level),
    PRODUCTS: (single_block, beside_paper),
    DIGITS: (beside_paper,),
}
