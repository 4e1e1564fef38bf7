"""Exact arithmetic on encrypted integers, with both keys and pools."""

from __future__ import annotations

import pickle
from pathlib import Path

import numpy as np
import pytest

import unspoken
from unspoken import exact


@pytest.fixture(scope="module", params=["bfv", "bgv"])
def secret(request: pytest.FixtureRequest) -> exact.SecretKey:
    return exact.SecretKey(scheme=request.param)


def test_sums_counts_and_weights_are_exact(secret: exact.SecretKey) -> None:
    rng = np.random.default_rng(1)
    tables = rng.integers(-100, 100, (8, secret.slots))
    public = secret.public_key()
    vectors = [(secret if i % 2 else public).encrypt(row, most=100) for i, row in enumerate(tables)]
    total = sum(vectors[1:], vectors[0])
    assert (secret.decrypt(total) == tables.sum(axis=0)).all()
    weights = rng.integers(-5, 6, secret.slots)
    computed = weights * (vectors[0] - vectors[1]) + 7 - np.arange(secret.slots)
    assert (secret.decrypt(computed) == weights * (tables[0] - tables[1]) + 7 - np.arange(secret.slots)).all()
    assert computed.budget_bits < total.budget_bits
    flags = public.encrypt(np.array([True, False, True]))
    assert secret.decrypt(flags).sum() == 2


def test_keys_and_vectors_travel_as_bytes(secret: exact.SecretKey) -> None:
    scheme = "bgv" if "bgv" in repr(secret) else "bfv"
    public = exact.PublicKey.from_bytes(secret.public_key().to_bytes(), scheme=scheme)
    sent = public.encrypt([1, -2, 3]).to_bytes()
    again = exact.SecretKey.from_bytes(secret.to_bytes(), scheme=scheme)
    received = exact.EncryptedVector.from_bytes(sent, 3, scheme=scheme, most=10)
    assert again.decrypt(received + secret.encrypt([1, 1, 1], most=1)).tolist() == [2, -1, 4]
    for bad in (b"", sent[1:], sent + b"0"):
        with pytest.raises(unspoken.MismatchError):
            exact.EncryptedVector.from_bytes(bad, 3, scheme=scheme)
    with pytest.raises(unspoken.ExactError, match="needed at most 4096"):
        exact.EncryptedVector.from_bytes(sent, 4097, scheme=scheme)
    with pytest.raises(unspoken.MismatchError):
        exact.PublicKey.from_bytes(sent, scheme=scheme)
    with pytest.raises(TypeError, match="to_bytes"):
        pickle.dumps(secret)


def test_pools_in_memory_and_in_a_file_are_used_once(secret: exact.SecretKey, tmp_path: Path) -> None:
    public = secret.public_key()
    for key in (secret, public):
        pool = key.pool(2)
        assert pool.fill() == 2
        vectors = [key.encrypt([i], pool=pool) for i in range(3)]
        assert [secret.decrypt(vector)[0] for vector in vectors] == [0, 1, 2]
        assert pool.available == 0
    path = tmp_path / "pool"
    pool = public.pool(3, file=path)
    assert pool.fill() == 3
    public.encrypt([1], pool=pool)
    del pool
    pool = public.pool(3, file=path)
    assert (pool.available, pool.capacity) == (2, 3)
    assert secret.decrypt(public.encrypt([5], pool=pool)).tolist() == [5]
    assert (tmp_path / "pool.key").stat().st_mode & 0o777 == 0o600
    del pool
    with pytest.raises(unspoken.StateError):
        secret.public_key().pool(3, file=path)
    (tmp_path / "pool.key").write_bytes(b"short")
    with pytest.raises(unspoken.StateError, match="found 5 bytes, needed 32"):
        public.pool(3, file=path)
    # A pool of another key is refused, and keeps its entries.
    other = exact.SecretKey(scheme=secret._key.scheme)
    for pool in (other.pool(1), other.public_key().pool(1), public.pool(1, file=tmp_path / "other")):
        assert pool.fill() == 1
        with pytest.raises(unspoken.ExactError, match="found entries for another key"):
            secret.encrypt([1], pool=pool)
        assert pool.available == 1
    with pytest.raises(unspoken.ExactError, match="capacity"):
        public.pool(0)


