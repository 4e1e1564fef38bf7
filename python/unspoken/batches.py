"""Many questions in files: encrypt them, answer the files somewhere else, and decrypt the answers.

Files are Parquet, in a directory or an object store that ``fsspec`` reaches. Needs ``pip install
"unspoken[batches]"``.

Examples
--------
>>> import unspoken, unspoken.batches
>>> with unspoken.ClassifyClient("http://127.0.0.1:8080", model="model") as client:  # doctest: +SKIP
...     unspoken.batches.encrypt(client, messages, "questions")
>>> unspoken.batches.answer("classify", "model", "questions", "answers", keys="data/keys")  # doctest: +SKIP
>>> with unspoken.ClassifyClient("http://127.0.0.1:8080", model="model") as client:  # doctest: +SKIP
...     labels, scores = unspoken.batches.decrypt(client, messages, "answers")
"""

from __future__ import annotations

import hashlib
import hmac
import itertools
import tempfile
import uuid
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence, Sized
from dataclasses import dataclass, field
from os import PathLike
from typing import Any, Callable

import numpy as np

from unspoken import _batch_answers
from unspoken._batch_answers import Answered, FileAnswerer, Place
from unspoken._batch_files import FILE_BYTES, ROW_BYTES, Answer, Directory, Query, Source
from unspoken._client_base import PreparingClient
from unspoken._unspoken import Connection, Counter, Progress
from unspoken.errors import ArgumentError, ConfigurationError, UnspokenError

__all__ = ["Report", "answer", "decrypt", "encrypt"]

_AGAIN = "answer the files again, which goes on where it stopped, and give the questions that were encrypted"


def encrypt(client: PreparingClient, questions: Iterable[Any], path: str | PathLike[str]) -> int:
    """Encrypt questions into files, and send none of them. The keys are sent to the service of the client, once.

    The files show the number of questions and the id of the keys, and nothing else of them. Keep the questions:
    decrypting needs them in the same order. The service keeps keys for a limited time (`key_lifetime`), and replaces
    them when this client uses another application of it; questions whose keys are gone are encrypted again.

    Parameters
    ----------
    client : ClassifyClient, DigitsClient, EmbeddingClient, MatrixClient or ModelClient
        A client of the application that will answer.
    questions : iterable
        What the client asks: texts, images, tokens, rows of a model with one input, or mappings with the arrays of a
        computation or of a row by name. They are read one batch after the other, so there may be any number.
    path : path or URL
        A directory without files of questions, of this machine or of ``fsspec``.

    Returns
    -------
    int
        Number of questions.

    Raises
    ------
    ConfigurationError
        If the directory has files already, or `client` is of another kind.
    UnspokenError, ValueError
        As for the client's own questions. Complete files stay; delete them before you begin again. A `TypeError`, if
        `questions` is one text.

    Examples
    --------
    >>> unspoken.batches.encrypt(client, ["win a free prize"], "questions")  # doctest: +SKIP
    1
    """
    _check(client, questions)
    directory = Directory(path)
    if directory.names():
        raise ConfigurationError(f"encrypt into {path}: found files of questions, needed a directory without any")
    call = uuid.uuid4().hex
    total = len(questions) if isinstance(questions, Sized) else 0
    with client._use_connection() as connection:
        shown = Counter(client._progress, "encrypting")
        rest = _queries(client, connection, call, questions)
        done = 0
        for number, query in enumerate(rest):
            size = 0
            with directory.write_questions(f"{call}-{number:06}.parquet", Source(call, connection.key)) as add:
                for each in itertools.chain([query], rest):
                    add(each)
                    done, size = done + each.size, size + len(each.query)
                    shown.show(done, total)
                    if size >= FILE_BYTES:
                        break
    return done


