"""Services on a small Ray cluster: clients cannot tell them from others, and nothing is lost when something dies."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
import types
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import embed_notes, free_port, note_vectors
from running import actors

import unspoken
from unspoken import batches

ray = pytest.importorskip("ray", reason='the tests of unspoken.ray need `pip install "unspoken[ray]"`')

import unspoken.ray as cluster  # noqa: E402 - only where Ray is
from unspoken.ray import _gateway  # noqa: E402 - only where Ray is
from unspoken.ray._gateway import Control, Gateway, Moves, Placed  # noqa: E402 - only where Ray is

# Ray and its libraries warn of each other.
pytestmark = pytest.mark.filterwarnings("ignore")

DIGITS = {"preset": "n14_real_depth8_scale30", "batch": "4"}


@pytest.fixture(scope="module")
def exporter() -> str:
    """The address of Ray's metrics."""
    return f"127.0.0.1:{free_port()}"


@pytest.fixture(scope="module")
def started(exporter: str) -> Iterator[None]:
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    # A cluster of its own, also where an earlier one was killed: its address is still in Ray's directory.
    ray.init(
        "local",
        num_cpus=6,
        include_dashboard=False,
        object_store_memory=300 << 20,
        log_to_driver=False,
        _metrics_export_port=int(exporter.split(":")[1]),
        _system_config={"metrics_report_interval_ms": 500},
    )
    yield
    ray.shutdown()


