"""Formatting of paragraphs, numbers and lines of Markdown."""

from __future__ import annotations

import textwrap

WIDTH = 120


def paragraph(text: str) -> str:
    """A paragraph wrapped at 120 characters, with an empty line after it."""
    return textwrap.fill(text, WIDTH, break_long_words=False, break_on_hyphens=False) + "\n"


def number(value: float | None) -> str:
    """A number with four significant digits, or a dash."""
    if value is None:
        return "-"
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"


# Units that are written in their largest part or multiple that the value fills.
SCALES = {
    "s": ((1.0, "s"), (1e-3, "ms"), (1e-6, "us"), (1e-9, "ns")),
    "bytes": ((1e9, "GB"), (1e6, "MB"), (1e3, "KB"), (1.0, "bytes")),
}
SCALES["ms"] = tuple((1e3 * factor, name) for factor, name in SCALES["s"])
SCALES["us"] = tuple((1e6 * factor, name) for factor, name in SCALES["s"])


def amount(value: float | None, unit: str) -> str:
    """A number of at most four digits with its unit, for readers: `36 bytes`, `1.62 GB`, `3.35 ms`."""
    if value is None:
        return "-"
    scales = SCALES.get(unit)
    if scales:
        factor, name = next((scale for scale in scales if abs(value) >= 0.9999 * scale[0]), scales[-1])
        return f"{short(value / factor)} {name}"
    return short(value) if unit in ("share", "of 1", "of 10", "1") else f"{short(value)} {unit}"


def short(value: float) -> str:
    """A number with three significant digits, or all before the point."""
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def line(*values: object) -> str:
    """One line of a table; numbers are formatted by `number`."""
    shown = (number(value) if isinstance(value, float) or value is None else str(value) for value in values)
    return f"| {' | '.join(shown)} |"


def table(rows: list[dict]) -> str:
    """One Markdown table of rows, with a column for the metric."""
    lines = ["| case | metric | ours | baseline | baseline is | ratio |", "| --- | --- | ---: | ---: | --- | ---: |"]
    for row in rows:
        ours, baseline, ratio = (number(row[name]) for name in ("ours", "baseline", "ratio"))
        lines.append(line(row["case"], f"{row['metric']} ({row['unit']})", ours, baseline, row["baseline_name"], ratio))
    return "\n".join(lines) + "\n"
