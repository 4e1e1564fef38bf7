from __future__ import annotations

import pickle

import numpy as np
import pytest

import unspoken

FAST = "insecure_n11_real_depth9_scale50"


@pytest.fixture(scope="module")
def secret():
    return unspoken.MatrixSecret()


def random(*shape, seed=0):
    return np.random.default_rng(seed).uniform(-1, 1, shape)


def check(secret, expression, expected, **options):
    """Plan, generate the keys, compute, decrypt; check the shape against numpy and the error against the prediction."""
    expected = np.asarray(expected)
    assert expression.shape == expected.shape
    assert expression.ndim == expected.ndim
    program = expression.plan(preset=FAST, **options)
    keys = secret.keys(expression, progress=False)
    assert len(keys) == program.key_count
    result = expression.compute(keys, progress=False)
    assert result.shape == program.shape == expected.shape
    np.testing.assert_allclose(secret.decrypt(result), expected, rtol=0, atol=program.error)
    assert program.error < 1e-6
    return program


def test_an_expression_is_computed_as_numpy_does(secret):
    a, b, w, perm = random(5, 4, seed=1), random(4, 6, seed=2), random(6, 4, seed=3), [3, 1, 0, 5, 2, 4]
    x, y = secret.matrix(a), secret.matrix(b)
    program = check(secret, (x @ y).T[perm] + 2 * (w @ x.T) - 1.0, (a @ b).T[perm] + 2 * (w @ a.T) - 1.0)
    assert program.inputs == {"array1": (5, 4), "array2": (4, 6)}
    for word in ["preset", FAST, "levels", "keys", "seconds", "error"]:
        assert word in program.explain()


def test_products(secret):
    a, b, w, v = random(4, 3, seed=1), random(3, 5, seed=2), random(5, 4, seed=3), random(3, seed=4)
    x, y, z = secret.matrix(a), secret.matrix(b), secret.matrix(v)
    for expression, expected in [
        (w @ x, w @ a),
        (x @ w[:3], a @ w[:3]),
        (x @ v, a @ v),
        (v @ y, v @ b),
        (x @ z, a @ v),
        (z @ y, v @ b),
        (z @ z, v @ v),
        (z @ v, v @ v),
        (w[:, :3] @ z, w[:, :3] @ v),
        (w @ (x @ z), w @ (a @ v)),
        ((x @ z) @ w[:4], (a @ v) @ w[:4]),
        ((x @ z) @ x, (a @ v) @ a),
    ]:
        check(secret, expression, expected)


def test_entry_by_entry(secret):
    a, b, v, w = random(4, 3, seed=1), random(4, 3, seed=2), random(3, seed=3), random(4, 3, seed=4)
    x, y, z = secret.matrix(a), secret.matrix(b), secret.matrix(v)
    for expression, expected in [
        (x + y, a + b),
        (w - x, w - a),
        (x - 1, a - 1),
        (-x, -a),
        (+x * y, a * b),
        (w * x, w * a),
        (np.float64(3) * x / 4, 3 * a / 4),
        (x**3, a**3),
        (x + z, a + v),
        (z + x, v + a),
        (x * v, a * v),
        (z + x.sum(axis=0), v + a.sum(axis=0)),
        (z + (y.T @ y) @ z, v + (b.T @ b) @ v),
        (x + random(4, 1), a + random(4, 1)),
        (z + w, v + w),
        (x.sum() + z, a.sum() + v),
    ]:
        check(secret, expression, expected)


def test_selection_and_sums(secret):
    a = random(5, 4, seed=1)
    x = secret.matrix(a)
    mask = np.array([True, False, True, False, True])
    for expression, expected in [
        (x[[4, 0, 0]], a[[4, 0, 0]]),
        (x[::-1], a[::-1]),
        (x[:, [3, -1]], a[:, [3, -1]]),
        (x[mask], a[mask]),
        (x[1:3, ::2], a[1:3, ::2]),
        (x[np.ix_([1, 0], [2, 3])], a[np.ix_([1, 0], [2, 3])]),
        (x[2], a[2]),
        (x[..., -1], a[..., -1]),
        (x[4, 1], a[4, 1]),
        (x[2][[1, 0]], a[2][[1, 0]]),
        (x[:, 2][mask], a[:, 2][mask]),
        (x.sum(), a.sum()),
        (x.sum(axis=0), a.sum(axis=0)),
        (x.sum(axis=-1, keepdims=True), a.sum(axis=-1, keepdims=True)),
        (x.sum(axis=(0, 1), keepdims=True), a.sum(axis=(0, 1), keepdims=True)),
        (x.mean(axis=1), a.mean(axis=1)),
        (x[1].sum(), a[1].sum()),
    ]:
        check(secret, expression, expected)
    assert [row.shape for row in x] == [(4,)] * 5


