"""Texts, a small model, and a local service for tests that need one."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import pytest
from running import prepare_stories

import unspoken

ROOT = Path(__file__).resolve().parents[2]
HAM = ["lunch at noon", "see you at home", "call mother tonight", "the train is late"]
SPAM = ["win free cash", "claim your prize now", "free entry call now", "urgent cash prize waiting"]


def absent(reason: str) -> NoReturn:
    """Skips a test for want of something; fails it in continuous integration, which must have it."""
    if "UNSPOKEN_TEST_ALL" in os.environ:
        pytest.fail(reason)
    pytest.skip(reason)


def free_port() -> int:
    """A port that nobody listens on."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


@pytest.fixture(scope="session")
def binary() -> Path:
    """The `unspoken` command: that of UNSPOKEN_BIN, or one built in this repository."""
    if "UNSPOKEN_BIN" in os.environ:
        return Path(os.environ["UNSPOKEN_BIN"])
    target = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
    built = [target / profile / "unspoken" for profile in ("release", "debug")]
    found = next((path for path in built if path.exists()), None)
    if found is None:
        absent("no `unspoken` command; run `cargo build --release -p unspoken-cli` first")
    return found


# The smallest presets with room for the lookups, so that generating keys is fast.
CLASSIFIER = {"preset": "n14_depth8_scale30"}
EMBEDDING = {"preset": "n13_depth3_scale30"}
DIGITS = {"batch": "16"}


def with_options(offer: str, options: dict[str, str]) -> str:
    return ",".join([offer, *(f"{name}={value}" for name, value in options.items())])


class Service:
    """An `unspoken serve` process. `start` may be called again after `stop`, on the same port."""

    def __init__(self, binary: Path, data: Path, *offers: str, flags: tuple[str, ...] = ()) -> None:
        self.binary, self.data, self.offers, self.flags = binary, data, offers, flags
        # The files of the first offer.
        self.path = Path(offers[0].split("=", 1)[1].split(",")[0])
        self.address = "127.0.0.1:0"
        self.url = ""
        # What the service printed when it was ready, JSON.
        self.line = ""
        self.process: subprocess.Popen[str] | None = None

    def start(self) -> Service:
        words = [word for offer in self.offers for word in ("--offer", offer)]
        words += ["--listen", self.address, "--data-dir", str(self.data), *self.flags]
        with (self.data.parent / "service.log").open("a") as log:
            self.process = subprocess.Popen(
                [self.binary, "serve", *words], stdout=subprocess.PIPE, stderr=log, text=True
            )
        assert self.process.stdout is not None
        self.line = self.process.stdout.readline()
        assert self.line, (self.data.parent / "service.log").read_text()
        self.url = json.loads(self.line)["listening"]
        self.address = self.url.split("//")[1]
        return self

    def stop(self) -> None:
        assert self.process is not None
        self.process.terminate()
        self.process.wait(timeout=60)
        assert self.process.stdout is not None
        self.process.stdout.close()


def classifier_service(binary: Path, home: Path) -> Service:
    """A service of the classifier in the folder `model` of `home`."""
    return Service(binary, home / "data", with_options(f"classify:classify/spam={home / 'model'}", CLASSIFIER))


