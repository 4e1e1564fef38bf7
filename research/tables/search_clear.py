"""Vectors for private search, exact and approximate search in the clear, and exact answers to check against.

Runs in the environment of `search_tables.py`, which has numpy and faiss. Prints one JSON object per row.

    search_clear.py synthetic COUNT OUT.npy          vectors with the spectrum of real ones
    search_clear.py compare NAME VECTORS.npy         numpy and faiss: recall, seconds, memory
    search_clear.py questions VECTORS.npy COUNT OUT  OUT/0.npy ... with queries, OUT/nearest.json with their documents
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median

import faiss
import numpy as np

WIDTH, KNEE, DECAY = 384, 6.0, 1.35
HELD_OUT, NEIGHBOURS = 200, 10
REPETITIONS = 15


def directions(vectors: np.ndarray) -> np.ndarray:
    """Vectors of length 1."""
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


def synthetic(count: int) -> np.ndarray:
    """Random vectors whose principal components have the variances of `unspoken-bench search`."""
    rng = np.random.default_rng(1)
    rotation, _ = np.linalg.qr(rng.standard_normal((WIDTH, WIDTH)))
    deviations = (1 + np.arange(WIDTH) / KNEE) ** (-DECAY / 2)
    linear = (deviations[:, None] * rotation).astype(np.float32)
    parts = [
        directions(rng.standard_normal((min(10_000, count - start), WIDTH), dtype=np.float32) @ linear)
        for start in range(0, count, 10_000)
    ]
    return np.concatenate(parts).astype(np.float32)


def held_out(vectors: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Documents, and the queries that are kept out: every so many of the vectors that are not zero."""
    given = vectors[np.any(vectors != 0, axis=1)].astype(np.float32)
    places = np.arange(HELD_OUT) * (len(given) // HELD_OUT)
    kept = np.ones(len(given), dtype=bool)
    kept[places] = False
    return directions(given[kept]), directions(given[places])


def exact(vectors: np.ndarray, query: np.ndarray) -> np.ndarray:
    """The nearest documents, the nearest first."""
    scores = vectors @ query
    best = np.argpartition(-scores, NEIGHBOURS)[:NEIGHBOURS]
    return best[np.argsort(-scores[best])]


def seconds(ask: Callable[[np.ndarray], object], queries: np.ndarray) -> float:
    """Median seconds of a question, after one that is not counted."""
    ask(queries[0])
    times = []
    for query in queries[:REPETITIONS]:
        started = time.perf_counter()
        ask(query)
        times.append(time.perf_counter() - started)
    return median(times)


def compare(name: str, path: Path) -> None:
    """Rows of exact and approximate search, on one thread."""
    faiss.omp_set_num_threads(1)
    vectors, queries = held_out(np.load(path))
    nearest = [set(exact(vectors, query)) for query in queries]

    def row(method: str, ask: Callable[[np.ndarray], np.ndarray], memory: int) -> None:
        found = sum(len(near & set(np.asarray(ask(query)).tolist())) for near, query in zip(nearest, queries))
        printed = {"case": name, "method": method, "documents": len(vectors), "recall": found / (NEIGHBOURS * HELD_OUT)}
        print(json.dumps({**printed, "seconds": seconds(ask, queries), "memory": memory}), flush=True)

    def asked(index: faiss.Index) -> Callable[[np.ndarray], np.ndarray]:
        return lambda query: index.search(query[None], NEIGHBOURS)[1][0]

    row("numpy, exact", lambda query: exact(vectors, query), vectors.nbytes)
    width = vectors.shape[1]
    flat = faiss.IndexFlatIP(width)
    flat.add(vectors)
    row("faiss, exact", asked(flat), vectors.nbytes)
    lists = int(len(vectors) ** 0.5)
    inverted = faiss.IndexIVFFlat(faiss.IndexFlatIP(width), width, lists, faiss.METRIC_INNER_PRODUCT)
    inverted.train(vectors[:: max(1, len(vectors) // (64 * lists))])
    inverted.add(vectors)
    inverted.nprobe = max(1, lists // 10)
    row(f"faiss, {inverted.nprobe} of {lists} clusters", asked(inverted), vectors.nbytes + 8 * len(vectors))


def questions(path: Path, count: int, out: Path) -> None:
    """Queries between two documents, and the documents nearest to each by exact search."""
    vectors = directions(np.load(path).astype(np.float32))
    rng = np.random.default_rng(2)
    pairs = rng.integers(len(vectors), size=(count, 2))
    queries = directions(2 * vectors[pairs[:, 0]] + vectors[pairs[:, 1]])
    out.mkdir(parents=True, exist_ok=True)
    for number, query in enumerate(queries):
        np.save(out / f"{number}.npy", query)
    nearest = [exact(vectors, query).tolist() for query in queries]
    (out / "nearest.json").write_text(json.dumps(nearest))


def main() -> None:
    """Runs one of the commands."""
    command, *given = sys.argv[1:] or [""]
    if command == "synthetic" and len(given) == 2:
        np.save(given[1], synthetic(int(given[0])))
    elif command == "compare" and len(given) == 2:
        compare(given[0], Path(given[1]))
    elif command == "questions" and len(given) == 3:
        questions(Path(given[0]), int(given[1]), Path(given[2]))
    else:
        sys.exit(__doc__)


if __name__ == "__main__":
    main()
