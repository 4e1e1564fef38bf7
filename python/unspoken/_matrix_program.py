"""Planned expressions, and the messages between client and server."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Callable, Generic, NoReturn, Protocol, TypeVar

import numpy as np

from unspoken import _unspoken
from unspoken._matrix_encrypted import Encrypted
from unspoken.errors import ArgumentError, MismatchError

if TYPE_CHECKING:
    from unspoken._matrix import Matrix
    from unspoken._matrix_client import MatrixClient

_OPTIONS = ("preset", "largest", "most_keys", "tile", "blocks")


class _CompiledMessage(Protocol):
    """A message of the compiled module."""

    def to_bytes(self) -> bytes: ...


CompiledT = TypeVar("CompiledT", bound=_CompiledMessage)


class Message(Generic[CompiledT]):
    """A message between client and server."""

    def __init__(self, compiled: CompiledT) -> None:
        self._compiled = compiled

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

    @classmethod
    def from_bytes(cls, data: bytes, accept_insecure: bool = False) -> MatrixSignature:
        """Read what `to_bytes` wrote; parameter sets for tests are refused by default.

        Raises
        ------
        MismatchError
            If the bytes are anything else.
        """
        return cls(_unspoken.MatrixSignature.from_bytes(bytes(data), accept_insecure))

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


class MatrixProgram(Message[_unspoken.MatrixProgram]):
    """A planned expression with its costs, which runs on encrypted inputs. Created by `Matrix.plan`.

    ``str(program)`` is a table of its costs. Its bytes contain the constants of the expression: if
    the client must not see them, send `signature` instead.

    Examples
    --------
    >>> import numpy as np, unspoken
    >>> a = unspoken.matrix("a", (3, 3))
    >>> program = (np.eye(3) + a).plan()
    >>> secret = unspoken.MatrixSecret()
    >>> keys, inputs = secret.keys(program, progress=False), secret.encrypt(program, a=np.ones((3, 3)))
    >>> result = program.run(keys, inputs, progress=False)  # elsewhere, without the secret
    >>> secret.decrypt(result).round(3)
    array([[2., 1., 1.],
           [1., 2., 1.],
           [1., 1., 2.]])
    """

    def __init__(self, compiled: _unspoken.MatrixProgram) -> None:
        super().__init__(compiled)
        self.signature = MatrixSignature(compiled.signature())

    @classmethod
    def from_bytes(cls, data: bytes, accept_insecure: bool = False) -> MatrixProgram:
        """Read what `to_bytes` wrote, and plan it again; parameter sets for tests only if so asked.

        Raises
        ------
        MismatchError
            If the bytes are anything else.
        """
        return cls(_unspoken.MatrixProgram.from_bytes(bytes(data), accept_insecure))

    @property
    def preset(self) -> str:
        """Name of the parameter set."""
        return self.signature.preset

    @property
    def inputs(self) -> dict[str, tuple[int, ...]]:
        """Shape of each input, by name."""
        return self.signature.inputs

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the result."""
        return self.signature.shape

    @property
    def levels(self) -> int:
        """Number of levels it consumes."""
        return self.signature._compiled.level - self._compiled.output_level

    @property
    def key_count(self) -> int:
        """Number of keys it needs."""
        return self.signature.key_count

    @property
    def key_bytes(self) -> int:
        """Bytes of the keys when sent."""
        return self.signature.key_bytes

    @property
    def key_switches(self) -> int:
        """Number of key switches, which take most of the time."""
        return self._compiled.key_switches

    @property
    def seconds(self) -> float:
        """Predicted seconds of a run on one nominal core."""
        return self._compiled.seconds

    @property
    def methods(self) -> list[str]:
        """How each product of two encrypted matrices is computed."""
        return self._compiled.methods

    @property
    def largest(self) -> float:
        """Largest magnitude of an input's entry: `MatrixSecret.encrypt` refuses larger ones."""
        return self.signature.largest

    @property
    def magnitude(self) -> float:
        """Bound of the magnitude of the result's entries, for all inputs up to `largest`."""
        return self.signature.magnitude

    @property
    def error(self) -> float:
        """Predicted largest error of an entry, for all inputs up to `largest`.

        By a simulation on the largest inputs, which takes about as long as a run, or as four runs for
        results with few entries: four times the worst error of an entry, and at least sixteen times
        the root mean square of the errors. Computed once.
        """
        return self._compiled.error()

    def explain(self) -> str:
        """Return the table of ``str``, and the predicted error.

        Examples
        --------
        >>> import unspoken
        >>> print((-unspoken.matrix("a", (3, 3))).plan().explain())  # doctest: +ELLIPSIS
        preset        n15_real_depth11_scale50
        ...
        error         below ... for inputs up to 1
        """
        return f"{self}\nerror         below {self.error:.1e} for inputs up to {self.largest:g}"

    def __str__(self) -> str:
        """Return a table of its costs."""
        signature = self.signature._compiled
        shapes = ", ".join(f"{name} {shape}" for name, shape in self.inputs.items())
        tile = " x ".join(str(extent) for extent in signature.tile)
        rows = {
            "preset": self.preset,
            "inputs": shapes,
            "result": str(self.shape),
            "entries": f"up to {self.largest:g}, of the result up to {self.magnitude:.3g}",
            "layout": f"tiles of {tile}, {signature.blocks} blocks, {signature.vectors} runs",
            "products": ", ".join(self.methods) or "none of two encrypted matrices",
            "levels": f"{self.levels}, from {signature.level} to {self._compiled.output_level}",
            "keys": f"{self.key_count}, {self.key_bytes / 1e6:.1f} MB",
            "key switches": str(self.key_switches),
            "seconds": f"{self.seconds:.3g} predicted, on one core",
        }
        return "\n".join(f"{name:<14}{value}" for name, value in rows.items())

    def __repr__(self) -> str:
        """Return the shape of the result and the main costs."""
        return f"<MatrixProgram of shape {self.shape}, {self.levels} levels, {self.key_count} keys>"

    def client(self, url: str, **options: Any) -> MatrixClient:
        """Return a client of a service that serves this program: ``unspoken serve --matrix FILE``.

        Parameters
        ----------
        url : str
            ``https://host:port``, or ``http://`` for a service on this machine.
        **options
            As for `MatrixClient`.

        Raises
        ------
        MismatchError
            If the service has a program of another signature: other inputs, shapes or parameters, or other
            keys. Constants are not compared: clients do not see them.
        UnspokenError
            As for `MatrixClient.connect`; this connects, and so makes and uploads keys.

        Examples
        --------
        >>> with program.client("http://127.0.0.1:8080") as client:  # doctest: +SKIP
        ...     result = client.compute(a=np.ones((3, 3)))
        """
        from unspoken._matrix_client import MatrixClient

        client = MatrixClient(url, **options)
        try:
            found = client.signature
        except BaseException:
            client.close()
            raise
        if found._plan != self.signature._plan:
            client.close()
            raise MismatchError(
                f"connect to {url}: found a program {found.inputs} -> {found.shape}, {found!r}; "
                f"needed {self.inputs} -> {self.shape}, {self.signature!r}: serve this program, or plan it again"
            )
        return client

    def run(
        self,
        keys: MatrixKeys,
        *inputs: MatrixInputs,
        progress: bool | Callable[[_unspoken.Progress], object] = True,
    ) -> EncryptedMatrix:
        """Compute on encrypted inputs. No secret is needed or revealed.

        Parameters
        ----------
        keys : MatrixKeys
            The client's evaluation keys.
        *inputs : MatrixInputs
            The client's inputs, in one part or several.
        progress : bool or callable
            As for `ClassifyClient`; counts ciphertexts of the batch.

        Raises
        ------
        MissingKeysError
            If keys are missing; the message names all of them.
        MatrixError
            If inputs are missing or of another program, or `error` leaves nothing of the result.
        KeyboardInterrupt
            On Control-C, within a key switch.

        Examples
        --------
        >>> result = program.run(keys, inputs)  # doctest: +SKIP
        """
        parts = [part._compiled for part in inputs]
        return EncryptedMatrix(self._compiled.run(keys._compiled, parts, progress))


