"""Classification of texts by a layer over embeddings, without revealing them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from os import PathLike
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from unspoken import _unspoken
from unspoken._client_base import PreparingClient, ServiceOptions
from unspoken._sharing import refuse_uncertain
from unspoken._table import CompressedTable, codes_of
from unspoken._texts import labelled, text_list, warn_of_texts

if TYPE_CHECKING:
    from typing_extensions import Unpack


class LayerClient(PreparingClient):
    """A client of a linear head over an embedding table of a service (``unspoken serve --embedding DIR --layer FILE``).

    The service looks up the embeddings of encrypted tokens, takes their mean and applies its head. It sees neither
    texts nor their lengths nor scores; the client sees scores and no embeddings.

    Parameters
    ----------
    url : str
        ``https://host:port``, or ``http://`` for a service on this machine.
    table : path or CompressedTable
        A directory with the client half of the compressed table (``client.json`` and
        ``client.safetensors``), or a table of `compress`.
    cut : bool
        Whether to ignore the rest of a text that has more tokens than the service reads, with a
        `TextWarning`. By default such a text is an error, and nothing is sent.
    **options
        As for `Client`: see `ServiceOptions`.

    Raises
    ------
    ConfigurationError
        If the address, the token or the certificates cannot be used.
    ModelError
        If `table` is not a table.

    Examples
    --------
    >>> import unspoken
    >>> with unspoken.LayerClient("http://127.0.0.1:8080", table="minilm") as client:  # doctest: +SKIP
    ...     labels, scores = client.classify(["a film nobody should miss"])
    ...     print(labels, client.usage.query_bytes)
    """

    _kind = "layer"

    def __init__(
        self,
        url: str,
        *,
        table: str | PathLike[str] | CompressedTable,
        cut: bool = False,
        **options: Unpack[ServiceOptions],
    ) -> None:
        super().__init__(url, **options)
        self._codes = codes_of(table)
        self._cut = cut

    def classify(self, texts: Iterable[str]) -> tuple[npt.NDArray[np.str_], npt.NDArray[np.float64]]:
        """Classify texts without revealing them.

        Parameters
        ----------
        texts : iterable of str
            Any number; they are sent in batches of the service's size.

        Returns
        -------
        labels : ndarray of str, shape (texts,)
            The name of the class of the largest score.
        scores : ndarray of float64, shape (texts, classes)
            In the order of `labels`. They carry the error of the encryption, which depends on the secret key:
            for scores that others will see use `classify_to_share`.

        Raises
        ------
        ValueError
            If a text has more tokens than the service reads, unless `cut` is set. No text was sent.
        KeysExpiredError
            If the service no longer has the keys; the next call makes new ones.
        UnspokenError
            As for `connect`.

        Warns
        -----
        TextWarning
            If texts were cut, or most of their words are not in the table.

        Examples
        --------
        >>> labels, scores = client.classify(["a film nobody should miss"])  # doctest: +SKIP
        """
        answers: tuple[npt.NDArray[np.str_], npt.NDArray[np.float64]]
        answers, _ = self._answered(text_list(texts, "texts"))
        return answers

    def classify_to_share(
        self, texts: Iterable[str], bits: int, *, uncertain: bool = False
    ) -> tuple[npt.NDArray[np.str_], npt.NDArray[np.float64]]:
        """Classify texts without revealing them, with scores that may be shared.

        Parameters
        ----------
        texts : iterable of str
            As for `classify`.
        bits : int
            Noise of ``2**bits`` times the bound of the error is added to every score; the guarantee is the same as in
            `Client.classify_to_share`. Its size shows the number of tokens of a text up to a factor of two.
        uncertain : bool
            Return labels that the noise may have decided. `False`, the default, raises `UncertainError` if the
            probability that the exact scores give the same label may be below 0.95.

        Returns
        -------
        labels, scores
            As for `classify`; the label has the largest noisy score.

        Raises
        ------
        MismatchError
            If the service does not know a bound of the error, as with compact queries, or `bits` is not from
            1 to 45. Nothing was sent.
        UncertainError
            If the noise may have decided a label; the exception has labels, scores and probabilities.
        ValueError, UnspokenError
            As for `classify`.

        Examples
        --------
        >>> labels, scores = client.classify_to_share(["a film nobody should miss"], bits=10)  # doctest: +SKIP
        """
        (labels, scores), certainties = self._answered(text_list(texts, "texts"), bits)
        refuse_uncertain(labels, scores, certainties, bits, uncertain=uncertain)
        return labels, scores

    @property
    def labels(self) -> list[str]:
        """Names of the classes, in the order of the scores. Connects to the service on first use."""
        with self._use_connection() as connection:
            labels: list[str] = connection.facts()["labels"]
            return labels

    @property
    def tokens(self) -> list[str]:
        """The tokens of the table, in the order of its rows."""
        return self._codes.tokens

    def _listed(self, _connection: _unspoken.Connection, questions: Sequence[Any]) -> Sequence[Any]:
        """Return texts."""
        return text_list(questions, "texts")

    def _joined(self, connection: _unspoken.Connection, questions: Sequence[Any], read: list[Any]) -> Any:
        """Return labels and scores."""
        warn_of_texts(self._codes.coverage(questions, connection.facts()["max_tokens"])["warnings"])
        return labelled(read)

    def _part(self) -> tuple[_unspoken.Codes, bool]:
        """Return the client half of the table, and whether texts are cut."""
        return self._codes, self._cut
