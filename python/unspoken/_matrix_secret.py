"""The client's secret for encrypted matrices."""

from __future__ import annotations

import os
from os import PathLike
from typing import Any, Callable

import numpy as np
import numpy.typing as npt

from unspoken import _unspoken
from unspoken._files import write_new
from unspoken._matrix import Matrix, from_input
from unspoken._matrix_messages import (
    EncryptedMatrix,
    MatrixInputs,
    MatrixKeys,
    MatrixSignature,
    named_matrices,
    real_array,
)
from unspoken._matrix_node import Bound
from unspoken._matrix_program import MatrixProgram
from unspoken.errors import ArgumentError, StateError


class MatrixSecret:
    """The client's secret: encrypts matrices, generates evaluation keys and decrypts results.

    One secret serves every program and parameter set.

    Examples
    --------
    >>> import numpy as np, unspoken
    >>> secret = unspoken.MatrixSecret()
    >>> a, b = secret.matrix(np.eye(2)), secret.matrix(np.ones((2, 2)))
    >>> c = a - b
    >>> keys = secret.keys(c, progress=False)
    >>> np.allclose(secret.decrypt(c.compute(keys, progress=False)), np.eye(2) - 1)
    True
    """

    def __init__(self) -> None:
        self._secret = _unspoken.MatrixSecret()

    @classmethod
    def load(cls, path: str | PathLike[str]) -> MatrixSecret:
        """Read a secret that `save` wrote.

        Raises
        ------
        StateError
            If the file cannot be read.
        MismatchError
            If it is not a secret.

        Examples
        --------
        >>> secret = unspoken.MatrixSecret.load("matrix.secret")  # doctest: +SKIP
        """
        try:
            with open(path, "rb") as file:  # noqa: PTH123 (any path-like)
                data = file.read(1 << 16)
        except OSError as error:
            raise StateError(f"read the secret {os.fspath(path)}: {error}; give the file that save() wrote") from error
        secret = cls.__new__(cls)
        secret._secret = _unspoken.MatrixSecret.from_bytes(data)
        return secret

    def save(self, path: str | PathLike[str]) -> None:
        """Write the secret to a new file that only its owner can read.

        Raises
        ------
        StateError
            If the file exists (it is never overwritten) or cannot be written.

        Examples
        --------
        >>> unspoken.MatrixSecret().save("matrix.secret")  # doctest: +SKIP
        """
        try:
            write_new(path, self._secret.to_bytes())
        except OSError as error:
            message = f"write the secret {os.fspath(path)}: {error}; give a new file in a directory of yours"
            raise StateError(message) from error

    def matrix(self, values: npt.ArrayLike) -> Matrix:
        """Return an input with an array bound to it, which `Matrix.compute` encrypts.

        The encryption depends on the plan of the expression, so the array is encrypted later.

        Parameters
        ----------
        values : array_like
            Real numbers of shape (rows, columns), (n,), or (batch, rows, columns).

        Examples
        --------
        >>> import unspoken
        >>> unspoken.MatrixSecret().matrix([[1.0, 2.0]])
        <Matrix of shape (1, 2)>
        """
        array = real_array(values, "matrix")
        return from_input("", array.shape, Bound(array, self))

    def encrypt(self, program: MatrixProgram | MatrixSignature, /, **arrays: npt.ArrayLike) -> MatrixInputs:
        """Encrypt inputs of a program, given by name; others can be encrypted by another call.

        Raises
        ------
        MatrixError
            If there is no input of that name, its shape is wrong, or an entry is not finite or beyond
            ``program.largest``: plan with ``largest=`` for larger entries.

        Examples
        --------
        >>> import numpy as np, unspoken
        >>> program = unspoken.matrix("a", (3,)).plan()
        >>> unspoken.MatrixSecret().encrypt(program, a=np.ones(3))
        <MatrixInputs a, encrypted>
        """
        signature = program.signature if isinstance(program, MatrixProgram) else program
        return MatrixInputs(self._secret.encrypt(signature._compiled, named_matrices(signature.inputs, arrays)))

    def keys(
        self,
        *programs: Matrix | MatrixProgram | MatrixSignature,
        progress: bool | Callable[[_unspoken.Progress], object] = True,
    ) -> MatrixKeys:
        """Generate exactly the evaluation keys that programs or expressions need.

        An expression that has no plan yet is planned.

        Raises
        ------
        MatrixError
            If they have different presets: plan them with the same ``preset=``.
        KeyboardInterrupt
            On Control-C, within a key.

        Examples
        --------
        >>> import unspoken
        >>> a = unspoken.matrix("a", (3, 3))
        >>> len(unspoken.MatrixSecret().keys(a + a, progress=False))
        0
        """
        signatures = []
        for each in programs:
            program = (each._program or each.plan()) if isinstance(each, Matrix) else each
            signatures.append((program.signature if isinstance(program, MatrixProgram) else program)._compiled)
        return MatrixKeys(self._secret.keys(signatures, progress))

    def decrypt(self, result: EncryptedMatrix) -> npt.NDArray[np.float64]:
        """Decrypt a result to a float64 array of its shape.

        The numbers carry errors that depend on the secret: do not share them. For results that
        others will see use `decrypt_to_share`.

        Raises
        ------
        MatrixError
            If the inputs were encrypted under another secret, the error bound of the result leaves
            nothing of it, or an entry is beyond its bound: then the result was changed or computed
            with other keys.

        Examples
        --------
        >>> secret.decrypt(result)  # doctest: +SKIP
        """
        return self._secret.decrypt(result._compiled).reshape(result.shape)

    def decrypt_to_share(self, result: EncryptedMatrix, error: float, bits: int) -> npt.NDArray[np.float64]:
        """Decrypt a result that others will see, with noise that hides the errors of the encryption.

        A decrypted number is the exact one plus a small error, and anyone who sees many errors and
        the ciphertexts can compute the secret (Li and Micciancio, 2021). This method adds Gaussian
        noise of the deviation ``2**bits * error`` and rounds the result. If no error exceeds
        `error`, then ``n`` numbers that are ever shared reveal no more than exact results would, up
        to a statistical distance of ``sqrt(n) / 2 * 2**-bits``. This holds for results that were
        computed as planned; it does not protect against a service that returns other ciphertexts
        and then sees their decryptions. Share a result once: each call draws new noise.

        Parameters
        ----------
        result : EncryptedMatrix
            The result of the service.
        error : float
            Largest error of an entry: `MatrixProgram.error`.
        bits : int
            From 1 to 45. More bits hide errors better and leave less precision.

        Raises
        ------
        MatrixError
            As for `decrypt`, or if `error` is not positive.
        MismatchError
            If `bits` is out of range.

        Examples
        --------
        >>> import numpy as np, unspoken
        >>> secret = unspoken.MatrixSecret()
        >>> double = secret.matrix(np.eye(2)) * 2
        >>> result = double.compute(secret.keys(double, progress=False), progress=False)
        >>> error = double.plan().error
        >>> shared = secret.decrypt_to_share(result, error, bits=8)
        >>> bool(abs(shared - 2 * np.eye(2)).max() < 6 * 2**8 * error)
        True
        """
        return self._secret.decrypt_to_share(result._compiled, float(error), bits).reshape(result.shape)

    def __reduce__(self) -> Any:
        """Raise: secrets are saved with `save`."""
        raise ArgumentError("a secret is not pickled: use save() and load()")

    def __repr__(self) -> str:
        """Return a name without any bit of the secret."""
        return "<MatrixSecret>"
