"""Symbolic matrices with the interface of arrays, as far as encryption supports it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Callable, NoReturn, Union

import numpy as np
import numpy.typing as npt

from unspoken import _matrix_arithmetic as arithmetic
from unspoken import _matrix_index as index
from unspoken._matrix_node import Bound, Node
from unspoken._matrix_shape import sum_axis
from unspoken.errors import MatrixError

if TYPE_CHECKING:
    from unspoken import _unspoken
    from unspoken._matrix_program import EncryptedMatrix, MatrixKeys, MatrixProgram

Plain = Union[npt.ArrayLike, npt.NDArray[np.float64]]


class Matrix:
    """A matrix of an expression, created by `matrix` or `MatrixSecret.matrix`, and by operations.

    Operators compute nothing: they check shapes, as numpy does, and record the operation. `plan`
    determines the costs. Numpy arrays and numbers in an expression are plaintext.

    Supported are ``@``, ``+``, ``-``, ``*``, ``**`` with a positive integer, ``/`` by a number, ``.T``,
    `sum`, `mean`, and selection of rows and columns by integers, slices, lists and masks. A 3-D
    matrix is a batch: operations apply to each matrix, and numpy's rules hold for the last two axes.

    Examples
    --------
    >>> import numpy as np, unspoken
    >>> a, b = unspoken.matrix("a", (4, 3)), unspoken.matrix("b", (3, 2))
    >>> (a @ b).T
    <Matrix of shape (2, 4)>
    >>> (np.ones((2, 4)) @ a)[[1, 0], :2].sum(axis=0).shape
    (2,)
    >>> a @ a
    Traceback (most recent call last):
        ...
    unspoken.errors.MatrixError: matmul: (4, 3) @ (4, 3): inner dimensions 3 and 4 differ
    """

    __array_ufunc__ = None  # makes numpy's operators use those of this class
    __hash__ = object.__hash__
    dtype = np.dtype(np.float64)

    def __init__(self, node: Node, batch: int | None, axes: tuple[bool, bool]) -> None:
        self._node = node
        self._batch = batch
        self._axes = axes
        self._program: MatrixProgram | None = None

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape, as in numpy."""
        return (*(() if self._batch is None else (self._batch,)), *self._core)

    @property
    def _core(self) -> tuple[int, ...]:
        """The shape without the batch."""
        return tuple(extent for extent, there in zip(self._node.shape, self._axes) if there)

    @property
    def ndim(self) -> int:
        """Number of axes."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """Number of entries."""
        return int(np.prod(self.shape))

    def __len__(self) -> int:
        """Return the extent of the first axis."""
        if not self.shape:
            raise TypeError("len() of unsized object")
        return self.shape[0]

    def __iter__(self) -> Iterator[Matrix]:
        """Iterate over the first axis."""
        return (self[i] for i in range(len(self)))

    def __repr__(self) -> str:
        """Return the shape; the entries are not known."""
        return f"<Matrix of shape {self.shape}>"

    def __array__(self, *_: object, **__: object) -> NoReturn:
        """Raise: the entries are not known."""
        raise TypeError(
            "an encrypted matrix has no entries to read: compute the expression and decrypt it "
            "(secret.decrypt(expression.compute(keys)))"
        )

    def __bool__(self) -> bool:
        """Raise: encrypted entries cannot be compared."""
        return self._uncomparable(None)

    def _uncomparable(self, _: object) -> NoReturn:
        raise TypeError("encrypted entries cannot be compared: decrypt first")

    __eq__ = __ne__ = __lt__ = __le__ = __gt__ = __ge__ = _uncomparable

    def __reduce__(self) -> NoReturn:
        """Raise: an expression may contain plaintext entries, which should not be sent."""
        raise TypeError("a matrix is not pickled: send plan().to_bytes() and the encrypted inputs' to_bytes()")

    # ------------------------------------------------------------------ products

    def __matmul__(self, other: Matrix | Plain) -> Matrix:
        """Return ``self @ other``."""
        return arithmetic.matmul(self, other) if isinstance(other, Matrix) else arithmetic.times_plain(self, other)

    def __rmatmul__(self, other: Plain) -> Matrix:
        """Return ``other @ self``."""
        return arithmetic.plain_times(other, self)

    # ------------------------------------------------------------------ elementwise operations

    def __add__(self, other: Matrix | Plain) -> Matrix:
        """Return ``self + other``."""
        return arithmetic.combine("add", self, other)

    def __radd__(self, other: Plain) -> Matrix:
        """Return ``other + self``."""
        return arithmetic.combine("add", self, other)

    def __sub__(self, other: Matrix | Plain) -> Matrix:
        """Return ``self - other``."""
        return arithmetic.combine("subtract", self, other)

    def __rsub__(self, other: Plain) -> Matrix:
        """Return ``other - self``."""
        return arithmetic.combine("subtract", other, self)

    def __neg__(self) -> Matrix:
        """Return ``0 - self``, which consumes no level."""
        return 0.0 - self

    def __pos__(self) -> Matrix:
        """Return this matrix."""
        return self

    def __mul__(self, other: Matrix | Plain) -> Matrix:
        """Return the elementwise product."""
        if not isinstance(other, Matrix) and arithmetic.plain(other).ndim == 0:
            return self._made(self._node.apply("scale", payload=float(arithmetic.plain(other))), self._axes)
        return arithmetic.combine("multiply", self, other)

    __rmul__ = __mul__

    def __truediv__(self, other: Plain) -> Matrix:
        """Return ``self / other`` for numbers and plaintext arrays."""
        if isinstance(other, Matrix):
            raise TypeError("an encrypted matrix divides nothing: multiply by approximate inverses instead")
        with np.errstate(divide="raise", invalid="raise"):
            try:
                return self * (1.0 / arithmetic.plain(other))
            except FloatingPointError as error:
                raise MatrixError(f"divide: {error}; needed divisors other than 0") from None

    def __pow__(self, exponent: int) -> Matrix:
        """Return the entries to a positive integer power."""
        if not isinstance(exponent, (int, np.integer)) or exponent < 1:
            raise MatrixError(f"power: exponent {exponent}; needed a positive integer")
        if exponent == 1:
            return self
        half = self ** (exponent // 2)
        return half * half if exponent % 2 == 0 else half * half * self

    # ------------------------------------------------------------------ rearrangements and sums

    @property
    def T(self) -> Matrix:  # noqa: N802
        """The transpose; a vector's is itself. For batches there is `mT`."""
        if self._batch is not None and len(self._core) == 2:
            raise MatrixError(f"T: a batch of shape {self.shape}; needed two axes: use .mT, which transposes each")
        return self if len(self._core) < 2 else self._made(self._node.apply("transpose"), (True, True))

    @property
    def mT(self) -> Matrix:  # noqa: N802
        """The transpose of each matrix."""
        if len(self._core) < 2:
            raise MatrixError("mT: needed a matrix, at least two axes")
        return self._made(self._node.apply("transpose"), (True, True))

    def transpose(self) -> Matrix:
        """Return `T`.

        Examples
        --------
        >>> import unspoken
        >>> unspoken.matrix("a", (4, 3)).transpose().shape
        (3, 4)
        """
        return self.T

    def __getitem__(self, key: Any) -> Matrix:
        """Select rows and columns: integers, slices, lists, masks, and ``numpy.ix_``."""
        picked = index.select(key, self.shape, self._batch is not None)
        node, axes = self._node, list(self._axes)
        there = [axis for axis in (0, 1) if axes[axis]]
        for axis, (indices, kept) in zip(there, picked):
            if indices is not None:
                node = node.apply(("rows", "columns")[axis], payload=indices)
            axes[axis] = kept
        return self._made(node, (axes[0], axes[1]))

    def sum(self, axis: int | tuple[int, ...] | None = None, keepdims: bool = False) -> Matrix:
        """Return sums over an axis, or over all.

        Examples
        --------
        >>> import unspoken
        >>> unspoken.matrix("a", (4, 3)).sum(axis=0, keepdims=True).shape
        (1, 3)
        """
        over = sum_axis(axis, self.shape, self._batch is not None)
        there = [matrix_axis for matrix_axis in (0, 1) if self._axes[matrix_axis]]
        summed = {there[each] for each in over}
        node = self._node
        if summed:
            node = node.apply("sum", payload=None if len(summed) == 2 else summed.pop())
        gone = {there[each] for each in over}
        axes = tuple(self._axes[each] and (keepdims or each not in gone) for each in (0, 1))
        return self._made(node, (axes[0], axes[1]))

    def mean(self, axis: int | tuple[int, ...] | None = None, keepdims: bool = False) -> Matrix:
        """Return means over an axis, or over all.

        Examples
        --------
        >>> import unspoken
        >>> unspoken.matrix("a", (4, 3)).mean(axis=1).shape
        (4,)
        """
        over = sum_axis(axis, self.shape, self._batch is not None)
        count = int(np.prod([self._core[each] for each in over]))
        return self.sum(axis, keepdims) * (1.0 / count)

    # ------------------------------------------------------------------ plan and run

    def plan(self, **options: Any) -> MatrixProgram:
        """Choose parameters, layout and methods; nothing is encrypted or computed yet.

        `compute` and `MatrixSecret.keys` use the last plan.

        Parameters
        ----------
        preset : str, optional
            Name of a parameter set; default: the first of the 50-bit and 30-bit sets that is deep enough
            and has room for all values.
        largest : float, optional
            Largest magnitude of an input's entry; default: that of the arrays, or 1. The plan has room for
            every value of a run with such inputs, and `MatrixSecret.encrypt` refuses larger entries.
        most_keys : int, optional
            Maximum rotation keys of one product: fewer keys need more time.
        tile, blocks : int, optional
            Layout of matrices in ciphertexts, powers of two; default: the fastest.

        Raises
        ------
        MatrixError
            If values may outgrow the parameters, or the result may be smaller than its error: the
            message names the step, the values found and what fits.

        Examples
        --------
        >>> import unspoken
        >>> program = (unspoken.matrix("a", (3, 3)) + unspoken.matrix("b", (3, 3))).plan()
        >>> program.key_count, program.levels
        (0, 0)
        """
        from unspoken._matrix_program import plan

        self._program = plan(self, **options)
        return self._program

    def compute(
        self, keys: MatrixKeys, progress: bool | Callable[[_unspoken.Progress], object] = True
    ) -> EncryptedMatrix:
        """Encrypt the arrays passed to `MatrixSecret.matrix` and compute, all on this machine.

        Parameters
        ----------
        keys : MatrixKeys
            The result of ``secret.keys(expression)``.
        progress : bool or callable
            As for `Client`.

        Examples
        --------
        >>> import numpy as np, unspoken
        >>> secret = unspoken.MatrixSecret()
        >>> double = secret.matrix(np.eye(2)) + np.eye(2)
        >>> result = double.compute(secret.keys(double, progress=False), progress=False)
        >>> np.allclose(secret.decrypt(result), 2 * np.eye(2))
        True
        """
        program = self._program or self.plan()
        bound = self.bound()
        if len(bound) != len(program.inputs) or not bound:
            free = ", ".join(name for name in program.inputs if name not in bound)
            raise MatrixError(f"compute: inputs {free} have no arrays; needed MatrixSecret.matrix, or program.run")
        secrets = {id(each.secret): each.secret for each in bound.values()}
        if len(secrets) > 1:
            raise MatrixError("compute: arrays of several secrets; needed one secret for an expression")
        secret = next(iter(secrets.values()))
        inputs = secret.encrypt(program, **{name: each.values for name, each in bound.items()})
        return program.run(keys, inputs, progress=progress)

    def bound(self) -> dict[str, Bound]:
        """Return the arrays bound to inputs, by name.

        Examples
        --------
        >>> import unspoken
        >>> unspoken.matrix("a", (4, 3)).bound()
        {}
        """
        return self._node.bound()

    # ------------------------------------------------------------------ helpers

    def _made(self, node: Node, axes: tuple[bool, bool]) -> Matrix:
        return Matrix(node, self._batch, axes)

    def _as_row(self) -> Matrix:
        return self if not self._axes[0] else self._made(self._node.apply("transpose"), (False, True))

    def _as_column(self) -> Matrix:
        return self if self._axes[0] else self._made(self._node.apply("transpose"), (True, False))


