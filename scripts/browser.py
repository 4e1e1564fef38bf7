"""What the scripts about the page share: models and a database, a service with the page, and Chromium."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from playwright.sync_api import sync_playwright
from running import serving

ROOT = Path(__file__).resolve().parent.parent
HOME = ROOT / ".demo" / "page"

# No window, no sandbox (scripts may run as root), and no requests of the browser's own.
ARGUMENTS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]


def prepare(binary: Path) -> tuple[Path, Path, Path]:
    """Directories of a classifier of SMS messages, a network of digits and a database of diagnoses; made once."""
    subprocess.run([sys.executable, ROOT / "scripts" / "fetch_data.py", "sms", "mnist", "icd10"], check=True)
    data, (words, digits, codes) = ROOT / "data", (HOME / name for name in ("words", "digits", "codes"))
    mnist = data / "mnist"
    images, labels = mnist / "train-images-idx3-ubyte", mnist / "train-labels-idx1-ubyte"
    records = data / "icd10" / "icd10cm.csv"
    commands = {
        words: ["train", "--data", data / "sms" / "spam_collection.tsv", "--out", words],
        digits: ["digits", "train", "--images", images, "--labels", labels, "--out", digits],
        codes: ["pir", "build", "--from", records, "--key", "code", "--value", "long_name", codes],
    }
    HOME.mkdir(parents=True, exist_ok=True)
    for directory, command in commands.items():
        if not directory.exists():
            subprocess.run([binary, *map(str, command)], check=True)
    return words, digits, codes


@contextmanager
def page_service(binary: Path, words: Path, digits: Path, codes: Path) -> Iterator[str]:
    """A service of the three, with the page and new state; its URL."""
    shutil.rmtree(HOME / "data", ignore_errors=True)
    offers = [
        f"digits:digits/mnist={digits},batch=8,publish=all",
        f"classify:classify/spam={words},publish=all",
        f"pir:pir/codes={codes}",
    ]
    options = [word for offer in offers for word in ("--offer", offer)]
    with serving(binary, HOME, "--web", ROOT / "web" / "site", *options) as url:
        yield url


NAMES = ("Tom", "Lily", "Sam", "Mia", "Ben", "Anna")
ANIMALS = ("dog", "cat", "bird", "frog", "bear", "fish")


def prepare_stories(binary: Path) -> Path:
    """The directory of stories260K, prepared for stories that it tells itself; made once."""
    target = HOME / "stories"
    if target.exists():
        return target
    HOME.mkdir(parents=True, exist_ok=True)
    model = ["--model", ROOT / "models" / "stories260K" / "stories260K.bin"]
    told = HOME / "stories.txt"
    with told.open("w") as file:
        for prompt in (f"One day, {name} and a {animal} went to the park." for name in NAMES for animal in ANIMALS):
            command = [binary, "llama", "run", *model, "--max-tokens", "200", "--prompt", prompt]
            subprocess.run(list(map(str, command)), check=True, stdout=file)
    sizes = ["--public", "48", "--private", "48", "--chunk", "16", "--tokens", "2000", "--draft-tokens", "4000"]
    command = [binary, "llama", "prepare", *model, "--text", told, *sizes, "--skip-report", "--out", target]
    subprocess.run(list(map(str, command)), check=True, stdout=subprocess.DEVNULL)
    return target


@contextmanager
def story_service(binary: Path, stories: Path) -> Iterator[str]:
    """A service that continues stories, with the page and new state; its URL."""
    home = HOME / "story-service"
    shutil.rmtree(home, ignore_errors=True)
    home.mkdir(parents=True)
    offer = f"chat:chat/stories={stories},publish=all"
    with serving(binary, home, "--web", ROOT / "web" / "site", "--memory-mib", "14000", "--offer", offer) as url:
        yield url


@contextmanager
def window() -> Iterator[Any]:
    """A window of Chromium that is not private: it may keep what is large on disk."""
    with sync_playwright() as driver:
        shutil.rmtree(HOME / "profile", ignore_errors=True)
        found = find_chromium()
        running = driver.chromium.launch_persistent_context(HOME / "profile", executable_path=found, args=ARGUMENTS)
        try:
            yield running
        finally:
            running.close()


def find_chromium() -> str | None:
    """The path of Chromium, if it is installed."""
    return next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)


@contextmanager
def chromium() -> Iterator[Any]:
    """A running Chromium."""
    found = find_chromium()
    if found is None:
        sys.exit("no Chromium: run `sh scripts/install_browser.sh`")
    with sync_playwright() as driver:
        running = driver.chromium.launch(executable_path=found, args=ARGUMENTS)
        try:
            yield running
        finally:
            running.close()


def draw(page: Any, card: Any) -> None:
    """Draws a seven."""
    card.locator("canvas.draw").scroll_into_view_if_needed()
    box = card.locator("canvas.draw").bounding_box()
    points = [(0.28, 0.24), (0.72, 0.22), (0.6, 0.5), (0.48, 0.85)]
    x, y = (box[axis] for axis in "xy")
    places = [(x + box["width"] * right, y + box["height"] * down) for right, down in points]
    page.mouse.move(*places[0])
    page.mouse.down()
    for place in places[1:]:
        page.mouse.move(*place, steps=8)
    page.mouse.up()


def ask(card: Any) -> str:
    """Asks the question of a card; the text of the answer."""
    card.locator("button.main").click()
    card.locator(".took").wait_for(timeout=300_000)
    return card.locator(".answer").inner_text()