@pytest.fixture(scope="module")
def saved(network: unspoken.DigitsNetwork, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("ray") / "network"
    network.save(path)
    return path


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path


def serving(saved: Path, home: Path, **options: Any) -> cluster.Service:
    offer = cluster.Offer("digits", saved, options=DIGITS, replicas=options.pop("replicas", 1))
    listen = f"127.0.0.1:{free_port()}"
    return cluster.serve([offer], listen=listen, data_dir=home / "data", **{"name": home.name, **options})


def client(service: cluster.Service, state: Path) -> unspoken.DigitsClient:
    return unspoken.DigitsClient(service.url, state_dir=state, progress=False)


@pytest.fixture(scope="module")
def two_replicas(
    started: None,  # noqa: ARG001 - the cluster
    saved: Path,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[cluster.Service]:
    home = tmp_path_factory.mktemp("service")
    with serving(saved, home, replicas=2, metrics_listen="127.0.0.1:0") as service:
        yield service


def fetched(url: str) -> str:
    with urllib.request.urlopen(url) as response:
        text: str = response.read().decode()
    return text


def test_answers_as_a_plain_service(
    two_replicas: cluster.Service, exporter: str, home: Path, network: Any, strokes: Any
) -> None:
    images, _ = strokes
    asked = client(two_replicas, home / "state")
    assert (asked.recognise(images[:9])[0] == network.predict(images[:9])).all()
    # The keys are sent once, and another client of the same state needs none.
    again = client(two_replicas, home / "state")
    assert again.recognise(images[:1])[0] == network.predict(images[:1])
    assert again.usage.key_bytes == 0
    assert 'application="digits/mnist"' in fetched(str(two_replicas.metrics_url))
    # Ray exports the metrics of the replicas, which name no client.
    deadline = time.monotonic() + 30
    while "unspoken_replica_seconds_count{" not in fetched(f"http://{exporter}/metrics"):
        assert time.monotonic() < deadline
        time.sleep(0.5)
    lines = [line for line in fetched(f"http://{exporter}/metrics").splitlines() if "unspoken_replica" in line]
    assert any("digits/mnist" in line for line in lines)
    print("\n".join(lines))


def kill(name: str) -> None:
    """Kills one process of an actor, and waits until Ray has started another."""
    before = actors(name)
    os.kill(before[0], signal.SIGKILL)
    deadline = time.monotonic() + 60
    while len(set(actors(name)) - {before[0]}) < len(before):
        assert time.monotonic() < deadline, actors(name)
        time.sleep(0.2)


def test_killed_replicas_and_gateways_give_no_wrong_answer(
    two_replicas: cluster.Service, home: Path, network: Any, strokes: Any
) -> None:
    images, _ = strokes
    needed = network.predict(images[:4])
    wrong: list[int] = []
    answers: list[int] = []
    sent: set[int] = set()
    done = threading.Event()

    def ask(number: int) -> None:
        asked = client(two_replicas, home / f"state-{number}")
        while not done.is_set():
            found = asked.recognise(images[:4])[0]
            (answers if (found == needed).all() else wrong).append(number)
            sent.add(asked.usage.key_bytes)

    threads = [threading.Thread(target=ask, args=(number,)) for number in range(2)]
    for thread in threads:
        thread.start()
    while len(set(answers)) < 2:
        time.sleep(0.1)
    for name in ("ServeReplica", "Gateway"):
        kill(name)
        known = len(answers)
        while len(answers) < known + 3:
            time.sleep(0.1)
    done.set()
    for thread in threads:
        thread.join(timeout=120)
    assert not wrong
    # No client had to send its keys again.
    assert len(sent) == 1


@pytest.mark.usefixtures("started")
def test_keys_outlive_the_disk_of_a_gateway(saved: Path, home: Path, network: Any, strokes: Any) -> None:
    images, _ = strokes
    store = home / "store"
    with serving(saved, home, keys=f"file://{store}") as service:
        client(service, home / "state").recognise(images[:1])[0]
        port = service.url.rsplit(":", 1)[1]
    (bundle,) = store.iterdir()
    assert sorted(path.name for path in bundle.iterdir()) == ["complete", "data", "meta.json"]
    offer = cluster.Offer("digits", saved, options=DIGITS)
    new = home / "new"
    with cluster.serve(
        [offer], listen=f"127.0.0.1:{port}", data_dir=new, keys=f"file://{store}", name="new"
    ) as service:
        assert [path.name for path in (new / "keys").iterdir()] == [bundle.name]
        asked = client(service, home / "state")
        assert asked.recognise(images[:1])[0] == network.predict(images[:1])
        assert asked.usage.key_bytes == 0


@pytest.mark.usefixtures("started")
def test_a_compiled_model_is_served(home: Path) -> None:
    datasets, linear_model = (pytest.importorskip(f"sklearn.{name}") for name in ("datasets", "linear_model"))
    pytest.importorskip("skl2onnx", reason='models of scikit-learn need `pip install "unspoken[models]"`')
    rows, kinds = datasets.load_iris(return_X_y=True)
    estimator = linear_model.LogisticRegression(max_iter=1000).fit(rows, kinds)
    model = unspoken.compile(estimator, rows, batch=64)
    model.save(home / "flowers")
    offer = cluster.Offer("model", home / "flowers", replicas=2)
    listen = f"127.0.0.1:{free_port()}"
    with cluster.serve([offer], listen=listen, data_dir=home / "data", name="flowers") as service:
        asked = unspoken.ModelClient(service.url, state_dir=home / "state", progress=False)
        # Three queries.
        labels = asked.predict(rows)
        assert asked.application == "model"
        assert (labels == model.predict(rows)).mean() > 0.98
        assert (labels == estimator.predict(rows)).mean() > 0.95
        kill("ServeReplica")
        assert np.array_equal(asked.predict(rows[:3]), estimator.predict(rows[:3]))
        assert asked.classes_ is not None
        assert list(asked.classes_) == [0, 1, 2]


def record(number: int, version: int = 1) -> str:
    return f"{version} {number} " + "x" * 1900


def cut(binary: Path, home: Path, version: int) -> list[Path]:
    """A database of dense tables in two shards, whose record 7 depends on the version."""
    whole, out = home / f"whole-{version}", home / f"shards-{version}"
    rows = [record(number, version if number == 7 else 1) for number in range(2500)]
    (home / "rows.csv").write_text("value\n" + "\n".join(rows) + "\n")
    build = ["build", "--from", home / "rows.csv", "--value", "value", "--tables", "dense", whole]
    for command in (build, ["shard", whole, "--of", "2", out]):
        subprocess.run([binary, "pir", *map(str, command)], check=True, stdout=subprocess.DEVNULL)
    return [out / "shard-1", out / "shard-2"]


@pytest.mark.usefixtures("started")
def test_a_database_in_shards_is_served_as_one_through_kills_and_updates(binary: Path, home: Path) -> None:
    listen = f"127.0.0.1:{free_port()}"
    shards = cluster.Shards(cut(binary, home, 1), "pir/rows")
    with cluster.serve([shards], listen=listen, data_dir=home / "data", name="shards") as service:
        asked = unspoken.PirClient(service.url, state_dir=home / "state", progress=False)
        for number in (0, 7, 2049, 2499):
            assert asked.get_index(number) == record(number).encode()
        # Several at once, which passes over the shards answer together.
        with ThreadPoolExecutor(6) as threads:
            numbers = range(0, 2500, 250)

            def fetch(number: int) -> bytes:
                client = unspoken.PirClient(service.url, state_dir=home / "state", progress=False)
                found: bytes = client.get_index(number)
                return found

            assert list(threads.map(fetch, numbers)) == [record(number).encode() for number in numbers]
        kill("ServeReplica")
        assert asked.get_index(2049) == record(2049).encode()

        later = cluster.Shards(cut(binary, home, 2), "pir/rows")
        found: list[bytes] = []
        done = threading.Event()

        def ask() -> None:
            while not done.is_set():
                found.append(asked.get_index(7))

        asking = threading.Thread(target=ask)
        asking.start()
        service.update(later)
        deadline = time.monotonic() + 60
        while record(7, 2).encode() not in found:
            assert time.monotonic() < deadline
            time.sleep(0.1)
        done.set()
        asking.join(timeout=60)
        # One version and then the other, and nothing else.
        assert set(found) == {record(7).encode(), record(7, 2).encode()}
        assert found == sorted(found)
        assert asked.get_index(8) == record(8).encode()
        # A gateway that starts again knows where the shards are now.
        kill("Gateway")
        assert asked.get_index(7) == record(7, 2).encode()
        with pytest.raises(unspoken.ConfigurationError, match="no application"):
            service.update(cluster.Shards(later.paths, "pir/others"))


@pytest.mark.usefixtures("started")
def test_a_collection_is_searched_through_kills_changes_and_rebuilds(home: Path) -> None:
    def built(said: str) -> unspoken.SearchIndex:
        documents, ids = [f"{said} {i}" for i in range(200)], [f"N{i}" for i in range(200)]
        return unspoken.SearchIndex.build(
            home / "notes", documents, ids=ids, embed=embed_notes, replace=True, progress=False
        )

    def waits_for(text: str, number: int) -> None:
        deadline = time.monotonic() + 60
        # Both replicas have it, whichever answers.
        seen = 0
        while seen < 8:
            assert time.monotonic() < deadline, asked.search(note_vectors()[number], k=1)
            # Replicas take a new build up one after the other; until then the client is told to ask again.
            with suppress(unspoken.MismatchError, unspoken.RefusedError):
                seen = seen + 1 if asked.search(note_vectors()[number], k=1)[0].text == text else 0

    index = built("note")
    offer = cluster.Offer("search", home / "notes", replicas=2)
    listen = f"127.0.0.1:{free_port()}"
    with cluster.serve([offer], listen=listen, data_dir=home / "data", name="collection") as service:
        asked = unspoken.SearchClient(service.url, embed=embed_notes, state_dir=home / "state", progress=False)
        assert [asked.search(f"note {n}", k=2)[0].text for n in (0, 77, 199)] == ["note 0", "note 77", "note 199"]
        assert asked.application == "search/notes"
        kill("ServeReplica")
        assert asked.search("note 5", k=1)[0].id == b"N5"
        with index.edit(progress=False) as change:
            change.put(["another 250"], ids=["later"])
        waits_for("another 250", 250)
        built("rebuilt")
        waits_for("rebuilt 7", 7)
        # Other files under the same name, and a gateway that starts again.
        service.update(cluster.Offer("search", home / "notes", replicas=1))
        kill("Gateway")
        assert asked.search("note 8", k=1)[0].text == "rebuilt 8"


@pytest.mark.usefixtures("started")
def test_a_collection_in_shards_is_searched_as_one(home: Path) -> None:
    numbers = np.random.default_rng(3)
    vectors = numbers.normal(size=(9000, 16)).astype(np.float32)
    index = unspoken.SearchIndex.build(
        home / "notes", [f"note {i}" for i in range(9000)], vectors, recall=1.0, progress=False
    )
    assert index.info().groups >= 2
    listen = f"127.0.0.1:{free_port()}"
    shards = cluster.CollectionShards(home / "notes", "search/notes", shards=2)
    with cluster.serve([shards], listen=listen, data_dir=home / "data", name="in-shards") as service:
        asked = unspoken.SearchClient(service.url, state_dir=home / "state", progress=False)
        for number in (0, 4567, 8999):
            clear = [found.document for found in index.search(vectors[number], k=5)]
            assert asked.search(vectors[number], k=1)[0].document == clear[0]
        kill("ServeReplica")
        assert asked.search(vectors[77], k=1)[0].text == "note 77"


def parts(exporter: str, outcome: str) -> float:
    """The parts of answers that helpers were asked for, with this outcome."""
    lines = fetched(f"http://{exporter}/metrics").splitlines()
    counted = [line for line in lines if line.startswith("ray_unspoken_replica_parts") and f'"{outcome}"' in line]
    return sum(float(line.split()[-1]) for line in counted)


@pytest.mark.usefixtures("started")
def test_helpers_compute_parts_of_a_language_model_through_kills(
    prepared_stories: Path, exporter: str, home: Path
) -> None:
    options = {"insecure_preset": "insecure_n11_boot_depth15_scale40", "chunk": "8", "chunks": "2"}
    offer = cluster.Offer("chat", prepared_stories, "chat/stories", options, helpers=1)
    listen = f"127.0.0.1:{free_port()}"
    with cluster.serve([offer], listen=listen, data_dir=home / "data", name="stories") as service:
        rest: Any = {"model": prepared_stories / "client", "state_dir": home / "state", "progress": False}
        with pytest.raises(unspoken.UnspokenError, match="insecure_n11"):
            unspoken.ChatClient(service.url, **rest).connect()
        client = unspoken.ChatClient(service.url, insecure_parameters=True, **rest)
        told: list[str] = []

        def ask() -> None:
            generation = client.generate(" a dog", public="Tom and Mia went to the park. They saw", max_tokens=1)
            assert generation.passes == 1
            told.append(generation.text)

        deadline = time.monotonic() + 120
        while not parts(exporter, "computed"):
            assert time.monotonic() < deadline
            ask()
        # A helper that ends in the middle of a pass, and before one.
        asking = threading.Thread(target=ask)
        asking.start()
        time.sleep(0.5)
        os.kill(actors("Helper")[0], signal.SIGKILL)
        asking.join(timeout=60)
        ask()
        assert len(told) >= 3
        assert len(set(told)) == 1
        # Ray starts another one, which computes again.
        before = parts(exporter, "computed")
        while parts(exporter, "computed") <= before:
            assert time.monotonic() < deadline
            ask()
        assert len(set(told)) == 1


@pytest.mark.parametrize(
    ("offer", "message"),
    [
        ({"helpers": -1}, "0 or more"),
        ({"helpers": 1}, "needed chat"),
        ({"replicas": (3, 2)}, "the smaller number first"),
        ({"replicas": 0}, "1 or more"),
        ({"cpus": 0}, "1 or more"),
        ({"kind": "sums", "replicas": 2}, "its state is in that replica"),
        ({"gpus": 2}, "0 to 1"),
        ({"kind": "sums", "gpus": 1}, "needed one of chat, digits, model, pir"),
    ],
)
def test_mistakes_in_offers_are_named(offer: dict[str, Any], message: str) -> None:
    with pytest.raises(unspoken.ConfigurationError, match=message):
        cluster.Offer(**{"kind": "digits", "path": "anywhere", **offer})


def test_a_gpu_is_reserved_and_used() -> None:
    offer = cluster.Offer("digits", "anywhere", cpus=2, memory=5, gpus=0.5)
    assert offer.resources == {"num_cpus": 2, "memory": 5, "num_gpus": 0.5}
    assert offer.device == "cuda:0"
    without = cluster.Offer("digits", "anywhere")
    assert (without.resources, without.device) == ({"num_cpus": 1}, None)


@pytest.mark.usefixtures("started")
def test_files_of_questions_are_answered_through_kills(
    saved: Path, home: Path, network: Any, strokes: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    images, _ = strokes
    store = f"file://{home / 'store'}"
    monkeypatch.setattr(batches, "FILE_BYTES", 1)
    offer = cluster.Offer("digits", saved, options=DIGITS, replicas=2)
    with serving(saved, home, keys=store) as service:
        asked = client(service, home / "state")
        assert batches.encrypt(asked, images, home / "questions") == len(images)
        reports: list[batches.Report] = []
        places = {"questions": home / "questions", "answers": f"file://{home / 'answers'}", "keys": store}
        answering = threading.Thread(target=lambda: reports.append(cluster.answer_files(offer, **places)))
        answering.start()
        answers = Path(home / "answers")
        deadline = time.monotonic() + 60
        while not list(answers.glob("*.parquet")):
            assert time.monotonic() < deadline
            time.sleep(0.02)
        os.kill(actors("MapWorker")[0], signal.SIGKILL)
        answering.join(timeout=120)
        (report,) = reports
        assert (report.files, report.refused, report.problems) == (len(images) // 4, 0, {})
        found, _ = batches.decrypt(asked, images, home / "answers")
        assert (found == network.predict(images)).all()
        # A later call has nothing left to do, or what is missing.
        min(answers.iterdir()).unlink()
        report = cluster.answer_files(offer, **places)
        assert (report.files, report.before) == (1, len(images) // 4 - 1)
        with pytest.raises(unspoken.ConfigurationError, match="needed one of classify"):
            cluster.answer_files(cluster.Offer("sums", saved), **places)
        min(answers.iterdir()).unlink()
        with pytest.raises(unspoken.UnspokenError, match=r"cannot be answered.*digits\.json"):
            cluster.answer_files(cluster.Offer("digits", home / "nothing"), **places)


def test_another_job_does_not_change_a_gateway(two_replicas: cluster.Service) -> None:
    gateway: Any = ray.get_actor(f"{two_replicas._name}-gateway", namespace="unspoken")
    stranger = Control.new()
    assert stranger.digest() != Control.new().digest()
    assert repr(stranger) == "<Control>"
    for call in (lambda: gateway.close.remote(stranger), lambda: gateway.move.remote(stranger, [])):
        with pytest.raises(PermissionError, match="a call of another job"):
            ray.get(call())
    assert fetched(f"{two_replicas.url}/readyz") == "ready\n"


def test_a_start_without_all_replicas_leaves_no_threads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def handle(placed: Placed) -> None:
        if placed.app == "gone":
            raise LookupError(placed.app)

    hosts: list[Any] = []
    monkeypatch.setattr(_gateway, "_handle", handle)
    monkeypatch.setattr(_gateway, "Host", lambda *arguments: hosts.append(arguments))
    first = types.SimpleNamespace(was_current_actor_reconstructed=False)
    monkeypatch.setattr(ray, "get_runtime_context", lambda: first)
    placed = [Placed(app, "digits", {"name": f"digits/{app}"}, None, False) for app in ("there", "gone")]
    with pytest.raises(LookupError):
        Gateway(b"", "", Moves(tmp_path, None, "run"), placed, [], None)
    assert hosts == []


def test_a_second_service_needs_a_name(two_replicas: cluster.Service, saved: Path, home: Path) -> None:
    with pytest.raises(unspoken.ConfigurationError, match="a service of this name runs"):
        serving(saved, home, name=str(two_replicas).split()[1])


@pytest.mark.usefixtures("started")
def test_a_missing_model_is_named(home: Path) -> None:
    with pytest.raises(unspoken.ConfigurationError, match=r"digits\.json"):
        serving(home / "nothing", home)


def test_without_ray_the_package_works_and_says_what_is_missing() -> None:
    code = """
import sys
sys.modules["ray"] = None
import unspoken
try:
    import unspoken.ray
except ImportError as error:
    print(error)
"""
    printed = subprocess.run([sys.executable, "-c", code], check=True, stdout=subprocess.PIPE, text=True).stdout
    assert 'pip install "unspoken[ray]"' in printed
