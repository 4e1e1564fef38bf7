"""Tests a service against its OpenAPI description with schemathesis: `make check-api`.

`check_api.py UNSPOKEN [SECONDS]` makes a database of a few records, serves it on this machine, without and with tokens,
and lets schemathesis send valid and invalid requests for about so many seconds (120) in all. Exit status 1 if a
response differs from the description.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import urllib.request
from pathlib import Path
from typing import Any

from openapi_spec_validator import validate
from running import serving

# What is bounded: requests for each method of each path, and the time.
EXAMPLES = 60
SEED = 1

# Statuses that a valid request may get besides success. Keys and queries are bytes that the description does not
# describe, and schemathesis has no cryptography, so that most of its requests are refused by what is behind the schema.
REFUSED = [400, 401, 403, 404, 409, 413, 415, 422]


def configuration() -> str:
    """The settings of schemathesis that have no flag."""
    return f"[checks.positive_data_acceptance]\nexpected-statuses = {['2xx', *map(str, REFUSED)]}\n"


def make_database(binary: Path, home: Path) -> str:
    """A database of a few records; the offer of it."""
    records = home / "codes.csv"
    records.write_text("key,value\n" + "".join(f"k{i},record {i}\n" for i in range(20)))
    columns = ["--key", "key", "--value", "value"]
    subprocess.run([binary, "pir", "build", "--from", records, *columns, home / "codes"], check=True)
    return f"pir={home / 'codes'}"


def attack(url: str, home: Path, seconds: int, token: str | None) -> bool:
    """Lets schemathesis send requests. Whether all responses are as described."""
    settings = home / "schemathesis.toml"
    settings.write_text(configuration())
    command = [Path(sys.executable).with_name("schemathesis"), "--config-file", settings, "run", f"{url}/openapi.json"]
    command += ["--checks", "all", "--max-examples", EXAMPLES, "--max-time", seconds, "--seed", SEED]
    # The hooks make many requests equal, which the health check takes for a mistake.
    command += ["--request-timeout", 30, "--continue-on-failure", "--suppress-health-check", "filter_too_much"]
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    command += [word for name, value in headers.items() for word in ("--header", f"{name}: {value}")]
    # What the hooks need: an application, and what it takes.
    names = ask(f"{url}/v1/apps", headers)["names"]
    limits = ask(f"{url}/v1/apps/{names[0]}", headers)["limits"]
    known = {"NAME": names[0], "KEY_FORMAT": limits["key_format"], "LENGTH": min(limits["max_key_bytes"], 8)}
    environment = {f"CHECK_API_{name}": str(value) for name, value in known.items()}
    environment["SCHEMATHESIS_HOOKS"] = "check_api_hooks"
    environment["PYTHONPATH"] = str(Path(__file__).parent)
    words = [str(word) for word in command]
    return subprocess.run(words, cwd=home, env={**os.environ, **environment}).returncode == 0


def ask(url: str, headers: dict[str, str]) -> Any:
    """A control message of the service."""
    with urllib.request.urlopen(urllib.request.Request(url, headers=headers)) as response:
        return json.load(response)


def main() -> None:
    """Checks the document, then a service without and with tokens."""
    binary = Path(sys.argv[1]).resolve()
    seconds = int(sys.argv[2]) if len(sys.argv) > 2 else 120
    printed = subprocess.run([binary, "openapi"], check=True, stdout=subprocess.PIPE, text=True).stdout
    document = json.loads(printed)
    validate(document)
    held = True
    with tempfile.TemporaryDirectory() as name:
        home = Path(name)
        offer = make_database(binary, home)
        made = subprocess.run([binary, "keys", "token", "check"], check=True, stdout=subprocess.PIPE, text=True)
        token, line = made.stdout.splitlines()
        (home / "tokens").write_text(line + "\n")
        for secret, options in ((None, []), (token, ["--tokens", str(home / "tokens")])):
            with serving(binary, home, "--offer", offer, *options) as url:
                with urllib.request.urlopen(f"{url}/openapi.json") as response:
                    if json.load(response) != document:
                        sys.exit("the service has another description than `unspoken openapi`")
                held &= attack(url, home, seconds // 2, secret)
        log = (home / "service.log").read_text()
        if "panicked" in log:
            sys.exit(log)
    if not held:
        sys.exit("a response is not as described: see above")


if __name__ == "__main__":
    main()
