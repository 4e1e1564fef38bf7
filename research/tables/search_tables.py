"""Rows of private search: `make tables-search`.

The rows of `unspoken-bench search`, and what runs outside of it: numpy and faiss in an environment of their own
(`.peers/search`), and the service and the command over HTTP.
"""

from __future__ import annotations

import csv
import json
import re
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from statistics import median
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts"))

from records import plain_row  # noqa: E402
from running import serving  # noqa: E402

COLLECTIONS, MILLION = "search: collections", "search: a million documents"
BESIDE, PLANNER = "search: beside other encryption", "search: the planner"
CLEAR, SERVICE = "search: in the clear", "search: service"

TABLES_OF = Path(__file__).resolve().parent
PEERS = ROOT / ".peers" / "search"
PACKAGES = ("numpy==2.4.6", "faiss-cpu==1.15.1", "tokenizers==0.23.3", "safetensors==0.8.0")
ICD_10 = ROOT / "data" / "icd10" / "icd10cm.csv"
ICD_10_VECTORS = ROOT / "data" / "search" / "icd10-minilm.npy"
GLOVE = ROOT / "data" / "glove" / "glove_6B_50d_emb.npy"
MINILM = ROOT / "data" / "minilm" / "model.safetensors"

# Questions of one client, clients at a time, and questions of each of them.
QUESTIONS, CLIENTS, EACH = 15, (1, 8, 64), {1: 8, 8: 2, 64: 1}

NOTES = {
    COLLECTIONS: """\
Seconds are those of one thread from queries that were read to responses that are not yet written, unless a row says
otherwise. Recall is that of 200 queries that were kept out of the collection; 1 is exact search. The decrypted cosines
of `encrypted_recall` are all compared with those of the index. `recall_by_blocks` is on documents of the collection, by
which the number of asked blocks is chosen. Synthetic vectors have the spectrum of real ones (MiniLM's of ICD-10 titles)
and no near duplicates. Every collection is laid out for a recall of 0.95 on its own documents; rows that end with
another recall ask as many blocks of the same layout as that one needs. Exact search in the clear is this program's own,
in single precision.
""",
    MILLION: """\
As above, for a million synthetic vectors.
""",
    BESIDE: """\
The product of a matrix with an encrypted vector, by diagonals, baby steps and giant steps, is how Apple's private
nearest-neighbour search computes scores, in BFV; here it is CKKS of this engine with two documents in each complex
slot. It scores every document of the matrix; so does ours in these rows, in one block. A larger collection takes as
many such matrices: the table of scaled seconds multiplies the time for each document, and nothing of it was run. Rows
that begin with `planned` are computed: bytes and multiplications of Tiptoe's ranking by its formulas, for one cluster
asked, beside our planner's first layout with a tenth of its blocks asked.
""",
    PLANNER: """\
Passes over tables of random bytes on one thread, with the seconds that the planner of layouts predicts. The constants
fit all passes with the least squares of relative errors: a query costs `planner_query`, a group `planner_group`, a
query and group `planner_packing`, a byte `planner_pass`, a byte and query `planner_product`. The planner's were fitted
on a machine without AVX-512.
""",
}

ABOUT_CLEAR = """\
numpy and faiss in the clear, one thread, on the same machine after ours; 200 queries kept out, medians of 15. The
synthetic vectors have the same spectrum and are not the same ones.
"""

ABOUT_SERVICE = """\
`unspoken search build`, `unspoken serve --search` and `unspoken search ask`, over HTTP on this machine, service and
clients on the same cores. A question is a process of its own: it connects, reads the centroids, asks, and fetches ten
documents. `command` is the median of its seconds from start to end; `search` and `fetch` are those of the answers as
clients count them, with hundredths of a second. Keys for the fetch were sent before. Questions a second of several
clients at a time are a lower bound, since their processes take the cores from the service. Recall is that of the
documents that came back, of the ten that exact search in numpy finds; queries lie between two documents.
"""