def test_rearrangements(secret):
    a, b, u, v = random(5, 4, seed=1), random(5, 4, seed=2), random(4, seed=3), random(4, seed=4)
    x, y, w, z = (secret.matrix(each) for each in (a, b, u, v))
    for expression, expected in [
        (x.reshape(2, -1), a.reshape(2, -1)),
        (np.ravel(x), np.ravel(a)),
        (x.reshape(10, 2).reshape(4, 5) @ y, a.reshape(4, 5) @ b),
        (z[:, None] * w, v[:, None] * u),
        (x @ z[:, None], a @ v[:, None]),
        (np.concatenate([x, y[:2], a]), np.concatenate([a, b[:2], a])),
        (np.hstack([x, y, x]), np.hstack([a, b, a])),
        (np.stack([w, z], axis=1), np.stack([u, v], axis=1)),
        (np.stack([x @ w, x @ z, x.sum(axis=1)]), np.stack([a @ u, a @ v, a.sum(axis=1)])),
        (np.einsum("ij,kj->ik", x, y), a @ b.T),
        (x.var(axis=0), a.var(axis=0)),
        (np.roll(x, 3), np.roll(a, 3)),
        (np.cumsum(z), np.cumsum(v)),
    ]:
        check(secret, expression, expected)
    batch = random(3, 4, 6, seed=5)
    check(secret, secret.matrix(batch).reshape(3, 8, 3).mT, np.swapaxes(batch.reshape(3, 8, 3), 1, 2))


def test_reshapes_cost_nothing_without_products_and_one_level_with_them():
    v, b = unspoken.matrix("v", (64,)), unspoken.matrix("b", (32, 2))
    assert v[:, None].T.squeeze().plan(preset=FAST).levels == 0
    reshaped = v.reshape(8, 8).reshape(4, 16).reshape(2, 32)
    program = (2.0 * reshaped + 1).plan(preset=FAST)
    assert program.key_count == 0
    product = (unspoken.matrix("a", (2, 32)) @ b).plan(preset=FAST)
    assert (reshaped @ b).plan(preset=FAST).levels == 1 + product.levels
    program = unspoken.matrix("a", (16, 16)).ravel().plan(preset=FAST)
    assert (program.levels, program.key_count) == (0, 0)


def test_any_name_is_an_input(secret):
    names = ["program", "self", "arrays", "keys", "inputs", "secret"]
    total = sum(unspoken.matrix(name, (2, 2)) for name in names)
    program = total.plan(preset=FAST)
    inputs = secret.encrypt(program, **{name: np.eye(2) for name in names})
    result = program.run(secret.keys(program, progress=False), inputs, progress=False)
    np.testing.assert_allclose(secret.decrypt(result), len(names) * np.eye(2), rtol=0, atol=program.error)
    with pytest.raises(TypeError, match="decrypt"):
        np.sum(result)
    for use in [bool, float, lambda r: r + 1, lambda r: np.ones((2, 2)) @ r, lambda r: r == r, lambda r: r[0]]:
        with pytest.raises(TypeError, match="decrypt"):
            use(result)


def test_batches(secret):
    a, b = random(3, 4, 5, seed=1), random(5, 2, seed=2)
    x, y = secret.matrix(a), secret.matrix(b)
    check(secret, x @ y + random(2), a @ b + random(2))
    check(secret, x.mT[:, [1, 0]], np.swapaxes(a, 1, 2)[:, [1, 0]])
    check(secret, x.sum(axis=-1), a.sum(axis=-1))
    # More matrices than one ciphertext has room for, and a tile for every 4 x 4 block of a matrix.
    many = random(70, 4, 4, seed=3)
    z = secret.matrix(many)
    program = check(secret, z @ z, many @ many, blocks=4)
    assert "3 runs" in str(program)
    check(secret, x @ y, a @ b, tile=2)


