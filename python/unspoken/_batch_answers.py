"""Answers to files of encrypted questions, computed in this process."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from os import PathLike
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from unspoken._batch_files import Answer, Directory, Query, read_bytes
from unspoken._key_cache import KeyCache
from unspoken._unspoken import LoadedKeys, LocalApplication, Work, kinds
from unspoken.errors import ConfigurationError, UnspokenError

#: Kinds whose answers depend on nothing but query, keys and files.
KINDS = tuple(kind for kind, serving in kinds().items() if serving["state"] == "none")

#: Outcomes that are the same whenever a query is answered.
_FINAL = ("malformed", "does not fit")


@dataclass(frozen=True)
class Place:
    """Where files of questions, answers and keys are."""

    questions: str
    answers: str
    keys: str
    options: Mapping[str, Any] = field(repr=False)

    @classmethod
    def of(
        cls,
        questions: str | PathLike[str],
        answers: str | PathLike[str],
        keys: str | PathLike[str],
        options: Mapping[str, Any] | None,
    ) -> Place:
        """Return the places with absolute paths: other processes have another working directory."""
        questions, answers, keys = (_absolute(place) for place in (questions, answers, keys))
        if questions == answers:
            raise ConfigurationError(f"found {questions} for both questions and answers, needed two directories")
        return cls(questions, answers, keys, dict(options or {}))

    def missing(self) -> tuple[list[str], int]:
        """Return the names of the files without an answer, and the number of files with an answer."""
        asked = Directory(self.questions, self.options).names()
        if not asked:
            raise ConfigurationError(
                f"found no files of questions in {self.questions}; unspoken.batches.encrypt writes them"
            )
        there = set(Directory(self.answers, self.options).names())
        missing = [name for name in asked if name not in there]
        return missing, len(asked) - len(missing)

    def clean(self) -> None:
        """Delete what interrupted work has left of files that are answered now."""
        answers = Directory(self.answers, self.options)
        answers.remove_unfinished(answers.names())


class Answered(NamedTuple):
    """What became of one file."""

    name: str
    queries: int
    refused: int
    seconds: float
    problem: str | None


class FileAnswerer:
    """Answers files of questions with one application and the keys of any number of clients."""

    def __init__(self, application: LocalApplication, place: Place, key_cache: int) -> None:
        self._application = application
        self._cache = KeyCache(application, key_cache)
        self._place = place
        self._questions = Directory(place.questions, place.options)
        self._answers = Directory(place.answers, place.options)

    def answer(self, name: str) -> Answered:
        """Answer a file. The file of answers appears when it is complete; an error is a part of the result."""
        start = time.monotonic()
        queries, refused, problem = 0, 0, None
        try:
            source = self._questions.source(name)
            keys = self._keys(source.key)
            most = self._application.facts()["max_query_bytes"]
            with self._answers.write_answers(name, source) as add:
                for query in self._questions.questions(name, most):
                    answer = self._answered(keys, source.key, query)
                    add(answer)
                    queries += 1
                    refused += answer.answer is None
        except Exception as error:
            # Whatever a file causes, the others are answered.
            problem = str(error) or type(error).__name__
        return Answered(name, queries, refused, time.monotonic() - start, problem)

    def _answered(self, keys: LoadedKeys, key: str, query: Query) -> Answer:
        # The keys are all that is known of the client.
        outcome, content, _ = self._application.answer(bytes.fromhex(key), keys, query.query, Work())
        if outcome == "answer":
            return Answer(query.first, query.size, query.tag, content, None)
        text = content.decode(errors="replace")
        if outcome not in _FINAL:
            raise UnspokenError(f"answer query of question {query.first}: {outcome}: {text}")
        return Answer(query.first, query.size, query.tag, None, f"{outcome}: {text}")

    def _keys(self, key: str) -> LoadedKeys:
        def fetch() -> Any:
            content = read_bytes(f"{self._place.keys}/{key}/data", self._place.options)
            if content is None:
                raise UnspokenError(
                    f"found no keys {key} in {self._place.keys}; they are in another place, or have expired: then the "
                    "client encrypts again"
                )
            return np.frombuffer(content, dtype=np.uint8)

        keys, (outcome, text, _) = self._cache.get(key, fetch)
        if keys is None:
            raise UnspokenError(f"load keys {key}: {outcome}: {text.decode(errors='replace')}")
        return keys


def load(kind: str, path: str | PathLike[str], options: Mapping[str, str]) -> LocalApplication:
    """Load an application whose answers need no state."""
    check_kind(kind)
    named = {str(name): str(value) for name, value in options.items()}
    [application] = LocalApplication.load(kind, str(path), options=named)
    return application


def check_kind(kind: str) -> None:
    """Refuse kinds of which files cannot be answered."""
    if kind not in KINDS:
        raise ConfigurationError(f"answer files: found kind {kind!r}, needed one of {', '.join(KINDS)}")


def _absolute(place: str | PathLike[str]) -> str:
    return place if isinstance(place, str) and "://" in place else str(Path(place).absolute())
