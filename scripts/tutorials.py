"""Runs the notebooks of docs/tutorials, and saves what they print: `python3 scripts/tutorials.py [NAME ...]`.

Services get the command `unspoken` of PATH. `make tutorials` runs all of them; tests run them without saving.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import nbformat
from nbclient import NotebookClient

ROOT = Path(__file__).resolve().parents[1]
FOLDER = ROOT / "docs" / "tutorials"
ADDRESS = "127.0.0.1:8080"
# Of the slowest cell: a language model is prepared, or its keys are made.
CELL_SECONDS = 1200


def run(name: str, port: int = 8080) -> nbformat.NotebookNode:
    """A notebook as it is after a run. Its services listen on a port; keys and models are in a folder that goes."""
    notebook = nbformat.read(FOLDER / f"{name}.ipynb", as_version=4)
    sources = [cell.source for cell in notebook.cells]
    for cell in notebook.cells:
        if cell.cell_type == "code":
            cell.source = on_port(cell.source, port)
    with tempfile.TemporaryDirectory() as folder:
        options = {"timeout": CELL_SECONDS, "record_timing": False, "coalesce_streams": True}
        client = NotebookClient(notebook, kernel_name="python3", **options)
        # What services and the kernel log goes nowhere.
        silent = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        places = {"XDG_DATA_HOME": folder, "UNSPOKEN_STATE": "", "TMPDIR": folder}
        client.execute(cwd=str(FOLDER), env={**os.environ, **places}, **silent)
    for cell, source in zip(notebook.cells, sources):
        cell.source = source
    return without_machine(notebook)


def on_port(source: str, port: int) -> str:
    """A cell whose services and clients use a port."""
    source = source.replace(ADDRESS, f"127.0.0.1:{port}")
    return re.sub(r'\["unspoken", "serve", ', f'["unspoken", "serve", "--listen", "127.0.0.1:{port}", ', source)


def without_machine(notebook: nbformat.NotebookNode) -> nbformat.NotebookNode:
    """The same without what differs between machines and runs that are alike."""
    notebook.metadata = {
        "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
        "language_info": {"name": "python"},
    }
    for index, cell in enumerate(notebook.cells):
        cell.metadata, cell.id = {}, f"cell-{index}"
        for output in cell.get("outputs", []):
            if "metadata" in output:
                output.metadata = {}
            if "data" in output and "image/svg+xml" in output.data:
                output.data = {"image/svg+xml": plain(output.data["image/svg+xml"])}
    return notebook


def plain(drawing: str) -> str:
    """A drawing without its date, and with names that do not change."""
    drawing = re.sub(r"<metadata>.*?</metadata>\s*", "", drawing, flags=re.DOTALL)
    names: dict[str, str] = {}
    random = r"\b(?:image|[mp])[0-9a-f]{10}\b"
    return re.sub(random, lambda found: names.setdefault(found[0], f"n{len(names)}"), drawing)


def main() -> None:
    """Runs and saves the named notebooks, or all."""
    known = sorted(path.stem for path in FOLDER.glob("*.ipynb"))
    names = sys.argv[1:] or known
    if unknown := sorted(set(names) - set(known)):
        sys.exit(f"no tutorial {unknown[0]!r}; there are {', '.join(known)}")
    for name in names:
        start = time.monotonic()
        nbformat.write(run(name), FOLDER / f"{name}.ipynb")
        print(f"{name}: {time.monotonic() - start:.0f} s", flush=True)


if __name__ == "__main__":
    main()