ABSENT = (
    "Not measured: film reviews and cities (nothing here makes vectors of them), and the programs of Tiptoe and Apple."
)

# Metric, unit, and what the scripts and the commands call it.
CLEAR_METRICS = (("recall", "of 10", "recall"), ("clear_time", "s", "seconds"), ("memory", "bytes", "memory"))
SERVICE_METRICS = (
    ("search_query_bytes", "bytes", "search query"),
    ("search_answer_bytes", "bytes", "search answer"),
    ("fetch_query_bytes", "bytes", "fetch query"),
    ("fetch_answer_bytes", "bytes", "fetch answer"),
    ("search_time", "s", "search"),
    ("fetch_time", "s", "fetch"),
    ("command_time", "s", "command"),
)


def environment() -> Path:
    """The Python that has numpy, faiss, tokenizers and safetensors; it is made if it is not there."""
    python = PEERS / "bin" / "python"
    if not python.exists():
        subprocess.run([sys.executable, "-m", "venv", PEERS], check=True)
        subprocess.run([PEERS / "bin" / "pip", "install", "--quiet", *PACKAGES], check=True)
    return python


def run(python: Path, script: str, *arguments: object) -> str:
    """Runs a script of this folder; returns what it prints."""
    command = [python, TABLES_OF / script, *map(str, arguments)]
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout


def prepare() -> None:
    """Makes the vectors of the ICD-10 titles, once: about a quarter of an hour on two cores."""
    if not ICD_10_VECTORS.exists() and ICD_10.exists() and MINILM.exists():
        ICD_10_VECTORS.parent.mkdir(parents=True, exist_ok=True)
        run(environment(), "minilm.py", ICD_10, "long_name", ICD_10_VECTORS)


def clear(_binary: Path) -> tuple[list[dict[str, Any]], list[str]]:
    """Rows of search in the clear, and what was not measured."""
    python = environment()
    rows, absent = [], []
    with tempfile.TemporaryDirectory(prefix="unspoken-search-") as folder:
        made = []
        for count in (10_000, 100_000):
            path = Path(folder) / f"{count}.npy"
            run(python, "search_clear.py", "synthetic", count, path)
            made.append((f"synthetic, {count} x 384", path))
        given = (("ICD-10 titles, MiniLM", ICD_10_VECTORS), ("GloVe words", GLOVE))
        for name, path in (*made, *given):
            if not path.exists():
                absent.append(f"{name}: not measured, {path.relative_to(ROOT)} is absent.")
                continue
            for found in map(json.loads, run(python, "search_clear.py", "compare", name, path).splitlines()):
                case, params = f"{name}, {found['method']}", {"collection": name, "method": found["method"]}
                for metric, unit, key in CLEAR_METRICS:
                    rows.append(plain_row("search", metric, unit, case, float(found[key]), **params))
    return rows, absent


def usage(text: str) -> dict[str, float]:
    """The numbers that `--usage` prints: bytes up and down, and seconds, of search and of the fetch."""
    found = {}
    for part, what in zip(re.split(r"^(?:search|documents)$", text, flags=re.MULTILINE)[1:], ("search", "fetch")):
        for name in ("query", "answer"):
            found[f"{what} {name}"] = float(re.search(rf"^{name} +(\d+) bytes", part, re.MULTILINE)[1])
        found[what] = sum(map(float, re.search(r"^time +([\d.]+) s here, ([\d.]+) s", part, re.MULTILINE).groups()))
    return found


