"""Sums of encrypted contributions at a service."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from conftest import Service

import unspoken


@pytest.fixture
def survey(tmp_path: Path) -> unspoken.SumsCollection:
    unspoken.SumsCollection.create({"visits": 60, "change": (-6, 6)}, most=200, least=3).save(tmp_path / "survey")
    return unspoken.SumsCollection.load(tmp_path / "survey")


@pytest.fixture
def service(binary: Path, survey: unspoken.SumsCollection, tmp_path: Path) -> Iterator[Service]:
    assert survey.preset == "n12_exact17"
    running = Service(binary, tmp_path / "data", f"sums={tmp_path / 'survey.public'}").start()
    yield running
    running.stop()


def test_a_collector_gets_the_sums(service: Service, survey: unspoken.SumsCollection, tmp_path: Path) -> None:
    def client(name: str) -> unspoken.SumsClient:
        return unspoken.SumsClient(
            service.url, fingerprint=survey.fingerprint, state_dir=tmp_path / name, progress=False
        )

    with client("anna") as anna:
        assert anna.cost(1).key_bytes == 24
        assert anna.send({"visits": 7, "change": -1}) == 1
        assert anna.columns == survey.columns == {"visits": (0, 60), "change": (-6, 6)}
        with pytest.raises(unspoken.SumsError, match="'visits' is out of range, needed 0 to 60"):
            anna.send({"visits": 61, "change": 0})
        with pytest.raises(unspoken.SumsError, match="needed visits, change"):
            anna.send({"visits": 1})
        with pytest.raises(unspoken.SumsError, match=r"change of shape \(1,\); needed \(2,\)"):
            anna.send({"visits": [1, 2], "change": 1})
        with pytest.raises(TypeError, match="needed integers"):
            anna.send({"visits": 0.5, "change": 1})
        with pytest.raises(unspoken.ExactError, match=r"an entry of 2\*\*63 or more"):
            anna.send({"visits": np.array([1 << 63], np.uint64), "change": 0})
    visits, change = np.arange(100) % 61, np.arange(100) % 13 - 6
    with client("clinic") as clinic:
        assert clinic.send({"change": change, "visits": visits}) == 100
        assert clinic.usage.messages == 100
    with client("collector") as collector:
        assert collector.count(survey) == 101
        sums = collector.fetch(survey)
        assert sums == collector.fetch(survey)
    assert (sums.contributions, sums.sums) == (101, {"visits": visits.sum() + 7, "change": change.sum() - 1})
    assert sums.means["visits"] == pytest.approx((visits.sum() + 7) / 101)
    with client("bert") as bert, pytest.raises(unspoken.RefusedError, match="found a closed collection") as refused:
        bert.send({"visits": 7, "change": -1})
    assert refused.value.code == "not_allowed"
    assert str(refused.value).endswith("; 0 contributions were acknowledged, and no other was added")


def test_whom_a_contributor_trusts_is_said(
    service: Service, survey: unspoken.SumsCollection, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with unspoken.SumsClient(service.url, state_dir=tmp_path / "state", progress=False) as client:
        with pytest.raises(unspoken.ConfigurationError, match="found no fingerprint=; needed the one"):
            client.send({"visits": 1, "change": 0})
        assert client.count(survey) == 0
    with pytest.raises(unspoken.ConfigurationError, match="needed one of them"):
        unspoken.SumsClient(service.url, fingerprint=survey.fingerprint, trust_first=True)
    first = unspoken.SumsClient(service.url, trust_first=True, state_dir=tmp_path / "other", progress=False)
    with first, caplog.at_level("WARNING", "unspoken"):
        assert first.send({"visits": 1, "change": 0}) == 1
    assert f"collection {survey.fingerprint}, on the word of the service" in caplog.text


def test_too_few_contributions_and_other_collections(
    service: Service, survey: unspoken.SumsCollection, tmp_path: Path
) -> None:
    other = unspoken.SumsCollection.create({"visits": 60}, most=200, least=3)
    state = tmp_path / "state"
    with unspoken.SumsClient(service.url, fingerprint=survey.fingerprint, state_dir=state, progress=False) as client:
        client.send({"visits": 1, "change": 0})
        with pytest.raises(unspoken.RefusedError, match="found 1 contributions, needed 3"):
            client.fetch(survey)
        with pytest.raises(unspoken.MismatchError, match="to which this private file belongs"):
            client.count(other)
    pinned = unspoken.SumsClient(
        service.url, fingerprint=other.fingerprint, state_dir=tmp_path / "other", progress=False
    )
    with pinned, pytest.raises(unspoken.MismatchError, match="do not send anything to this service"):
        pinned.send({"visits": 1})


def test_collections_are_saved_and_checked(survey: unspoken.SumsCollection, tmp_path: Path) -> None:
    assert (tmp_path / "survey.private").stat().st_mode & 0o777 == 0o600
    with pytest.raises(unspoken.StateError, match="give a new name"):
        survey.save(tmp_path / "survey")
    with pytest.raises(unspoken.StateError, match="read the collection"):
        unspoken.SumsCollection.load(tmp_path / "absent")
    unspoken.SumsCollection.create({"visits": 60}, most=200, least=3).save(tmp_path / "other")
    (tmp_path / "survey.public").write_bytes((tmp_path / "other.public").read_bytes())
    with pytest.raises(unspoken.MismatchError, match="to which this private file belongs"):
        unspoken.SumsCollection.load(tmp_path / "survey")
    with pytest.raises(TypeError, match="save"):
        pickle.dumps(survey)
    for options, match in (
        ({"columns": {"a": 0}, "most": 9, "least": 2}, "a range with 0"),
        ({"columns": {"a": 1 << 40}, "most": 9, "least": 2}, "lower its largest value"),
        ({"columns": {}, "most": 9, "least": 2}, "at least one"),
        ({"columns": {"a": 1}, "most": 9, "least": 1}, "least contributions: found 1"),
        ({"columns": {"a": 1}, "most": -1, "least": 2}, "most=-1"),
    ):
        with pytest.raises(unspoken.SumsError, match=match):
            unspoken.SumsCollection.create(**options)  # type: ignore[arg-type]
