from __future__ import annotations

import http.server
import os
import shutil
import signal
import stat
import threading
import time

import numpy as np
import pytest
from conftest import HAM, SPAM, Child, classifier_service

import unspoken
from unspoken import ClassifyClient


def quiet(url, **options):
    return ClassifyClient(url, progress=False, **options)


def test_classifies_as_the_model_in_the_clear(service, state, model):
    messages = [*HAM, *SPAM, "", "entirely new words", "win " * 300]
    with quiet(service.url, model=model, state_dir=state) as client:
        labels, scores = client.classify(messages)
        assert client.application == "classify/spam"
        assert client.labels == ["ham", "spam"]
        used = client.usage
    np.testing.assert_array_equal(labels, model.predict(messages))
    assert labels.dtype.kind == "U"
    clear = model.scores(messages)
    assert scores.shape == clear.shape
    assert scores.dtype == np.float64
    assert np.abs(scores - clear).max() < 2.0**-8 * np.abs(clear).max()
    assert not np.array_equal(scores, clear)
    assert used.messages == len(messages)
    assert min(used.query_bytes, used.answer_bytes) > 1000
    assert min(used.key_seconds, used.client_seconds, used.server_seconds) > 0


def test_prepared_queries_get_the_same_answers(service, state, model):
    with quiet(service.url, model=model, state_dir=state) as client:
        expected = client.classify(HAM + SPAM)[0]
    # More queries than are prepared, with memory for some and for none.
    for pool_bytes in (1 << 28, 1):
        with quiet(service.url, model=model, state_dir=state, burst=2, pool_bytes=pool_bytes) as client:
            for _ in range(4):
                np.testing.assert_array_equal(client.classify(HAM + SPAM)[0], expected)
    with pytest.raises(unspoken.ConfigurationError, match="burst=-1"):
        quiet(service.url, model=model, state_dir=state, burst=-1)


def test_keys_are_made_once(service, state, model):
    first = quiet(service.url, model=model, state_dir=state).connect()
    directory = service.path
    with quiet(service.url + "/", model=directory, state_dir=state) as second:
        assert second.usage == unspoken.Usage()
        assert second.classify(HAM)[0].tolist() == ["ham"] * 4
        assert second.usage.key_bytes == 0
    assert first.classify(SPAM)[0].tolist() == ["spam"] * 4


def test_any_number_of_messages(service, state, model):
    seen = []
    with ClassifyClient(service.url, model=model, state_dir=state, progress=seen.append) as client:
        labels, scores = client.classify([])
        assert labels.shape == (0,)
        assert scores.shape == (0, 2)
        assert client.usage.query_bytes == 0
        # More messages than one query has room for.
        labels, scores = client.classify(HAM[i % 4] if i % 3 else SPAM[i % 4] for i in range(130))
        assert labels.tolist() == ["ham" if i % 3 else "spam" for i in range(130)]
        assert scores.shape == (130, 2)
    counts = [each.done for each in seen if each.stage == "classifying" and each.total == 130]
    assert counts[0] == 0
    assert counts[-1] == 130
    assert len(counts) > 2


@pytest.mark.skipif(os.name != "posix", reason="modes are those of POSIX")
def test_the_secret_key_is_private(service, state, model):
    quiet(service.url, model=model, state_dir=state).connect().close()
    secrets = list(state.rglob("secret*.key"))
    assert secrets
    for path in secrets:
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700


def test_another_model_is_refused(service, state, texts, labels):
    other = unspoken.FastText(dim=8, columns=16, seed=9, progress=False).fit(texts, labels)
    with pytest.raises(unspoken.MismatchError, match="model"):
        quiet(service.url, model=other, state_dir=state).connect()


def test_a_refusal_tells_its_code(service, state, model):
    client = quiet(service.url, model=model, state_dir=state, application="classify/none")
    with pytest.raises(unspoken.RefusedError, match="refused") as caught:
        client.connect()
    assert caught.value.code == "application_not_found"
    assert caught.value.status == 404
    assert caught.value.remedy
    assert caught.value.retry_after is None