def test_client_and_server_share_bytes(secret, tmp_path):
    a, b = unspoken.matrix("a", (4, 3)), unspoken.matrix("b", shape=(3, 4))
    program = ((a @ b).T[::-1] - np.eye(4)).plan(preset=FAST)
    server = unspoken.MatrixProgram.from_bytes(program.to_bytes(), accept_insecure=True)
    signature = unspoken.MatrixSignature.from_bytes(server.signature.to_bytes(), accept_insecure=True)
    assert signature.inputs == {"a": (4, 3), "b": (3, 4)}
    assert (signature.shape, signature.key_count, signature.key_bytes) == ((4, 4), program.key_count, program.key_bytes)
    assert len(signature.to_bytes()) < len(program.to_bytes()) + 12 * signature.key_count

    values = {"a": random(4, 3, seed=1), "b": random(3, 4, seed=2)}
    keys = secret.keys(signature, progress=False)
    assert keys.nbytes == signature.key_bytes
    sent = [keys.to_bytes(), *(secret.encrypt(signature, **{name: each}).to_bytes() for name, each in values.items())]

    keys = unspoken.MatrixKeys.from_bytes(sent[0], accept_insecure=True)
    inputs = [unspoken.MatrixInputs.from_bytes(each, accept_insecure=True) for each in sent[1:]]
    reported = []
    answer = server.run(keys, *inputs, progress=reported.append).to_bytes()
    assert (reported[-1].stage, reported[-1].done, reported[-1].total) == ("computing", 1, 1)

    secret.save(tmp_path / "secret")
    assert (tmp_path / "secret").stat().st_mode & 0o077 == 0
    again = unspoken.MatrixSecret.load(tmp_path / "secret")
    result = unspoken.EncryptedMatrix.from_bytes(answer, accept_insecure=True)
    expected = (values["a"] @ values["b"]).T[::-1] - np.eye(4)
    np.testing.assert_allclose(again.decrypt(result), expected, rtol=0, atol=server.error)
    assert len(result) == 4

    with pytest.raises(unspoken.MatrixError, match="another secret"):
        unspoken.MatrixSecret().decrypt(result)
    with pytest.raises(unspoken.MismatchError, match="a secure one"):
        unspoken.EncryptedMatrix.from_bytes(answer)
    for kind in [unspoken.MatrixProgram, unspoken.MatrixSignature, unspoken.MatrixKeys, unspoken.MatrixInputs]:
        with pytest.raises(unspoken.MismatchError):
            kind.from_bytes(answer, accept_insecure=True)
    with pytest.raises(unspoken.MismatchError):
        unspoken.MatrixInputs.from_bytes(sent[1][:-1], accept_insecure=True)
    with pytest.raises(unspoken.StateError, match="exists"):
        secret.save(tmp_path / "secret")
    with pytest.raises(unspoken.StateError):
        unspoken.MatrixSecret.load(tmp_path / "none")


def test_shared_results_have_noise_above_the_error(secret):
    a = random(16, 16, seed=1)
    x = secret.matrix(a)
    program = (x + x).plan(preset=FAST)
    result = program.run(secret.keys(program, progress=False), secret.encrypt(program, array1=a), progress=False)
    deviation = 2**10 * program.error
    shared = secret.decrypt_to_share(result, program.error, bits=10)
    noise = (shared - 2 * a) / deviation
    assert 0.8 < np.sqrt(np.mean(noise**2)) < 1.2
    # The result is rounded to an eighth of the deviation: no digit of the error is left.
    steps = shared / (deviation / 8)
    np.testing.assert_allclose(steps, steps.round(), rtol=0, atol=1e-6)
    assert not np.array_equal(shared, secret.decrypt_to_share(result, program.error, bits=10))
    for error, bits in [(0.0, 10), (float("nan"), 10), (1e-6, 0), (1e-6, 65)]:
        with pytest.raises(unspoken.UnspokenError):
            secret.decrypt_to_share(result, error, bits)


