from __future__ import annotations

import numpy as np
import pytest

import unspoken
from unspoken import CompressedTable, compress

TOKENS = [f"w{i}" for i in range(30)]
ROWS = np.random.default_rng(1).normal(size=(30, 5))

BROKEN = ROWS.copy()
BROKEN[3, 2] = np.nan


def small(rows=ROWS, tokens=TOKENS, **options):
    return compress(rows, tokens, **{"columns": 8, "progress": False, **options})


def test_reconstructs_one_token_or_several(table):
    rows = table.reconstruct(["w3", "w5", "w3"])
    assert (rows.shape, rows.dtype) == ((3, 8), np.float64)
    np.testing.assert_array_equal(rows[0], rows[2])
    np.testing.assert_array_equal(table.reconstruct("w5"), rows[1])
    assert table.reconstruct("w5").shape == (8,)
    assert table.reconstruct([]).shape == (0, 8)
    np.testing.assert_array_equal(table.reconstruct(token for token in ["w3"]), rows[:1])


def test_the_error_is_that_of_numpy(table, matrix):
    difference = matrix - table.reconstruct(table.tokens)
    expected = np.sum(difference**2) / np.sum(matrix**2)
    assert table.error() == pytest.approx(expected, rel=1e-5)
    assert table.error(matrix) == pytest.approx(expected, rel=1e-5)
    assert 0 < table.error() < 0.3
    # The error to another table is larger.
    assert table.error(matrix[::-1]) > 0.5


def test_more_columns_lose_less(table, matrix):
    larger = compress(matrix, table.tokens, columns=32, progress=False)
    assert larger.error() < table.error() / 2


def test_the_seed_decides():
    probe = small().reconstruct(TOKENS)
    np.testing.assert_array_equal(small().reconstruct(TOKENS), probe)
    assert not np.array_equal(small(seed=1).reconstruct(TOKENS), probe)


def test_the_encoder_network_is_a_second_method():
    seen = []
    options = {"method": "gumbel", "subtables": 2, "epochs": 30, "batch": 10, "rate": 0.02}
    table = small(progress=seen.append, **options)
    assert [each.done for each in seen] == list(range(1, 31))
    assert table.error() < 0.6
    np.testing.assert_array_equal(small(**options).reconstruct(TOKENS), table.reconstruct(TOKENS))
    assert table.error() < small(**{**options, "temperature": 10.0, "rate": 1e-6}).error()
    with pytest.raises(ValueError, match='found method="product", needed "additive" or "gumbel"'):
        small(method="product")


def test_arrays_of_any_kind_and_order_are_one_table():
    probe = small().reconstruct(TOKENS)
    wide = np.zeros((30, 10))
    wide[:, ::2] = ROWS
    for same in (ROWS.astype(np.float32), np.asfortranarray(ROWS), wide[:, ::2], ROWS.tolist()):
        np.testing.assert_array_equal(small(same).reconstruct(TOKENS), probe)
    assert small(np.arange(60).reshape(30, 2)).shape == (30, 2)


def test_files_hold_the_table(table, matrix, tmp_path):
    table.save(tmp_path)
    again = CompressedTable.load(tmp_path)
    assert (again.tokens, again.shape, repr(again)) == (table.tokens, (100, 8), repr(table))
    np.testing.assert_array_equal(again.reconstruct(table.tokens), table.reconstruct(table.tokens))
    assert again.error(matrix) == table.error(matrix)
    with pytest.raises(ValueError, match="pass matrix="):
        again.error()
    content = bytearray((tmp_path / "client.safetensors").read_bytes())
    content[-1] ^= 1
    (tmp_path / "client.safetensors").write_bytes(content)
    with pytest.raises(unspoken.ModelError, match="damaged"):
        CompressedTable.load(tmp_path)


def test_an_unknown_token_is_named(table):
    np.testing.assert_array_equal(table.reconstruct("zebra"), table.reconstruct("<unk>"))
    with pytest.raises(KeyError, match="zebra") as caught:
        small().reconstruct(["w1", "zebra"])
    assert caught.value.token == "zebra"
    assert isinstance(caught.value, unspoken.UnspokenError)


@pytest.mark.parametrize(
    ("rows", "tokens", "options", "message"),
    [
        (ROWS, TOKENS[1:], {}, "30 rows and 29 tokens"),
        (ROWS, ["w1", *TOKENS[1:]], {}, '"w1" in rows 0 and 1'),
        (BROKEN, TOKENS, {}, r'NaN in row 3 \(token "w3"\), column 2'),
        (ROWS * 1e300, TOKENS, {}, "inf in row 0"),
        (ROWS[:0], [], {}, "0 tokens"),
        (ROWS[:, :0], TOKENS, {}, "rows of 0"),
        (ROWS, TOKENS, {"columns": 7}, "columns = 7"),
        (ROWS, TOKENS, {"rounds": 0}, "rounds = 0"),
        (ROWS, TOKENS, {"seed": -1}, "seed = -1"),
        (ROWS, TOKENS, {"method": "gumbel", "epochs": 0}, "epochs = 0"),
        (ROWS, TOKENS, {"method": "gumbel", "rate": 2.0}, "rate = 2"),
    ],
)
def test_what_cannot_be_compressed_is_refused(rows, tokens, options, message):
    with pytest.raises(unspoken.TrainingError, match=message):
        small(rows, tokens, **options)


def test_arguments_are_checked(table):
    with pytest.raises(ValueError, match=r"shape \(5,\)"):
        small(ROWS[0])
    for rows in (ROWS * 1j, [["a", "b"]]):
        with pytest.raises(TypeError, match="needed real numbers"):
            small(rows)
    with pytest.raises(TypeError, match="put it in a list"):
        small(tokens="words")
    with pytest.raises(TypeError):
        small(columns="8")
    with pytest.raises(ValueError, match="100 tokens"):
        table.error(ROWS)
    with pytest.raises(ValueError, match="width 8"):
        table.error(np.zeros((100, 4)))


def test_progress_is_told_each_step():
    seen = []
    small(progress=seen.append, rounds=3)
    assert [each.done for each in seen] == list(range(1, 24))
    assert {(each.stage, each.total) for each in seen} == {("compressing", 23)}
    assert "relative error" in seen[-1].note

    def stop(progress):
        raise RuntimeError(f"enough of {progress.stage}")

    with pytest.raises(RuntimeError, match="enough of compressing"):
        small(progress=stop)
