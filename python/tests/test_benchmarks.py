"""Pages of benchmarks are what the recorded rows say."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "research" / "tables"))

import charts  # noqa: E402
import pages  # noqa: E402
import quick  # noqa: E402
import records  # noqa: E402
import targets  # noqa: E402
from page import amount  # noqa: E402

FIELDS = {"suite", "case", "metric", "unit", "ours", "baseline", "baseline_name", "ratio", "params"}
MADE = pages.made(records.read_all())


@pytest.mark.parametrize("path", MADE, ids=lambda path: path.name)
def test_committed_pages_are_made_from_the_committed_rows(path):
    assert path.read_text(encoding="utf-8") == MADE[path], "run `make benchmarks-render` and commit what it writes"


def test_the_page_for_readers_is_short():
    assert (ROOT / "docs" / "benchmarks.md").read_text(encoding="utf-8").count("\n") <= 250


@pytest.mark.parametrize("path", sorted(records.FOLDER.glob("*.jsonl")), ids=lambda path: path.name)
def test_files_have_a_header_and_rows_with_all_fields(path, tmp_path):
    section = records.read(path)
    assert path.name == records.file_name(section.section)
    assert re.fullmatch(r"\d{4}-\d\d-\d\d", section.date)
    assert section.machine
    assert section.rows
    assert all(set(row) == FIELDS for row in section.rows)
    assert records.write(section, tmp_path).read_text(encoding="utf-8") == path.read_text(encoding="utf-8")


def test_links_of_pages_lead_somewhere():
    for path in (path for path in MADE if path.suffix == ".md"):
        for target in re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", MADE[path]):
            assert (path.parent / target).exists(), f"{path.name}: {target}"


def test_plots_are_small_pictures_of_text():
    for path in (path for path in MADE if path.suffix == ".svg"):
        root = ElementTree.fromstring(MADE[path])
        assert len(MADE[path]) < 20_000
        assert root.findall("{http://www.w3.org/2000/svg}text")


def test_a_bar_ten_times_longer_is_a_decade_away():
    chart = charts.Chart("a < b", "s", [("x", [charts.Bar("ours", "ours", 1.0), charts.Bar("peer", "other", 10.0)])])
    picture = charts.svg(chart)
    assert "a &lt; b" in picture
    widths = [float(width) for width in re.findall(r'width="([\d.]+)" height="13"', picture)]
    span = charts.WIDTH - charts.LEFT - charts.RIGHT
    assert widths == [span / 2, span]


def test_amounts_have_the_unit_that_fits():
    shown = [amount(value, unit) for value, unit in ((36, "bytes"), (1.617e9, "bytes"), (0.0479, "s"), (1552, "s"))]
    assert shown == ["36 bytes", "1.62 GB", "47.9 ms", "1,552 s"]
    assert amount(0.9922, "of 1") == "0.992"
    assert amount(None, "s") == "-"


def section(**params):
    row = {"suite": "pir", "case": "a case", "metric": "answer_time", "unit": "s", "ours": 2.0, "baseline": 8.0}
    row.update(baseline_name="other", ratio=4.0, params=params)
    return records.Section("pir: answers", "2026-12-01", "1", "a machine", rows=[row])


@pytest.mark.parametrize(
    ("bound", "found", "met"),
    [
        ({"wanted": 3.0}, "2 s", True),
        ({"wanted": 1.0}, "2 s", False),
        ({"wanted": 4.0, "side": "at least", "ratio": True}, "4 times", True),
        ({"wanted": 5.0, "side": "at least", "ratio": True}, "4 times", False),
        ({"wanted": 3.0, "batch": 128}, "2 s, for 8 at a time", False),
        ({"wanted": 3.0, "batch": 8}, "2 s", True),
    ],
)
def test_targets_are_met_or_named(bound, found, met):
    target = targets.Target("area", "what", "pir: answers", "answer_time", "a case", **bound)
    outcome = targets.outcome(target, {"pir: answers": section(batch=8)})
    assert (outcome.found, outcome.met) == (found, met)


def test_a_target_without_rows_is_not_met():
    target = targets.Target("area", "what", "pir: answers", "answer_time", "another case", 3.0)
    assert targets.outcome(target, {"pir: answers": section()}).met is None
    assert targets.outcome(target, {}).found == "not measured"


def test_quick_rows_are_compared_by_case_whatever_stands_beside_them():
    known = section().rows
    now = [{**known[0], "ours": 5.0, "baseline": None, "baseline_name": "", "ratio": None}]
    lines = quick.compared(now, known)
    assert lines[0] == "  1 of 1 rows have a recorded one"
    assert "a case, answer_time: 5 s, recorded 2 s, 2.5" in lines[-1]
    assert quick.compared(now, []) == ["  0 of 1 rows have a recorded one"]
