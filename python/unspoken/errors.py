"""Errors. Every message states what was found, what was needed and what to do."""

from __future__ import annotations

from typing import Any

__all__ = [
    "ArgumentError",
    "ConfigurationError",
    "ConnectionFailedError",
    "DatabaseError",
    "DatabaseLockedError",
    "ExactError",
    "KeysExpiredError",
    "MatrixError",
    "MatrixIndexError",
    "MismatchError",
    "MissingKeysError",
    "ModelError",
    "NoSuchIndexError",
    "NoSuchKeyError",
    "NotFittedError",
    "RefusedError",
    "StateError",
    "SumsError",
    "TimedOutError",
    "TrainingError",
    "UnansweredError",
    "UncertainError",
    "UnknownTokenError",
    "UnreadableAnswerError",
    "UnspokenError",
]


class UnspokenError(Exception):
    """Base of all errors of this package.

    Examples
    --------
    >>> import unspoken
    >>> try:
    ...     unspoken.FastText.load("/no/such/directory")
    ... except unspoken.UnspokenError as error:
    ...     print(type(error).__name__)
    ModelError
    """


class ArgumentError(UnspokenError, TypeError, ValueError):
    """An argument is of a wrong type, or is a text that is not Unicode, or a number out of all ranges.

    Examples
    --------
    >>> import unspoken
    >>> try:
    ...     unspoken.FastText().fit("one text", ["spam"])
    ... except TypeError as error:
    ...     print(error)
    read texts: found one str, needed several texts; put it in a list
    """


class ConfigurationError(UnspokenError, ValueError):
    """An address, a token, a certificate, an application name or another option that cannot be used."""


class ConnectionFailedError(UnspokenError, ConnectionError):
    """The service could not be reached, even after retries."""


class TimedOutError(ConnectionFailedError, TimeoutError):
    """The service was reached but did not answer in time."""


class RefusedError(UnspokenError):
    """The service understood the request and refused it.

    Attributes
    ----------
    code : str
        A stable name, for instance ``"unauthorized"`` or ``"memory_full"``.
    status : int
        The HTTP status.
    remedy : str
        What to do.
    retry_after : float or None
        Seconds after which the same request may succeed, if ever.
    request_id : str
        Id of the request in the service's log.

    Examples
    --------
    >>> import unspoken
    >>> error = unspoken.RefusedError("too large", "too_large", 413, "send less", None, "7f3a")
    >>> error.code, error.status, str(error)
    ('too_large', 413, 'too large')
    """

    def __init__(
        self,
        message: str,
        code: str,
        status: int,
        remedy: str,
        retry_after: float | None,
        request_id: str,
    ) -> None:
        super().__init__(message, code, status, remedy, retry_after, request_id)
        self.message = message
        self.code = code
        self.status = status
        self.remedy = remedy
        self.retry_after = retry_after
        self.request_id = request_id

    def __str__(self) -> str:
        """Return the message."""
        return self.message


class KeysExpiredError(RefusedError):
    """The service no longer has this client's keys; the next call generates and uploads new ones."""


class MismatchError(UnspokenError):
    """Client and service do not match, or a message was damaged in transit.

    It follows from what both sides know, never from a decrypted answer.
    """


class UnreadableAnswerError(UnspokenError):
    """An answer was decrypted and is not one that an honest service gives to these keys.

    Do not ask again because of it, and do not let the service learn it: whether an answer can be
    read may depend on the question, so each further request would tell a dishonest service
    something about it.
    """


class MatrixError(UnspokenError, ValueError):
    """Shapes of matrices do not fit, an expression is too deep, or values are too large.

    Examples
    --------
    >>> import unspoken
    >>> try:
    ...     unspoken.matrix("a", (2, 3)) + unspoken.matrix("b", (4, 3))
    ... except ValueError as error:
    ...     print(error)
    operands could not be broadcast together with shapes (2, 3) (4, 3)
    """


class MatrixIndexError(MatrixError, IndexError):
    """An index of an encrypted matrix is out of bounds, or of a kind that is not supported."""


class ExactError(UnspokenError, ValueError):
    """Encrypted integers do not fit: too many, too large, or with too much noise for an exact result.

    Examples
    --------
    >>> import unspoken
    >>> try:
    ...     unspoken.exact.SecretKey().encrypt([1_000_000])
    ... except ValueError as error:
    ...     print(type(error).__name__)
    ExactError
    """