class Asked:
    """A served collection, and the questions that are asked."""

    def __init__(self, binary: Path, url: str, home: Path, nearest: list[list[int]]) -> None:
        self.binary, self.url, self.home, self.nearest = binary, url, home, nearest

    def ask(self, client: int, number: int) -> dict[str, float]:
        """Asks one question in a process of its own."""
        place = number % len(self.nearest)
        target = ["--url", self.url, "--application", "search/made", "--state-dir", self.home / f"state-{client}"]
        vector = ["--vector", self.home / "questions" / f"{place}.npy"]
        command = [self.binary, "search", "ask", *target, *vector, "--json", "--usage"]
        started = time.perf_counter()
        done = subprocess.run(list(map(str, command)), check=True, capture_output=True, text=True)
        seconds = time.perf_counter() - started
        hits = [json.loads(row)["document"] for row in done.stdout.splitlines()]
        found = {int(document.split()[0]) for document in hits}
        recall = len(found & set(self.nearest[place])) / len(self.nearest[place])
        return {"command": seconds, "recall": recall, **usage(done.stderr)}

    def rate(self, clients: int) -> float:
        """Questions a second of so many clients at a time, each with keys of its own, which were sent before."""
        with ThreadPoolExecutor(clients) as pool:
            list(pool.map(lambda client: self.ask(client, client), range(clients)))
            started = time.perf_counter()
            each = EACH[clients]
            list(pool.map(lambda client: [self.ask(client, client + turn) for turn in range(each)], range(clients)))
            return clients * each / (time.perf_counter() - started)


def serve(
    binary: Path, python: Path, home: Path, name: str, vectors: Path, documents: list[str]
) -> list[dict[str, Any]]:
    """Builds, serves and asks one collection; returns its rows."""
    source = home / "documents.csv"
    with source.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([["document"], *([f"{place} {text}"] for place, text in enumerate(documents))])
    build = ["search", "build", "--from", source, "--value", "document", "--vectors", vectors, home / "made"]
    subprocess.run(list(map(str, [binary, *build])), check=True, stdout=sys.stderr)
    run(python, "search_clear.py", "questions", vectors, 64, home / "questions")
    nearest = json.loads((home / "questions" / "nearest.json").read_text())
    with serving(binary, home, "--search", home / "made", "--memory-mib", "12288") as url:
        asked = Asked(binary, url, home, nearest)
        asked.ask(0, 0)
        rows = [asked.ask(0, number) for number in range(QUESTIONS)]
        of = {what: median(row[what] for row in rows) for what in rows[0]}
        recall = sum(row["recall"] for row in rows) / len(rows)
        rates = [asked.rate(clients) for clients in CLIENTS]
    found = [plain_row("search", "recall", "of 10", name, recall)]
    found += [plain_row("search", metric, unit, name, of[key]) for metric, unit, key in SERVICE_METRICS]
    for clients, rate in zip(CLIENTS, rates):
        case = f"{name}, {clients} at a time"
        found.append(plain_row("search", "questions_per_second", "questions/s", case, rate, clients=clients))
    return found


def service(binary: Path) -> tuple[list[dict[str, Any]], list[str]]:
    """Rows of the service over HTTP, and what was not measured."""
    python = environment()
    rows, absent = [], [ABSENT]
    for count in (10_000, 100_000):
        with tempfile.TemporaryDirectory(prefix="unspoken-search-") as folder:
            vectors = Path(folder) / "vectors.npy"
            run(python, "search_clear.py", "synthetic", count, vectors)
            texts = [f"document {place * 7919 % count}" for place in range(count)]
            rows += serve(binary, python, Path(folder), f"synthetic, {count} x 384", vectors, texts)
    if ICD_10_VECTORS.exists():
        with ICD_10.open(newline="", encoding="utf-8") as file:
            titles = [row["long_name"] for row in csv.DictReader(file)]
        with tempfile.TemporaryDirectory(prefix="unspoken-search-") as folder:
            rows += serve(binary, python, Path(folder), "ICD-10 titles, MiniLM", ICD_10_VECTORS, titles)
    else:
        absent.append(f"ICD-10 titles: not measured, {ICD_10_VECTORS.relative_to(ROOT)} is absent.")
    return rows, absent


# Sections that no suite measures: what was done, and what makes their rows.
OWN = {CLEAR: (ABOUT_CLEAR, clear), SERVICE: (ABOUT_SERVICE, service)}