def decrypt(client: PreparingClient, questions: Sequence[Any], path: str | PathLike[str]) -> Any:
    """Decrypt the answers to all questions that were encrypted.

    Parameters
    ----------
    client : as for `encrypt`
        A client with the same state directory, service and application. The service must be reachable.
    questions : sequence
        The same questions, in the same order.
    path : path or URL
        The directory of the answers.

    Returns
    -------
    array, tuple or dict
        What the client's own method returns for all questions: of `ClassifyClient.classify`,
        `DigitsClient.recognise`, `EmbeddingClient.embed` or `ModelClient.ask`. For `MatrixClient` a list of results.
        The numbers carry the error of the encryption, which depends on the secret key: do not share them.

    Raises
    ------
    UnansweredError
        If a number of a row is outside its range, or missing: as for `ModelClient.ask`.
    UnspokenError
        If answers are missing, belong to other questions, or were refused; the message says how many, and why the
        first. Do not tell the owner of the files what failed: answers that were changed on purpose may depend on it.

    Examples
    --------
    >>> labels, scores = unspoken.batches.decrypt(client, ["win a free prize"], "answers")  # doctest: +SKIP
    """
    _check(client, questions)
    with tempfile.TemporaryDirectory() as home:
        there = Directory(path)
        names = there.names()
        if not names:
            raise UnspokenError("decrypt: found no files of answers, needed those to all files of questions")
        with client._use_connection() as connection:
            most = connection.answer_bytes
            # Whoever keeps the files sees what is fetched: all of it, whatever the answers are.
            directory = there.fetch(home, names, _most_bytes(len(questions), connection))
            call = _only_call(directory, names)
            listed = client._listed(connection, questions)
            shown = Counter(client._progress, "decrypting")
            read: list[Any] = []
            problems: list[str] = []
            done = 0
            for answer in itertools.chain.from_iterable(directory.answers(name, most) for name in names):
                # One that fails does not stop the others: a directory may be shared with whoever wrote the files.
                try:
                    read.append(_decrypted(connection, call, listed, done, answer))
                except ArgumentError as error:
                    # It counts questions from the first of the query.
                    problems.append(f"questions {answer.first} to {answer.first + answer.size}: {error}")
                except UnspokenError as error:
                    problems.append(str(error))
                done = answer.first + answer.size
                shown.show(done, len(questions))
            if done != len(questions) or not (read or problems):
                problems.append(f"found answers to {done} questions, needed {len(questions)}; {_AGAIN}")
            if problems:
                raise UnspokenError(f"decrypt: {problems[0]} ({len(problems)} of {len(read) + len(problems)} failed)")
            return client._joined(connection, listed, read)


@dataclass
class Report:
    """What became of the files of questions.

    Attributes
    ----------
    files, queries : int
        Number of files and of queries that were answered now.
    refused : int
        Number of queries without an answer, because they are malformed; `decrypt` says why.
    before : int
        Number of files that had been answered before.
    problems : dict of str to str
        Files that were not answered, and why: they cannot be read or written, or their keys are gone. A warning names
        the first. A later call tries them again.
    seconds : float
        Seconds of computation, of all replicas together.
    """

    files: int = 0
    queries: int = 0
    refused: int = 0
    before: int = 0
    seconds: float = 0.0
    problems: dict[str, str] = field(default_factory=dict)

    def add(self, answered: Answered) -> None:
        """Count a file."""
        self.seconds += answered.seconds
        if answered.problem is not None:
            self.problems[answered.name] = answered.problem
            return
        self.files += 1
        self.queries += answered.queries
        self.refused += answered.refused

    def tell(self) -> None:
        """Raise if files were tried and none was answered; warn if some were not."""
        if not self.problems:
            return
        name, problem = next(iter(self.problems.items()))
        text = f"answer: found {len(self.problems)} files that cannot be answered, the first is {name}: {problem}"
        if not self.files:
            raise UnspokenError(text)
        warnings.warn(f"{text}; problems of the report has all", stacklevel=3)


def answer(
    kind: str,
    path: str | PathLike[str],
    questions: str | PathLike[str],
    answers: str | PathLike[str],
    *,
    keys: str | PathLike[str],
    options: Mapping[str, str] | None = None,
    key_cache: int = 4 << 30,
    storage_options: Mapping[str, Any] | None = None,
    progress: bool | Callable[[Progress], object] = True,
) -> Report:
    """Answer files of encrypted questions on this machine. `unspoken.ray.answer_files` does it on a cluster.

    An interrupted call is resumed by the next one: files that have been answered are left out.

    Parameters
    ----------
    kind : str
        ``classify``, ``embed``, ``digits``, ``matrix`` or ``model``, as for ``unspoken serve --offer``.
    path : path
        Model, table or program: the same as the clients' service has.
    questions, answers : path or URL
        Directories of files, of this machine or of ``fsspec``. Each file of answers has the name of its questions.
    keys : path or URL
        Keys of the clients: ``keys`` in the data directory of their service, or the `keys` of `unspoken.ray.serve`.
    options : mapping, optional
        Options of the kind: the same as at the service.
    key_cache : int
        Bytes of loaded keys that stay in memory.
    storage_options : mapping, optional
        Options of ``fsspec``, such as credentials.
    progress : bool or callable
        As for clients.

    Raises
    ------
    ConfigurationError
        If there are no files of questions, or a package is missing.
    UnspokenError
        If there are files without an answer, and none of them can be answered, for instance because keys are missing.
    ValueError
        If the model cannot be loaded.

    Examples
    --------
    >>> unspoken.batches.answer("digits", "network", "questions", "answers", keys="data/keys")  # doctest: +SKIP
    """
    place = Place.of(questions, answers, keys, storage_options)
    names, before = place.missing()
    answerer = FileAnswerer(_batch_answers.load(kind, path, options or {}), place, key_cache)
    shown = Counter(progress, "answering files")
    report = Report(before=before)
    for done, name in enumerate(names, 1):
        report.add(answerer.answer(name))
        shown.show(done, len(names))
    place.clean()
    report.tell()
    return report