def test_what_does_not_fit_is_refused(secret: exact.SecretKey) -> None:
    vector = secret.encrypt([1, 2])
    assert secret.largest == 57344
    with pytest.raises(unspoken.ExactError, match="found an entry out of range; needed -57344 to 57344"):
        secret.encrypt([1, secret.largest + 1])
    with pytest.raises(unspoken.ExactError, match="needed at most 4096"):
        secret.encrypt(np.zeros(4097, int))
    with pytest.raises(unspoken.ExactError, match=r"\(2, 2\); needed \(n,\)"):
        secret.encrypt(np.zeros((2, 2), int))
    with pytest.raises(TypeError, match="needed integers"):
        secret.encrypt([0.5])
    with pytest.raises(unspoken.ExactError, match="2 and 1 values"):
        vector + secret.encrypt([1])
    with pytest.raises(unspoken.ExactError, match=r"needed \(2,\)"):
        vector * [1, 2, 3]
    weights, vector = np.full(2, 50_000), secret.encrypt([1, 2], wraps=True)
    with pytest.raises(unspoken.ExactError, match="bits of noise budget"):
        _ = ((vector * weights) * weights) * weights
    with pytest.raises(unspoken.ConfigurationError, match="n12_exact17"):
        exact.SecretKey("n12")
    with pytest.raises(unspoken.ConfigurationError, match="for tests"):
        exact.SecretKey("insecure_n10_exact17")
    with pytest.raises(unspoken.ConfigurationError, match="scheme"):
        exact.SecretKey(scheme="ckks")  # type: ignore[arg-type]
    with pytest.raises(unspoken.MismatchError):
        vector + exact.SecretKey("n12_exact30").encrypt([1, 2])


def test_results_that_could_wrap_around_are_refused(secret: exact.SecretKey) -> None:
    a, b = secret.encrypt([50_000, -3]), secret.encrypt([50_000, 4])
    for compute in (lambda: a + b, lambda: a - b, lambda: a + 1, lambda: 1 - a, lambda: a * 2):
        with pytest.raises(unspoken.ExactError, match=r"may reach .*needed at most 57344.*most=.*wraps=True"):
            compute()
    # Bounds are what was stated, not what was encrypted.
    c = secret.encrypt([1, 2], most=1000)
    bounds = [vector.most for vector in (c, c + c, c - c, c * [3, -5], c + np.array([7, -9]))]
    assert bounds == [1000, 2000, 2000, 5000, 1009]
    assert (-c).most == 1000
    assert secret.decrypt(10 - c * [3, -5]).tolist() == [7, 20]
    again = exact.EncryptedVector.from_bytes(c.to_bytes(), 2, scheme=secret._key.scheme)
    assert again.most == secret.largest
    with pytest.raises(unspoken.ExactError, match="needed -1000 to 1000"):
        secret.encrypt([1, 1001], most=1000)
    with pytest.raises(unspoken.ExactError, match="found most=57345"):
        secret.encrypt([1], most=secret.largest + 1)
    with pytest.raises(unspoken.ExactError, match="masked"):
        secret.encrypt(np.ma.array([1, 2], mask=[True, False]))
    # On request they wrap around, and so does everything that is computed from them.
    wrapping = secret.encrypt([50_000, -3], wraps=True) + b
    assert wrapping.most is None
    assert (wrapping + 1).most is None
    assert secret.decrypt(wrapping).tolist() == [100_000 - (2 * secret.largest + 1), 1]
    for wrong in (lambda: c % 2, lambda: c / 2, lambda: c**2, lambda: c * c, lambda: 2 // c):
        with pytest.raises(TypeError, match="decrypt first"):
            wrong()