def test_a_secure_preset_is_chosen(secret):
    a = random(8, 8, seed=1)
    x = secret.matrix(a)
    program = (x.T + x).plan(preset="n14_real_depth8_scale30")
    keys = secret.keys(program, progress=False)
    result = (program.run(keys, secret.encrypt(program, array1=a), progress=False)).to_bytes()
    found = secret.decrypt(unspoken.EncryptedMatrix.from_bytes(result))
    np.testing.assert_allclose(found, a + a.T, rtol=0, atol=program.error)
    assert program.error < 0.01
    names = {preset.name for preset in unspoken.presets()}
    assert (x @ x).plan().preset in names


def test_shape_errors_read_as_numpys(secret):
    a, b = unspoken.matrix("a", (2, 3)), unspoken.matrix("b", (4, 5))
    batch, other = unspoken.matrix("c", (6, 2, 3)), unspoken.matrix("d", (7, 2, 3))
    for wrong, match in [
        (lambda: a @ b, r"matmul: \(2, 3\) @ \(4, 5\): inner dimensions 3 and 4 differ"),
        (lambda: a @ np.ones(2), "inner dimensions 3 and 2"),
        (lambda: np.ones((2, 4)) @ a, "inner dimensions 4 and 2"),
        (lambda: a @ 2, "for numbers use"),
        (lambda: a + b, r"could not be broadcast together with shapes \(2, 3\) \(4, 5\)"),
        (lambda: a * np.ones((3, 2)), "could not be broadcast"),
        (lambda: batch + other, r"\(6, 2, 3\) \(7, 2, 3\)"),
        (lambda: batch @ np.ones((1, 3, 2)), "at most two axes"),
        (lambda: batch.T, "mT"),
        (lambda: batch.sum(axis=0), "batch"),
        (lambda: a.sum(axis=2), "axis 2 is out of bounds for array of dimension 2"),
        (lambda: a / 0, "other than 0"),
        (lambda: a**0, "positive integer"),
        (lambda: unspoken.matrix("a", (0, 3)), "1 or more"),
        (lambda: a.reshape(4, 2), r"cannot reshape array of size 6 into shape \(4, 2\)"),
        (lambda: a.reshape(-1, -1), "one unknown dimension"),
        (lambda: a[:, None], "batch of an input"),
        (lambda: np.stack([a, a]), "batch of an input"),
        (lambda: np.concatenate([a, b]), r"found shapes \(2, 3\), \(4, 5\)"),
        (lambda: a.squeeze(0), "not equal to one"),
        (lambda: a.sum(axis=(0, 0)), "duplicate"),
        (lambda: a.var(ddof=6), "fewer degrees"),
        (lambda: a.transpose(0, 0), "each axis once"),
        (lambda: batch.reshape(2, 18), "batch, 6"),
        (lambda: batch.sum(axis=2).T, "mT"),
        (lambda: batch @ batch.sum(axis=1), "one matrix"),
        (lambda: batch.sum(axis=2) + np.ones((6, 2)), "first axis of an encrypted batch"),
        (lambda: np.einsum("ij,jk->ik", a, b), r"'j' has extent 3 in shape \(2, 3\) and 4 in shape \(4, 5\)"),
        (lambda: np.einsum("ij,kl->ijkl", a, b), "more than two axes"),
        (lambda: (a + unspoken.matrix("a", (2, 3))).plan(), "two inputs are called a"),
        (lambda: secret.matrix([[np.nan]]), "not finite"),
    ]:
        with pytest.raises(ValueError, match=match) as caught:
            wrong()
        assert isinstance(caught.value, unspoken.MatrixError)


def test_index_errors_read_as_numpys():
    a, batch = unspoken.matrix("a", (2, 3)), unspoken.matrix("c", (6, 2, 3))
    for key, match in [
        (2, "index 2 is out of bounds for axis 0 with size 2"),
        ((0, 0, 0), "too many indices"),
        ((slice(None), [0, 3]), "index 3 is out of bounds for axis 1 with size 3"),
        ([True, False, True], "boolean index did not match"),
        (([0, 1], [0, 1, 2]), "cannot be broadcast"),
        (([0, 1], [[0, 3], [1, 2]]), "index 3 is out of bounds for axis 1"),
        (([0, 1], [True, False, True]), "ix_"),
        (([0, 1], 0, None), "two steps"),
        ([[0, 1], [1, 0]], "2 axes"),
        ([[True, False, True], [False, True, False]], "2 axes"),
        (True, "boolean index did not match"),
        ("x", "only integers"),
        (slice(2, 2), "nothing is left"),
    ]:
        with pytest.raises(IndexError, match=match):
            a[key]
    with pytest.raises(IndexError, match="batch"):
        batch[0]
    with pytest.raises(IndexError, match="ix_"):
        batch[:, [0, 1], [0, 1]]


