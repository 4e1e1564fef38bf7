"""Checks the width of lines, and nested imports in Rust, which formatters do not check.

`python3 scripts/check_style.py` checks every tracked source file and document; exit status 1 if it finds a line.

- No line has more than 120 characters, comments and string literals included. In Markdown, rows of tables, lines in
  code blocks and lines without a space to break at (URLs) may be longer.
- `use a::{b::{c, d}, e};` is two imports: one `use` for each module.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PATTERNS = ("*.rs", "*.py", "*.pyi", "*.md", "*.toml", "*.sh", "*.proto", "Makefile")
WIDTH = 120
NESTED_IMPORT = re.compile(r"^[ \t]*(?:pub(?:\([a-z:]+\))? )?use [^;{]*\{[^;{}]*\{", re.MULTILINE)


def may_be_longer(line: str, in_code_block: bool) -> bool:
    """Whether a line of Markdown may be longer."""
    text = line.strip()
    return in_code_block or text.startswith("|") or " " not in re.sub(r"^(?:[-*>]|\d+\.) ", "", text)


def wide_lines(path: Path, text: str) -> Iterator[tuple[int, str]]:
    """Numbers of lines that are too long, with a description of the problem."""
    in_code_block = False
    for number, line in enumerate(text.split("\n"), start=1):
        if path.suffix == ".md" and line.lstrip().startswith("```"):
            in_code_block = not in_code_block
        if len(line) > WIDTH and not (path.suffix == ".md" and may_be_longer(line, in_code_block)):
            yield number, f"{len(line)} characters, needed at most {WIDTH}"


def nested_imports(path: Path, text: str) -> Iterator[tuple[int, str]]:
    """Numbers of lines where nested imports begin, with a description of the problem."""
    if path.suffix == ".rs":
        for match in NESTED_IMPORT.finditer(text):
            yield text.count("\n", 0, match.start()) + 1, "a nested import, needed one `use` for each module"


def main() -> None:
    """Checks all files and prints the problems."""
    listed = subprocess.run(["git", "ls-files", *PATTERNS], cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True)
    found = 0
    for name in listed.stdout.splitlines():
        path = ROOT / name
        if path.exists():
            text = path.read_text(encoding="utf-8")
            for number, problem in (*wide_lines(path, text), *nested_imports(path, text)):
                print(f"{name}:{number}: {problem}")
                found += 1
    if found:
        sys.exit(f"{found} lines to change")


if __name__ == "__main__":
    main()
