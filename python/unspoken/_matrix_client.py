"""Client of a service that computes with encrypted matrices."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from unspoken import _unspoken
from unspoken._client_base import PreparingClient
from unspoken._matrix_messages import MatrixSignature, named_matrices


class MatrixClient(PreparingClient):
    """A client of one matrix program of a service.

    The service has the program, which `Matrix.plan` created, with its constants; it sees no entry of
    the inputs or of the result. The client knows shapes, but no operations.

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
    >>> import numpy as np, unspoken
    >>> with unspoken.MatrixClient("http://127.0.0.1:8080") as client:  # doctest: +SKIP
    ...     print(client.signature.inputs)
    ...     result = client.compute(a=np.ones((4, 3)))
    """

    _kind = "matrix"

    def compute(self, /, **arrays: npt.ArrayLike) -> npt.NDArray[np.float64]:
        """Encrypt all inputs, given by name, let the service compute, and decrypt the result.

        The numbers carry errors that depend on the secret key: do not share them. For results that
        others will see use `compute_to_share`.

        Raises
        ------
        MatrixError
            If an input is missing, its shape is wrong, or an entry is not finite or too large;
            nothing was sent.
        KeysExpiredError
            If the service no longer has the keys; the next call makes new ones.
        UnspokenError
            As for `connect`.

        Examples
        --------
        >>> client.compute(a=np.ones((4, 3)))  # doctest: +SKIP
        """
        return self._compute(arrays, None)

    def compute_to_share(self, bits: int, /, **arrays: npt.ArrayLike) -> npt.NDArray[np.float64]:
        """Compute a result that others will see: noise hides the errors of the encryption.

        The noise is Gaussian, its deviation ``2**bits`` times `error`, and the result is rounded.
        Then ``n`` shared numbers reveal no more than exact results would, up to a statistical
        distance of ``sqrt(n) / 2 * 2**-bits``, if the service computed honestly: see
        `MatrixSecret.decrypt_to_share`.

        Raises
        ------
        MatrixError
            As for `compute`, or if an entry exceeds `largest`.

        Examples
        --------
        >>> client.compute_to_share(20, a=np.ones((4, 3)))  # doctest: +SKIP
        """
        return self._compute(arrays, bits)

    @property
    def signature(self) -> MatrixSignature:
        """Shapes, parameters and keys of the program. Connects, if there is no connection yet."""
        with self._use_connection() as connection:
            return _signature(connection)

    @property
    def error(self) -> float:
        """Predicted largest error of an entry, for inputs up to `largest`. Connects as `signature` does."""
        with self._use_connection() as connection:
            return float(connection.facts()["error"])

    @property
    def largest(self) -> float:
        """Largest entry of inputs that the service predicts the error for. Connects as `signature` does."""
        with self._use_connection() as connection:
            return float(connection.facts()["largest"])

    def _compute(self, arrays: dict[str, npt.ArrayLike], bits: int | None) -> npt.NDArray[np.float64]:
        with self._use_connection() as connection:
            questions = self._listed(connection, [arrays])
            read, _ = connection.ask(questions, bits, self._progress)
            result: npt.NDArray[np.float64] = self._joined(connection, questions, [read])[0]
            return result

    def _listed(self, connection: _unspoken.Connection, questions: Sequence[Any]) -> Sequence[Any]:
        """Return the inputs of computations."""
        inputs = _signature(connection).inputs
        return [named_matrices(inputs, arrays) for arrays in questions]

    def _joined(self, connection: _unspoken.Connection, _questions: Sequence[Any], read: list[Any]) -> Any:
        """Return the results of all computations."""
        shape = _signature(connection).shape
        return [result.reshape(shape) for results in read for result in results]


def _signature(connection: _unspoken.Connection) -> MatrixSignature:
    return MatrixSignature(connection.facts()["signature"])