def test_what_encryption_cannot(secret):
    x = secret.matrix(np.eye(2))
    for wrong, match in [
        (lambda: np.asarray(x), "decrypt"),
        (lambda: x == x, "compared"),
        (lambda: bool(x), "compared"),
        (lambda: x < 1, "compared"),
        (lambda: x / x, "divides nothing"),
        (lambda: np.sin(x), "polynomial"),
        (lambda: x[0:1].__setitem__(0, 1), "assigned"),
        (lambda: x + 1j, "real numbers"),
        (lambda: pickle.dumps(x), "to_bytes"),
        (lambda: pickle.dumps(secret), "save"),
        (lambda: x.plan(fast=True), "unexpected"),
    ]:
        with pytest.raises(TypeError, match=match):
            wrong()
    assert "1." not in repr(x) + repr(secret)
    assert (np.eye(2) @ x).shape == (np.eye(2) + x).shape == (len(x), 2)


def test_errors_of_planning_and_running(secret):
    x, y = secret.matrix(np.eye(4)), unspoken.matrix("y", (4, 4))
    with pytest.raises(unspoken.MatrixError, match="y have no arrays"):
        (x + y).compute(secret.keys(x + x, progress=False), progress=False)
    of_two = x + unspoken.MatrixSecret().matrix(np.eye(4))
    keys = secret.keys(of_two, progress=False)
    with pytest.raises(unspoken.MatrixError, match="several secrets"):
        of_two.compute(keys, progress=False)
    with pytest.raises(unspoken.MatrixError, match="deeper"):
        (y**1024).plan(preset=FAST)
    with pytest.raises(unspoken.MatrixError, match=r"multiply of .* values up to .* for inputs up to 1e1"):
        (y**64).plan(preset=FAST, largest=10)
    with pytest.raises(unspoken.MatrixError, match="below the error"):
        (y * y).plan(preset=FAST, largest=1e-9)
    with pytest.raises(unspoken.MatrixError, match=r"'y' with an entry beyond 1e0 at index \[2, 3\]"):
        secret.encrypt((y + 1).plan(preset=FAST), y=np.eye(4) + 9 * (np.arange(16) == 11).reshape(4, 4))
    program = (y @ y).plan(preset=FAST)
    few, inputs = secret.keys(y.T.plan(preset=FAST), progress=False), secret.encrypt(program, y=np.eye(4))
    with pytest.raises(unspoken.MissingKeysError) as caught:
        program.run(few, inputs, progress=False)
    assert str(caught.value).count("key") > 3
    with pytest.raises(unspoken.MatrixError, match=r"shape \(3, 4\); needed \(4, 4\)"):
        secret.encrypt(program, y=np.ones((3, 4)))
    with pytest.raises(unspoken.MatrixError, match="no input y"):
        program.run(few, progress=False)


def test_fewer_keys_take_more_time():
    y = unspoken.matrix("y", (16, 16))
    fast = (y @ y).plan(preset=FAST)
    few = (y @ y).plan(preset=FAST, most_keys=20)
    assert few.key_count <= 21 < fast.key_count
    assert few.seconds > fast.seconds


def test_large_entries_are_exact_to_the_bound_or_refused(secret):
    a = 1e8 * random(3, 3, seed=1)
    x, y = secret.matrix(a), secret.matrix(a.T)
    product = x * y
    program = product.plan(preset=FAST)
    assert program.largest == abs(a).max()
    assert 1 <= program.magnitude / program.largest**2 < 2
    result = product.compute(secret.keys(product, progress=False), progress=False)
    assert result.error == program.error < 1e6
    np.testing.assert_allclose(secret.decrypt(result), a * a.T, rtol=0, atol=program.error)
    # Without arrays the largest entry is 1, unless declared.
    free = unspoken.matrix("a", (3, 3))
    with pytest.raises(unspoken.MatrixError, match="largest="):
        secret.encrypt((free * free).plan(preset=FAST), a=a)
    assert (free + x).plan(preset=FAST).largest == abs(a).max()
    assert (free + secret.matrix(a * 1e-12)).plan(preset=FAST).largest == 1.0


