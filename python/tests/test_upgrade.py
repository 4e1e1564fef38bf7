"""A service goes on with the state directories of earlier ones, and leaves alone what later ones wrote."""

from __future__ import annotations

import json
import shutil
import subprocess
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from conftest import ROOT, Service

STATE = ROOT / "python/tests/data/state-0.1"
FINISHED = "a8ec3c689beb62f59a4c5e2a1488b605"
FIRST_VERSION = "11" * 16
UPLOAD = "22" * 16
LATER = "33" * 16


def private(folder: Path) -> None:
    """The permissions that git does not keep."""
    for path in [folder, *folder.rglob("*")]:
        path.chmod(0o700 if path.is_dir() else 0o600)


@pytest.fixture
def upgraded(binary: Path, tmp_path: Path) -> Iterator[Service]:
    """Today's service with a copy of the state, and a bundle of a service after it."""
    for name in ("data", "survey.state"):
        shutil.copytree(STATE / name, tmp_path / name)
        private(tmp_path / name)
    for name in ("survey.public", "survey.private"):
        shutil.copy(STATE / name, tmp_path / name)
    shutil.copytree(tmp_path / "data/keys" / FINISHED, tmp_path / "data/keys" / LATER)
    meta = tmp_path / "data/keys" / LATER / "meta.json"
    meta.write_text(json.dumps({**json.loads(meta.read_text()), "version": 3, "field": "of a later version"}))
    # The fixture stays as it is, and would expire.
    (tmp_path / "service.toml").write_text('[timeouts]\nkey_lifetime = "36500days"\n')
    flags = ("--metrics-listen", "127.0.0.1:0", "--config", str(tmp_path / "service.toml"))
    service = Service(binary, tmp_path / "data", f"sums={tmp_path / 'survey.public'}", flags=flags)
    yield service.start()
    service.stop()


def status(service: Service, key: str) -> dict[str, object]:
    request = urllib.request.Request(f"{service.url}/v1/keys/{key}", headers={"Accept": "application/json"})
    with urllib.request.urlopen(request) as response:
        return dict(json.load(response))


def answered(service: Service, key: str) -> int:
    """The status of the refusal to say something about a bundle."""
    with pytest.raises(urllib.error.HTTPError) as refused:
        status(service, key)
    return refused.value.code


def sums(service: Service, home: Path, state: Path, *words: str) -> str:
    """The output of `unspoken sums` for the collection, with its progress."""
    command = [service.binary, "sums", *words, "--url", service.url, "--state-dir", state]
    result = subprocess.run(
        list(map(str, command)), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, cwd=home
    )
    assert result.returncode == 0, result.stdout
    return result.stdout


def test_keys_uploads_and_sums_of_earlier_services_are_used(upgraded: Service, tmp_path: Path) -> None:
    assert status(upgraded, FINISHED)["state"] == "ready"
    # It does not say for which parameters it is: no application uses it, and its client sends new keys. It stays until
    # it expires or its place is needed.
    assert answered(upgraded, FIRST_VERSION) == 404
    metrics = json.loads(upgraded.line)["metrics"]
    with urllib.request.urlopen(metrics) as response:
        assert 'unspoken_key_bundles{state="ready"} 2\n' in response.read().decode()
    upload = status(upgraded, UPLOAD)
    assert (upload["state"], upload["offset"]) == ("uploading", 10)
    # A client of then, at the address of now: the directory of its keys is named after the address.
    fingerprint = json.loads((STATE / "client.json").read_text())["fingerprint"]
    sums(upgraded, tmp_path, tmp_path / "another", "send", "--fingerprint", fingerprint, "visits=4")
    (folder,) = (tmp_path / "another").iterdir()
    shutil.copytree(STATE / "client", tmp_path / "client" / folder.name)
    private(tmp_path / "client")
    said = sums(upgraded, tmp_path, tmp_path / "client", "send", "--fingerprint", fingerprint, "visits=10")
    assert "at the service already" in said
    fetched = sums(upgraded, tmp_path, tmp_path / "another", "fetch", "--private", "survey.private", "--json")
    found = json.loads(fetched.splitlines()[-1])
    assert found["contributions"] == 4
    # 3 and 5 were sent to the earlier service.
    assert "22" in json.dumps(found)


def test_what_a_later_service_wrote_stays_for_it(upgraded: Service, tmp_path: Path) -> None:
    assert answered(upgraded, LATER) == 404
    assert (tmp_path / "data/keys" / LATER / "data").stat().st_size == 24
    log = (tmp_path / "service.log").read_text()
    assert "finished bundle is unusable" in log
    assert LATER in log
