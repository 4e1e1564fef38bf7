"""The OpenAPI description of the service is one."""

from __future__ import annotations

import json
import subprocess
import urllib.request
from pathlib import Path

from conftest import Service
from openapi_spec_validator import validate


def test_the_description_is_openapi(binary: Path, service: Service) -> None:
    printed = subprocess.run([binary, "openapi"], check=True, stdout=subprocess.PIPE, text=True).stdout
    document = json.loads(printed)
    assert document["openapi"].startswith("3.1")
    validate(document)
    with urllib.request.urlopen(f"{service.url}/openapi.json") as response:
        assert json.load(response) == document
