"""Tables of encrypted language models, with the figures of the paper (Llama in CKKS)."""

from __future__ import annotations

from page import line, number, paragraph

PRODUCTS, PASSES, BLOCKS = "llama: linear algebra and polynomials", "llama: passes", "llama: blocks"
SMOLLM2 = "llama: SmolLM2"

NOTES = {
    PRODUCTS: """\
`make tables-llama`. Parameters are those of private passes. Products on coefficients multiply the dimensions of
encrypted tokens by a plaintext matrix at the lowest level; one multiply-add is counted for each entry, coefficient and
prime. Slim polynomials are `1 / sqrt(x)` as sums of squares of degree `2^k` beside Paterson and Stockmeyer's method at
degree `2^k - 1`, which takes as many levels. Attention has as many heads as fill a ciphertext, and is
measured once after a round that is not counted; ours is what a pass does, and every way ends at the same level.
""",
    PASSES: """\
`make tables-llama`. stories260K with a preparation that the suite makes from stories of the model; passes run on all
cores, one after the other. The bootstraps of a step belong to its phase. Key switches are counted by the simulator. The
chain is that of a client with drafts and a service in one process, over their messages. The logits after each private
and each generated token are compared with those of the model in the clear on the tokens that were sent.
`chain_same_top_token_above_error` is over those whose two most likely tokens are farther apart in the clear than twice
the largest error of a logit.
""",
    SMOLLM2: """\
`make tables-llama-smollm2`. SmolLM2-135M-Instruct, prepared on 8,192 tokens of film reviews for texts of 512 tokens,
with 12 bits of each value's range (`unspoken llama prepare --tokens 8192 --public 256 --private 256 --chunk 64
--bits 12`). The public text is the beginning of another review: 256 tokens after the prefix. Client and service are
in one process, over their messages; seconds are those of the service on all cores. The logits after each private and
each generated token are compared with those of the model in the clear on the tokens that were sent, as for the chain of
stories260K.
""",
    BLOCKS: """\
`make tables-llama`. Blocks are **counted, not run**: a simulator without values runs the pass of one layer with random
weights at the true dimensions, and the seconds are **predicted** for one core of this machine, on which the engine's
units of work were measured. A share of a block, with all tokens and the full width but one eighth of the heads and of
the feed-forward network, is **run** on all cores beside its own prediction.
""",
}

# Table 5 of the paper: seconds of the second block on 4 and on 8 RTX 4090 GPUs.
TABLE_5 = {
    ("Llama-2-7B", "summarisation"): {
        "QKV projection": (0.461, 0.371),
        "attention kernel": (2.948, 1.505),
        "O projection": (0.254, 0.226),
        "FFN kernel": (0.870, 0.557),
        "": (4.532, 2.659),
    },
    ("Llama-3-8B", "summarisation"): {
        "QKV projection": (0.429, 0.352),
        "attention kernel": (2.850, 1.489),
        "O projection": (0.260, 0.170),
        "FFN kernel": (0.924, 0.634),
        "": (4.463, 2.645),
    },
    ("Llama-2-7B", "generation"): {
        "QKV projection": (0.204, 0.178),
        "attention kernel": (0.725, 0.629),
        "O projection": (0.050, 0.045),
        "FFN kernel": (0.203, 0.173),
        "": (1.182, 1.025),
    },
    ("Llama-3-8B", "generation"): {
        "QKV projection": (0.192, 0.169),
        "attention kernel": (0.722, 0.628),
        "O projection": (0.053, 0.047),
        "FFN kernel": (0.243, 0.215),
        "": (1.210, 1.059),
    },
}

# The phases of a share that are those of Table 5.
SHARE_PHASES = {
    "QKV projection": ("attention norm", "queries, keys, values"),
    "attention kernel": ("scores", "softmax", "weighted values"),
    "O projection": ("output projection",),
    "FFN kernel": ("FFN norm", "FFN"),
}

LAYERS = 32


def phases(found: list[dict]) -> str:
    """Seconds, bootstraps and key switches of each phase of the passes that were run."""
    lines = [
        "### By phase\n",
        "CPU seconds are of all threads; bootstraps are vectors; predicted seconds are those of one core.\n",
        "| pass and phase | seconds | of it bootstraps | CPU seconds | bootstraps | key switches | predicted |",
        "| --- |" + " ---: |" * 6,
    ]
    within = {row["case"]: row["ours"] for row in found if row["metric"] == "phase_bootstrap_time"}
    for row in (row for row in found if row["metric"] == "phase_time"):
        params = row["params"]
        counts = float(params["bootstraps"]), float(params["key_switches"])
        times = row["ours"], within.get(row["case"]), params.get("cpu_seconds")
        lines.append(line(row["case"], *times, *counts, params["predicted_seconds"]))
    return "\n".join(lines)


