"""Planned expressions, with their costs."""

from __future__ import annotations

from typing import Any, Callable

import numpy as np

from unspoken import _unspoken
from unspoken._matrix_client import MatrixClient
from unspoken._matrix_messages import EncryptedMatrix, MatrixInputs, MatrixKeys, MatrixSignature, Message
from unspoken._matrix_node import Node
from unspoken.errors import ArgumentError, MismatchError

_OPTIONS = ("preset", "largest", "most_keys", "tile", "blocks")


class MatrixProgram(Message[_unspoken.MatrixProgram]):
    """A planned expression with its costs, which runs on encrypted inputs. Created by `Matrix.plan`.

    ``str(program)`` is a table of its costs. Its bytes contain the constants of the expression: if
    the client must not see them, send `signature` instead. `from_bytes` plans the expression again.

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

    _kind = _unspoken.MatrixProgram

    def __init__(self, compiled: _unspoken.MatrixProgram) -> None:
        super().__init__(compiled)
        self.signature = MatrixSignature(compiled.signature())

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


def plan(node: Node, batch: int | None, axes: tuple[bool, bool], options: dict[str, Any]) -> MatrixProgram:
    """Plan an expression, given by its node, its batch and the axes it has; for the options see `Matrix.plan`."""
    unknown = sorted(set(options) - set(_OPTIONS))
    if unknown:
        raise ArgumentError(f"plan() got unexpected arguments {', '.join(unknown)}; there are {', '.join(_OPTIONS)}")
    wanted = {name: options.get(name) for name in _OPTIONS}
    wanted["largest"] = _largest_of(node) if wanted["largest"] is None else float(wanted["largest"])
    return MatrixProgram(node.graph().plan((batch is not None, *axes), {**wanted, "batch": batch or 1}))


def _largest_of(node: Node) -> float:
    """Return the largest entry of the arrays bound to inputs; 1 or more if there are inputs without arrays."""
    inputs = node.inputs().values()
    arrays = [each.bound.values for each in inputs if each.bound is not None]
    largest = max((float(np.abs(values).max()) for values in arrays), default=0.0)
    return largest if largest > 0 and len(arrays) == len(inputs) else max(largest, 1.0)