def test_a_flipped_bit_in_a_message_is_refused(secret, tmp_path):
    x = unspoken.matrix("x", (2, 2))
    program = (x * 2).plan(preset=FAST)
    keys, inputs = secret.keys((x.T @ x).plan(preset=FAST), progress=False), secret.encrypt(program, x=np.eye(2))
    result = program.run(secret.keys(program, progress=False), inputs, progress=False)
    for message in [program, program.signature, keys, inputs, result]:
        data = bytearray(message.to_bytes())
        for position in [0, 4, 6, 50, len(data) // 2, len(data) - 1]:
            data[position] ^= 4
            with pytest.raises(unspoken.MismatchError, match="damaged"):
                type(message).from_bytes(bytes(data), accept_insecure=True)
            data[position] ^= 4
    secret.save(tmp_path / "secret")
    data = bytearray((tmp_path / "secret").read_bytes())
    data[20] ^= 1
    (tmp_path / "secret").chmod(0o600)
    (tmp_path / "secret").write_bytes(bytes(data))
    with pytest.raises(unspoken.MismatchError, match="damaged"):
        unspoken.MatrixSecret.load(tmp_path / "secret")


def test_permutations_of_vectors_use_few_keys(secret):
    a = random(900, seed=1)
    order = np.random.default_rng(2).permutation(900)
    program = check(secret, secret.matrix(a)[order], a[order])
    assert "tiles of 1 x 1024" in str(program)
    assert program.key_count < 40


def test_permutations_of_matrices_are_those_of_their_entries(secret):
    a = random(24, 30, seed=1)
    x, order = secret.matrix(a), np.random.default_rng(2).permutation(a.size)
    program = check(secret, x.ravel()[order].reshape(30, 24).T[::-1], a.ravel()[order].reshape(30, 24).T[::-1])
    assert "tiles of 1 x 1024" in str(program)
    assert program.key_switches < 60
    rows, columns = [0, 23, 5, 7], [1, 1, 29, 0]
    check(secret, x[rows, columns], a[rows, columns])
    check(secret, x[[[1], [2]], [rows, columns]], a[[[1], [2]], [rows, columns]])
    check(secret, np.take(x, [[5, 700], [31, 2]]), np.take(a, [[5, 700], [31, 2]]))
    check(secret, x[0][[[3, 1], [2, 29]]], a[0][[[3, 1], [2, 29]]])
    check(secret, np.rot90(x.reshape(5, 144)), np.rot90(a.reshape(5, 144)))


def test_vectors_longer_than_the_slots_are_permuted(secret):
    a = random(4000, seed=1)  # two ciphertexts of 2048 slots
    x, order = secret.matrix(a), np.random.default_rng(2).permutation(a.size)
    deep = "insecure_n11_real_depth17_scale30"
    for expression, expected in [(x[order], a[order]), (x[::-1], a[::-1]), (np.roll(x, 5), np.roll(a, 5))]:
        program = expression.plan(preset=deep)
        found = secret.decrypt(expression.compute(secret.keys(expression, progress=False), progress=False))
        np.testing.assert_allclose(found, expected, rtol=0, atol=program.error)
        assert program.error < 0.02


def test_the_predicted_error_of_few_entries_has_that_of_rare_slots():
    a = random(24, 30, seed=1)
    errors = []
    for _ in range(20):
        own = unspoken.MatrixSecret()
        expression = own.matrix(a)[0][[[3, 1], [2, 29]]]
        program = expression.plan(preset=FAST)
        found = own.decrypt(expression.compute(own.keys(expression, progress=False), progress=False))
        errors.append(found - a[0][[[3, 1], [2, 29]]])
    # Sixteen times the root mean square, up to the luck of 80 errors.
    assert program.error > 0.6 * 16 * np.sqrt(np.mean(np.square(errors)))
