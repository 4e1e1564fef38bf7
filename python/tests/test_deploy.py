"""What operators use: images, units, manifests, alerts and the dashboard fit the service of this repository."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml
from conftest import ROOT, Service, absent

import unspoken

DEPLOY = ROOT / "deploy"
ALERTS = DEPLOY / "prometheus/alerts.yaml"
DASHBOARD = DEPLOY / "grafana/dashboards/unspoken.json"
# Part of Python since 3.11.
tomllib = pytest.importorskip("tomllib")
METRIC = re.compile(r"\b(?:unspoken|process)_[a-z_]+\b")
SELECTOR = re.compile(r"\b((?:unspoken|process)_[a-z_]+)\{([^{}]*(?:\{[^{}]*\}[^{}]*)*)\}")


def documents(path: Path) -> list[Any]:
    return [document for document in yaml.safe_load_all(path.read_text()) if document is not None]


def rules() -> list[dict[str, Any]]:
    (group,) = documents(ALERTS)[0]["groups"]
    return list(group["rules"])


def strings(value: object) -> Iterator[str]:
    """All texts in a document."""
    if isinstance(value, str):
        yield value
    for inner in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from strings(inner)


def run(*words: str | Path) -> str:
    result = subprocess.run(list(map(str, words)), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    assert result.returncode == 0, result.stdout
    return result.stdout


@pytest.fixture(scope="module")
def metrics(binary: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, set[str]]:
    """The metrics of a service that has answered, with the names of their labels."""
    home = tmp_path_factory.mktemp("metrics")
    unspoken.Database.build(home / "codes", {"A00": "Cholera", "A01": "Typhoid"})
    service = Service(binary, home / "data", f"pir={home / 'codes'}", flags=("--metrics-listen", "127.0.0.1:0")).start()
    try:
        with unspoken.PirClient(service.url, "pir/codes", state_dir=home / "state") as client:
            assert client.get("A00") == b"Cholera"
        with urllib.request.urlopen(json.loads(service.line)["metrics"]) as response:
            lines = response.read().decode().splitlines()
    finally:
        service.stop()
    found: dict[str, set[str]] = {}
    for line in lines:
        if not line.startswith("#"):
            name, labels = re.fullmatch(r"([a-z_]+)(?:\{(.*)\})? \S+", line).groups()  # type: ignore[union-attr]
            found.setdefault(name, set()).update(re.findall(r'(\w+)="', labels or ""))
    return found


def elsewhere(name: str) -> bool:
    """Whether the source registers a metric that this service does not have: no GPU, no dense tables."""
    base = re.sub(r"_(?:sum|count|bucket)$", "", name)
    sources = [ROOT / "crates/service/server/src/metrics.rs", ROOT / "crates/tools/offers/src/device_metrics.rs"]
    return any(f'"{base}"' in path.read_text() for path in sources)


def test_alerts_and_the_dashboard_name_metrics_that_there_are(metrics: dict[str, set[str]]) -> None:
    assert "unspoken_answer_seconds_bucket" in metrics
    expressions = [rule["expr"] for rule in rules()]
    dashboard = json.loads(DASHBOARD.read_text())
    expressions += [text for text in strings(dashboard) if "{" in text and METRIC.search(text)]
    assert len(expressions) > 40
    used = {name for expression in expressions for name in METRIC.findall(expression)}
    device = {name for name in used if name.startswith("unspoken_device_")}
    missing = used - metrics.keys() - device - {"unspoken_answered_together_sum", "unspoken_answered_together_count"}
    assert not missing
    assert not [name for name in used - metrics.keys() if not elsewhere(name)]
    # Labels of selectors; `job` and `instance` come from Prometheus.
    for expression in expressions:
        for name, selector in re.findall(
            r"\b((?:unspoken|process)_[a-z_]+)\{([^{}]*(?:\{[^{}]*\}[^{}]*)*)\}", expression
        ):
            labels = set(re.findall(r"(\w+)\s*(?:=~|!=|=)", selector)) - {"job", "instance"}
            assert labels <= metrics.get(name, labels), (name, labels)


def test_every_alert_has_a_section_of_the_runbook() -> None:
    headings = re.findall(r"^## (Unspoken\w+)$", (ROOT / "docs/runbook.md").read_text(), re.MULTILINE)
    names = [rule["alert"] for rule in rules()]
    assert headings == names
    for rule in rules():
        assert rule["annotations"]["runbook"] == f"docs/runbook.md#{rule['alert'].lower()}"
        assert rule["labels"]["severity"] in ("critical", "warning")
    mentioned = set(re.findall(r"\bUnspoken[A-Z]\w+", DASHBOARD.read_text()))
    assert mentioned <= set(names)


def test_every_alert_is_tested_and_promtool_agrees() -> None:
    (tests,) = documents(DEPLOY / "prometheus/alerts.test.yaml")
    fires = {case["alertname"] for test in tests["tests"] for case in test["alert_rule_test"] if "exp_alerts" in case}
    silent = {case["alertname"] for case in tests["tests"][0]["alert_rule_test"]}
    assert fires == silent == {rule["alert"] for rule in rules()}
    if not (promtool := shutil.which("promtool")):
        pytest.skip("no promtool, so the rules themselves were not run")
    run(promtool, "check", "config", DEPLOY / "prometheus/prometheus.yaml")
    run(promtool, "test", "rules", DEPLOY / "prometheus/alerts.test.yaml")


def test_the_dashboard_has_no_two_panels_of_one_id_or_place() -> None:
    panels = json.loads(DASHBOARD.read_text())["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    taken: set[tuple[int, int]] = set()
    for panel in panels:
        assert panel["title"]
        x, y, w, h = (panel["gridPos"][side] for side in "xywh")
        assert x + w <= 24
        places = {(column, line) for column in range(x, x + w) for line in range(y, y + h)}
        assert not places & taken, panel["title"]
        taken |= places


def manifests() -> dict[str, dict[str, Any]]:
    listed = documents(DEPLOY / "kubernetes/kustomization.yaml")[0]["resources"]
    assert {path.name for path in (DEPLOY / "kubernetes").iterdir()} == {*listed, "kustomization.yaml"}
    return {
        f"{document['kind']} {document['metadata']['name']}": document
        for name in listed
        for document in documents(DEPLOY / "kubernetes" / name)
    }


def test_manifests_are_valid_and_fit_each_other() -> None:
    found = manifests()
    for document in found.values():
        kubernetes_validate.validate(document, "1.30", strict=True)
    pod = found["Deployment unspoken"]["spec"]["template"]
    (container,) = pod["spec"]["containers"]
    security = {**pod["spec"]["securityContext"], **container["securityContext"]}
    assert security["runAsNonRoot"]
    assert security["readOnlyRootFilesystem"]
    assert security["allowPrivilegeEscalation"] is False
    assert security["capabilities"] == {"drop": ["ALL"]}
    labels = found["Deployment unspoken"]["spec"]["selector"]["matchLabels"]
    assert labels == pod["metadata"]["labels"]
    assert found["PodDisruptionBudget unspoken"]["spec"]["selector"]["matchLabels"] == labels
    ports = {port["name"] for port in container["ports"]}
    for service in ("Service unspoken", "Service unspoken-metrics"):
        assert found[service]["spec"]["selector"] == labels
        assert {port["targetPort"] for port in found[service]["spec"]["ports"]} <= ports
    volumes = {volume["name"]: volume for volume in pod["spec"]["volumes"]}
    assert {mount["name"] for mount in container["volumeMounts"]} == set(volumes)
    for volume in volumes.values():
        if claim := volume.get("persistentVolumeClaim"):
            assert f"PersistentVolumeClaim {claim['claimName']}" in found
    # Ports and files of the configuration are those of the pod.
    config = tomllib.loads(found["ConfigMap unspoken"]["data"]["service.toml"])
    numbers = {port["name"]: str(port["containerPort"]) for port in container["ports"]}
    assert config["listen"].split(":")[1] == numbers["https"]
    assert config["metrics_listen"].split(":")[1] == numbers["metrics"]
    mounts = [mount["mountPath"] for mount in container["volumeMounts"]]
    files = [
        config["data_dir"],
        config["tokens"],
        *config["tls"].values(),
        *(offer["path"] for offer in config["offer"]),
    ]
    for path in files:
        assert any(path.startswith(f"{mount}/") for mount in mounts), path
    drain = sum(int(config["timeouts"][name].rstrip("s")) for name in ("drain_notice", "drain"))
    assert drain + 10 <= pod["spec"]["terminationGracePeriodSeconds"]
    assert config["limits"]["memory_bytes"] * 5 // 4 <= int(container["resources"]["limits"]["memory"][:-2]) << 30


def configurations() -> dict[str, str]:
    return {
        "deploy/service.toml": (DEPLOY / "service.toml").read_text(),
        "ConfigMap": manifests()["ConfigMap unspoken"]["data"]["service.toml"],
    }


@pytest.mark.parametrize("name", ["deploy/service.toml", "ConfigMap"])
def test_the_service_reads_the_configurations(binary: Path, tmp_path: Path, name: str) -> None:
    file = tmp_path / "service.toml"
    file.write_text(configurations()[name])
    command = [binary, "doctor", "--json", "--no-load", "--config", file, "--state-dir", tmp_path / "state"]
    result = subprocess.run(list(map(str, command)), stdout=subprocess.PIPE, text=True)
    found = {(check["check"], check["state"]) for check in json.loads(result.stdout)["checks"]}
    # Their files are missing here, which doctor says.
    assert {("configuration", "ok"), ("offers", "problem"), ("tokens", "problem")} <= found, result.stdout
    assert result.returncode == 1


def test_the_unit_is_valid_and_closed(tmp_path: Path) -> None:
    unit = (DEPLOY / "systemd/unspoken.service").read_text()
    (command,) = re.findall(r"^ExecStart=(\S+)", unit, re.MULTILINE)
    assert command == "/usr/bin/unspoken"
    if not (analyze := shutil.which("systemd-analyze")):
        pytest.skip("no systemd-analyze, so the unit was not verified")
    # systemd-analyze wants commands that exist.
    local = tmp_path / "unspoken.service"
    local.write_text(unit.replace(command, shutil.which("true") or "/bin/true"))
    run(analyze, "verify", local)
    said = run(analyze, "security", "--offline=true", "--threshold=15", "--no-pager", local)
    assert "Overall exposure level" in said


def test_the_image_is_small_closed_and_stops() -> None:
    text = (DEPLOY / "Containerfile").read_text()
    last = text[text.rindex("\nFROM ") :]
    assert last.startswith("\nFROM scratch\n")
    lines = re.sub(r"\\\n\s*", "", last).splitlines()
    instructions = {line.split()[0]: line.split(maxsplit=1)[1] for line in lines if line and not line.startswith("#")}
    assert instructions["USER"] == "65532:65532"
    assert instructions["STOPSIGNAL"] == "SIGTERM"
    for name in ("ENTRYPOINT", "CMD"):
        assert isinstance(json.loads(instructions[name]), list)
    check = instructions["HEALTHCHECK"].split("CMD ")[1]
    assert json.loads(check) == ["/usr/bin/unspoken", "health"]
    (compose,) = documents(DEPLOY / "compose.yaml")
    service = compose["services"]["unspoken"]
    assert service["read_only"]
    assert service["cap_drop"] == ["ALL"]
    assert service["user"] == instructions["USER"]
    for name in (DEPLOY / "prometheus/prometheus.yaml", DEPLOY / "prometheus/alerts.yaml"):
        assert documents(name)


def test_scripts_and_the_release_are_sound() -> None:
    for script in (ROOT / "scripts").glob("*.sh"):
        run("sh" if script.read_text().startswith("#!/bin/sh") else "bash", "-n", script)
    run("make", "--dry-run", "--directory", ROOT, "wheel", "dist", "test-install", "image")
    (workflow,) = documents(ROOT / ".github/workflows/release.yml")
    steps = [step["run"] for job in workflow["jobs"].values() for step in job["steps"] if "run" in step]
    assert any("make wheel dist" in step for step in steps)
    for step in steps:
        for script in re.findall(r"scripts/\S+", step):
            assert (ROOT / script).exists(), script


def test_the_installed_module_is_for_every_python() -> None:
    """What `make test-install` shows with the wheel for others, as far as the one that is installed here shows it."""
    module = Path(sys.modules["unspoken._unspoken"].__file__ or "")
    assert module.name == "_unspoken.abi3.so"
    sections = module.read_bytes()
    if sys.platform == "linux":
        # The table of symbols and its name go when a module is stripped.
        assert b"\0.symtab\0" not in sections


def test_the_command_runs_alone(binary: Path, tmp_path: Path) -> None:
    """Without a home, a working directory to write to, and programs on the path."""
    if sys.platform != "linux":
        absent("the libraries of a program are listed on Linux only")
    copy = tmp_path / "unspoken"
    shutil.copy(binary, copy)
    printed = subprocess.run([copy, "--version"], env={}, cwd="/", stdout=subprocess.PIPE, text=True, check=True).stdout
    assert printed.startswith("unspoken")
    ldd = subprocess.run(["ldd", copy], stdout=subprocess.PIPE, text=True).stdout
    libraries = set(re.findall(r"^\s*(\S+)", ldd, re.MULTILINE))
    allowed = re.compile(r"linux-vdso|lib(?:c|m|gcc_s|pthread|dl|rt)\.so|/lib64/ld-linux")
    assert not [name for name in libraries if not allowed.match(name)]