@pytest.fixture(scope="session")
def prepared_stories(binary: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The model stories260K, prepared for texts like `running.STORY`."""
    return prepare_stories(binary, tmp_path_factory.mktemp("stories"))


@pytest.fixture(scope="session")
def texts() -> list[str]:
    return (HAM + SPAM) * 10


@pytest.fixture(scope="session")
def labels() -> list[str]:
    return (["ham"] * 4 + ["spam"] * 4) * 10


@pytest.fixture(scope="session")
def model(texts: list[str], labels: list[str]) -> unspoken.FastText:
    return unspoken.FastText(dim=8, columns=16, progress=False).fit(texts, labels)


@pytest.fixture(scope="session")
def service(binary: Path, model: unspoken.FastText, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    home = tmp_path_factory.mktemp("service")
    model.save(home / "model")
    running = classifier_service(binary, home).start()
    yield running
    running.stop()


@pytest.fixture(scope="session")
def matrix() -> np.ndarray:
    """Embeddings of 99 tokens, and their mean for unknown ones."""
    matrix = np.random.default_rng(5).normal(size=(100, 8))
    matrix[99] = matrix[:99].mean(axis=0)
    return matrix


@pytest.fixture(scope="session")
def table(matrix: np.ndarray) -> unspoken.CompressedTable:
    tokens = [f"w{i}" for i in range(99)]
    return unspoken.compress(matrix, [*tokens, "<unk>"], columns=8, progress=False)


@pytest.fixture(scope="session")
def embedding_service(
    binary: Path, table: unspoken.CompressedTable, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Service]:
    home = tmp_path_factory.mktemp("embedding")
    table.save(home / "table")
    running = Service(binary, home / "data", with_options(f"embed:embed/words={home / 'table'}", EMBEDDING)).start()
    yield running
    running.stop()


@pytest.fixture(scope="session")
def strokes() -> tuple[np.ndarray, np.ndarray]:
    """Images of ten strokes, one for each digit: a bar at an angle, randomly shifted and dimmed."""
    rng = np.random.default_rng(7)
    labels = np.arange(200) % 10
    rows, columns = np.mgrid[:28, :28] - 13.5
    angle = np.pi * labels[:, None, None] / 10
    move = rng.uniform(-2, 2, size=(200, 1, 1))
    ink = np.abs(rows * np.cos(angle) + columns * np.sin(angle) - move) < 2.5
    return (ink * rng.integers(180, 256, size=(200, 1, 1))).astype(np.uint8), labels


@pytest.fixture(scope="session")
def network(strokes: tuple[np.ndarray, np.ndarray]) -> unspoken.DigitsNetwork:
    options = {"hidden": 16, "epochs": 40, "batch": 20, "shift": 0, "validation_share": 0}
    return unspoken.DigitsNetwork(**options, progress=False).fit(*strokes)


@pytest.fixture(scope="session")
def digits_service(
    binary: Path, network: unspoken.DigitsNetwork, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Service]:
    home = tmp_path_factory.mktemp("digits")
    network.save(home / "network")
    running = Service(binary, home / "data", with_options(f"digits:digits/strokes={home / 'network'}", DIGITS)).start()
    yield running
    running.stop()


@pytest.fixture(scope="session")
def matrix_service(binary: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """A program of matrix operations: `2 a @ b + 1`."""
    home = tmp_path_factory.mktemp("matrix")
    a, b = unspoken.matrix("a", (4, 3)), unspoken.matrix("b", (3,))
    program = (2 * (a @ b) + 1).plan(preset="n14_real_depth8_scale30")
    (home / "program").write_bytes(program.to_bytes())
    running = Service(binary, home / "data", f"matrix:matrix/scores={home / 'program'}").start()
    yield running
    running.stop()


@pytest.fixture(scope="session")
def retrieval_service(binary: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """A database of codes and titles by code, and one of titles by index."""
    home = tmp_path_factory.mktemp("retrieval")
    rows = "".join(f"C{i:03},{'t' * (i % 50)}{i}\n" for i in range(300))
    (home / "codes.csv").write_text("code,title\n" + rows)
    build = [binary, "pir", "build", "--from", home / "codes.csv", "--value", "title"]
    subprocess.run([*build, "--key", "code", home / "codes"], check=True, stdout=subprocess.DEVNULL)
    subprocess.run([*build, home / "titles"], check=True, stdout=subprocess.DEVNULL)
    titles = f"pir:pir/titles={home / 'titles'}"
    running = Service(binary, home / "data", f"pir={home / 'codes'}", titles).start()
    yield running
    running.stop()


@pytest.fixture(scope="session")
def sealed_service(binary: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """A sealed database of titles by code, and the application that gives the keys of six records."""
    home = tmp_path_factory.mktemp("sealed")
    (home / "codes.csv").write_text("code,title\n" + "".join(f"C{i:03},title {i}\n" for i in range(100)))
    key = home / "codes.key"
    source = ["--from", home / "codes.csv", "--value", "title", "--key", "code"]
    build = ["build", *source, "--oprf-key", key, home / "codes"]
    for command in (["oprf-key", "--record-bytes", "40", key], build):
        subprocess.run([binary, "pir", *command], check=True, stdout=subprocess.DEVNULL)
    oprf = f"oprf={key},evaluations=6,window=1000000"
    running = Service(binary, home / "data", f"pir={home / 'codes'}", oprf).start()
    yield running
    running.stop()


NOTES = 300


def note_vectors() -> np.ndarray:
    """A vector for each note; they have many directions."""
    return np.random.default_rng(11).normal(size=(NOTES, 16)).astype(np.float32)


def embed_notes(texts: list[str]) -> np.ndarray:
    """Vectors of texts whose last word is the number of a note."""
    return note_vectors()[[int(text.split()[-1]) for text in texts]]


embed_notes.name = "notes-16"


@pytest.fixture(scope="session")
def search_service(binary: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """A collection of notes with ids."""
    home = tmp_path_factory.mktemp("search")
    documents, ids = [f"{'t' * (i % 50)} note {i}" for i in range(NOTES)], [f"N{i:03}" for i in range(NOTES)]
    unspoken.SearchIndex.build(home / "notes", documents, ids=ids, embed=embed_notes, progress=False)
    running = Service(binary, home / "data", f"search:search/notes={home / 'notes'}").start()
    yield running
    running.stop()


@pytest.fixture(scope="session")
def state(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A state directory that tests share, so that keys are generated once."""
    return tmp_path_factory.mktemp("state")


class Child:
    """A Python process that runs `script`, and is interrupted."""

    def __init__(self, script: str, *arguments: object) -> None:
        words = [str(argument) for argument in arguments]
        self.process = subprocess.Popen(
            [sys.executable, "-c", script, *words],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def wait_for(self, line: str) -> None:
        assert self.process.stdout is not None
        for found in self.process.stdout:
            if found.strip() == line:
                return
        pytest.fail(f"no line {line!r}: {self.process.communicate(timeout=60)[1]}")

    def finish(self, timeout: float) -> tuple[str, str]:
        try:
            return self.process.communicate(timeout=timeout)
        finally:
            self.process.kill()


@pytest.fixture(scope="session")
def site() -> Path:
    """The page that `make web` built."""
    found = Path(os.environ.get("UNSPOKEN_SITE", ROOT / "web" / "site"))
    if not (found / "index.html").exists():
        pytest.skip("NO PAGE, SO IT IS NOT TESTED: run `make web`")
    return found


@pytest.fixture(scope="session")
def chromium() -> dict[str, Any]:
    """How Chromium is launched."""
    tools = pytest.importorskip("browser", reason="the tests of the page need `pip install playwright`")
    found = tools.find_chromium()
    if found is None:
        pytest.skip("NO CHROMIUM, SO THE PAGE IS NOT TESTED: run `sh scripts/install_browser.sh`")
    return {"executable_path": found, "args": tools.ARGUMENTS}


@pytest.fixture(scope="module")
def browser(chromium: dict[str, Any]) -> Iterator[Any]:
    """A Chromium that runs."""
    tools = pytest.importorskip("browser")
    with tools.sync_playwright() as driver:
        running = driver.chromium.launch(**chromium)
        yield running
        running.close()


@pytest.fixture
def context(browser: Any) -> Iterator[Any]:
    """A profile of it without cookies and stored data."""
    made = browser.new_context()
    yield made
    made.close()
