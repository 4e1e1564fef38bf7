"""Expressions beside numpy: each is evaluated in the clear, and must be numpy's result."""

from __future__ import annotations

import copy
import traceback
from pathlib import Path

import numpy as np
import pytest

import unspoken

ARRAYS = {
    name: np.random.default_rng(seed).uniform(-1, 1, shape)
    for seed, (name, shape) in enumerate(
        {"a": (3, 4), "b": (4, 5), "c": (3, 4), "s": (4, 4), "u": (3,), "v": (4,), "t": (2, 3, 4), "r": (1, 4)}.items()
    )
}
ENCRYPTED = {name: unspoken.matrix(name, array.shape) for name, array in ARRAYS.items()}
# Plaintext in both evaluations.
PLAIN = {
    "np": np,
    "p": np.arange(12.0).reshape(3, 4),
    "q": np.arange(4.0),
    "mask": np.arange(12).reshape(3, 4) % 3 == 0,
}


def clear(expression: unspoken.Matrix) -> np.ndarray:
    """Evaluate an expression on ARRAYS, with the meaning that the operations of the compiled module have."""
    names = {id(definition): name for name, definition in expression._node.inputs().items()}
    values: dict[int, np.ndarray] = {}
    for node in expression._node.parts():
        operands = [values[id(each)] for each in node.operands]
        if id(node.definition) in names:
            array = ARRAYS[names[id(node.definition)]]
            values[id(node)] = array.reshape((*array.shape[: array.ndim - 2], *node.shape))
            continue
        kind, payload = node.definition.kind, node.definition.payload
        values[id(node)] = {
            "constant": lambda w: w,
            "matmul": lambda _, x, y: x @ y,
            "matrix_vector": lambda _, x, y: x @ np.swapaxes(y, -1, -2),
            "transpose": lambda _, x: np.swapaxes(x, -1, -2),
            "rows": lambda w, x: x[..., w, :],
            "columns": lambda w, x: x[..., w],
            "times_left": lambda w, x: w @ x,
            "times_right": lambda w, x: x @ w,
            "add": lambda _, x, y: x + y,
            "subtract": lambda _, x, y: x - y,
            "multiply": lambda _, x, y: x * y,
            "scale": lambda w, x: w * x,
            "sum": lambda w, x: x.sum(axis=(-2, -1) if w is None else w - 2, keepdims=True),
            "reshape": lambda w, x: x.reshape((*x.shape[:-2], *w)),
        }[kind](payload, *operands)
        assert values[id(node)].shape[-2:] == node.shape
    return values[id(expression._node)].reshape(expression.shape)