def test_a_closed_client_says_so(service, state, model):
    client = quiet(service.url, model=model, state_dir=state).connect()
    client.classify(HAM)
    client.close()
    client.close()
    assert client.usage.messages == 4
    assert "closed" in repr(client)
    with pytest.raises(unspoken.UnspokenError, match="it is closed"):
        client.classify(HAM)


def test_several_threads_share_a_client(service, state, model):
    client = quiet(service.url, model=model, state_dir=state)
    answers = {}

    def ask(name, messages):
        answers[name] = client.classify(messages)[0].tolist()

    threads = [threading.Thread(target=ask, args=pair) for pair in (("ham", HAM), ("spam", SPAM))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert answers == {"ham": ["ham"] * 4, "spam": ["spam"] * 4}


CONTROL_C = """
import signal, sys, unspoken
# A shell's background jobs inherit that Control-C is ignored.
signal.signal(signal.SIGINT, signal.default_int_handler)
url, model, state, stage, application = sys.argv[1:]
def show(progress):
    if progress.stage == stage:
        print("ready", flush=True)
client = unspoken.ClassifyClient(url, model=model, state_dir=state, progress=show, timeout=600,
                         application=application or None)
try:
    print("asking", flush=True)
    client.classify(["free cash"] * 10_000)
except KeyboardInterrupt:
    print("interrupted", client.usage.key_seconds > 0, flush=True)
"""


def interrupt(child):
    """Send Control-C; return whether the child was connected by then, and how long it took."""
    child.process.send_signal(signal.SIGINT)
    start = time.monotonic()
    out, err = child.finish(timeout=60)
    word, connected = out.split()[-2:]
    assert word == "interrupted", err
    return connected == "True", time.monotonic() - start


@pytest.mark.skipif(os.name != "posix", reason="signals are sent the POSIX way")
@pytest.mark.parametrize("stage", ["generating keys", "hashing keys", "classifying"])
def test_control_c_stops_asking(service, state, model, tmp_path, stage):
    home = state if stage == "classifying" else tmp_path
    if home is state:
        quiet(service.url, model=model, state_dir=state).connect().close()
    child = Child(CONTROL_C, service.url, service.path, home, stage, "")
    child.wait_for("ready")
    # The stopped service does not answer from here on: the child is in this stage or waits in the next.
    service.process.send_signal(signal.SIGSTOP)
    try:
        connected, taken = interrupt(child)
    finally:
        service.process.send_signal(signal.SIGCONT)
    assert connected == (stage == "classifying")
    assert taken < 10
    # An interrupted call can be repeated.
    with quiet(service.url, model=model, state_dir=home) as client:
        assert client.classify(SPAM)[0].tolist() == ["spam"] * 4


@pytest.mark.skipif(os.name != "posix", reason="signals are sent the POSIX way")
def test_control_c_stops_waiting_for_a_service(model, tmp_path):
    model.save(tmp_path / "model")
    child = Child(CONTROL_C, "http://127.0.0.1:9", tmp_path / "model", tmp_path, "", "classify/spam")
    child.wait_for("asking")
    time.sleep(0.5)
    connected, taken = interrupt(child)
    assert not connected
    assert taken < 10


def test_lost_keys_are_made_again(binary, model, tmp_path):
    model.save(tmp_path / "model")
    service = classifier_service(binary, tmp_path).start()
    try:
        with quiet(service.url, model=model, state_dir=tmp_path / "state") as client:
            client.classify(HAM)
            before = client.usage
            service.stop()
            shutil.rmtree(tmp_path / "data")
            service.start()
            assert client.classify(SPAM)[0].tolist() == ["spam"] * 4
            assert client.usage.key_bytes == 2 * before.key_bytes > 0
            assert client.usage.messages == 8
    finally:
        service.stop()


def test_a_service_that_is_not_there(model, tmp_path):
    client = quiet("http://127.0.0.1:9", model=model, state_dir=tmp_path, timeout=0.5)
    with pytest.raises(unspoken.ConnectionFailedError, match="connection refused"):
        client.connect()
    with pytest.raises(ConnectionError):
        client.classify(["a"])


@pytest.mark.parametrize(
    ("url", "options", "message"),
    [
        ("ftp://127.0.0.1:8080", {}, "needed https://HOST:PORT"),
        ("http://example.org", {"token": "unspoken_secret"}, "clear"),
        ("http://example.org", {}, "insecure_http"),
        ("http://127.0.0.1:9", {"timeout": -1.0}, "timeout"),
    ],
)
def test_what_cannot_be_asked_is_refused_at_once(model, tmp_path, url, options, message):
    with pytest.raises(unspoken.ConfigurationError, match=message) as caught:
        quiet(url, model=model, state_dir=tmp_path, **options)
    assert "unspoken_secret" not in str(caught.value)


def test_plain_http_to_another_machine_can_be_allowed(model, tmp_path):
    quiet("http://example.org", model=model, state_dir=tmp_path, token="unspoken_secret", insecure_http=True)


def test_shared_scores_have_noise(service, state, model):
    messages = ["win a free prize", "see you at home"]
    with quiet(service.url, model=model, state_dir=state) as client:
        _, exact = client.classify(messages)
        labels, shared = client.classify_to_share(messages, bits=4)
        assert shared.shape == exact.shape
        assert np.isfinite(shared).all()
        assert (shared != exact).all()
        assert list(labels) == [client.labels[i] for i in shared.argmax(axis=1)]
        # Noise that decides labels is refused; nothing of the answer is lost.
        with pytest.raises(unspoken.UncertainError, match=r"noise of 40 bits may have decided, .* of 2") as refused:
            client.classify_to_share(messages, bits=40)
        error = refused.value
        assert (len(error.labels), error.scores.shape, error.certainties.shape) == (2, exact.shape, (2,))
        assert error.certainties.min() < 0.95
        labels, drowned = client.classify_to_share(messages, bits=40, uncertain=True)
        assert list(labels) == [client.labels[i] for i in drowned.argmax(axis=1)]
        sent = client.usage.query_bytes
        with pytest.raises(unspoken.MismatchError, match="1 to 45"):
            client.classify_to_share(messages, bits=0)
        assert client.usage.query_bytes == sent


def test_arguments_are_checked(model, tmp_path):
    with pytest.raises(unspoken.NotFittedError):
        quiet("http://127.0.0.1:9", model=unspoken.FastText())
    with pytest.raises(unspoken.ModelError, match="client"):
        quiet("http://127.0.0.1:9", model=tmp_path / "absent")
    with pytest.raises(unspoken.ConfigurationError, match=r"absent\.pem.*name a file in PEM or DER"):
        quiet("http://127.0.0.1:9", model=model, ca_file=tmp_path / "absent.pem")
    client = quiet("http://127.0.0.1:9", model=model, token="unspoken_secret")
    assert "secret" not in repr(client)
    with pytest.raises(TypeError, match="needed several texts"):
        client.classify("free cash")


class Peer(http.server.BaseHTTPRequestHandler):
    """A service that offers two applications: a message whose first field is a list of names."""

    def do_GET(self):
        names = [b"classify/ham", b"classify/spam"]
        body = b"".join(b"\x0a" + bytes([len(name)]) + name for name in names)
        self.send_response(200)
        self.send_header("Content-Type", "application/x-protobuf")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *words):
        pass


