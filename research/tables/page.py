"""Formatting of paragraphs, cells and lines of Markdown."""

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


def cells(row: dict) -> str:
    """Cells of our value, the baseline, its name, and the ratio."""
    ours, baseline, ratio = (number(row[field]) for field in ("ours", "baseline", "ratio"))
    return f"{ours} | {baseline} | {row['baseline_name']} | {ratio} |"


def line(*values: object) -> str:
    """One line of a table; numbers are formatted by `number`."""
    shown = (number(value) if isinstance(value, float) or value is None else str(value) for value in values)
    return f"| {' | '.join(shown)} |"