def _check(client: PreparingClient, questions: Iterable[Any]) -> None:
    """Refuse clients of other kinds, and one text in place of a list."""
    if not isinstance(client, PreparingClient):
        raise ConfigurationError(
            f"found a {type(client).__name__}, needed a client of a classifier, a table, a recogniser, a program or a "
            "model"
        )
    if isinstance(questions, (str, bytes, Mapping)) or hasattr(questions, "columns"):
        raise ArgumentError(f"read questions: found one {type(questions).__name__}, needed several; put it in a list")


def _queries(client: PreparingClient, connection: Connection, call: str, questions: Iterable[Any]) -> Iterator[Query]:
    """Encrypt one batch after the other."""
    rest, first = iter(questions), 0
    while batch := list(itertools.islice(rest, connection.batch)):
        listed = client._listed(connection, batch)
        yield Query(first, len(batch), _tag(connection, call, first, listed), connection.encrypt(listed))
        first += len(batch)


def _decrypted(connection: Connection, call: str, listed: Sequence[Any], done: int, answer: Answer) -> Any:
    """Decrypt an answer, if it answers the next questions."""
    if answer.first != done:
        raise UnspokenError(f"found no answers to questions {done} to {answer.first}; {_AGAIN}")
    asked = listed[answer.first : answer.first + answer.size]
    if not hmac.compare_digest(answer.tag, _tag(connection, call, answer.first, asked)):
        raise UnspokenError(
            f"found answers to other questions than {answer.first} to {answer.first + answer.size}; give those that "
            "were encrypted, in their order, and answers to them"
        )
    if answer.answer is None:
        raise UnspokenError(f"questions {answer.first} to {answer.first + answer.size} were refused: {answer.error!r}")
    return connection.decrypt(asked, answer.answer)


def _most_bytes(questions: int, connection: Connection) -> int:
    """Return the bytes of files with the longest answers to `questions` questions."""
    rows = -(-questions // connection.batch)
    return rows * (connection.answer_bytes + 2 * ROW_BYTES) + FILE_BYTES


def _only_call(directory: Directory, names: list[str]) -> str:
    """Return the call of `encrypt` that all files belong to."""
    calls = sorted({directory.source(name).call for name in names})
    if len(calls) != 1:
        raise UnspokenError(
            f"decrypt: found answers to {len(calls)} calls of encrypt, needed those to one; the names of files begin "
            "with that of the call"
        )
    return calls[0]


def _tag(connection: Connection, call: str, first: int, listed: Sequence[Any]) -> bytes:
    """Authenticate questions and their place, so that answers are not taken for answers to other questions."""
    digest = hashlib.blake2b(f"{call} {first} {len(listed)} ".encode())
    _feed(digest, list(listed))
    return connection.tag(digest.digest())


def _feed(digest: Any, value: Any) -> None:
    """Hash a question: texts, numbers, arrays, and lists of them, each with its kind and length."""
    if isinstance(value, (list, tuple)):
        digest.update(f"list {len(value)} ".encode())
        for each in value:
            _feed(digest, each)
        return
    if isinstance(value, np.ndarray):
        digest.update(f"array {value.dtype.str} {value.shape} ".encode())
        content = np.ascontiguousarray(value).tobytes()
    else:
        content = str(value).encode("utf-8", "surrogatepass")
    digest.update(f"{type(value).__name__} {len(content)} ".encode() + content)
