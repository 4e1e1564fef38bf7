"""Prints the licences of the packages that are in the command: `python3 scripts/third_party.py TARGET`.

A program that contains the work of others must bring their notices. They are read from the sources that cargo has
fetched. The features are those of the command as it is shipped.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

COMMAND = ["cargo", "metadata", "--format-version", "1", "--locked", "--manifest-path", "crates/tools/cli/Cargo.toml"]
NAMES = ("license", "licence", "copying", "notice", "copyright", "unlicense")


def shipped(metadata: dict[str, Any]) -> list[dict[str, Any]]:
    """The packages of registries that the command is linked with, by name and version."""
    nodes = {node["id"]: node for node in metadata["resolve"]["nodes"]}
    packages = {package["id"]: package for package in metadata["packages"]}
    found: set[str] = set()
    wanted = [key for key, package in packages.items() if package["name"] == "unspoken-cli"]
    while wanted:
        key = wanted.pop()
        if key in found:
            continue
        found.add(key)
        for link in nodes[key]["deps"]:
            # Neither tests nor what runs while building.
            if any(kind["kind"] is None for kind in link["dep_kinds"]):
                wanted.append(link["pkg"])
    linked = [packages[key] for key in found if packages[key]["source"] is not None]
    return sorted(linked, key=lambda package: (package["name"], package["version"]))


def notices(package: dict[str, Any]) -> list[str]:
    """The texts of a package's licences, each once."""
    folder = Path(package["manifest_path"]).parent
    files = sorted(path for path in folder.iterdir() if path.is_file() and path.name.lower().startswith(NAMES))
    return list(dict.fromkeys(path.read_text(encoding="utf-8", errors="replace").strip() for path in files))


def main() -> None:
    """Prints the packages, then each text once with the packages that it is of."""
    command = [*COMMAND, *(f"--filter-platform={target}" for target in sys.argv[1:])]
    packages = shipped(json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout))
    users: dict[str, list[str]] = {}
    for package in packages:
        name = f"{package['name']} {package['version']}"
        print(f"{name}: {package['license'] or 'see its file'}")
        for text in notices(package):
            users.setdefault(text, []).append(name)
    for text, names in users.items():
        print(f"\n{'=' * 80}\n{', '.join(names)}\n\n{text}")


if __name__ == "__main__":
    main()