# Columns of the table of chains: metrics of their rows.
CHAIN_COLUMNS = (
    ("seconds of a pass", "chain_pass_time"),
    ("CPU seconds", "chain_pass_cpu_time"),
    ("seconds per token", "chain_time_per_token"),
    ("tokens per pass", "chain_tokens_per_pass"),
    ("same top token", "chain_same_top_token"),
    ("divergence, nats", "chain_divergence"),
    ("largest logit error", "chain_largest_logit_error"),
    ("bytes of keys", "chain_key_bytes"),
)


def chains(found: list[dict]) -> str:
    """What chains of tokens took, and how well they agree with the model in the clear."""
    about = paragraph(
        "Seconds of a pass are the median of the passes. A margin is the distance between the two most likely tokens "
        "in the clear. The same text is the number of generated tokens up to the first that differs from those of the "
        "model in the clear."
    )
    names = [name for name, _ in CHAIN_COLUMNS]
    further = ["tokens compared", "largest margin of another top token", "passes", "guessed", "same text"]
    lines = [
        "### Chains\n",
        about,
        "| chain | " + " | ".join([*names, *further]) + " |",
        "| --- |" + " ---: |" * (len(names) + len(further)),
    ]
    for case in dict.fromkeys(row["case"] for row in found if row["metric"] == "chain_pass_time"):
        own = {row["metric"]: row for row in found if row["case"] == case}
        params = own["chain_pass_time"]["params"]
        counts = (params["compared"], params["largest_lost_margin"], params["passes"], params["guessed"])
        values = [own[metric]["ours"] for _, metric in CHAIN_COLUMNS]
        lines.append(line(case, *values, *map(float, counts), own["chain_same_text"]["ours"]))
    return "\n".join(lines)


def measured_over_predicted(found: list[dict], what: str) -> float | None:
    """CPU seconds of phases of the share that was run, over their prediction."""
    names = tuple(f", {phase}" for phase in SHARE_PHASES[what])
    rows = [row for row in found if row["metric"] == "phase_time" and row["case"].endswith(names)]
    predicted = sum(row["params"]["predicted_seconds"] for row in rows)
    return sum(row["params"]["cpu_seconds"] for row in rows) / predicted if predicted else None


def table_five(found: list[dict]) -> str:
    """Predicted seconds of blocks by phase, beside the paper's."""
    lines = [
        "### One block (Table 5)\n",
        paragraph(
            "Predicted: one core. Corrected: the same, times measured CPU seconds over predicted seconds of the phase "
            "in the share that was run. Neither is a measurement of a block. The paper's are measured seconds on 4 "
            "and 8 RTX 4090 GPUs; its generation step is one token, ours is one pass of eight."
        ),
        "| block | phase | bootstraps | key switches | predicted, s | corrected, s | paper: 4 GPUs | 8 GPUs |",
        "| --- | --- |" + " ---: |" * 6,
    ]
    sums: dict[str, float] = {}
    for row in (row for row in found if row["metric"] == "predicted_block_time"):
        model, kind, tokens, *phase = row["case"].split(", ")
        what = phase[0] if phase else ""
        paper = TABLE_5.get((model, kind), {}).get(what, (None, None))
        params, name = row["params"], f"{model}, {kind}, {tokens}"
        counts = float(params["bootstraps"]), float(params["key_switches"])
        if what:
            factor = measured_over_predicted(found, what)
            corrected = factor * row["ours"] if factor else None
            sums[name] = sums.get(name, 0.0) + (corrected or 0.0)
        else:
            factors = [(other, measured_over_predicted(found, other)) for other in SHARE_PHASES]
            parts = [
                (factor or 0.0) * part["ours"]
                for other, factor in factors
                for part in found
                if part["metric"] == "predicted_block_time" and part["case"] == f"{row['case']}, {other}"
            ]
            corrected = sum(parts) or None
        lines.append(line(name, what or "all", *counts, row["ours"], corrected, *paper))
    projected = [f"- {name}: {number(LAYERS * seconds)} s" for name, seconds in sums.items() if seconds]
    if projected:
        said = f"{LAYERS} layers by the paper's method, which multiplies, from the corrected CPU seconds of one core:"
        lines += ["", said, "", *projected]
    return "\n".join(lines)


TABLES = {
    PASSES: (phases, chains),
    BLOCKS: (phases, table_five),
    SMOLLM2: (chains,),
}
