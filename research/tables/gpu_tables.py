"""The page on GPUs: what `scripts/gpu_check.sh` wrote on machines that have one."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from page import line as row

RUNS = Path(__file__).resolve().parents[2] / "docs" / "gpu"


def lines(path: Path) -> list[dict[str, Any]]:
    """The lines of a part; none if it did not run."""
    return json.loads(path.read_text()) if path.exists() else []


def table(heads: list[str], rows: list[list[object]]) -> str:
    """A table; nothing without rows."""
    if not rows:
        return ""
    rule = ["---"] + ["---:"] * (len(heads) - 1)
    return "\n".join(row(*cells) for cells in (heads, rule, *rows)) + "\n"


def number(value: object, factor: float = 1.0) -> float | None:
    """A measured number in another unit."""
    return value * factor if isinstance(value, int | float) else None


def bits(run: Path) -> str:
    """Whether all bits were those of the processor."""
    found = lines(run / "bits.json")
    compared = [line for line in found if "same" in line]
    other = [f"{line['operation']} at 2^{line['log_degree']}" for line in compared if not line["same"]]
    said = f"{len(compared)} comparisons of operations with the processor's bits"
    return f"{said}: {'all the same' if not other else 'other bits from ' + ', '.join(other)}.\n"


def bootstraps(run: Path) -> str:
    """Bootstraps with and without a graph."""
    rows = [
        [
            f"{line['preset']}, {line['where']}",
            number(line["seconds"], 1e3),
            number(line.get("seconds_without_graph"), 1e3),
            number((line.get("totals") or {}).get("h100_ms_of_memory")),
            line.get("same", "-"),
        ]
        for line in lines(run / "bootstraps.json")
        if "seconds" in line
    ]
    return table(["bootstrap", "ms", "ms without a graph", "floor of memory on an H100, ms", "same bits"], rows)


def rates(run: Path) -> str:
    """Rates of single operations."""
    found = lines(run / "rates.json")
    rows = [
        [line["operation"], number(line["seconds"], 1e6), number(line.get("bytes_per_second"), 1e-12)]
        for line in found
        if "operation" in line
    ]
    ceilings = [line["multiplications_per_second"] for line in found if "ceiling" in line]
    said = f"Ceiling of arithmetic: {ceilings[0] / 1e12:.3g} T multiplications a second.\n\n" if ceilings else ""
    return said + table(["operation", "us", "TB/s"], rows)


def passes(run: Path) -> str:
    """Texts of a language model."""
    rows = []
    for path in sorted(run.glob("pass-*.json")):
        line = json.loads(path.read_text() or "{}")
        rows.append([path.stem, number(line.get("seconds_per_pass")), line.get("passes", "-"), line.get("text", "-")])
    return table(["stories260K", "seconds a pass", "passes", "text"], rows)


def retrieval(run: Path) -> str:
    """Dense retrieval."""
    rows = []
    for line in lines(run / "retrieval.json"):
        if "queries_per_second" in line:
            name = f"{line.get('where', '')}, {line['queries']} at once"
            rows.append([name, number(line["queries_per_second"]), line.get("same", "-")])
    return table(["dense retrieval", "queries a second", "same bits"], rows)


def runs() -> list[Path]:
    """The folders of all runs, the newest last."""
    return sorted(path.parent for path in RUNS.glob("*/machine.txt"))


def page() -> str:
    """What devices said; empty if there was no run."""
    parts = []
    for run in runs():
        machine = run.joinpath("machine.txt").read_text(encoding="utf-8").strip()
        tables = [bits(run), bootstraps(run), rates(run), passes(run), retrieval(run)]
        parts += [f"## {run.name}\n", f"```\n{machine}\n```\n", *(text for text in tables if text)]
    return "\n".join(["# On a GPU\n", *parts]) if parts else ""
