"""Questions in files: encrypted by clients, answered without a service, and decrypted."""

from __future__ import annotations

import shutil
import sys
import types
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import CLASSIFIER, DIGITS, EMBEDDING, Service

import unspoken
from unspoken import batches
from unspoken._batch_files import Answer, Directory, Query, Source
from unspoken._key_cache import KeyCache

pyarrow = pytest.importorskip("pyarrow")
parquet = pytest.importorskip("pyarrow.parquet", reason='the tests of batches need `pip install "unspoken[batches]"`')


class Case:
    """An application of a running service, and questions in more than one query."""

    def __init__(self, kind: str, service: Service, client: Any, questions: Any, options: dict[str, str]) -> None:
        self.kind, self.service, self.client, self.questions = kind, service, client, questions
        self.options, self.path = options, service.path
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
    client = unspoken.ClassifyClient(service.url, model=model, state_dir=state, progress=False)
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
    case, questions = digits_case, tmp_path / "questions"
    monkeypatch.setattr(batches, "FILE_BYTES", 1)
    batches.encrypt(case.client, case.questions, questions)
    first, second = Directory(questions).names()
    with pytest.raises(unspoken.ConfigurationError, match="without any"):
        batches.encrypt(case.client, case.questions, questions)
    whole = (questions / second).read_bytes()
    (questions / second).write_bytes(whole[:-100])
    with pytest.warns(UserWarning, match=f"found 1 files that cannot be answered, the first is {second}: "):
        report = case.answer(tmp_path)
    assert (report.files, list(report.problems)) == (1, [second])
    assert "damaged" in report.problems[second]
    assert [path.name for path in (tmp_path / "answers").iterdir()] == [first]
    with pytest.raises(unspoken.UnspokenError, match="found answers to 16 questions, needed 20"):
        batches.decrypt(case.client, case.questions, tmp_path / "answers")
    (questions / second).write_bytes(whole)
    report = case.answer(tmp_path)
    assert (report.before, report.files, report.problems) == (1, 1, {})
    assert sorted(path.name for path in (tmp_path / "answers").iterdir()) == [first, second]
    assert len(batches.decrypt(case.client, case.questions, tmp_path / "answers")[0]) == 20