def test_one_of_several_applications_must_be_named(model, tmp_path):
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Peer) as peer:
        thread = threading.Thread(target=peer.serve_forever)
        thread.start()
        try:
            client = quiet(f"http://127.0.0.1:{peer.server_port}", model=model, state_dir=tmp_path)
            with pytest.raises(unspoken.ConfigurationError, match=r"ham.+spam"):
                client.connect()
        finally:
            peer.shutdown()
            thread.join()


def test_a_state_directory_that_cannot_be_made(model, tmp_path):
    (tmp_path / "file").write_text("")
    client = quiet("http://127.0.0.1:9", model=model, state_dir=tmp_path / "file", application="classify/spam")
    with pytest.raises(unspoken.StateError, match="pass state_dir="):
        client.connect()
    with pytest.raises(OSError, match="state directory"):
        client.connect()


def test_waiting_is_reported_and_logged(model, tmp_path, caplog):
    seen = []
    options = {"state_dir": tmp_path, "timeout": 1, "progress": seen.append}
    client = unspoken.ClassifyClient("127.0.0.1:9", model=model, **options)
    assert "http://127.0.0.1:9" in repr(client)
    with pytest.raises(unspoken.ConnectionFailedError, match="start the service there"):
        client.connect()
    assert {each.stage for each in seen} == {"waiting"}
    assert len(seen) > 1
    assert (seen[0].done, seen[0].total) == (0, 1)
    warnings = [record.getMessage() for record in caplog.records if record.name == "unspoken"]
    assert len(warnings) == 1
    assert "waiting for http://127.0.0.1:9: connection refused" in warnings[0]


