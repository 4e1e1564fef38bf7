"""Processes that scripts and tests start on this machine: a service, and the actors of a Ray cluster."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def serving(binary: Path, home: Path, *options: str | Path) -> Iterator[str]:
    """A running service with its state and its log in a directory; its URL."""
    log_file = home / "service.log"
    command = [binary, "serve", "--listen", "127.0.0.1:0", "--data-dir", home / "data", *options]
    with log_file.open("a") as log:
        process = subprocess.Popen(list(map(str, command)), stdout=subprocess.PIPE, stderr=log, text=True)
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        if not line:
            sys.exit(log_file.read_text())
        yield json.loads(line)["listening"]
    finally:
        process.terminate()
        process.wait(timeout=60)


def actors(name: str) -> list[int]:
    """The processes of Ray's actors whose title begins with a name."""
    listed = subprocess.run(["ps", "-eo", "pid,args"], check=True, stdout=subprocess.PIPE, text=True).stdout
    rows = (line.split(maxsplit=1) for line in listed.splitlines()[1:])
    return [int(row[0]) for row in rows if len(row) == 2 and row[1].startswith(f"ray::{name}")]