def test_answers_are_not_taken_for_those_to_other_questions(
    digits_case: Case, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    case, answers = digits_case, tmp_path / "answers"
    monkeypatch.setattr(batches, "FILE_BYTES", 1)
    batches.encrypt(case.client, case.questions, tmp_path / "questions")
    case.answer(tmp_path)
    for wrong in (case.questions[::-1], np.concatenate([case.questions[1:], case.questions[:1]])):
        with pytest.raises(unspoken.UnspokenError, match=r"other questions than 0 to 16.*2 of 2 failed"):
            batches.decrypt(case.client, wrong, answers)
    # Files of another call.
    before = Directory(answers).names()
    shutil.rmtree(tmp_path / "questions")
    batches.encrypt(case.client, case.questions, tmp_path / "questions")
    assert case.answer(tmp_path).before == 0
    with pytest.raises(unspoken.UnspokenError, match="found answers to 2 calls of encrypt"):
        batches.decrypt(case.client, case.questions, answers)
    for name in before:
        (answers / name).unlink()
    first, second = Directory(answers).names()
    shutil.copy(answers / second, answers / first)
    with pytest.raises(unspoken.UnspokenError, match="no answers to questions 0 to 16"):
        batches.decrypt(case.client, case.questions, answers)


def foreign(path: Path, source: Source, values: list[list[Any]], compression: str = "none") -> None:
    """Writes a file of questions as another program may write it."""
    types = [pyarrow.int64(), pyarrow.int64(), pyarrow.binary(), pyarrow.large_binary()]
    columns = [pyarrow.array(column, kind) for column, kind in zip(values, types)]
    table = pyarrow.table(columns, names=["first", "size", "tag", "query"])
    table = table.replace_schema_metadata({"unspoken": "questions 1", **source._asdict()})
    parquet.write_table(table, path, compression=compression, use_dictionary=False)


def test_hostile_rows_and_files_are_refused_one_by_one(digits_case: Case, tmp_path: Path) -> None:
    case, questions = digits_case, Directory(tmp_path / "questions")
    batches.encrypt(case.client, case.questions[:1], tmp_path / "honest")
    honest_file = Directory(tmp_path / "honest").names()[0]
    source = Directory(tmp_path / "honest").source(honest_file)
    (honest,) = Directory(tmp_path / "honest").questions(honest_file, 1 << 30)
    rows = [
        honest,
        honest._replace(first=1, query=honest.query[:-1]),
        honest._replace(first=2, query=b""),
        honest._replace(first=3, tag=b""),
    ]
    with questions.write_questions("a.parquet", source) as add:
        for row in rows:
            add(row)
    others = {
        "unknown keys": source._replace(key="0" * 32),
        "no keys": source._replace(key="../../etc/passwd"),
        "no call": source._replace(call="x"),
    }
    for name, other in others.items():
        with questions.write_questions(f"{name}.parquet", other) as add:
            add(honest)
    columns: dict[str, list[list[Any]]] = {
        "null query": [[0], [1], [b""], [None]],
        "no size": [[0], [None], [b""], [b""]],
        "negative": [[-1], [1], [b""], [b""]],
        "two rows": [[0, 1], [1, 1], [b"", b""], [b"", b""]],
        "large": [[0], [1], [b""], [bytes(1 << 24)]],
    }
    for name, values in columns.items():
        foreign(tmp_path / f"questions/{name}.parquet", source, values)
    foreign(tmp_path / "questions/packed.parquet", source, [[0], [1], [b""], [bytes(1 << 20)]], "zstd")
    strange = pyarrow.table({"first": ["0"], "size": [1], "tag": [b""], "query": [b""]})
    marks = {"unspoken": "questions 1", **source._asdict()}
    parquet.write_table(strange.replace_schema_metadata(marks), tmp_path / "questions/strange.parquet")

    with pytest.warns(UserWarning, match="cannot be answered"):
        report = case.answer(tmp_path)
    assert {name.split(".")[0] for name in report.problems} == {*others, *columns, "packed", "strange"}
    assert (report.files, report.queries, report.refused) == (1, 4, 2)
    assert "expired" in report.problems["unknown keys.parquet"]
    assert "needed 'questions 1' with the columns" in report.problems["strange.parquet"]
    answers = list(Directory(tmp_path / "answers").answers("a.parquet", 1 << 30))
    assert [(row.error or "answer").split(":")[0] for row in answers] == ["answer", "malformed", "malformed", "answer"]
    assert [row.answer is None for row in answers] == [False, True, True, False]
    assert [path.name for path in (tmp_path / "answers").iterdir()] == ["a.parquet"]
    with pytest.raises(unspoken.UnspokenError, match=r"other questions than 1 to 2.*3 of 4 failed"):
        batches.decrypt(case.client, case.questions[:4], tmp_path / "answers")


def test_mistakes_are_named(digits_case: Case, tmp_path: Path) -> None:
    with pytest.raises(unspoken.UnspokenError, match="no files of answers"):
        batches.decrypt(digits_case.client, digits_case.questions, tmp_path / "answers")
    with pytest.raises(unspoken.ConfigurationError, match="no files of questions"):
        digits_case.answer(tmp_path)
    source = Source("0" * 32, "0" * 32)
    with Directory(tmp_path / "questions").write_answers("a.parquet", source) as add:
        add(Answer(0, 1, b"", b"", None))
    with pytest.raises(
        unspoken.UnspokenError, match=r"found 1 files that cannot be answered, the first is a\.parquet: "
    ):
        digits_case.answer(tmp_path)
    with pytest.raises(unspoken.ConfigurationError, match="needed one of classify"):
        batches.answer("llama", "model", tmp_path / "questions", tmp_path / "answers", keys=tmp_path)
    with pytest.raises(unspoken.ConfigurationError, match="needed two directories"):
        batches.answer("digits", "network", tmp_path, tmp_path, keys=tmp_path)
    with pytest.raises(unspoken.ConfigurationError, match="PirClient"):
        batches.encrypt(unspoken.PirClient("http://127.0.0.1:1"), [1], tmp_path / "new")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="found one str"):
        batches.encrypt(digits_case.client, "0123", tmp_path / "new")


def test_an_interrupted_file_leaves_nothing(tmp_path: Path) -> None:
    directory = Directory(tmp_path)

    def interrupted() -> None:
        with directory.write_questions("a.parquet", Source("0" * 32, "0" * 32)) as add:
            add(Query(0, 1, b"", b"query"))
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert list(tmp_path.iterdir()) == []
    # What a killed process leaves is deleted once the file is complete.
    for name in ("a.parquet.0.part", "b.parquet.0.part"):
        (tmp_path / name).touch()
    directory.remove_unfinished(["a.parquet"])
    assert [path.name for path in tmp_path.iterdir()] == ["b.parquet.0.part"]


