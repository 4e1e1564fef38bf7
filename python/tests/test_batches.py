"""Questions in files: encrypted by clients, answered without a service, and decrypted."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import CLASSIFIER, DIGITS, EMBEDDING, Service

import unspoken
from unspoken import batches
from unspoken._batch_files import Answer, Directory, Query

parquet = pytest.importorskip("pyarrow.parquet", reason='the tests of batches need `pip install "unspoken[batches]"`')


class Case:
    """An application of a running service, and questions in more than one query."""

    def __init__(self, kind: str, service: Service, client: Any, questions: Any, options: dict[str, str]) -> None:
        self.kind, self.service, self.client, self.questions = kind, service, client, questions
        self.options = {name.lstrip("-"): value for name, value in options.items() if name != "--name"}
        self.path = str(service.options[0][1]).rsplit("=", 1)[-1]
        self.keys = service.data / "keys"

    def answer(self, home: Path) -> batches.Report:
        places = {"questions": home / "questions", "answers": home / "answers"}
        return batches.answer(self.kind, self.path, **places, keys=self.keys, options=self.options, progress=False)


@pytest.fixture
def digits_case(digits_service: Service, strokes: Any, state: Path) -> Case:
    client = unspoken.DigitsClient(digits_service.url, state_dir=state, progress=False)
    return Case("digits", digits_service, client, strokes[0][:20], DIGITS)


def test_digits(digits_case: Case, network: Any, tmp_path: Path) -> None:
    case = digits_case
    with case.client as client:
        assert batches.encrypt(client, case.questions, tmp_path / "questions") == 20
        assert client.usage.server_seconds == 0
    report = case.answer(tmp_path)
    assert (report.files, report.queries, report.refused, report.problems) == (1, 2, 0, {})
    # Another process of the client decrypts, later.
    with unspoken.DigitsClient(case.service.url, state_dir=client._state_dir, progress=False) as later:
        found, scores = batches.decrypt(later, case.questions, tmp_path / "answers")
    assert (found == network.predict(case.questions)).all()
    assert scores.shape == (20, 10)


def test_messages(service: Service, model: unspoken.FastText, texts: list[str], state: Path, tmp_path: Path) -> None:
    client = unspoken.Client(service.url, model=model, state_dir=state, progress=False)
    case = Case("classify", service, client, texts[:7], CLASSIFIER)
    batches.encrypt(client, iter(case.questions), tmp_path / "questions")
    case.answer(tmp_path)
    labels, scores = batches.decrypt(client, case.questions, tmp_path / "answers")
    assert (labels == model.predict(case.questions)).all()
    np.testing.assert_allclose(scores, client.classify(case.questions)[1], atol=1e-2)


def test_tokens(embedding_service: Service, table: unspoken.CompressedTable, state: Path, tmp_path: Path) -> None:
    client = unspoken.EmbeddingClient(embedding_service.url, table=table, state_dir=state, progress=False)
    case = Case("embed", embedding_service, client, ["w3", "w98", "no such"], EMBEDDING)
    batches.encrypt(client, case.questions, tmp_path / "questions")
    case.answer(tmp_path)
    found = batches.decrypt(client, case.questions, tmp_path / "answers")
    np.testing.assert_allclose(found, table.reconstruct(case.questions), atol=1e-3)


def test_matrices(matrix_service: Service, state: Path, tmp_path: Path) -> None:
    rng = np.random.default_rng(11)
    given = [{"a": rng.uniform(-1, 1, (4, 3)), "b": rng.uniform(-1, 1, 3)} for _ in range(3)]
    client = unspoken.MatrixClient(matrix_service.url, state_dir=state, progress=False)
    case = Case("matrix", matrix_service, client, given, {})
    batches.encrypt(client, given, tmp_path / "questions")
    assert case.answer(tmp_path).queries == 3
    for result, arrays in zip(batches.decrypt(client, given, tmp_path / "answers"), given):
        np.testing.assert_allclose(result, 2 * arrays["a"] @ arrays["b"] + 1, rtol=0, atol=client.error)


def test_files_are_answered_once_and_bad_ones_do_not_stop_the_others(
    digits_case: Case, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    case, questions = digits_case, Directory(tmp_path / "questions")
    monkeypatch.setattr(batches, "FILE_BYTES", 1)
    batches.encrypt(case.client, case.questions, tmp_path / "questions")
    assert questions.names() == ["part-000000.parquet", "part-000001.parquet"]
    with pytest.raises(unspoken.ConfigurationError, match="without any"):
        batches.encrypt(case.client, case.questions, tmp_path / "questions")
    whole = (tmp_path / "questions/part-000001.parquet").read_bytes()
    (tmp_path / "questions/part-000001.parquet").write_bytes(whole[:-100])
    report = case.answer(tmp_path)
    assert (report.files, list(report.problems)) == (1, ["part-000001.parquet"])
    assert "damaged" in report.problems["part-000001.parquet"]
    with pytest.raises(unspoken.UnspokenError, match="found answers to 16 questions, needed 20"):
        batches.decrypt(case.client, case.questions, tmp_path / "answers")
    (tmp_path / "questions/part-000001.parquet").write_bytes(whole)
    report = case.answer(tmp_path)
    assert (report.before, report.files, report.problems) == (1, 1, {})
    assert sorted(path.name for path in (tmp_path / "answers").iterdir()) == questions.names()
    assert len(batches.decrypt(case.client, case.questions, tmp_path / "answers")[0]) == 20
    # Answers of another part are not taken for these.
    shutil.move(tmp_path / "answers/part-000001.parquet", tmp_path / "answers/part-000000.parquet")
    with pytest.raises(unspoken.UnspokenError, match="no answers to questions 0 to 16"):
        batches.decrypt(case.client, case.questions, tmp_path / "answers")


def test_hostile_rows_are_refused_one_by_one(digits_case: Case, tmp_path: Path) -> None:
    case, questions = digits_case, Directory(tmp_path / "questions")
    batches.encrypt(case.client, case.questions[:1], tmp_path / "honest")
    (honest,) = Directory(tmp_path / "honest").questions("part-000000.parquet")
    rows = [
        honest,
        honest._replace(first=1, query=honest.query[:-1]),
        honest._replace(first=2, key="../../etc/passwd"),
        honest._replace(first=3, key="0" * 32),
        honest._replace(first=4, query=b""),
    ]
    with questions.write_questions("part-000000.parquet") as add:
        for row in rows:
            add(row)
    report = case.answer(tmp_path)
    assert (report.queries, report.refused) == (5, 4)
    answers = list(Directory(tmp_path / "answers").answers("part-000000.parquet"))
    assert [(row.error or "answer").split(":")[0] for row in answers] == [
        "answer", "malformed", "malformed", "no keys", "malformed",
    ]  # fmt: skip
    assert [row.answer is None for row in answers] == [False, True, True, True, True]
    with pytest.raises(unspoken.UnspokenError, match="4 of 5 questions have no answer; the first: malformed"):
        batches.decrypt(case.client, case.questions[:5], tmp_path / "answers")


def test_files_of_another_kind_are_named(digits_case: Case, tmp_path: Path) -> None:
    with pytest.raises(unspoken.ConfigurationError, match="no files of questions"):
        digits_case.answer(tmp_path)
    with Directory(tmp_path / "questions").write_answers("part-000000.parquet") as add:
        add(Answer(0, 1, b"", None))
    assert "needed 'questions 1'" in digits_case.answer(tmp_path).problems["part-000000.parquet"]
    with pytest.raises(unspoken.ConfigurationError, match="needed one of classify"):
        batches.answer("llama", "model", tmp_path / "questions", tmp_path / "answers", keys=tmp_path)
    with pytest.raises(unspoken.ConfigurationError, match="needed two directories"):
        batches.answer("digits", "network", tmp_path, tmp_path, keys=tmp_path)
    with pytest.raises(unspoken.ConfigurationError, match="RetrievalClient"):
        batches.encrypt(unspoken.RetrievalClient("http://127.0.0.1:1"), [1], tmp_path / "new")  # type: ignore[arg-type]


def test_an_unfinished_file_is_none(tmp_path: Path) -> None:
    directory = Directory(tmp_path)

    def interrupted() -> None:
        with directory.write_questions("part-000000.parquet") as add:
            add(Query(0, 1, "0" * 32, b"query"))
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert directory.names() == []
    assert len(list(tmp_path.iterdir())) == 1
    directory.remove_unfinished()
    assert list(tmp_path.iterdir()) == []


def test_missing_packages_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(unspoken.ConfigurationError, match=r'pip install "unspoken\[batches\]"'):
        Directory(tmp_path)