def check(found, expected):
    """Check that a result is numpy's; encrypted ones are evaluated."""
    if isinstance(expected, (list, tuple)):
        assert len(found) == len(expected)
        for each, other in zip(found, expected):
            check(each, other)
    elif isinstance(found, unspoken.Matrix):
        assert found.shape == np.shape(expected)
        np.testing.assert_allclose(clear(found), expected, rtol=0, atol=1e-12)
    else:
        assert type(found) is type(expected)
        np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize(
    "expression",
    """
    a.reshape(2, 6) ; a.reshape((6, -1)) ; a.reshape(12) ; a.reshape(-1) ; v.reshape(2, 2) ; v.reshape(1, 4)
    v.reshape(4, 1) ; np.reshape(a, (4, 3)) ; a.T.reshape(3, 4) ; t.reshape(2, 12) ; t.reshape(2, 4, -1)
    a.sum().reshape(1, 1) ; a.ravel() ; a.flatten() ; np.ravel(a) ; r.ravel() ; r.T.ravel() ; a.sum().ravel()
    a.reshape(2, 6).reshape(3, 4) ; r.squeeze() ; r.T.squeeze() ; np.squeeze(r, axis=0)
    a.sum(axis=0, keepdims=True).squeeze() ; v.squeeze() ; t[:, :1].squeeze(1) ; a.swapaxes(0, 1)
    np.swapaxes(a, 0, -1) ; np.swapaxes(a, 1, 1) ; t.swapaxes(1, 2) ; np.swapaxes(t, -1, -2) ; np.transpose(a)
    a.transpose(1, 0) ; a.transpose((0, 1)) ; t.transpose(0, 2, 1) ; np.moveaxis(a, 0, 1) ; v.T ; r.T ; r.T.T
    v[:, None] ; v[None, :] ; v[None] ; v[..., None] ; v[np.newaxis, 1:3] ; a[0, None] ; a[0][:, None]
    a[:, 1, None] ; a.sum()[None] ; a[None, 0] ; a[1:, 2][None] ; v[:, None][[1, 0]] ; v[[1, 0], None]
    t[..., 0][:, None] ; t[..., 0][:, :, None] ; a.sum()[None, None] ; v[:, None] * v ; v[:, None] @ v[None]
    v[:, None] + u[None] ; np.expand_dims(v, 1) ; np.expand_dims(v, 0) ; np.expand_dims(a.sum(), (0, 1))
    np.atleast_2d(v) ; np.atleast_1d(a.sum()) ; np.atleast_2d(a) ; np.concatenate([a, c])
    np.concatenate([a, p, c], axis=1) ; np.concatenate((v, q, u)) ; np.concatenate([a, a, c], axis=-1)
    np.concatenate([a, c], axis=None) ; np.concatenate([t, t], axis=1) ; np.concatenate([t, t @ s], axis=-1)
    np.concatenate([p, a]) ; np.concatenate([a.sum(axis=1), u]) ; np.concatenate([u, a.sum(axis=1)])
    np.concatenate([t[..., 0], t[..., 1]], axis=1) ; np.stack([v, v]) ; np.stack([v, q], axis=1)
    np.stack([q, v], -1) ; np.stack([a.sum(), c.sum()]) ; np.stack([a @ v, u]) ; np.stack([a @ v, u], 1)
    np.stack([t[..., 0], t[..., 1]], axis=1) ; np.stack([t[..., 0], t[..., 1]], axis=2) ; np.stack([u, a @ v], 1)
    np.vstack([a, v, q]) ; np.vstack([v, v]) ; np.hstack([a, c]) ; np.hstack([v, u])
    np.column_stack([u, a, a @ v]) ; np.append(a, c, axis=0) ; np.append(v, 1.0) ; np.block([[a, p], [c, a]])
    np.block([v, v]) ; np.block([[v], [q]]) ; a.dot(b) ; a.dot(v) ; v.dot(v) ; v.dot(q) ; u.dot(p) ; np.dot(a, b)
    np.dot(p, b) ; np.dot(p, v) ; np.dot(a, 2.0) ; np.dot(3, a) ; t.dot(s) ; t.dot(v) ; np.vdot(a, c)
    np.vdot(v, q) ; np.vdot(p, a) ; np.vdot(r, v) ; np.inner(a, c) ; np.inner(v, q) ; np.inner(a, v)
    np.inner(p, v) ; np.inner(p, a) ; np.inner(2, a) ; np.inner(t, a) ; np.outer(u, v) ; np.outer(q, u)
    np.outer(a, v) ; np.outer(a @ v, u) ; np.tensordot(a, c) ; np.tensordot(a, b, 1)
    np.tensordot(a, c, ([0], [0])) ; np.tensordot(u, v, 0) ; np.tensordot(p, b, axes=(1, 0))
    np.linalg.multi_dot([a, s, b]) ; np.linalg.multi_dot([p, s, q]) ; np.linalg.matrix_power(s, 5)
    np.einsum("ij,jk->ik", a, b) ; np.einsum("ij,jk", a, b) ; np.einsum("ij->ji", a) ; np.einsum("ji", a)
    np.einsum("ij->", a) ; np.einsum("ij->j", a) ; np.einsum("ii", s) ; np.einsum("ii->i", s)
    np.einsum("ij,ij->", a, c) ; np.einsum("ij,ij->i", a, p) ; np.einsum("ij,ij->ji", a, c)
    np.einsum("i,j->ij", u, v) ; np.einsum("i,j->ji", u, q) ; np.einsum("i,i", v, v) ; np.einsum("ij,j", a, v)
    np.einsum("j,ij->i", q, a) ; np.einsum("ij,i->j", a, u) ; np.einsum("ij,kj->ki", a, c)
    np.einsum("ij,jk,kl->il", a, s, b) ; np.einsum("ij,jk,k", p, s, q) ; np.einsum("ij,jk,kl->il", p, p.T, a)
    np.einsum("bij,jk->bik", t, b) ; np.einsum("bij,bkj->bik", t, t) ; np.einsum("bij,j->bi", t, v)
    np.einsum("bij->bj", t) ; np.einsum("i,ij,j", u, a, v) ; np.einsum("ij,i->ij", a, u)
    np.einsum("ii,i->i", s, v) ; np.einsum("ij,k->k", a, v) ; np.sum(a) ; np.sum(a, axis=0)
    np.sum(a, 1, keepdims=True) ; np.sum(t, axis=(1, 2)) ; np.add.reduce(a) ; np.add.reduce(a, axis=None)
    a.sum(axis=(0, -1)) ; np.mean(a) ; np.mean(a, axis=1) ; np.mean(t, axis=-1, keepdims=True) ; a.mean(0)
    np.var(a) ; np.var(a, axis=0, ddof=1) ; a.var(1, keepdims=True) ; t.var(axis=2) ; np.cumsum(v)
    np.cumsum(a, axis=0) ; np.cumsum(a, axis=1) ; np.cumsum(a) ; np.cumsum(t, axis=2) ; np.cumsum(a @ v)
    np.cumsum(t, 1) ; np.diff(v) ; np.diff(a, axis=0) ; np.diff(a, n=2) ; np.diff(t, axis=1) ; np.trace(s)
    np.trace(a) ; np.trace(a, 1) ; np.diagonal(a) ; np.diagonal(a, 2) ; np.diagonal(a, -1) ; np.diag(s) ; np.diag(v)
    np.diag(v, 1) ; np.diag(u, -2) ; np.tril(a) ; np.triu(a) ; np.tril(s, -1) ; np.triu(s, 1) ; np.triu(t)
    np.diagonal(t, 0, 1, 2) ; np.diagonal(a, 1, 1, 0) ; np.where(mask, a, c) ; np.where(mask, a, 0)
    np.where(mask, p, a) ; np.where(q > 1, v, 2.0) ; np.where(mask, v, 1) ; np.add(a, c) ; np.add(p, a)
    np.subtract(a, p) ; np.subtract(p, a) ; np.multiply(a, c) ; np.multiply(2, a) ; np.divide(a, 4)
    np.true_divide(a, 2) ; np.negative(a) ; np.square(a) ; np.power(a, 3) ; a**2.0 ; np.matmul(a, b)
    np.matmul(p, b) ; np.matmul(v, b) ; np.positive(a) ; np.conjugate(a) ; 2 * a ; a * 2 ; np.float64(2) * a
    np.int64(2) + a ; np.float32(1) - a ; p + a ; p - a ; p * a ; a - p ; p @ b ; q @ s ; q @ v ; s @ q ; p.T @ a
    a @ p.T ; a / np.float64(2) ; a + True ; a * [1, 2, 3, 4] ; [1, 2, 3, 4] + a ; u[:, None] * a ; p + v
    q[:, None] @ r ; q[:, None] + u ; sum(a) ; sum([a, c]) ; np.flip(a) ; np.flip(a, 0) ; np.fliplr(a)
    np.rot90(a) ; np.rot90(a, 2) ; np.rot90(a, -1) ; np.rot90(t, 1, (2, 1)) ; np.rot90(a, 4) ; a[[0, 2], [3, 1]]
    np.take(v, (3,)) ; np.take(v, (0, 2)) ; np.take(a, (3,)) ; v[np.array([[1, 2]], dtype=np.uint8)] ; a[-1, [[0, -1]]]
    np.flipud(a) ; np.flip(t, 2) ; np.roll(a, 1) ; np.roll(a, -1, axis=1) ; np.roll(a, (1, 2), (0, 1))
    np.roll(v, 2) ; np.take(a, [2, 0], axis=0) ; np.take(v, 1) ; np.take(a, [5, 0]) ; np.split(a, [1])
    np.split(v, 2) ; np.array_split(a, 3, axis=1) ; np.copy(a) ; a.copy() ; np.real(a) ; np.shape(a) ; np.ndim(t)
    np.size(a) ; np.size(a, 1) ; len(a) ; np.isrealobj(a) ; np.iscomplexobj(a) ; list(a) ; list(v)
    np.zeros_like(a) ; np.ones_like(t) ; np.zeros_like(a, dtype=int) ; np.ones_like(a, shape=(2, 2))
    a[np.ix_([1, 0], [2])] ; a[p[:, 0] > 2] ; t @ b ; t @ v ; t[..., 0] @ np.ones((3, 2)) ; t[..., 0] @ a
    np.repeat(a, 2, axis=0) ; np.repeat(a, [2, 0, 1], 0) ; np.repeat(a, 3, -1) ; np.repeat(a, 2) ; np.repeat(v, 3)
    np.repeat(v, [1, 0, 2, 1]) ; np.repeat(t, 2, axis=1) ; np.repeat(t, [1, 2, 0, 1], axis=2) ; np.repeat(a.sum(), 2)
    np.tile(a, 2) ; np.tile(a, (2, 1)) ; np.tile(a, (2, 3)) ; np.tile(v, 2) ; np.tile(v, (2, 1)) ; np.tile(v, (3, 2))
    np.tile(t, 2) ; np.tile(t, (1, 2, 1)) ; np.tile(a.sum(), 3) ; np.tile(a.sum(), (2, 2)) ; np.tile(a, ())
    np.kron(a, b) ; np.kron(a, p) ; np.kron(p, a) ; np.kron(v, u) ; np.kron(q, v) ; np.kron(v, a) ; np.kron(a, v)
    np.kron(2, a) ; np.kron(a.sum(), a) ; np.kron(t, p) ; np.kron(t, s) ; np.kron(p, t) ; np.kron(t, v)
    np.kron(t[..., 0], v) ; np.kron(q, t[..., 0]) ; np.kron(a, np.ones((1, 1))) ; np.pad(a, 1) ; np.pad(a, (1, 2))
    np.pad(a, ((1, 0), (2, 3))) ; np.pad(a, ((1,), (2,))) ; np.pad(v, 2) ; np.pad(v, (0, 3)) ; np.pad(a, 0)
    np.pad(t, ((0, 0), (1, 2), (0, 1))) ; np.pad(a @ v, 1) ; np.pad(a, 1, constant_values=2)
    np.pad(a, 1, constant_values=(2, 3)) ; np.pad(a, 1, constant_values=((1, 2), (3, 4))) ; np.pad(v, 2, "edge")
    np.pad(a, (2, 1), "edge") ; np.pad(a, 2, "reflect") ; np.pad(a, 5, "reflect") ; np.pad(a, 4, "symmetric")
    np.pad(a, 3, "reflect", reflect_type="odd") ; np.pad(v, 3, "symmetric", reflect_type="odd") ; np.pad(a, 5, "wrap")
    np.pad(a, 2, "mean") ; np.pad(a, 2, "mean", stat_length=2) ; np.pad(a, 1, "mean", stat_length=((1, 2), (3, 1)))
    np.pad(a, 2, "linear_ramp") ; np.pad(a, 3, "linear_ramp", end_values=((1, 2), (3, 4))) ; np.pad(a.sum(), 0)
    np.pad(t, ((0, 0), (1, 1), (2, 0)), "edge") ; np.pad(v, 1, mode="constant", constant_values=7) ; np.prod(v)
    np.prod(a) ; np.prod(a, axis=0) ; np.prod(a, axis=1) ; np.prod(a, axis=-1, keepdims=True) ; np.prod(t, axis=2)
    np.prod(t, axis=(1, 2)) ; np.prod(a, axis=(0, 1), keepdims=True) ; np.prod(b, 1) ; np.multiply.reduce(b)
    np.multiply.reduce(b, axis=None) ; a.prod() ; a.prod(axis=0) ; u.prod() ; a.prod(0, keepdims=True) ; np.prod(a, ())
    t[..., 0] @ u ; p.T @ t ; u @ t ; t + t[..., :1] ; t * v ; t[..., 0] + u ; t[..., 0] * 2
    """.replace("\n", ";").split(";"),
)
def test_results_are_numpys(expression):
    expression = expression.strip()
    if expression:
        expected = eval(expression, {**PLAIN, **ARRAYS})
        check(eval(expression, {**PLAIN, **ENCRYPTED}), expected)


