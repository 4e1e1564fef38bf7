"""Recognition of handwritten digits without revealing the images."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from unspoken import _unspoken
from unspoken._client_base import PreparingClient
from unspoken._digits import image_rows
from unspoken._sharing import refuse_uncertain


class DigitsClient(PreparingClient):
    """A client of one digit recogniser of a service. The service sees neither images nor digits.

    It needs no part of the network, which stays with the service.

    Parameters
    ----------
    url : str
        ``https://host:port``, or ``http://`` for a service on this machine.
    **options
        As for `ClassifyClient`: see `ServiceOptions`.

    Raises
    ------
    ConfigurationError
        If the address, the token or the certificates cannot be used.

    Examples
    --------
    >>> import unspoken
    >>> with unspoken.DigitsClient("http://127.0.0.1:8080") as client:  # doctest: +SKIP
    ...     digits, scores = client.recognise(images)
    ...     print(digits, client.usage.query_bytes)
    """

    _kind = "digits"

    def recognise(self, images: npt.ArrayLike) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float64]]:
        """Recognise digits without revealing the images.

        Parameters
        ----------
        images : array-like, shape (images, 28, 28) or (images, 784)
            Any number, pixels as for `DigitsNetwork`; they are sent in batches of the
            service's size.

        Returns
        -------
        digits : ndarray of int, shape (images,)
            The digit of the largest score.
        scores : ndarray of float64, shape (images, 10)
            They carry the error of the encryption, which depends on the secret key: for scores that
            others will see use `recognise_to_share`.

        Raises
        ------
        KeysExpiredError
            If the service no longer has the keys; the next call makes new ones.
        UnspokenError
            As for `connect`.

        Examples
        --------
        >>> digits, scores = client.recognise(images)  # doctest: +SKIP
        """
        answers: tuple[npt.NDArray[np.int64], npt.NDArray[np.float64]]
        answers, _ = self._answered(image_rows(images))
        return answers

    def recognise_to_share(
        self, images: npt.ArrayLike, bits: int, *, uncertain: bool = False
    ) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float64]]:
        """Recognise digits without revealing the images, with scores that may be shared.

        Parameters
        ----------
        images : array-like
            As for `recognise`.
        bits : int
            Gaussian noise with a standard deviation of ``2**bits`` times the bound of the error is
            added to every score: see `ClassifyClient.classify_to_share`.
        uncertain : bool
            Return digits that the noise may have decided. `False`, the default, raises `UncertainError` if the
            probability that the exact scores give the same digit may be below 0.95.

        Returns
        -------
        digits, scores
            As for `recognise`; the digit has the largest noisy score.

        Raises
        ------
        MismatchError
            If the service does not know a bound of the error, or `bits` is not from 1 to 45.
            Nothing was sent.
        UncertainError
            If the noise may have decided a digit; the exception has digits (as labels), scores and probabilities.
        UnspokenError
            As for `recognise`.

        Examples
        --------
        >>> digits, scores = client.recognise_to_share(images, bits=10)  # doctest: +SKIP
        """
        (digits, scores), certainties = self._answered(image_rows(images), bits)
        refuse_uncertain(digits, scores, certainties, bits, uncertain=uncertain)
        return digits, scores

    def _listed(self, _connection: _unspoken.Connection, questions: Sequence[Any]) -> Any:
        """Return images as rows."""
        return image_rows(np.asarray(questions))

    def _joined(self, _connection: _unspoken.Connection, _questions: Sequence[Any], read: list[Any]) -> Any:
        """Return digits and scores."""
        scores = np.concatenate(read)
        return scores.argmax(axis=1), scores