def test_a_name_that_does_not_exist_is_refused_at_once(model, tmp_path):
    start = time.monotonic()
    client = quiet(f"https://{'a' * 70}.example", model=model, state_dir=tmp_path)
    with pytest.raises(unspoken.ConnectionFailedError, match="no host has this name"):
        client.connect()
    assert time.monotonic() - start < 5


def test_costs_are_known_before_anything_is_sent(service, model, tmp_path):
    seen = []
    with unspoken.ClassifyClient(service.url, model=model, state_dir=tmp_path, progress=seen.append) as client:
        cost = client.cost(4)
        assert client.usage == unspoken.Usage()
        assert not seen
        client.classify(HAM)
        used = client.usage
        assert cost.key_bytes == used.key_bytes > 0
        assert (cost.questions, cost.queries) == (4, 1)
        assert used.query_bytes <= cost.query_bytes < 1.02 * used.query_bytes + 200
        assert used.answer_bytes <= cost.answer_bytes < 1.02 * used.answer_bytes + 200
        assert client.cost(cost.batch + 1).queries == 2
        assert client.cost(1).key_bytes == 0
        with pytest.raises(unspoken.ConfigurationError, match="questions=-1"):
            client.cost(-1)
    stages = list(dict.fromkeys(each.stage for each in seen))
    assert stages[:2] == ["keys to send", "generating keys"]
    assert stages[-2:] == ["queries to send", "classifying"]
    totals = {each.stage: each.total for each in seen}
    assert totals["keys to send"] == used.key_bytes
    assert totals["queries to send"] == cost.query_bytes


def test_a_service_of_another_kind_is_named(
    service, embedding_service, digits_service, retrieval_service, matrix_service, model, table, tmp_path
):
    quietly = {"state_dir": tmp_path, "progress": False}
    clients = {
        "classify": (
            "unspoken.ClassifyClient",
            lambda url, name: quiet(url, model=model, state_dir=tmp_path, application=name),
        ),
        "embed": (
            "unspoken.EmbeddingClient",
            lambda url, name: unspoken.EmbeddingClient(url, table=table, application=name, **quietly),
        ),
        "digits": ("unspoken.DigitsClient", lambda url, name: unspoken.DigitsClient(url, application=name, **quietly)),
        "pir": ("unspoken.PirClient", lambda url, name: unspoken.PirClient(url, name, **quietly)),
        "matrix": ("unspoken.MatrixClient", lambda url, name: unspoken.MatrixClient(url, application=name, **quietly)),
    }
    services = {
        "classify": (service.url, "classify/spam"),
        "embed": (embedding_service.url, "embed/words"),
        "digits": (digits_service.url, "digits/strokes"),
        "pir": (retrieval_service.url, "pir/codes"),
        "matrix": (matrix_service.url, "matrix/scores"),
    }
    for offered, (url, name) in services.items():
        for asking, (_, client) in clients.items():
            if asking == offered:
                continue
            with pytest.raises(unspoken.MismatchError) as caught:
                client(url, name).connect()
            article = "an" if offered == "embed" else "a"
            assert f"{url} offers {name}, {article} {offered} application (" in str(caught.value)
            needed = f"this client asks {asking} applications; use {clients[offered][0]}"
            assert str(caught.value).endswith(needed)
