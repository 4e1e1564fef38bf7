"""Answers to files of encrypted questions, computed in this process."""

from __future__ import annotations

import re
import time
from collections.abc import Mapping
from os import PathLike
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from unspoken._batch_files import Answer, Directory, Query, read_bytes
from unspoken._key_cache import KeyCache, Outcome
from unspoken._unspoken import HostedApplication, HostedKeys, Work
from unspoken.errors import ConfigurationError, UnspokenError

#: Kinds whose answers depend on nothing but query, keys and files.
KINDS = ("classify", "embed", "digits", "matrix")

#: The id of a bundle: nothing else becomes a part of a path.
_ID = re.compile("[0-9a-f]{32}")


class Place(NamedTuple):
    """Where files of questions, answers and keys are."""

    questions: str
    answers: str
    keys: str
    options: Mapping[str, Any]

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
        """Return the names of the files without an answer, and the number of those that have one."""
        asked = Directory(self.questions, self.options).names()
        if not asked:
            raise ConfigurationError(
                f"found no files of questions in {self.questions}; unspoken.batches.encrypt writes them"
            )
        there = set(Directory(self.answers, self.options).names())
        missing = [name for name in asked if name not in there]
        return missing, len(asked) - len(missing)


class Answered(NamedTuple):
    """What became of one file."""

    name: str
    queries: int
    refused: int
    seconds: float
    problem: str | None


class FileAnswerer:
    """Answers files of questions with one application and the keys of any number of clients."""

    def __init__(self, application: HostedApplication, place: Place, key_cache: int) -> None:
        self._application = application
        self._cache = KeyCache(application, key_cache)
        self._place = place
        self._questions = Directory(place.questions, place.options)
        self._answers = Directory(place.answers, place.options)

    def answer(self, name: str) -> Answered:
        """Answer a file. The file of answers appears when it is complete; an error is a part of the result."""
        start = time.monotonic()
        queries = refused = 0
        try:
            with self._answers.write_answers(name) as add:
                for query in self._questions.questions(name):
                    outcome, text, _ = self._outcome(query)
                    good = outcome == "answer"
                    error = None if good else f"{outcome}: {text.decode(errors='replace')}"
                    add(Answer(query.first, query.size, text if good else None, error))
                    queries += 1
                    refused += not good
            problem = None
        except (OSError, UnspokenError) as error:
            problem = str(error)
        return Answered(name, queries, refused, time.monotonic() - start, problem)

    def _outcome(self, query: Query) -> Outcome:
        keys, failure = self._keys(query.key)
        return failure if keys is None else self._application.answer(bytes(16), keys, query.query, Work())

    def _keys(self, key: str) -> tuple[HostedKeys | None, Outcome]:
        if _ID.fullmatch(key) is None:
            return None, ("malformed", b"found an id of keys that is none; encrypt the questions again", 0)
        try:
            return self._cache.get(key, lambda: self._bundle(key))
        except FileNotFoundError:
            return None, ("no keys", b"found no keys of this id; they may have expired: encrypt the questions again", 0)

    def _bundle(self, key: str) -> Any:
        content = read_bytes(f"{self._place.keys}/{key}/data", self._place.options)
        if content is None:
            raise FileNotFoundError(key)
        return np.frombuffer(content, dtype=np.uint8)


def load(kind: str, path: str | PathLike[str], options: Mapping[str, str]) -> HostedApplication:
    """Load an application whose answers need no state."""
    check_kind(kind)
    return HostedApplication.load(kind, str(path), None, {str(name): str(value) for name, value in options.items()})


def check_kind(kind: str) -> None:
    """Refuse kinds of which files cannot be answered."""
    if kind not in KINDS:
        raise ConfigurationError(f"answer files: found kind {kind!r}, needed one of {', '.join(KINDS)}")


def _absolute(place: str | PathLike[str]) -> str:
    return place if isinstance(place, str) and "://" in place else str(Path(place).absolute())