def test_answers_are_fetched_from_other_places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    far = Directory(f"memory://{tmp_path.name}")
    with far.write_answers("a.parquet", Source("0" * 32, "1" * 32)) as add:
        add(Answer(0, 1, b"tag", b"answer", None))
    size = len(far._system.cat_file(f"{far._root}/a.parquet"))
    with pytest.raises(unspoken.UnspokenError, match=f"found {size} bytes, needed at most {size - 1}"):
        far.fetch(str(tmp_path), far.names(), size - 1)
    with monkeypatch.context() as patched:
        patched.setattr(far._system, "size", lambda _path: None)
        with pytest.raises(unspoken.UnspokenError, match=r"a\.parquet: found a file of unknown size"):
            far.fetch(str(tmp_path), far.names(), size)
    assert list(tmp_path.iterdir()) == []
    # Files that appear after the directory was listed are not among those that are read.
    names = far.names()
    with far.write_answers("b.parquet", Source("0" * 32, "1" * 32)) as add:
        add(Answer(1, 1, b"tag", b"answer", None))
    near = far.fetch(str(tmp_path), names, size)
    assert near.names() == names == ["a.parquet"]
    assert near.source("a.parquet") == Source("0" * 32, "1" * 32)
    assert list(near.answers("a.parquet", 6)) == [Answer(0, 1, b"tag", b"answer", None)]


def test_an_answer_longer_than_any_is_not_read(digits_case: Case, tmp_path: Path) -> None:
    case = digits_case
    batches.encrypt(case.client, case.questions, tmp_path / "questions")
    case.answer(tmp_path)
    answers = Directory(tmp_path / "answers")
    (name,) = answers.names()
    rows, source = list(answers.answers(name, 1 << 30)), answers.source(name)
    with case.client._use_connection() as connection:
        most = connection.answer_bytes
    assert max(len(row.answer or b"") for row in rows) <= most
    with answers.write_answers(name, source) as add:
        for row in rows:
            add(row._replace(answer=bytes(most + (1 << 16))))
    with pytest.raises(unspoken.UnspokenError, match=rf"found a row of \d+ bytes, needed {most} at most"):
        batches.decrypt(case.client, case.questions, tmp_path / "answers")
    with answers.write_answers(name, source) as add:
        for row in rows:
            add(row._replace(answer=None, error="x" * (most + (1 << 16))))
    with pytest.raises(unspoken.UnspokenError, match=r"found a row of \d+ bytes"):
        batches.decrypt(case.client, case.questions, tmp_path / "answers")


class Loader:
    """Loads "keys" whose bytes are the length of the bundle; an empty bundle is malformed."""

    def __init__(self) -> None:
        self.loaded: list[str] = []

    def load_keys(self, bundle: str) -> tuple[Any, Any]:
        self.loaded.append(bundle)
        if not bundle:
            return None, ("malformed", b"", 0)
        return types.SimpleNamespace(bytes=len(bundle)), ("answer", b"", 0)


def test_loaded_keys_are_kept_up_to_their_bytes() -> None:
    loader = Loader()
    cache = KeyCache(loader, 10)  # type: ignore[arg-type]

    def get(key: str, size: int) -> Any:
        return cache.get(key, lambda: key * size)[0]

    assert [get(key, 4).bytes for key in "abab"] == [4] * 4
    assert loader.loaded == ["aaaa", "bbbb"]
    # The one that was used before the other gives way; one that is too large stays alone.
    get("c", 4)
    get("b", 4)
    assert (loader.loaded[2:], len(cache)) == (["cccc"], 2)
    get("d", 11)
    assert len(cache) == 1
    get("a", 4)
    assert (loader.loaded[3:], len(cache)) == (["d" * 11, "aaaa"], 1)
    # What fails is not kept, nor the lock of those who wait for it.
    assert cache.get("e", lambda: "")[1][0] == "malformed"
    with pytest.raises(FileNotFoundError):
        cache.get("f", lambda: Path("/no/such/file").read_text())
    assert (len(cache), cache._loading) == (1, {})


def test_missing_packages_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(unspoken.ConfigurationError, match=r'pip install "unspoken\[batches\]"'):
        Directory(tmp_path)
