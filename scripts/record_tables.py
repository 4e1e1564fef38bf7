"""Converts tables of records in packages to CSV."""

from __future__ import annotations

import csv
import io
import sqlite3
import tempfile
from pathlib import Path
from typing import IO


def icd10(source: IO[bytes]) -> bytes:
    """The codes in a SQLite file, with dots, and their descriptions by CMS, without the other content of the file."""
    out = io.StringIO()
    lines = csv.writer(out, lineterminator="\n")
    lines.writerow(("code", "billable", "short_name", "long_name"))
    with tempfile.TemporaryDirectory(prefix="unspoken-icd10-") as folder:
        file = Path(folder) / "icd10cm.db"
        file.write_bytes(source.read())
        database = sqlite3.connect(f"{file.as_uri()}?mode=ro", uri=True)
        try:
            wanted = "SELECT code_dot, billable, short_name, long_name FROM cm_codes ORDER BY code"
            lines.writerows(database.execute(wanted))
        except sqlite3.Error as error:
            raise ValueError(f"SQLite: {error}") from error
        finally:
            database.close()
    return out.getvalue().encode()


CONVERTERS = {"icd10": icd10}
