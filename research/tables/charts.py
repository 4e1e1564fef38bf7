"""Bars on a logarithmic scale, as SVG: the same bytes from the same rows, text as text, readable on any background."""

from __future__ import annotations

import math
from typing import NamedTuple
from xml.sax.saxutils import escape

from page import amount

WIDTH, LEFT, RIGHT = 800, 290, 90
BAR, BETWEEN, GROUP, TOP, BOTTOM = 13, 3, 9, 62, 26

STYLE = """\
text{font:12px system-ui,sans-serif;fill:#1f2328}.title{font-weight:600;font-size:14px}.name,.end{text-anchor:end}
.mid{text-anchor:middle}.mid,.end{fill:#59636e}.card{fill:#fff;stroke:#d1d9e0}.grid{stroke:#d1d9e0}.ours{fill:#0969da}
.peer{fill:#bc4c00}.second{fill:#9a6700}.third{fill:#8250df}.published{fill:#fff;stroke:#59636e;stroke-dasharray:3 2}
@media(prefers-color-scheme:dark){text{fill:#f0f6fc}.mid,.end{fill:#9198a1}.card{fill:#0d1117;stroke:#3d444d}
.grid{stroke:#3d444d}.ours{fill:#4493f8}.peer{fill:#db6d28}.second{fill:#d29922}.third{fill:#ab7df8}
.published{fill:#0d1117;stroke:#9198a1}}"""


class Bar(NamedTuple):
    """A value: `ours`, `peer`, `second` or `third` was measured here, `published` was not."""

    kind: str
    name: str
    value: float


class Chart(NamedTuple):
    """Groups of bars with a label each; less is better."""

    title: str
    unit: str
    groups: list[tuple[str, list[Bar]]]


def svg(chart: Chart) -> str:
    """The picture."""
    bars = [bar for _, group in chart.groups for bar in group]
    low = math.floor(math.log10(0.8 * min(bar.value for bar in bars)))
    high = math.ceil(math.log10(max(bar.value for bar in bars)))
    span = WIDTH - LEFT - RIGHT

    def place(value: float) -> float:
        return LEFT + span * (math.log10(value) - low) / (high - low)

    height = TOP + BOTTOM + len(bars) * (BAR + BETWEEN) + len(chart.groups) * GROUP
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}" viewBox="0 0 {WIDTH} {height}" '
        f'role="img" aria-label="{escape(chart.title, {chr(34): "&quot;"})}">',
        f"<style>{STYLE}</style>",
        f'<rect class="card" x="0.5" y="0.5" width="{WIDTH - 1}" height="{height - 1}" rx="6"/>',
        f'<text class="title" x="14" y="22">{escape(chart.title)}</text>',
        f'<text class="end" x="{WIDTH - 14}" y="22">less is better, logarithmic scale</text>',
        *legend(bars),
    ]
    for decade in range(low, high + 1):
        x = f"{place(10.0**decade):.1f}"
        parts.append(f'<line class="grid" x1="{x}" y1="{TOP - 6}" x2="{x}" y2="{height - BOTTOM}"/>')
        label = escape(amount(10.0**decade, chart.unit))
        parts.append(f'<text class="mid" x="{x}" y="{height - 9}">{label}</text>')
    y = TOP
    for label, group in chart.groups:
        middle = y + (len(group) * (BAR + BETWEEN) - BETWEEN) / 2 + 4
        parts.append(f'<text class="name" x="{LEFT - 10}" y="{middle:.1f}">{escape(label)}</text>')
        for bar in group:
            end = place(bar.value)
            parts.append(
                f'<rect class="{bar.kind}" x="{LEFT}" y="{y}" width="{end - LEFT:.1f}" height="{BAR}">'
                f"<title>{escape(bar.name)}</title></rect>"
            )
            value = escape(amount(bar.value, chart.unit))
            parts.append(f'<text x="{end + 5:.1f}" y="{y + BAR - 2}">{value}</text>')
            y += BAR + BETWEEN
        y += GROUP
    return "\n".join([*parts, "</svg>"]) + "\n"


def legend(bars: list[Bar]) -> list[str]:
    """The names of all kinds of bars, in one line."""
    parts, x = [], 14.0
    for kind, name in dict.fromkeys((bar.kind, bar.name) for bar in bars):
        parts.append(f'<rect class="{kind}" x="{x:.0f}" y="33" width="11" height="11"/>')
        parts.append(f'<text x="{x + 16:.0f}" y="43">{escape(name)}</text>')
        x += 34 + 7 * len(name)
    return parts
