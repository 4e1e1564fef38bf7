"""Symbolic matrices with the interface of arrays, as far as encryption supports it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Callable, NoReturn, Union

import numpy as np
import numpy.typing as npt

from unspoken import _matrix_index as index
from unspoken import _matrix_numpy as protocol
from unspoken import _unspoken
from unspoken._matrix_encrypted import Encrypted
from unspoken._matrix_messages import EncryptedMatrix, MatrixKeys
from unspoken._matrix_node import Bound, Node
from unspoken._matrix_program import MatrixProgram, plan
from unspoken._matrix_shape import axis_number, expanded, integers, is_transpose, reshaped, squeezed, sum_axis
from unspoken.errors import ArgumentError, MatrixError

Plain = Union[npt.ArrayLike, npt.NDArray[np.float64]]


class Matrix(Encrypted):
    """A matrix of an expression, created by `matrix` or `MatrixSecret.matrix`, and by operations.

    Operators compute nothing: they check shapes, as numpy does, and record the operation. `plan`
    determines the costs. Numpy arrays and numbers in an expression are plaintext.

    Supported are ``@``, ``+``, ``-``, ``*``, ``**`` with a positive integer, ``/`` by a number, ``.T``,
    the methods below, selection of rows and columns by integers, slices, lists and masks, and new axes
    (``a[:, None]``). A 3-D matrix is a batch: operations apply to each matrix, and numpy's rules hold
    for the last two axes.

    Numpy's functions work where these operations suffice: ``numpy.add``, `dot`, `einsum`, `concatenate`,
    `stack`, `pad`, `tile`, `where` with a plaintext mask, `diagonal`, `cumsum`, `roll` and others. Others raise
    `TypeError`, which says what to do instead. No function returns an array of objects.

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

    _remedy = "compute the expression and decrypt it (secret.decrypt(expression.compute(keys)))"

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
            raise ArgumentError("len() of unsized object")
        return self.shape[0]

    def __iter__(self) -> Iterator[Matrix]:
        """Iterate over the first axis."""
        if not self.shape:
            raise ArgumentError("iteration over a 0-d array")
        if self._batch is not None:
            raise ArgumentError("the batch, axis 0, cannot be iterated: iterate over the decrypted results")
        return (self[i] for i in range(len(self)))

    def __repr__(self) -> str:
        """Return the shape; the entries are not known."""
        return f"<Matrix of shape {self.shape}>"

    def __array__(self, *_: object, **__: object) -> NoReturn:
        """Raise: the entries are not known, and no array of objects is made."""
        raise ArgumentError(
            f"an encrypted matrix has no entries to read: {self._remedy}; to join expressions use numpy.concatenate, "
            "numpy.stack or numpy.block"
        )

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **options: Any) -> Any:
        """Apply a ufunc of numpy, or raise `TypeError`."""
        return protocol.call_ufunc(ufunc, method, inputs, options)

    def __array_function__(self, function: Callable[..., Any], types: Any, arguments: Any, options: Any) -> Any:
        """Apply another function of numpy, or raise `TypeError`."""
        return protocol.call_function(function, types, arguments, options)

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> NoReturn:
            """Say what to do instead of the methods of arrays that are not available."""
            if hasattr(np.ndarray, name) and not name.startswith("_"):
                raise AttributeError(f"an encrypted matrix has no {name}: {protocol.reason(name)}")
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def __reduce__(self) -> NoReturn:
        """Raise: an expression may contain plaintext entries, which should not be sent."""
        raise ArgumentError("a matrix is not pickled: send plan().to_bytes() and the encrypted inputs' to_bytes()")

    def __copy__(self) -> Matrix:
        """Return this matrix, which never changes."""
        return self

    def __deepcopy__(self, _: object) -> Matrix:
        """Return this matrix, which never changes."""
        return self

    # ------------------------------------------------------------------ products

    def __matmul__(self, other: Matrix | Plain) -> Matrix:
        """Return ``self @ other``."""
        return _by_numpy(np.matmul, self, other)

    def __rmatmul__(self, other: Plain) -> Matrix:
        """Return ``other @ self``."""
        return _by_numpy(np.matmul, other, self)

    # ------------------------------------------------------------------ elementwise operations

    def __add__(self, other: Matrix | Plain) -> Matrix:
        """Return ``self + other``."""
        return _by_numpy(np.add, self, other)

    def __radd__(self, other: Plain) -> Matrix:
        """Return ``other + self``."""
        return _by_numpy(np.add, other, self)

    def __sub__(self, other: Matrix | Plain) -> Matrix:
        """Return ``self - other``."""
        return _by_numpy(np.subtract, self, other)

    def __rsub__(self, other: Plain) -> Matrix:
        """Return ``other - self``."""
        return _by_numpy(np.subtract, other, self)

    def __neg__(self) -> Matrix:
        """Return ``0 - self``, which consumes no level."""
        return 0.0 - self

    def __pos__(self) -> Matrix:
        """Return this matrix."""
        return self

    def __mul__(self, other: Matrix | Plain) -> Matrix:
        """Return the elementwise product."""
        return _by_numpy(np.multiply, self, other)

    __rmul__ = __mul__

    def __truediv__(self, other: Plain) -> Matrix:
        """Return ``self / other`` for numbers and plaintext arrays."""
        return _by_numpy(np.divide, self, other)

    def __pow__(self, exponent: int) -> Matrix:
        """Return the entries to a positive integer power."""
        return _by_numpy(np.power, self, exponent)

    def _undivided(self, _: object) -> NoReturn:
        raise ArgumentError("only a / number is possible: multiply by an approximate inverse instead, or decrypt first")

    def _unrounded(self, _: object) -> NoReturn:
        raise ArgumentError("// and % round, which no encrypted arithmetic of polynomials does: decrypt first")

    __rtruediv__ = _undivided
    __floordiv__ = __rfloordiv__ = __mod__ = __rmod__ = __divmod__ = __rdivmod__ = _unrounded

    def __rpow__(self, base: Plain) -> NoReturn:
        """Raise: exponents are plaintext."""
        _by_numpy(np.power, base, self)
        raise AssertionError

    def __abs__(self) -> NoReturn:
        """Raise: signs of encrypted entries are not known."""
        protocol.refuse("abs")

    def __round__(self, _: int | None = None) -> NoReturn:
        """Raise: encrypted entries are not rounded."""
        protocol.refuse("round")

    # ------------------------------------------------------------------ rearrangements and sums

    @property
    def T(self) -> Matrix:  # noqa: N802
        """The transpose; a vector's is itself. For batches there is `mT`."""
        return self.transpose()

    @property
    def mT(self) -> Matrix:  # noqa: N802
        """The transpose of each matrix."""
        if len(self._core) < 2:
            raise MatrixError(f"mT: shape {self.shape}; needed a matrix, at least two axes")
        return self._made(self._node.transpose(), (True, True))

    def transpose(self, *axes: Any) -> Matrix:
        """Return `T`, or the matrix with its axes in another order.

        Examples
        --------
        >>> import unspoken
        >>> unspoken.matrix("a", (4, 3)).transpose().shape
        (3, 4)
        >>> unspoken.matrix("a", (8, 4, 3)).transpose(0, 2, 1).shape
        (8, 3, 4)
        """
        order = axes[0] if len(axes) == 1 else axes or None
        return self.mT if is_transpose(order, self.shape, self._batch is not None) else self

    def swapaxes(self, axis1: int, axis2: int) -> Matrix:
        """Return the matrix with two axes exchanged.

        Examples
        --------
        >>> import unspoken
        >>> unspoken.matrix("a", (4, 3)).swapaxes(0, 1).shape
        (3, 4)
        """
        first, second = axis_number(axis1, self.ndim), axis_number(axis2, self.ndim)
        order = list(range(self.ndim))
        order[first], order[second] = second, first
        return self.transpose(order)

    def reshape(self, *shape: Any, order: str = "C") -> Matrix:
        """Return the entries in row-major order in another shape, of at most two axes besides the batch.

        It consumes one level; the number of keys grows with the number of rows before and after. New
        axes of length 1, and their removal, are free, or one level if a vector changes its direction.

        Examples
        --------
        >>> import unspoken
        >>> unspoken.matrix("a", (4, 3)).reshape(2, -1).shape
        (2, 6)
        """
        if order not in ("C", "A", "K", None):
            raise ArgumentError(f"reshape: order={order!r} is not available for encrypted matrices: use a.T.reshape")
        if not shape:
            raise ArgumentError("reshape: needed a shape")
        core = reshaped(shape[0] if len(shape) == 1 else shape, self.shape, self._batch is not None)
        if len(core) == 2:
            return self._made(self._node.reshape((core[0], core[1])), (True, True))
        # A vector stays a column or a row of the matrix, if it is one.
        count = int(np.prod(core))
        if len(core) == 1 and self._node.shape == (count, 1):
            return self._made(self._node, (True, False))
        return self._made(self._node.reshape((1, count)), (False, len(core) == 1))

    def ravel(self, order: str = "C") -> Matrix:
        """Return the entries in row-major order as a vector. It costs the same as `reshape`.

        Examples
        --------
        >>> import unspoken
        >>> unspoken.matrix("a", (4, 3)).ravel().shape
        (12,)
        """
        return self.reshape(-1, order=order)

    flatten = ravel

    def squeeze(self, axis: int | tuple[int, ...] | None = None) -> Matrix:
        """Return the same entries without axes of length 1.

        Examples
        --------
        >>> import unspoken
        >>> unspoken.matrix("a", (4, 1)).squeeze().shape
        (4,)
        """
        return self.reshape(squeezed(axis, self.shape, self._batch is not None))

    def copy(self) -> Matrix:
        """Return this matrix, which never changes."""
        return self

    def __getitem__(self, key: Any) -> Matrix:
        """Select as numpy does: integers, slices, lists, masks, ``numpy.ix_``, index arrays; None adds an axis.

        Entries that all differ are a permutation, and are moved by a planned network: ``a.ravel()[order]``.
        """
        places = index.entries(key, self.shape) if self._batch is None else None
        if places is not None:
            picked_entries = self.ravel()[places.ravel()]
            return picked_entries if places.ndim == 1 else picked_entries.reshape(places.shape)
        key, added = index.new_axes(key, self.ndim)
        picked = index.select(key, self.shape, self._batch is not None)
        node, axes = self._node, list(self._axes)
        there = [axis for axis in (0, 1) if axes[axis]]
        for axis, (indices, kept) in zip(there, picked):
            if indices is not None:
                node = node.apply(("rows", "columns")[axis], payload=indices)
            axes[axis] = kept
        selected = self._made(node, (axes[0], axes[1]))
        return selected.reshape(expanded(added, selected.shape)) if added else selected

    def dot(self, other: Matrix | Plain, out: None = None) -> Matrix:
        """Return the product, as numpy's ``dot``: for matrices and vectors the same as ``@``.

        Examples
        --------
        >>> import unspoken
        >>> unspoken.matrix("a", (4, 3)).dot([1.0, 2.0, 3.0]).shape
        (4,)
        """
        return _by_numpy(np.dot, self, other, out)

    def sum(
        self,
        axis: int | tuple[int, ...] | None = None,
        dtype: npt.DTypeLike | None = None,
        out: None = None,
        keepdims: bool = False,
    ) -> Matrix:
        """Return sums over an axis, or over all. `dtype` and `out` are numpy's, and must be left out.

        Examples
        --------
        >>> import unspoken
        >>> unspoken.matrix("a", (4, 3)).sum(axis=0, keepdims=True).shape
        (1, 3)
        """
        protocol.check_defaults("sum", dtype=dtype, out=out)
        over = sum_axis(axis, self.shape, self._batch is not None)
        there = [matrix_axis for matrix_axis in (0, 1) if self._axes[matrix_axis]]
        summed = {there[each] for each in over}
        node = self._node
        if summed:
            node = node.apply("sum", payload=None if len(summed) == 2 else summed.pop())
        gone = {there[each] for each in over}
        axes = tuple(self._axes[each] and (keepdims or each not in gone) for each in (0, 1))
        return self._made(node, (axes[0], axes[1]))

    def prod(
        self,
        axis: int | tuple[int, ...] | None = None,
        dtype: npt.DTypeLike | None = None,
        out: None = None,
        keepdims: bool = False,
    ) -> Matrix:
        """Return products over an axis, or over all: a level for the selection of entries, and one for each doubling.

        Examples
        --------
        >>> import unspoken
        >>> unspoken.matrix("a", (4, 3)).prod(axis=0).shape
        (3,)
        """
        return _by_numpy(np.prod, self, axis, dtype, out, keepdims)

    def mean(
        self,
        axis: int | tuple[int, ...] | None = None,
        dtype: npt.DTypeLike | None = None,
        out: None = None,
        keepdims: bool = False,
    ) -> Matrix:
        """Return means over an axis, or over all.

        Examples
        --------
        >>> import unspoken
        >>> unspoken.matrix("a", (4, 3)).mean(axis=1).shape
        (4,)
        """
        over = sum_axis(axis, self.shape, self._batch is not None)
        return self.sum(axis, dtype, out, keepdims) * (1.0 / self._extent(over))

    def var(
        self,
        axis: int | tuple[int, ...] | None = None,
        dtype: npt.DTypeLike | None = None,
        out: None = None,
        ddof: float = 0,
        keepdims: bool = False,
    ) -> Matrix:
        """Return variances over an axis, or over all: the mean of the squares minus the square of the mean.

        Its error is relative to the squares. If the mean is much larger than the deviations, subtract
        a plaintext estimate of it first.

        Examples
        --------
        >>> import unspoken
        >>> unspoken.matrix("a", (4, 3)).var(axis=0, ddof=1).shape
        (3,)
        """
        count = self._extent(sum_axis(axis, self.shape, self._batch is not None))
        if ddof >= count:
            raise MatrixError(f"var: ddof={ddof} of {count} entries; needed fewer degrees than entries")
        squares = (self * self).sum(axis, dtype, out, keepdims) * (1.0 / (count - ddof))
        mean = self.sum(axis, keepdims=keepdims) * float((count * (count - ddof)) ** -0.5)
        return squares - mean * mean

    def _extent(self, axes: tuple[int, ...]) -> int:
        """Return the number of entries along axes, counted without the batch."""
        return int(np.prod([self._core[each] for each in axes]))

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
            Largest magnitude of an input's entry; default: the largest magnitude of the arrays, or 1. The plan has room
            for every value of a run with such inputs, and `MatrixSecret.encrypt` refuses larger entries.
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
        self._program = plan(self._node, self._batch, self._axes, options)
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
            As for `ClassifyClient`.

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
        inputs = secret.encrypt(program.signature, **{name: each.values for name, each in bound.items()})
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
        return self if not self._axes[0] else self._made(self._node.transpose(), (False, True))

    def _as_column(self) -> Matrix:
        return self if self._axes[0] else self._made(self._node.transpose(), (True, False))


def _by_numpy(function: Any, *arguments: Any) -> Matrix:
    """Return the result of a function of numpy. A module that imports this one implements and registers it."""
    result: Matrix = protocol.implementation(function)(*arguments)
    return result


def matrix(name: str, shape: int | tuple[int, ...]) -> Matrix:
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
    if not isinstance(name, str) or not name:
        raise ArgumentError(f"matrix: name {name!r}; needed text: unspoken.matrix('a', (4, 3))")
    return from_input(name, shape, None)


def from_input(name: str, shape: int | tuple[int, ...], bound: Bound | None) -> Matrix:
    """Return an input, with or without an array bound to it."""
    shape = integers(shape, "matrix: shape")
    if not 1 <= len(shape) <= 3 or min(shape) < 1:
        raise MatrixError(
            f"matrix: shape {shape}; needed (rows, columns), (n,) or (batch, rows, columns), of 1 or more each"
        )
    batch = shape[0] if len(shape) == 3 else None
    core = shape if len(shape) < 3 else shape[1:]
    node = Node.input(name, (core[-2] if len(core) == 2 else 1, core[-1]), (batch is not None, len(core) == 2), bound)
    return Matrix(node, batch, (len(core) == 2, True))
