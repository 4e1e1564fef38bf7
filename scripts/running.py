"""What scripts and tests use on this machine: a running service, processes of Ray's actors, and a prepared model."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

MODEL = Path(__file__).resolve().parents[1] / "models" / "stories260K" / "stories260K.bin"
STORY = "Tom and Mia went to the park. They saw a dog with a long tail, and the dog wanted to play ball. "


@contextmanager
def serving(binary: Path, home: Path, *options: str | Path, listen: str = "127.0.0.1:0") -> Iterator[str]:
    """A running service with its state and its log in a directory; its URL."""
    log_file = home / "service.log"
    command = [binary, "serve", "--listen", listen, "--data-dir", home / "data", *options]
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


def prepare_stories(binary: str | Path, home: Path) -> Path:
    """Prepares the model stories260K for texts like `STORY`, in `stories` of a directory."""
    file, out = home / "stories.txt", home / "stories"
    file.write_text(STORY * 12)
    sizes = ["--public", "16", "--private", "16", "--chunk", "8", "--tokens", "128"]
    files = ["--model", MODEL, "--text", file, "--out", out]
    command = [binary, "llama", "prepare", *sizes, *files, "--skip-report", "--draft-tokens", "4000", "--json"]
    subprocess.run(list(map(str, command)), check=True, stdout=subprocess.DEVNULL)
    return out
