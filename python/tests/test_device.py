"""Devices that a service computes on, on a machine that may have none."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

import unspoken
from unspoken._unspoken import LocalApplication


def test_devices_are_listed(binary: Path) -> None:
    listed = json.loads(subprocess.run([binary, "devices", "--json"], check=True, capture_output=True).stdout)
    assert bool(listed["devices"]) or "driver" in listed["reason"]
    text = subprocess.run([binary, "devices"], check=True, capture_output=True, text=True).stdout
    assert text.startswith("cuda:0" if listed["devices"] else "no device: ")


def test_a_service_says_which_device_is_missing(binary: Path, tmp_path: Path) -> None:
    serve = [
        binary,
        "serve",
        "--listen",
        "127.0.0.1:0",
        "--data-dir",
        tmp_path / "data",
        "--offer",
        f"digits={tmp_path}",
    ]
    for name, reason in [("cuda:99", "cuda:99"), ("gpu", "needed one like cuda:0")]:
        ended = subprocess.run([*serve, "--device", name], capture_output=True, text=True, timeout=60)
        assert ended.returncode != 0
        assert reason in ended.stderr
    config = tmp_path / "service.toml"
    config.write_text('device = "cuda:99"\n')
    ended = subprocess.run([*serve, "--config", config], capture_output=True, text=True, timeout=60)
    assert "open device cuda:99" in ended.stderr
    # A flag overrides the file.
    ended = subprocess.run([*serve, "--config", config, "--device", "cpu"], capture_output=True, text=True, timeout=60)
    assert "open device" not in ended.stderr
    assert str(tmp_path) in ended.stderr


def test_an_application_is_loaded_on_the_processor(network: unspoken.DigitsNetwork, tmp_path: Path) -> None:
    saved = tmp_path / "network"
    network.save(saved)
    with pytest.raises(ValueError, match="open device cuda:99"):
        LocalApplication.load("digits", str(saved), device="cuda:99")
    [application] = LocalApplication.load("digits", str(saved), device="cpu")
    assert application.facts()["name"]
