from __future__ import annotations

import subprocess
import time

import pytest

import unspoken
from unspoken import PirClient


def quiet(url, application="pir/codes", **options):
    return PirClient(url, application, progress=False, **options)


def title(i: int) -> bytes:
    return b"t" * (i % 50) + str(i).encode()


def test_records_are_fetched_by_key(retrieval_service, tmp_path):
    # Other tests share a state, whose keys may be at the service already.
    with quiet(retrieval_service.url, state_dir=tmp_path) as client:
        assert client.version is None
        assert client.get("C042") == title(42)
        assert client.get(b"C299") == title(299)
        assert client.get("C300") is None
        assert client.version == 1
        assert client.application == "pir/codes"
        used = client.usage
    assert used.messages == 3
    # Queries for absent and existing keys have the same size.
    assert used.query_bytes % 3 == 0
    assert used.answer_bytes % 3 == 0
    assert min(used.key_bytes, used.answer_bytes) > 1000
    assert 3 * 2 * 32 < used.query_bytes < 3 * 1000
    assert min(used.key_seconds, used.client_seconds, used.server_seconds) > 0


def test_many_records_in_several_requests(retrieval_service, state):
    seen = []
    options = {"state_dir": state, "progress": seen.append}
    with PirClient(retrieval_service.url, "pir/codes", **options) as client:
        assert client.get_many([]) == []
        assert client.usage.query_bytes == 0
        wanted = [299, 0, 7, *range(100, 110)]
        keys = (f"C{i}" if i != 7 else "absent" for i in wanted)
        expected = [None if i in (0, 7) else title(i) for i in wanted]
        assert client.get_many(keys) == expected
        # The keys were already uploaded.
        assert client.usage.key_bytes == 0
    counts = [each.done for each in seen if each.stage == "retrieving" and each.total == 13]
    assert (counts[0], counts[-1]) == (0, 13)
    assert len(counts) > 2


def test_records_are_fetched_by_index(retrieval_service, state):
    with quiet(retrieval_service.url, "pir/titles", state_dir=state) as client:
        assert client.get_index(0) == title(0)
        assert client.get_index(299) == title(299)
        sent = client.usage.query_bytes
        for index in (300, 2**64 - 1, 2**64, -1):
            with pytest.raises(IndexError, match="position 0 is out of range") as caught:
                client.get_index(index)
            assert isinstance(caught.value, unspoken.NoSuchIndexError)
            # The service does not learn that there is no such index.
            assert client.usage.query_bytes > sent
            sent = client.usage.query_bytes
        with pytest.raises(unspoken.ConfigurationError, match="by index"):
            client.get("C042")
        assert client.usage.query_bytes == sent


def test_sealed_records_are_opened(sealed_service, state):
    with (
        pytest.raises(unspoken.ConfigurationError, match=r"records of the database are sealed.*oprf="),
        quiet(sealed_service.url, "pir/codes", state_dir=state) as client,
    ):
        client.get("C042")
    with quiet(sealed_service.url, "pir/codes", oprf="oprf/codes", state_dir=state) as client:
        assert client.get_many(["C042", "C100", "C099"]) == [b"title 42", None, b"title 99"]
        used = client.usage
        assert used.messages == 3
        assert used.query_bytes > 3 * client.cost(1).query_bytes
        with pytest.raises(unspoken.RefusedError, match="keys"):
            client.get_many(["C001", "C002", "C003", "C004"])
        assert client.get("C001") == b"title 1"
    with (
        pytest.raises(unspoken.MismatchError, match="public key"),
        quiet(sealed_service.url, "pir/codes", oprf="oprf/codes", public_key="01" * 32, state_dir=state) as client,
    ):
        client.get("C001")


def test_public_keys_are_checked(retrieval_service, state):
    for options in ({"public_key": "01" * 32}, {"oprf": "oprf/codes", "public_key": "01"}):
        with (
            pytest.raises(unspoken.ConfigurationError, match="public"),
            quiet(retrieval_service.url, state_dir=state, **options) as client,
        ):
            client.get("C001")


def test_changes_are_seen(retrieval_service, state):
    command = [retrieval_service.binary, "pir", "put", retrieval_service.path, "C001", "changed"]
    with quiet(retrieval_service.url, state_dir=state) as client:
        assert client.get("C001") == title(1)
        before = client.version
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        start = time.monotonic()
        while client.get("C001") == title(1):
            assert time.monotonic() - start < 60
        assert client.get("C001") == b"changed"
        assert client.version == before + 1


def test_a_service_with_two_databases_is_asked_for_one(retrieval_service, state):
    with pytest.raises(unspoken.ConfigurationError, match=r"pir/codes.*pir/titles"):
        quiet(retrieval_service.url, None, state_dir=state).connect()


def test_arguments_are_checked(tmp_path):
    with pytest.raises(unspoken.ConfigurationError, match="packed, bits, compact, session"):
        quiet("http://127.0.0.1:9", query="fast")
    with pytest.raises(TypeError, match="burst"):
        quiet("http://127.0.0.1:9", burst=2)
    client = quiet("http://127.0.0.1:9", state_dir=tmp_path)
    assert repr(client).startswith("<PirClient of http://127.0.0.1:9, application pir/codes")
    with pytest.raises(TypeError, match="needed several keys"):
        client.get_many("C042")
    with pytest.raises(TypeError, match="type int"):
        client.get(42)
