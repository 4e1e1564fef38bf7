"""Exact arithmetic on encrypted integers: sums, differences, products with plaintext weights (BFV and BGV).

A secret key encrypts and decrypts; a public key encrypts for others, who may only send; whoever adds
and multiplies needs no key. Results are exact modulo the plaintext modulus, so values and sums must
stay within ``-secret.largest`` to ``secret.largest``. Each vector has a bound of its entries, `most`,
which is public: who encrypts states it, and every operation computes the bound of its result. One whose
result could leave the range is refused, unless an operand was made with ``wraps=True``.

>>> import numpy as np
>>> from unspoken import exact
>>> secret = exact.SecretKey()
>>> public = secret.public_key()
>>> visits = public.encrypt([3, 1, 4], most=10) + public.encrypt([1, 5, 9], most=10)  # of two people
>>> secret.decrypt(visits)
array([ 4,  6, 13])
>>> secret.decrypt(visits * [10, 0, 1])
array([40,  0, 13])

The product with plaintext weights does not hide the weights from someone who sees the vector before
and after.
"""

from __future__ import annotations

import os
from os import PathLike
from pathlib import Path
from typing import Any, Literal, NoReturn, Union

import numpy as np
import numpy.typing as npt

from unspoken import _unspoken
from unspoken._files import write_new
from unspoken._labels import unmasked
from unspoken.errors import ArgumentError, ExactError, StateError

__all__ = ["EncryptedVector", "PublicKey", "SecretKey", "ZeroPool"]

Scheme = Literal["bfv", "bgv"]

_Key = Union[_unspoken.ExactSecret, _unspoken.ExactPublicKey]


class SecretKey:
    """A secret key: encrypts at half the bytes and with less noise than a public key, and decrypts.

    Parameters
    ----------
    preset : str
        Parameter set: ``"n12_exact17"`` (4,096 values, sums up to 57,344), ``"n12_exact30"`` (sums up to
        2**29, no products), ``"n13_exact30"``, ``"n14_exact30"`` (sums up to 2**29, four and eight
        products).
    scheme : {"bfv", "bgv"}
        The scheme. Both compute the same.

    Raises
    ------
    ConfigurationError
        If there is no such preset or scheme, or the preset is insecure.

    Examples
    --------
    >>> from unspoken import exact
    >>> secret = exact.SecretKey("n12_exact30")
    >>> secret.decrypt(secret.encrypt([500_000_000]))
    array([500000000])
    """

    def __init__(self, preset: str = "n12_exact17", *, scheme: Scheme = "bfv") -> None:
        self._key = _unspoken.ExactSecret.generate(preset, scheme)

    @classmethod
    def from_bytes(cls, data: bytes, preset: str = "n12_exact17", *, scheme: Scheme = "bfv") -> SecretKey:
        """Read the output of `to_bytes`, with the same preset and scheme.

        Raises
        ------
        MismatchError
            If it is not a secret key of this preset.

        Examples
        --------
        >>> from unspoken import exact
        >>> again = exact.SecretKey.from_bytes(exact.SecretKey().to_bytes())
        """
        secret = cls.__new__(cls)
        secret._key = _unspoken.ExactSecret.from_bytes(preset, scheme, data)
        return secret

    def to_bytes(self) -> bytes:
        """Return the secret. Store it like a password: whoever has it can decrypt.

        Examples
        --------
        >>> from unspoken import exact
        >>> len(exact.SecretKey().to_bytes())
        1024
        """
        return self._key.to_bytes()

    def public_key(self) -> PublicKey:
        """Return a public key for others, who can then encrypt and nothing else. One is enough.

        Examples
        --------
        >>> from unspoken import exact
        >>> public = exact.SecretKey().public_key()
        """
        return PublicKey(self._key.public_key())

    def encrypt(
        self,
        values: npt.ArrayLike,
        *,
        most: int | None = None,
        wraps: bool = False,
        pool: ZeroPool | None = None,
    ) -> EncryptedVector:
        """Encrypt a vector of integers.

        Parameters
        ----------
        values : array_like
            Integers of shape (n,), at most `slots` of them, of at most `most` in magnitude.
        most : int, optional
            The largest magnitude that an entry can have; public. `largest` by default, which leaves no room
            for a sum: state what the values mean, not what they are.
        wraps : bool
            Compute modulo the plaintext modulus: results that leave the range wrap around. `False` by
            default.
        pool : ZeroPool, optional
            A pool of this key. One entry is used, if there is one.

        Raises
        ------
        ExactError
            If there are too many values, one is larger than `most`, or the pool is of another key.

        Examples
        --------
        >>> from unspoken import exact
        >>> len(exact.SecretKey().encrypt([1, 2, 3]))
        3
        """
        return _encrypt(self._key, values, most, wraps, pool)

    def decrypt(self, vector: EncryptedVector) -> npt.NDArray[np.int64]:
        """Decrypt a vector to integers, shape (n,).

        Raises
        ------
        ExactError
            If the measured noise is too large for a correct result.
        MismatchError
            If the vector has other parameters.

        Examples
        --------
        >>> from unspoken import exact
        >>> secret = exact.SecretKey()
        >>> secret.decrypt(secret.encrypt([1, -2]))
        array([ 1, -2])
        """
        return self._key.decrypt(vector._vector)

    def pool(self, capacity: int, *, file: str | PathLike[str] | None = None) -> ZeroPool:
        """Return a pool of encryptions of zero with this key: see `ZeroPool`.

        Examples
        --------
        >>> from unspoken import exact
        >>> secret = exact.SecretKey()
        >>> pool = secret.pool(2)
        >>> pool.fill()
        2
        >>> vector = secret.encrypt([1, 2], pool=pool)
        >>> pool.available
        1
        """
        return _make_pool(self._key, capacity, file)

    @property
    def slots(self) -> int:
        """Largest length of a vector."""
        return self._key.slots

    @property
    def largest(self) -> int:
        """Largest magnitude of a value, also of a result."""
        return self._key.largest

    def __reduce__(self) -> Any:
        """Raise: secrets are stored with `to_bytes`."""
        raise ArgumentError("a secret key is not pickled: use to_bytes() and from_bytes()")

    def __repr__(self) -> str:
        """Return preset and scheme, and no bit of the secret."""
        return f"<SecretKey {self._key.preset}, {self._key.scheme}>"


