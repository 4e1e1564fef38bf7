"""Converts tables of reviews in packages to tables of reviews with one of two labels."""

from __future__ import annotations

import csv
import io
from typing import IO

LABELS = ("negative", "positive")


def labelled_reviews(source: IO[bytes]) -> bytes:
    """The rows whose rating is a label.

    The package has replaced the ratings of Drugs.com by labels: 1 to 4 are negative, 5 and 6 neutral, 7 to 10 positive.
    Neutral reviews have no label in a task of two labels.
    """
    text = io.TextIOWrapper(source, encoding="utf-8", newline="")
    rows = csv.DictReader(text, delimiter="\t", strict=True)
    out = io.StringIO()
    lines = csv.DictWriter(out, rows.fieldnames or [], delimiter="\t", lineterminator="\n")
    lines.writeheader()
    lines.writerows(row for row in rows if row["rating"] in LABELS)
    return out.getvalue().encode()


CONVERTERS = {"labelled_reviews": labelled_reviews}