def matrix(name: str, shape: tuple[int, ...]) -> Matrix:
    """Return an encrypted input without data, for writing expressions.

    Parameters
    ----------
    name : str
        Name under which the array is passed for encryption.
    shape : tuple of int
        ``(rows, columns)``; ``(n,)`` for a vector; ``(batch, rows, columns)`` for several matrices
        with the same operations.

    Examples
    --------
    >>> import unspoken
    >>> unspoken.matrix("a", shape=(8, 64, 64))
    <Matrix of shape (8, 64, 64)>
    """
    return from_input(name, shape, None)


def from_input(name: str, shape: tuple[int, ...], bound: Bound | None) -> Matrix:
    """Return an input, with or without an array bound to it."""
    shape = tuple(int(extent) for extent in ((shape,) if isinstance(shape, (int, np.integer)) else shape))
    if not 1 <= len(shape) <= 3 or min(shape) < 1:
        raise MatrixError(
            f"matrix: shape {shape}; needed (rows, columns), (n,) or (batch, rows, columns), of 1 or more each"
        )
    batch = shape[0] if len(shape) == 3 else None
    core = shape if len(shape) < 3 else shape[1:]
    node = Node.input(name, (core[-2] if len(core) == 2 else 1, core[-1]), (batch is not None, len(core) == 2), bound)
    return Matrix(node, batch, (len(core) == 2, True))