class PublicKey:
    """A public key: encrypts, for its owner alone to read. Made by `SecretKey.public_key`.

    Examples
    --------
    >>> from unspoken import exact
    >>> secret = exact.SecretKey()
    >>> sent = exact.PublicKey.from_bytes(secret.public_key().to_bytes())
    >>> secret.decrypt(sent.encrypt([7]))
    array([7])
    """

    def __init__(self, key: _unspoken.ExactPublicKey) -> None:
        self._key = key

    @classmethod
    def from_bytes(cls, data: bytes, preset: str = "n12_exact17", *, scheme: Scheme = "bfv") -> PublicKey:
        """Read the output of `to_bytes`, with the same preset and scheme.

        The bytes do not say whose key it is: get them from its owner.

        Raises
        ------
        MismatchError
            If it is not a public key of this preset.

        Examples
        --------
        >>> public = exact.PublicKey.from_bytes(Path("office.key").read_bytes())  # doctest: +SKIP
        """
        return cls(_unspoken.ExactPublicKey.from_bytes(preset, scheme, data))

    def to_bytes(self) -> bytes:
        """Return the key, which everybody may see.

        Examples
        --------
        >>> Path("office.key").write_bytes(secret.public_key().to_bytes())  # doctest: +SKIP
        """
        return self._key.to_bytes()

    def encrypt(
        self,
        values: npt.ArrayLike,
        *,
        most: int | None = None,
        wraps: bool = False,
        pool: ZeroPool | None = None,
    ) -> EncryptedVector:
        """Encrypt a vector of integers: see `SecretKey.encrypt`.

        Raises
        ------
        ExactError
            If there are too many values, one is larger than `most`, or the pool is of another key.

        Examples
        --------
        >>> from unspoken import exact
        >>> vector = exact.SecretKey().public_key().encrypt([1, 2, 3])
        """
        return _encrypt(self._key, values, most, wraps, pool)

    def pool(self, capacity: int, *, file: str | PathLike[str] | None = None) -> ZeroPool:
        """Return a pool of encryptions of zero with this key: see `ZeroPool`.

        Examples
        --------
        >>> from unspoken import exact
        >>> pool = exact.SecretKey().public_key().pool(1)
        """
        return _make_pool(self._key, capacity, file)

    def __repr__(self) -> str:
        """Return preset and scheme."""
        return f"<PublicKey {self._key.preset}, {self._key.scheme}>"


