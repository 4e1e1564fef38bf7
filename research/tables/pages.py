"""All pages and plots that are made from the recorded rows."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import charts
import compare
import encrypt_tables
import gpu_tables
import llama_encrypted_tables
import llama_tables
import lookup_tables
import matrix_tables
import overview
import pir_tables
import plots
from page import line, paragraph
from records import ROOT, Section, file_name

DOCS = ROOT / "docs"
EMBEDDINGS = "embeddings"


def compressed(rows: list[dict]) -> str:
    """Compressed embedding tables: sizes, errors, accuracy."""
    metrics = ("compress_time", "relative_error", "mean_row_error", "mean_cosine", "accuracy")
    lines = [
        "### Compressed tables\n",
        "| table | tokens | numbers | columns | seconds | relative error | mean row error | mean cosine | accuracy "
        "| uncompressed |",
        "| --- |" + " ---: |" * 9,
    ]
    known = {(row["metric"], row["case"]): row for row in rows}
    for row in rows:
        if row["metric"] != "compress_time":
            continue
        params, found = row["params"], [known[metric, row["case"]] for metric in metrics]
        name = row["case"].rsplit(", ", 1)[0]
        shape = (f"{params['tokens']:,}", params["width"], params["columns"])
        lines.append(line(name, *shape, *(one["ours"] for one in found), found[-1]["baseline"]))
    return "\n".join(lines)


def of_rows(*made: Callable[[list[dict]], str]) -> Callable[[Section], list[str]]:
    """Tables of a section that are made from its rows."""
    return lambda section: [table(section.rows) for table in made]


class Papers(NamedTuple):
    """A page of tables beside a paper's."""

    title: str
    about: str
    sections: dict[str, Callable[[Section], list[str]]]


PAPERS = {
    "lookup": Papers(
        "Lookup and embeddings beside the paper's tables",
        "The paper is on private embedding lookup with encrypted compact queries (IVE-PEL).",
        {
            lookup_tables.LOOKUP: of_rows(*lookup_tables.TABLES[lookup_tables.LOOKUP]),
            EMBEDDINGS: of_rows(compressed, lookup_tables.table_three),
        },
    ),
    "matrix": Papers(
        "Encrypted matrices beside the paper's tables",
        "The paper is on decompositions of permutations; the times are those of its Tables 3, 4, 6, 7 and 8.",
        {name: of_rows(*tables) for name, tables in matrix_tables.TABLES.items()},
    ),
    "encrypt": Papers(
        "Client encryption beside the paper's tables",
        "The paper is on cached encryption (Zinc), which is broken: [why](../cached-encryption.md).",
        {name: of_rows(*tables) for name, tables in encrypt_tables.TABLES.items()},
    ),
    "pir": Papers(
        "Private retrieval beside the paper's tables",
        "The paper is on retrieval with queries of 36 bytes (Pirouette).",
        {name: of_rows(*tables) for name, tables in pir_tables.TABLES.items()},
    ),
    "llama": Papers(
        "Private language models beside the paper's tables",
        "The paper is on Llama in CKKS.",
        {
            llama_tables.CLEAR: lambda section: [llama_tables.tables(section)],
            **{name: of_rows(*tables) for name, tables in llama_encrypted_tables.TABLES.items()},
        },
    ),
}


def papers(page: Papers, sections: dict[str, Section]) -> str:
    """A page of tables beside a paper's."""
    parts = [f"# {page.title}\n", paragraph(f"{page.about} Made by `make benchmarks-render` from the recorded rows.")]
    for name, tables in page.sections.items():
        section = sections.get(name)
        if section is None:
            continue
        parts.append(f"## {name}\n")
        rows = f"[rows]({file_name(name)})"
        parts.append(paragraph(f"{section.measured()}; {rows}. {section.rounded}".strip()))
        parts += [paragraph(text) for text in (*section.about.split("\n\n"), *section.remarks) if text]
        parts += [table.rstrip() + "\n" for table in tables(section) if table]
    return "\n".join(parts)


def made(sections: dict[str, Section]) -> dict[Path, str]:
    """The texts of all pages and plots by their paths."""
    folder = DOCS / "benchmarks"
    files = {DOCS / "benchmarks.md": overview.page(sections), DOCS / "compare.md": compare.page(sections)}
    files.update({folder / f"{name}.md": papers(page, sections) for name, page in PAPERS.items()})
    files.update({folder / f"{name}.svg": charts.svg(chart) for name, chart in plots.drawn(sections).items()})
    devices = gpu_tables.page()
    if devices:
        files[folder / "gpu.md"] = devices
    return files


def write(sections: dict[str, Section]) -> None:
    """Writes all pages and plots, and removes plots that have no rows any more."""
    files = made(sections)
    for path in {*(DOCS / "benchmarks").glob("*.svg")} - set(files):
        path.unlink()
    for path, text in files.items():
        path.write_text(text, encoding="utf-8")
        print(f"wrote {path.relative_to(ROOT)}")