@pytest.mark.skipif(not hasattr(np, "matvec"), reason="numpy.matvec is new in numpy 2.2")
def test_products_of_vectors_of_batches():
    t, x = ENCRYPTED["t"], ENCRYPTED["t"].sum(axis=1)
    y = ARRAYS["t"].sum(axis=1)
    check(np.matvec(t, x), np.matvec(ARRAYS["t"], y))
    check(np.vecmat(x, t.mT), np.vecmat(y, np.swapaxes(ARRAYS["t"], 1, 2)))
    check(np.vecdot(x, x), np.vecdot(y, y))
    check(np.linalg.vecdot(x, ARRAYS["v"]), np.vecdot(y, ARRAYS["v"]))
    check(np.matvec(PLAIN["p"], x), np.matvec(PLAIN["p"], y))


def public_functions():
    """Return the functions of numpy and some of its modules by name.

    Without types, what changes settings, reads bytes or searches the documentation, and `bmat`, which returns None
    for anything but numpy's own arrays.
    """
    without = (
        "set",
        "show",
        "test",
        "info",
        "save",
        "printoptions",
        "lookfor",
        "frombuffer",
        "fromstring",
        "fromregex",
        "fromfile",
    )
    modules = {"": np, "linalg.": np.linalg, "fft.": np.fft, "emath.": np.emath}
    return {
        prefix + name: getattr(module, name)
        for prefix, module in modules.items()
        for name in dir(module)
        if not name.startswith(("_", *without)) and name != "bmat"
        if callable(getattr(module, name)) and not isinstance(getattr(module, name), type)
    }


