"""Arguments of wrong types and texts that are no Unicode are errors of this package; keys have a place of their own."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

import unspoken

HALF = "a half \udc80 of a pair"
URL = "http://127.0.0.1:9"


def clients(state: Path) -> unspoken.PirClient:
    return unspoken.PirClient(URL, "pir/codes", state_dir=state, progress=False, timeout=0.1)


def test_wrong_types_and_values_are_errors_of_this_package(tmp_path, model, table):
    database = unspoken.Database.build(tmp_path / "db", {"a": "1"}, progress=False)
    calls = [
        lambda: unspoken.PirClient(5),
        lambda: unspoken.PirClient(URL, timeout="a minute"),
        lambda: unspoken.PirClient(URL, token=b"bytes"),
        lambda: unspoken.PirClient(URL, "pir/codes", state_dir=tmp_path, timeout=0.1).cost(2**70),
        lambda: unspoken.PirClient(f"http://127.0.0.1:9/{HALF}"),
        lambda: unspoken.PirClient(URL, HALF, state_dir=tmp_path).connect(),
        lambda: clients(tmp_path).get(HALF),
        lambda: clients(tmp_path).get(5),
        lambda: database.get(HALF),
        lambda: unspoken.Database.build(tmp_path / "half", {HALF: "1"}, progress=False),
        lambda: unspoken.Database.build(tmp_path / "half", [HALF], progress=False),
        lambda: model.predict([HALF]),
        lambda: model.predict([5]),
        lambda: unspoken.FastText(progress=False).fit([HALF] * 20, ["a", "b"] * 10),
        lambda: unspoken.ClassifyClient(URL, model=model, application="a/b", state_dir=tmp_path).classify([HALF]),
        lambda: table.reconstruct(HALF),
        lambda: unspoken.load_texts("texts.csv", "csv", text_column=5, label_column="a"),
    ]
    for number, call in enumerate(calls):
        with pytest.raises(unspoken.UnspokenError) as caught:
            call()
        assert not isinstance(caught.value, unspoken.ConnectionFailedError), number
        assert "a half" not in str(caught.value), "private texts are not printed"


def test_errors_of_callbacks_stay_as_they_are(texts, labels):
    def fail(_progress):
        raise TypeError("my own")

    with pytest.raises(TypeError, match="my own") as caught:
        unspoken.FastText(dim=8, columns=16, progress=fail).fit(texts, labels)
    assert not isinstance(caught.value, unspoken.UnspokenError)


def test_files_of_authorities_are_named(tmp_path):
    with pytest.raises(unspoken.ConfigurationError, match=r"ca_file=.*missing.pem"):
        unspoken.PirClient(URL, ca_file=tmp_path / "missing.pem")
    (tmp_path / "empty.pem").write_bytes(b"")
    with pytest.raises(unspoken.ConfigurationError, match="found an empty file; needed certificates in PEM"):
        unspoken.PirClient(URL, ca_file=tmp_path / "empty.pem")


def test_keys_never_land_where_the_program_runs(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("UNSPOKEN_STATE", raising=False)

    def place(data, home):
        for name, value in (("XDG_DATA_HOME", data), ("HOME", home)):
            if value is None:
                monkeypatch.delenv(name, raising=False)
            else:
                monkeypatch.setenv(name, value)
        return unspoken.PirClient(URL)._state_dir

    assert place("/data", "/home/ann") == Path("/data/unspoken")
    for data in (None, "", "data"):
        assert place(data, "/home/ann") == Path("/home/ann/.local/share/unspoken")
        with pytest.raises(unspoken.ConfigurationError, match="state_dir="):
            place(data, "home")
    # Without HOME, the directory of the user is that of the system; a user may have none.
    pwd = pytest.importorskip("pwd")
    own = Path(pwd.getpwuid(os.getuid()).pw_dir)
    assert place(None, None) == place("", "") == own / ".local" / "share" / "unspoken"
    monkeypatch.setattr(pwd, "getpwuid", lambda _user: {}["no such user"])
    with pytest.raises(unspoken.ConfigurationError, match="state_dir="):
        place("", "")