class EncryptedVector:
    """An encrypted vector of integers. ``+``, ``-`` and ``*`` work entry by entry and need no key.

    The other operand of ``+`` and ``-`` is a vector of the same key or plaintext integers; the other operand of ``*``
    is plaintext integers. Each operation computes the bound of its result, `most`, and raises `ExactError` if this
    bound leaves the range of the parameters.

    Examples
    --------
    >>> from unspoken import exact
    >>> secret = exact.SecretKey()
    >>> a, b = secret.encrypt([1, 2], most=100), secret.encrypt([10, 20], most=100)
    >>> c = (b - a) * 3 + [0, 1]
    >>> secret.decrypt(c), c.most
    (array([27, 55]), 601)
    """

    # Arrays leave operators with a vector to it.
    __array_ufunc__ = None

    def __init__(self, vector: _unspoken.ExactVector, most: int | None) -> None:
        self._vector = vector
        self._most = most

    @classmethod
    def from_bytes(
        cls,
        data: bytes,
        length: int,
        preset: str = "n12_exact17",
        *,
        scheme: Scheme = "bfv",
        most: int | None = None,
        wraps: bool = False,
    ) -> EncryptedVector:
        """Read the output of `to_bytes`, with the same length, preset and scheme.

        The bytes have no bound of the entries: `most` is what the sender agreed to, and `largest` of the
        key by default. `wraps` is as for `SecretKey.encrypt`.

        Raises
        ------
        MismatchError
            If it is not a vector of this preset.

        Examples
        --------
        >>> from unspoken import exact
        >>> secret = exact.SecretKey()
        >>> sent = secret.encrypt([1, 2]).to_bytes()
        >>> secret.decrypt(exact.EncryptedVector.from_bytes(sent, 2))
        array([1, 2])
        """
        vector = _unspoken.ExactVector.from_bytes(preset, scheme, length, data)
        return cls(vector, None if wraps else _bound(most, vector.largest))

    def to_bytes(self) -> bytes:
        """Return the encrypted vector, to send or store. The bytes contain neither its length nor its bound.

        Examples
        --------
        >>> from unspoken import exact
        >>> len(exact.SecretKey().encrypt([1, 2]).to_bytes()) < 100_000
        True
        """
        return self._vector.to_bytes()

    @property
    def most(self) -> int | None:
        """Largest magnitude that an entry can have, as stated and computed; `None` if entries may wrap around."""
        return self._most

    @property
    def budget_bits(self) -> float:
        """Bits by which the noise may still grow; operations that need more raise `ExactError`."""
        return self._vector.budget_bits

    def __len__(self) -> int:
        """Return the number of values."""
        return len(self._vector)

    def __add__(self, other: EncryptedVector | npt.ArrayLike) -> EncryptedVector:
        """Return the sum, entry by entry."""
        if isinstance(other, EncryptedVector):
            vector, most = self._same_length(other), self._sum(other._most)
            return EncryptedVector(self._vector.add(vector), most)
        added = self._plain(other)
        most = self._sum(_magnitude(added))
        return EncryptedVector(self._vector.add_plain(added), most)

    __radd__ = __add__

    def __sub__(self, other: EncryptedVector | npt.ArrayLike) -> EncryptedVector:
        """Return the difference, entry by entry."""
        if isinstance(other, EncryptedVector):
            vector, most = self._same_length(other), self._sum(other._most)
            return EncryptedVector(self._vector.subtract(vector), most)
        return self + -self._plain(other)

    def __rsub__(self, other: npt.ArrayLike) -> EncryptedVector:
        """Return plaintext integers minus this vector, entry by entry."""
        return self * -1 + other

    def __neg__(self) -> EncryptedVector:
        """Return this vector with the other sign."""
        return self * -1

    def __mul__(self, weights: npt.ArrayLike) -> EncryptedVector:
        """Return the product with plaintext weights, entry by entry."""
        if isinstance(weights, EncryptedVector):
            return self._only_sums(weights)
        factors = self._plain(weights)
        most = None if self._most is None else self._within(self._most * _magnitude(factors))
        return EncryptedVector(self._vector.multiply_plain(factors), most)

    def _only_sums(self, _other: object, _modulus: object = None) -> NoReturn:
        raise ArgumentError(
            "compute with an encrypted vector: found an operation other than + and - with vectors or integers and * "
            "with integers; needed one of these: decrypt first, or use encrypted matrices (unspoken.MatrixClient)"
        )

    __matmul__ = __rmatmul__ = __truediv__ = __rtruediv__ = __floordiv__ = __rfloordiv__ = _only_sums
    __mod__ = __rmod__ = __divmod__ = __rdivmod__ = __pow__ = __rpow__ = _only_sums

    __rmul__ = __mul__

    def __repr__(self) -> str:
        """Return length, preset and scheme."""
        return f"<EncryptedVector of {len(self)}, {self._vector.preset}, {self._vector.scheme}>"

    def _sum(self, added: int | None) -> int | None:
        """Return the bound of a sum with entries of this bound."""
        return None if self._most is None or added is None else self._within(self._most + added)

    def _within(self, most: int) -> int:
        """Return a bound that the parameters hold."""
        largest = self._vector.largest
        if most > largest:
            raise ExactError(
                f"compute with vectors: found a result that may reach {most}, needed at most {largest} for "
                f"{self._vector.preset}; state a smaller most= where the vectors are encrypted or read, choose a "
                "preset with larger values, or allow results to wrap around with wraps=True"
            )
        return most

    def _same_length(self, other: EncryptedVector) -> _unspoken.ExactVector:
        if len(self) != len(other):
            raise ExactError(f"compute with vectors: found {len(self)} and {len(other)} values; needed as many")
        return other._vector

    def _plain(self, values: npt.ArrayLike) -> npt.NDArray[np.int64]:
        """Return plaintext integers, one for each entry; a single one is repeated."""
        array = np.asarray(unmasked(values, "integers", ExactError))
        return _integers(np.full(len(self), array) if array.ndim == 0 else array, len(self))


