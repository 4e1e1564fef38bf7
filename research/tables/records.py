"""Rows of benchmarks: docs/benchmarks/SECTION.jsonl, from which all pages and plots are made.

The first line of a file says the section, the date, the version, the machine, what was done (`about`) and what else is
to be known (`remarks`). Each other line is a row as `unspoken-bench SUITE --json` prints it.
"""

from __future__ import annotations

import json
import os
import platform
import re
import subprocess
from dataclasses import asdict, dataclass, field
from datetime import date
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "docs" / "benchmarks"

# A machine is busy if so many threads a core, or more, were running or waiting in the last minute.
BUSY = 0.5


@dataclass
class Section:
    """The rows of one measurement, and how they came about."""

    section: str
    date: str
    version: str
    machine: str
    about: str = ""
    remarks: list[str] = field(default_factory=list)
    rounded: str = ""
    rows: list[dict[str, Any]] = field(default_factory=list)

    def measured(self) -> str:
        """When, with what and where the rows were measured."""
        return f"{self.date}, {self.version}, {self.machine}"

    def all(self, metric: str, case: str, baseline: str = "") -> list[dict[str, Any]]:
        """The rows of a metric, a case and a beginning of the baseline's name."""
        wanted = (row for row in self.rows if row["metric"] == metric and row["case"] == case)
        return [row for row in wanted if row["baseline_name"].startswith(baseline)]

    def row(self, metric: str, case: str, baseline: str = "") -> dict[str, Any] | None:
        """The first of them, if there is one."""
        return next(iter(self.all(metric, case, baseline)), None)


def file_name(section: str) -> str:
    """The name of a section's file."""
    return re.sub(r"[^a-z0-9]+", "-", section.lower()).strip("-") + ".jsonl"


def read(path: Path) -> Section:
    """The section in a file."""
    header, *rows = map(json.loads, path.read_text(encoding="utf-8").splitlines())
    return Section(**header, rows=rows)


def read_all(folder: Path = FOLDER) -> dict[str, Section]:
    """All sections by their names."""
    sections = map(read, sorted(folder.glob("*.jsonl")))
    return {section.section: section for section in sections}


def write(section: Section, folder: Path = FOLDER) -> Path:
    """Writes a section in place of the one before."""
    header = asdict(section)
    rows = header.pop("rows")
    if not header["rounded"]:
        del header["rounded"]
    lines = (json.dumps(line, ensure_ascii=False) + "\n" for line in (header, *rows))
    path = folder / file_name(section.section)
    folder.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(lines), encoding="utf-8")
    return path


def processor() -> str:
    """Name of the processor, from the operating system."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()


def begin(section: str, binary: Path, about: str = "") -> Section:
    """A section without rows: of today, of this machine, with a remark if other programs use it now."""
    version = subprocess.run([binary, "--version"], check=True, stdout=subprocess.PIPE, text=True).stdout.strip()
    cores = os.cpu_count() or 1
    load, remarks = os.getloadavg()[0], []
    if load > BUSY * cores:
        remarks.append(f"Other programs used the machine: its load was {load:.1f} when the measurement began.")
    paragraphs = (" ".join(paragraph.split()) for paragraph in about.split("\n\n"))
    told = "\n\n".join(paragraph for paragraph in paragraphs if paragraph)
    machine = f"{processor()}, {cores} cores, {platform.system()}"
    return Section(section, str(date.today()), version, machine, told, remarks)


def plain_row(suite: str, metric: str, unit: str, case: str, ours: float | None, **params: Any) -> dict[str, Any]:
    """A row without a baseline."""
    return {
        "suite": suite,
        "case": case,
        "metric": metric,
        "unit": unit,
        "ours": ours,
        "baseline": None,
        "baseline_name": "",
        "ratio": None,
        "params": params,
    }