def argument_lists(x, v, p):
    """Return arguments that functions of arrays may accept; `x` and `v` are encrypted or not, and `p` is plaintext."""
    return [
        *(
            (x,),
            (v,),
            (x, x),
            (x, p),
            (p, x),
            (v, v),
            (p, v),
            (x, 0),
            (v, 0),
            (x, 1),
            (2, x),
            (x, 2),
            ([x, x],),
            ([v, v],),
        ),
        *(
            ((x, p),),
            ([[x], [p]],),
            (x, 0, 1),
            (x, (2, 8)),
            (x, x, x),
            (x, p, p),
            (p, x, p),
            (p > 5, x, p),
            ("ij->j", x),
        ),
        *((x, [1, 0], 0), (v, 1, -1), (x, 0, None, None, True), (x, x, "full"), (x, p, 1), (x, [[0, 1], [1, 0]])),
    ]


def check_reason(name, error):
    """Check that an error is from this package, which says why, and not from a conversion or an attribute."""
    assert Path(traceback.extract_tb(error.__traceback__)[-1].filename).parent == Path(unspoken.__file__).parent, name
    assert len(str(error)) > 20


@pytest.mark.filterwarnings("ignore")
def test_every_function_is_numpys_or_refuses():
    plain = np.arange(16.0).reshape(4, 4)
    given, right, refused = argument_lists(ARRAYS["s"], ARRAYS["v"], plain), set(), set()
    for name, function in public_functions().items():
        for arguments, encrypted in zip(given, argument_lists(ENCRYPTED["s"], ENCRYPTED["v"], plain)):
            try:
                expected = function(*copy.deepcopy(arguments))
            except Exception:
                continue
            if not isinstance(expected, (np.ndarray, np.generic, int, float, tuple, list)):
                continue  # nothing computed
            try:
                found = function(*copy.copy(encrypted))
            except (TypeError, AttributeError, IndexError, unspoken.MatrixError) as error:
                check_reason(name, error)
                refused.add(name)
            else:
                check(found, expected)
                right.add(name)
    assert len(right) > 50, right
    assert {"exp", "max", "sort", "linalg.inv", "fft.fft", "allclose", "cumprod", "array"} <= refused
    assert len(refused) > 200, refused