class SumsError(UnspokenError, ValueError):
    """A collection cannot be made so, a value is out of range, or decrypted sums cannot be used."""


class MissingKeysError(UnspokenError, LookupError):
    """Evaluation keys that a program needs are missing; the message names all of them."""


class StateError(UnspokenError, OSError):
    """The client's own files (secret key, key id) cannot be read or written."""


class ModelError(UnspokenError, ValueError):
    """A model or compressed table cannot be read or written, or is invalid."""


class TrainingError(UnspokenError, ValueError):
    """A model cannot be trained, or a table compressed, on these data or options."""


class UnansweredError(ArgumentError):
    """Rows of a model have no answer, because a number is outside its calibrated range, or missing. Others have one.

    In the clear (``CompiledModel.predict``) a result may be outside its range, too.

    The service has answered all of them alike, and cannot see that there is such a row. Do not ask again because of
    this error: that tells the service.

    Attributes
    ----------
    answers : ndarray, or dict of str to ndarray
        What the method returns, for the rows that have an answer.
    rows : ndarray of int
        The numbers of these rows, from 0, in the order of `answers`.
    errors : dict of int to str
        For the number of each other row, why it has none: with input and element, and without a value.

    Examples
    --------
    >>> try:  # doctest: +SKIP
    ...     labels = client.predict(rows)
    ... except unspoken.UnansweredError as error:
    ...     labels = np.full(len(rows), "unknown", dtype=object)
    ...     labels[error.rows] = error.answers
    ...     print(error.errors)
    """

    def __init__(self, message: str, answers: Any, rows: Any, errors: dict[int, str]) -> None:
        super().__init__(message)
        self.answers = answers
        self.rows = rows
        self.errors = errors


class UncertainError(UnspokenError):
    """Noise that makes scores shareable may have decided labels: the exact scores may give other labels.

    Attributes
    ----------
    labels : ndarray
        The labels of the noisy scores.
    scores : ndarray of float64
        The noisy scores, which may be shared.
    certainties : ndarray of float64
        For each label a lower bound of the probability that the exact scores give the same label. It follows from the
        noisy scores, and may be shared.

    Examples
    --------
    >>> try:  # doctest: +SKIP
    ...     labels, scores = client.classify_to_share(messages, bits=20)
    ... except unspoken.UncertainError as error:
    ...     scores = error.scores
    """

    def __init__(self, message: str, labels: Any, scores: Any, certainties: Any) -> None:
        super().__init__(message)
        self.labels = labels
        self.scores = scores
        self.certainties = certainties


class UnknownTokenError(UnspokenError, KeyError):
    """A token is not in the table, which has no row for unknown ones.

    Attributes
    ----------
    token : str
        The token.

    Examples
    --------
    >>> import numpy as np, unspoken
    >>> table = unspoken.compress(np.eye(6), list("abcdef"), columns=8, progress=False)
    >>> try:
    ...     table.reconstruct("zebra")
    ... except KeyError as error:
    ...     print(error.token)
    zebra
    """

    def __init__(self, message: str, token: str) -> None:
        super().__init__(message, token)
        self.message = message
        self.token = token

    def __str__(self) -> str:
        """Return the message."""
        return self.message


class DatabaseError(UnspokenError, ValueError):
    """A database or a collection for search cannot be built, read or changed, is damaged, or a record does not fit."""


class DatabaseLockedError(DatabaseError):
    """Another process is changing the database or the collection; try again when it has finished."""


class NoSuchIndexError(UnspokenError, IndexError):
    """An index is beyond the records of a database, or beyond its room for records."""


class NoSuchKeyError(UnspokenError, KeyError):
    """No record of a database has this key.

    Attributes
    ----------
    key : str or bytes
        The key.

    Examples
    --------
    >>> import unspoken
    >>> error = unspoken.NoSuchKeyError("no record has the key 'A00'", "A00")
    >>> error.key, str(error)
    ('A00', "no record has the key 'A00'")
    """

    def __init__(self, message: str, key: object) -> None:
        super().__init__(message, key)
        self.message = message
        self.key = key

    def __str__(self) -> str:
        """Return the message."""
        return self.message


class NotFittedError(UnspokenError, ValueError, AttributeError):
    """A model is used before it was fitted or loaded."""
