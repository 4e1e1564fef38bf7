"""The notebooks of docs/tutorials run, and print what is saved, but for numbers."""

from __future__ import annotations

import os
import re

import pytest
import tutorials
from conftest import free_port

NAMES = sorted(path.stem for path in tutorials.FOLDER.glob("*.ipynb"))
# Also the identifiers of requests.
NUMBER = re.compile(r"\b[0-9a-f]{16}\b|\d[\d.e+-]*")


def printed(notebook) -> list[str]:
    """What each cell of code printed, with # for numbers and without spaces."""
    cells = [cell for cell in notebook.cells if cell.cell_type == "code"]
    texts = ["".join(output.text for output in cell.outputs if output.get("name") == "stdout") for cell in cells]
    return [re.sub(r"[\s-]+", " ", NUMBER.sub("#", text)) for text in texts]


@pytest.mark.parametrize("name", NAMES)
def test_a_tutorial_runs_and_prints_what_is_saved(name, binary, monkeypatch):
    monkeypatch.setenv("PATH", os.pathsep.join([str(binary.parent), os.environ["PATH"]]))
    saved = tutorials.nbformat.read(tutorials.FOLDER / f"{name}.ipynb", as_version=4)
    found = tutorials.run(name, free_port())
    assert printed(found) == printed(saved), "run `make tutorials` and commit what it saves"
    assert [cell.source for cell in found.cells] == [cell.source for cell in saved.cells]


@pytest.mark.parametrize("name", NAMES)
def test_a_tutorial_is_saved_with_its_outputs_and_a_plot(name):
    notebook = tutorials.nbformat.read(tutorials.FOLDER / f"{name}.ipynb", as_version=4)
    cells = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert all(cell.execution_count for cell in cells)
    outputs = [output for cell in cells for output in cell.outputs]
    assert not [output for output in outputs if output.output_type == "error"]
    assert any("image/svg+xml" in output.get("data", {}) for output in outputs)
    assert re.match(r"# \S", notebook.cells[0].source)
    assert (tutorials.FOLDER / f"{name}.ipynb").stat().st_size < 300_000


def test_the_page_of_tutorials_names_each():
    page = (tutorials.FOLDER / "README.md").read_text(encoding="utf-8")
    assert sorted(re.findall(r"\(([\w-]+)\.ipynb\)", page)) == NAMES