@pytest.mark.parametrize(
    ("expression", "match"),
    [
        ("np.exp(a)", "polynomial"),
        ("np.linalg.norm(a)", "polynomial"),
        ("np.max(a)", "compared"),
        ("abs(a)", "compared"),
        ("a == a", "compared"),
        ("np.ones((3, 4)) < a", "compared"),
        ("np.where(a, 1, 0)", "plaintext mask"),
        ("np.linalg.inv(s)", "approximate inverse"),
        ("np.pad(a, 1, 'maximum')", "compared"),
        ("np.pad(a, 1, lambda *_: None)", "function as mode="),
        ("np.pad(a, 1.5)", "integers"),
        ("np.repeat(a, 1.5)", "integers"),
        ("np.tile(a, [2, 0.5])", "integers"),
        ("np.tile(p, a)", "first"),
        ("np.prod(a, dtype=int)", "dtype="),
        ("np.prod(a, initial=2)", "initial="),
        ("np.cumprod(a)", "decrypt"),
        ("2 / a", "approximate inverse"),
        ("p / a", "approximate inverse"),
        ("a // 2", "round"),
        ("a % 2", "round"),
        ("2 % a", "round"),
        ("np.remainder(a, 2)", "round"),
        ("2 ** a", "exponent"),
        ("a ** a", "exponent"),
        ("a ** [1, 2, 3, 4]", "exponent"),
        ("float(a.sum())", "decrypt"),
        ("int(a.sum())", "decrypt"),
        ("[1, 2][a.sum()]", "decrypt"),
        ("np.array([a, c])", "numpy.stack"),
        ("np.asarray(a, dtype=object)", "decrypt"),
        ("np.array([a, None], dtype=object)", "decrypt"),
        ("np.r_[v, v]", "numpy.concatenate"),
        ("p.copy().__iadd__(a)", "out="),
        ("p.copy().__setitem__(0, v)", "decrypt"),
        ("np.sum(a, dtype=int)", "dtype="),
        ("np.sum(a, where=mask)", "where="),
        ("np.sum(p, out=a)", "first"),
        ("np.sum(a, initial=1)", "initial="),
        ("np.add(a, c, out=p)", "out="),
        ("np.multiply.outer(u, v)", "multiply.outer"),
        ("np.add.at(p, 0, v)", "add.at"),
        ("np.reshape(a, (4, 3), order='F')", "order="),
        ("a.reshape(2.0, 6)", "integers"),
        ("a.sum(axis=0.5)", "integers"),
        ("np.einsum(a, [0, 1])", "as text"),
        ("np.einsum('...j->...', a)", "letters"),
        ("unspoken.matrix('x', (2.5, 2))", r"\(2.5, 2\); needed integers"),
        ("unspoken.matrix('x', 2.0)", "integers"),
        ("unspoken.matrix('x', '22')", "integers"),
        ("unspoken.matrix(3, (2, 2))", "needed text"),
        ("unspoken.matrix('', (2, 2))", "needed text"),
        ("iter(a.sum())", "0-d"),
        ("iter(t)", "batch"),
        ("len(a.sum())", "unsized"),
        ("a.__setitem__((0, 0), 1)", "assigned"),
        ("a + None", "real numbers"),
        ("a + 'x'", "real numbers"),
    ],
)
def test_what_is_refused_says_why(expression, match):
    with pytest.raises(TypeError, match=match) as caught:
        eval(expression, {**PLAIN, **ENCRYPTED, "unspoken": unspoken})
    assert "unexpected keyword" not in str(caught.value)


