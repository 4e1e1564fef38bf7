from __future__ import annotations

import numpy as np
import pytest

import unspoken
from unspoken import MatrixClient


def quiet(url, **options):
    return MatrixClient(url, progress=False, **options)


def inputs():
    rng = np.random.default_rng(5)
    return {"a": rng.uniform(-1, 1, (4, 3)), "b": rng.uniform(-1, 1, 3)}


def test_computes_as_numpy_does(matrix_service, state):
    given, seen = inputs(), []
    with MatrixClient(matrix_service.url, state_dir=state, progress=seen.append) as client:
        result = client.compute(**given)
        assert client.application == "matrix/scores"
        assert client.signature.inputs == {"a": (4, 3), "b": (3,)}
        assert client.signature.shape == (4,)
        assert client.largest == 1.0
        expected = 2 * given["a"] @ given["b"] + 1
        np.testing.assert_allclose(result, expected, rtol=0, atol=client.error)
        shared = client.compute_to_share(8, **given)
        assert np.abs(shared - expected).max() < 8 * 2**8 * client.error
        assert not np.array_equal(shared, result)
    assert [each.done for each in seen if each.stage == "computing"] == [0, 1] * 2


def test_a_program_checks_that_a_service_has_it(matrix_service, state):
    given = inputs()
    a, b = unspoken.matrix("a", (4, 3)), unspoken.matrix("b", (3,))
    program = (2 * (a @ b) + 1).plan(preset="n14_real_depth8_scale30")
    with program.client(matrix_service.url, state_dir=state, progress=False) as client:
        expected = 2 * given["a"] @ given["b"] + 1
        np.testing.assert_allclose(client.compute(**given), expected, rtol=0, atol=client.error)
    other = (a @ b.reshape(3, 1)).plan(preset="n14_real_depth8_scale30")
    with pytest.raises(unspoken.MismatchError, match="plan it again"):
        other.client(matrix_service.url, state_dir=state, progress=False)


def test_keys_are_made_once(matrix_service, state):
    quiet(matrix_service.url, state_dir=state).connect().close()
    with quiet(matrix_service.url, state_dir=state) as client:
        assert client.connect().usage.key_bytes == 0


def test_what_does_not_fit_is_not_sent(matrix_service, state):
    given = inputs()
    with quiet(matrix_service.url, state_dir=state) as client:
        for wrong, match in [
            ({"a": given["a"]}, "input 'b' left out"),
            ({**given, "c": np.ones(2)}, "one of a, b"),
            ({**given, "b": np.ones(4)}, r"shape \(4,\); needed \(3,\)"),
            ({**given, "b": np.full(3, np.nan)}, "not finite"),
        ]:
            with pytest.raises(unspoken.MatrixError, match=match):
                client.compute(**wrong)
        with pytest.raises(unspoken.MatrixError, match="beyond 1e0 at index"):
            client.compute_to_share(8, **{**given, "b": np.full(3, 2.0)})
