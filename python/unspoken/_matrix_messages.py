"""The messages between client and server about encrypted matrices, and arrays as they are encrypted."""

from __future__ import annotations

from typing import Any, Generic, NoReturn, Protocol, TypeVar

import numpy as np
import numpy.typing as npt

from unspoken import _unspoken
from unspoken._matrix_encrypted import Encrypted
from unspoken.errors import ArgumentError, MatrixError


class _CompiledMessage(Protocol):
    """A message of the compiled module."""

    def to_bytes(self) -> bytes: ...


CompiledT = TypeVar("CompiledT", bound=_CompiledMessage)
MessageT = TypeVar("MessageT", bound="Message[Any]")


class Message(Generic[CompiledT]):
    """A message between client and server."""

    # The class of the compiled module that has the message.
    _kind: type[Any]

    def __init__(self, compiled: CompiledT) -> None:
        self._compiled = compiled

    @classmethod
    def from_bytes(cls: type[MessageT], data: bytes, accept_insecure: bool = False) -> MessageT:
        """Read what `to_bytes` wrote; parameter sets for tests are refused by default.

        Raises
        ------
        MismatchError
            If the bytes are anything else.
        """
        return cls(cls._kind.from_bytes(bytes(data), accept_insecure))

    def to_bytes(self) -> bytes:
        """Return the bytes to send; they identify the parameters and the secret."""
        return self._compiled.to_bytes()


class MatrixSignature(Message[_unspoken.MatrixSignature]):
    """The client's view of a program: shapes, parameters and key plan, without operations and constants.

    Examples
    --------
    >>> import unspoken
    >>> signature = (2 * unspoken.matrix("a", (3, 3))).plan().signature
    >>> unspoken.MatrixSignature.from_bytes(signature.to_bytes()).inputs
    {'a': (3, 3)}
    """

    _kind = _unspoken.MatrixSignature

    @property
    def preset(self) -> str:
        """Name of the parameter set."""
        return self._compiled.preset

    @property
    def inputs(self) -> dict[str, tuple[int, ...]]:
        """Shape of each input, by name."""
        return {name: tuple(shape) for name, shape in self._compiled.inputs.items()}

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the result."""
        return tuple(self._compiled.shape)

    @property
    def largest(self) -> float:
        """Largest magnitude of an input's entry: `MatrixSecret.encrypt` refuses larger ones."""
        return self._compiled.largest

    @property
    def magnitude(self) -> float:
        """Bound of the magnitude of the result's entries."""
        return self._compiled.magnitude

    @property
    def key_count(self) -> int:
        """Number of keys the server needs."""
        return self._compiled.keys

    @property
    def key_bytes(self) -> int:
        """Bytes of the keys when sent."""
        return self._compiled.key_bytes

    @property
    def _plan(self) -> tuple[object, ...]:
        """What differs between programs of other shapes, parameters or levels."""
        compiled = self._compiled
        layout = (tuple(compiled.tile), compiled.blocks, compiled.vectors, compiled.level)
        return (self.preset, self.inputs, self.shape, layout, self.key_count, self.key_bytes)

    def __repr__(self) -> str:
        """Return preset and keys."""
        return f"<MatrixSignature of {self.preset}, {self.key_count} keys of {self.key_bytes / 1e6:.1f} MB>"


class MatrixKeys(Message[_unspoken.MatrixKeys]):
    """Evaluation keys for the server; they cannot decrypt. ``len`` is their number. From `MatrixSecret.keys`."""

    _kind = _unspoken.MatrixKeys

    def __len__(self) -> int:
        """Return how many keys there are."""
        return len(self._compiled)

    @property
    def nbytes(self) -> int:
        """Bytes when sent; the expanded keys need about twice as much memory in addition."""
        return self._compiled.nbytes

    def __repr__(self) -> str:
        """Return number and size."""
        return f"<MatrixKeys: {len(self)} keys, {self.nbytes / 1e6:.1f} MB, {self._compiled.preset}>"


class MatrixInputs(Message[_unspoken.MatrixInputs]):
    """Encrypted inputs of a program. Created by `MatrixSecret.encrypt`."""

    _kind = _unspoken.MatrixInputs

    def __repr__(self) -> str:
        """Return the names."""
        return f"<MatrixInputs {', '.join(self._compiled.names)}, encrypted>"


class EncryptedMatrix(Encrypted, Message[_unspoken.EncryptedMatrix]):
    """An encrypted result. Created by `MatrixProgram.run`, decrypted by `MatrixSecret.decrypt`.

    It has a shape, but no operations: the program has them all.
    """

    _kind = _unspoken.EncryptedMatrix
    _remedy = "use secret.decrypt(result)"

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape, as in numpy."""
        return tuple(self._compiled.shape)

    @property
    def error(self) -> float:
        """Bound of the error of an entry, as the server states it: `MatrixProgram.error`."""
        return self._compiled.error

    def __len__(self) -> int:
        """Return the extent of the first axis."""
        if not self.shape:
            raise ArgumentError("len() of unsized object")
        return self.shape[0]

    def _unusable(self, *_: object, **__: object) -> NoReturn:
        raise ArgumentError(f"a result is not used in another expression: {self._remedy}")

    __array_ufunc__ = __array_function__ = __getitem__ = _unusable
    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __matmul__ = __rmatmul__ = _unusable
    __truediv__ = __rtruediv__ = __pow__ = __rpow__ = __neg__ = __pos__ = __abs__ = _unusable

    def __repr__(self) -> str:
        """Return the shape."""
        return f"<EncryptedMatrix of shape {self.shape}>"


def named_matrices(
    shapes: dict[str, tuple[int, ...]], arrays: dict[str, npt.ArrayLike]
) -> list[tuple[str, npt.NDArray[np.float64]]]:
    """Return arrays by name in the form of the compiled module, of shape (batch, rows, columns).

    Examples
    --------
    >>> [(name, array.shape) for name, array in named_matrices({"x": (3,)}, {"x": [1.0, 2.0, 3.0]})]
    [('x', (1, 1, 3))]
    """
    inputs = []
    for name, values in arrays.items():
        array = real_array(values, f"input '{name}'")
        if name in shapes and array.shape != shapes[name]:
            raise MatrixError(f"encrypt: input '{name}' of shape {array.shape}; needed {shapes[name]}")
        extents = array.shape if array.ndim == 3 else (1,) * (3 - array.ndim) + array.shape
        inputs.append((name, np.ascontiguousarray(array).reshape(extents)))
    return inputs


def real_array(values: npt.ArrayLike, what: str) -> npt.NDArray[np.float64]:
    """Return finite real numbers as a new array; `what` is its name in errors."""
    array = np.asarray(values)
    if array.dtype.kind not in "fiub":
        raise ArgumentError(f"{what}: found entries of {array.dtype}; needed real numbers")
    array = array.astype(np.float64)
    if not np.isfinite(array).all():
        raise MatrixError(f"{what}: found entries that are not finite; needed finite numbers")
    return array