@pytest.mark.parametrize(
    ("expression", "match"),
    [
        ("np.pad(a, -1)", "0 or more"),
        ("np.pad(a, 1, 'sideways')", "not supported"),
        ("np.pad(a, ((1, 2, 3),))", "two for each of 2 axes"),
        ("np.pad(a, 1, constant_values=(1, 2, 3))", "constant_values of shape"),
        ("np.pad(t, 1)", "axis 0 of shape .* is the batch"),
        ("np.repeat(a, -1, 0)", "0 or more"),
        ("np.repeat(a, [1, 2], 0)", "needed one number, or 3"),
        ("np.repeat(t, 2, 0)", "is the batch"),
        ("np.tile(a, -2)", "0 or more"),
        ("np.tile(t, (2, 1, 1))", "is the batch"),
        ("np.tile(a, (2, 1, 1))", "a third axis is the batch"),
        ("np.kron(t, t)", "one batch at most"),
        ("np.kron(t[..., 0], p)", "one batch at most"),
        ("np.prod(t)", "is the batch"),
        ("np.prod(a, axis=(0, 0))", "duplicate"),
        ("np.prod(a, axis=2)", "out of bounds"),
    ],
)
def test_shapes_that_do_not_fit_are_errors_of_matrices(expression, match):
    with pytest.raises(unspoken.MatrixError, match=match):
        eval(expression, {**PLAIN, **ENCRYPTED})