class MatrixKeys(Message[_unspoken.MatrixKeys]):
    """Evaluation keys for the server; they cannot decrypt. ``len`` is their number. From `MatrixSecret.keys`."""

    @classmethod
    def from_bytes(cls, data: bytes, accept_insecure: bool = False) -> MatrixKeys:
        """Read what `to_bytes` wrote; parameter sets for tests are refused by default.

        Raises
        ------
        MismatchError
            If the bytes are anything else.
        """
        return cls(_unspoken.MatrixKeys.from_bytes(bytes(data), accept_insecure))

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

    @classmethod
    def from_bytes(cls, data: bytes, accept_insecure: bool = False) -> MatrixInputs:
        """Read what `to_bytes` wrote; parameter sets for tests are refused by default.

        Raises
        ------
        MismatchError
            If the bytes are anything else.
        """
        return cls(_unspoken.MatrixInputs.from_bytes(bytes(data), accept_insecure))

    def __repr__(self) -> str:
        """Return the names."""
        return f"<MatrixInputs {', '.join(self._compiled.names)}, encrypted>"


class EncryptedMatrix(Encrypted, Message[_unspoken.EncryptedMatrix]):
    """An encrypted result. Created by `MatrixProgram.run`, decrypted by `MatrixSecret.decrypt`.

    It has a shape, but no operations: the program has them all.
    """

    _remedy = "use secret.decrypt(result)"

    @classmethod
    def from_bytes(cls, data: bytes, accept_insecure: bool = False) -> EncryptedMatrix:
        """Read what `to_bytes` wrote; parameter sets for tests are refused by default.

        Raises
        ------
        MismatchError
            If the bytes are anything else.
        """
        return cls(_unspoken.EncryptedMatrix.from_bytes(bytes(data), accept_insecure))

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


def plan(matrix: Matrix, **options: Any) -> MatrixProgram:
    """Plan an expression; for the options see `Matrix.plan`."""
    unknown = sorted(set(options) - set(_OPTIONS))
    if unknown:
        raise ArgumentError(f"plan() got unexpected arguments {', '.join(unknown)}; there are {', '.join(_OPTIONS)}")
    wanted = {name: options.get(name) for name in _OPTIONS}
    wanted["largest"] = _largest_of(matrix) if wanted["largest"] is None else float(wanted["largest"])
    axes = (matrix._batch is not None, *matrix._axes)
    graph = matrix._node.graph()
    return MatrixProgram(graph.plan(axes, {**wanted, "batch": matrix._batch or 1}))


def _largest_of(matrix: Matrix) -> float:
    """Return the largest entry of the arrays bound to inputs; 1 or more if there are inputs without arrays."""
    inputs = matrix._node.inputs().values()
    arrays = [each.bound.values for each in inputs if each.bound is not None]
    largest = max((float(np.abs(values).max()) for values in arrays), default=0.0)
    return largest if largest > 0 and len(arrays) == len(inputs) else max(largest, 1.0)