class ZeroPool:
    """Encryptions of zero that are made ahead, so that encrypting takes one addition. Each is used once.

    Made by the method ``pool`` of a key. In memory by default; with `file`, in a file that lasts between
    runs, with a state file ``FILE.ledger`` and a sealing key ``FILE.key`` beside it. An entry is marked
    as used on disk before it is used, so that a crash may lose one and never uses one twice. Never
    restore these files, or the memory of the process, from a copy.

    Examples
    --------
    >>> from unspoken import exact
    >>> public = exact.SecretKey().public_key()
    >>> pool = public.pool(4)
    >>> pool.fill()
    4
    >>> vector = public.encrypt([1, 2, 3], pool=pool)
    """

    def __init__(self, pool: _unspoken.ExactPool) -> None:
        self._pool = pool

    def fill(self) -> int:
        """Make entries until the pool is full, and return how many.

        Examples
        --------
        >>> pool.fill()  # doctest: +SKIP
        """
        return self._pool.fill()

    @property
    def available(self) -> int:
        """Number of entries that can be used now. If there is none, encryption makes its own."""
        return self._pool.available()

    @property
    def capacity(self) -> int:
        """Largest number of entries."""
        return self._pool.capacity

    def __repr__(self) -> str:
        """Return the number of entries."""
        return f"<ZeroPool of {self.available} of {self.capacity}>"


def _encrypt(key: _Key, values: npt.ArrayLike, most: int | None, wraps: bool, pool: ZeroPool | None) -> EncryptedVector:
    entries, bound = _integers(values), _bound(most, key.largest)
    # Which entry it is, and its value, stay out of the message.
    if bool(np.any((entries > bound) | (entries < -bound))):
        raise ExactError(f"encrypt: found an entry out of range; needed -{bound} to {bound}")
    return EncryptedVector(key.encrypt(entries, _pool(pool)), None if wraps else bound)


def _bound(most: int | None, largest: int) -> int:
    """Return a stated bound of entries, or the largest."""
    if most is None:
        return largest
    if not 0 <= most <= largest:
        raise ExactError(f"state a bound: found most={most}; needed 0 to {largest}")
    return int(most)


def _magnitude(values: npt.NDArray[np.int64]) -> int:
    """Return the largest magnitude of plaintext integers."""
    return max(abs(int(values.min())), abs(int(values.max()))) if values.size else 0


def _pool(pool: ZeroPool | None) -> _unspoken.ExactPool | None:
    return None if pool is None else pool._pool


def _make_pool(key: _Key, capacity: int, file: str | PathLike[str] | None) -> ZeroPool:
    if not 1 <= capacity <= 1 << 20:
        raise ExactError(f"make a pool: found a capacity of {capacity}; needed 1 to {1 << 20}")
    if file is None:
        return ZeroPool(key.pool(capacity, None))
    path = os.fspath(file)
    return ZeroPool(key.pool(capacity, (path, _sealing_key(Path(path + ".key"), not Path(path).exists()))))


def _sealing_key(path: Path, new: bool) -> bytes:
    """Return the key of a pool file; make it if the pool is new."""
    try:
        if new:
            write_new(path, os.urandom(32))
        key = path.read_bytes()
    except OSError as error:
        raise StateError(f"open the key of a pool {path}: {error}; give another file for the pool") from error
    if len(key) != 32:
        raise StateError(f"open the key of a pool {path}: found {len(key)} bytes, needed 32; give another file")
    return key


def _integers(values: npt.ArrayLike, length: int | None = None) -> npt.NDArray[np.int64]:
    array = np.asarray(unmasked(values, "integers", ExactError))
    if array.dtype.kind not in "iub":
        raise ArgumentError(f"encrypt: found entries of {array.dtype}; needed integers")
    if array.dtype == np.uint64 and array.size and int(array.max()) >= 1 << 63:
        raise ExactError("encrypt: found an entry of 2**63 or more; needed smaller ones")
    if array.ndim != 1 or length not in (None, array.size):
        needed = "(n,)" if length is None else f"({length},)"
        raise ExactError(f"encrypt: found an array of shape {array.shape}; needed {needed}")
    return np.ascontiguousarray(array, dtype=np.int64)