def test_paddings_by_axis():
    if np.lib.NumpyVersion(np.__version__) >= "2.3.0":
        check(np.pad(ENCRYPTED["a"], {-1: (1, 2)}), np.pad(ARRAYS["a"], {-1: (1, 2)}))
    # What numpy leaves undefined is zero.
    check(np.pad(ENCRYPTED["a"], 1, "empty"), np.pad(ARRAYS["a"], 1))


def test_missing_methods_say_what_to_do():
    a = ENCRYPTED["a"]
    for name, match in [
        ("max", "compared"),
        ("std", "polynomial"),
        ("astype", "concatenate"),
        ("nothing", "no attribute"),
    ]:
        assert not hasattr(a, name)
        with pytest.raises(AttributeError, match=match):
            getattr(a, name)
    assert copy.copy(a) is copy.deepcopy(a) is a


def test_shapes_are_integers():
    assert unspoken.matrix("x", np.array([2, 3])).shape == (2, 3)
    assert unspoken.matrix("x", np.int64(4)).shape == (4,)
    assert unspoken.matrix("x", [2, True]).shape == (2, 1)


def test_other_types_may_answer():
    """An operand with a protocol of its own is asked, instead of being converted."""

    class Other:
        def __array_ufunc__(self, *_, **__):
            return "ufunc"

        def __array_function__(self, *_, **__):
            return "function"

    assert np.add(ENCRYPTED["a"], Other()) == "ufunc"
    assert np.concatenate([ENCRYPTED["a"], Other()]) == "function"
