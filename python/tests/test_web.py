"""The page of `unspoken serve --web`, in Chromium: draws, types, looks up, and reads what each party saw."""

from __future__ import annotations

import base64
import json
import os
import re
import socket
import struct
import subprocess
import threading
import urllib.request
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import ROOT, Service, absent

import unspoken

tools = pytest.importorskip("browser", reason="the tests of the page need `pip install playwright`")

SITE = Path(os.environ.get("UNSPOKEN_SITE", ROOT / "web" / "site"))
RECORDS = {"E11.9": "Type 2 diabetes mellitus", "I10": "Essential (primary) hypertension"}

# Milliseconds for everything that computes: the machine of continuous integration is slow.
PATIENCE = 120_000


def chromium() -> str:
    found = tools.find_chromium()
    if found is None:
        pytest.skip("NO CHROMIUM, SO THE PAGE IS NOT TESTED: run `sh scripts/install_browser.sh`")
    return found


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    found = chromium()
    with tools.sync_playwright() as driver:
        running = driver.chromium.launch(executable_path=found, args=tools.ARGUMENTS)
        yield running
        running.close()


@pytest.fixture(scope="module")
def page_service(binary: Path, model: unspoken.FastText, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """A classifier, a recogniser of digits and a database, and the page."""
    if not (SITE / "index.html").exists():
        pytest.skip("NO PAGE, SO IT IS NOT TESTED: run `make web`")
    home = tmp_path_factory.mktemp("web")
    model.save(home / "words")
    draw = np.random.default_rng(1)
    images = draw.integers(0, 256, size=(40, 28, 28), dtype=np.uint8)
    unspoken.DigitsNetwork(epochs=1, progress=False).fit(images, np.arange(40) % 10).save(home / "digits")
    (home / "codes.csv").write_text("code,name\n" + "".join(f'"{k}","{v}"\n' for k, v in RECORDS.items()))
    build = ["pir", "build", "--from", home / "codes.csv", "--key", "code", "--value", "name", home / "codes"]
    rows = ["pir", "build", "--from", home / "codes.csv", "--value", "name", home / "rows"]
    for command in (build, rows):
        subprocess.run([binary, *map(str, command)], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    offers = (
        f"classify:classify/spam={home / 'words'},preset=n14_depth8_scale30,short_queries=off,publish=all",
        f"digits:digits/strokes={home / 'digits'},batch=16,publish=all",
        f"pir:pir/codes={home / 'codes'}",
        f"pir:pir/rows={home / 'rows'}",
    )
    service = Service(binary, home / "data", *offers, flags=("--web", str(SITE)))
    yield service.start()
    service.stop()


@pytest.fixture(scope="module")
def story_service(binary: Path, prepared_stories: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A service that continues stories and answers messages with insecure parameters, and the page; its URL."""
    program = binary.parent / "examples" / "story"
    if not program.exists():
        absent("NO EXAMPLE story, SO STORIES ARE NOT TESTED: run `cargo test --release --no-run`")
    if not (SITE / "index.html").exists():
        pytest.skip("NO PAGE, SO IT IS NOT TESTED: run `make web`")
    data = tmp_path_factory.mktemp("story") / "data"
    process = subprocess.Popen([program, prepared_stories, SITE, data], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    yield json.loads(process.stdout.readline())["listening"]
    process.terminate()
    process.wait(timeout=60)
    process.stdout.close()


class Wire:
    """A forwarder in front of the service, which keeps every byte that a page sends."""

    def __init__(self, service: str) -> None:
        self.service, self.sent, self.lock = service, bytearray(), threading.Lock()
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self.listener.getsockname()[1]}"
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        host, port = self.service.removeprefix("http://").split(":")
        while True:
            try:
                near, _ = self.listener.accept()
            except OSError:
                return
            far = socket.create_connection((host, int(port)))
            threading.Thread(target=self._forward, args=(near, far, True), daemon=True).start()
            threading.Thread(target=self._forward, args=(far, near, False), daemon=True).start()

    def _forward(self, source: socket.socket, target: socket.socket, is_sent: bool) -> None:
        try:
            while data := source.recv(1 << 16):
                if is_sent:
                    with self.lock:
                        self.sent += data
                target.sendall(data)
            target.shutdown(socket.SHUT_WR)
        except OSError:
            target.close()

    def close(self) -> None:
        self.listener.close()


@pytest.fixture
def wire(page_service: Service) -> Iterator[Wire]:
    made = Wire(page_service.url)
    yield made
    made.close()


@pytest.fixture
def context(browser: Any) -> Iterator[Any]:
    made = browser.new_context()
    yield made
    made.close()


def opened(context: Any, url: str) -> Any:
    page = context.new_page()
    page.set_default_timeout(PATIENCE)
    page.goto(url)
    connected(page)
    return page


def connected(page: Any) -> None:
    page.locator("#status", has_text="Connected").wait_for()


def unlock(page: Any, passphrase: str) -> None:
    page.locator("#settings summary").click()
    page.locator("input[name=passphrase]").fill(passphrase)
    page.get_by_role("button", name="Apply").click()
    connected(page)


def card(page: Any, kind: str) -> Any:
    return page.locator(f"article[data-kind={kind}]").first


def named(page: Any, name: str) -> Any:
    return page.locator("article", has=page.get_by_text(name, exact=True))


def ask(place: Any) -> str:
    place.locator("button.main").click()
    place.locator(".took").wait_for()
    return place.locator(".answer").inner_text()


def unfold(place: Any) -> Any:
    """The numbers of a card, and its secret."""
    folded = place.locator("details.numbers")
    if folded.get_attribute("open") is None:
        folded.locator("summary").click()
    return folded


def requests(page: Any) -> list[str]:
    """The rows of the record of all requests, which is folded."""
    return page.locator("#requests tr").all_text_contents()


def stored(page: Any) -> str:
    """All that IndexedDB, local and session storage and the cookies contain."""
    return page.evaluate(
        """async () => {
            const parts = [JSON.stringify(localStorage), JSON.stringify(sessionStorage), document.cookie];
            for (const { name } of await indexedDB.databases()) {
                const database = await new Promise((done) => {
                    const request = indexedDB.open(name);
                    request.onsuccess = () => done(request.result);
                });
                for (const store of database.objectStoreNames) {
                    const rows = await new Promise((done) => {
                        const request = database.transaction(store).objectStore(store).getAll();
                        request.onsuccess = () => done(request.result);
                    });
                    const hex = (value) => value instanceof Uint8Array
                        ? Array.from(value, (byte) => byte.toString(16).padStart(2, "0")).join("")
                        : String(value);
                    rows.forEach((row) => parts.push(...Object.values(row).map(hex)));
                }
                database.close();
            }
            return parts.join(" ");
        }"""
    )


def entries(page: Any) -> int:
    """The number of entries of all stores of IndexedDB."""
    return page.evaluate(
        """async () => {
            let count = 0;
            for (const { name } of await indexedDB.databases()) {
                const database = await new Promise((done) => {
                    const request = indexedDB.open(name);
                    request.onsuccess = () => done(request.result);
                });
                for (const store of database.objectStoreNames) {
                    count += await new Promise((done) => {
                        const request = database.transaction(store).objectStore(store).count();
                        request.onsuccess = () => done(request.result);
                    });
                }
                database.close();
            }
            return count;
        }"""
    )


def secret_of(place: Any) -> str:
    unfold(place).get_by_role("button", name="Show it").click()
    shown = place.locator("code.secret")
    shown.wait_for()
    return shown.inner_text()


def test_draws_types_and_looks_up(context: Any, wire: Wire) -> None:
    urls: list[str] = []
    context.on("request", lambda request: urls.append(request.url))
    page = opened(context, wire.url)

    digits = card(page, "digits")
    digits.locator("canvas.draw").scroll_into_view_if_needed()
    box = digits.locator("canvas.draw").bounding_box()
    x, y, size = box["x"], box["y"], box["width"]
    page.mouse.move(x + 0.5 * size, y + 0.2 * size)
    page.mouse.down()
    page.mouse.move(x + 0.5 * size, y + 0.8 * size, steps=8)
    page.mouse.up()
    answer = ask(digits)
    assert "This is a" in answer
    assert "The same as in the clear" in answer
    # The keyboard draws, too, and the keys are sent once.
    digits.locator("canvas.draw").press("7")
    assert "Ask privately (" not in digits.locator("button.main").inner_text()
    assert "The same as in the clear" in ask(digits)

    message = card(page, "classify")
    message.locator("textarea").fill("urgent cash prize waiting")
    answer = ask(message)
    assert "Label: spam" in answer
    assert "The same as in the clear" in answer

    codes = card(page, "retrieve")
    codes.locator("input[type=text]").fill("I10")
    assert RECORDS["I10"] in ask(codes)
    codes.locator("input[type=text]").fill("no such code")
    codes.locator("button.main").click()
    codes.get_by_text("no such record").wait_for()

    # The record has every request of the page, with its length and what was seen.
    asked = [row for row in requests(page) if row.startswith("query")]
    assert len(asked) == 5
    assert all("POST /v1/apps/" in row for row in asked)

    # What was sent is not the questions, and no secret is in it or in what is stored.
    everything = bytes(wire.sent)
    assert len(everything) > megabytes(page.locator("#total-sent").text_content()) * 1e6 > 20e6
    for text in (b"urgent cash prize", b"no such code"):
        assert text not in everything
    places = [digits, message, codes]
    secrets = [secret_of(place) for place in places]
    assert all(len(secret) >= 64 for secret in secrets)
    assert len(set(secrets)) == len(secrets)
    kept = stored(page)
    for secret in map(bytes.fromhex, secrets):
        for form in forms(secret):
            assert form not in everything
            assert form.decode("latin1") not in kept
    # Nothing was asked of anyone else.
    assert all(url.startswith((wire.url, "blob:", "data:")) for url in urls), urls


def accepting_insecure(context: Any) -> None:
    """Lets the page open applications whose parameters are for tests, which it refuses."""

    def handle(route: Any) -> None:
        text = route.fetch().text()
        changed = text.replace("passphrase: setting(", "acceptInsecure: true, passphrase: setting(")
        assert changed != text
        route.fulfill(content_type="text/javascript", body=changed)

    context.route("**/page/main.js", handle)


def test_continues_a_story(context: Any, story_service: str) -> None:
    wire = Wire(story_service)
    accepting_insecure(context)
    page = opened(context, wire.url)
    # Its model has no template of conversations.
    story = named(page, "chat/stories")
    public, private = story.locator("textarea").all()
    public.fill("Tom and Mia went to the park.")
    story.locator("input[type=number]").fill("6")

    # Text that does not fit is refused before anything is sent.
    private.fill("a dog " * 40)
    story.locator("button.main").click()
    story.locator("[role=alert]", has_text="shorten the text").wait_for()
    assert b"POST /v1/keys" not in bytes(wire.sent)

    private.fill("They saw a dog")
    answer = ask(story)
    assert "The same as in the clear" in answer
    assert re.search(r"\b6, \d of them guessed", unfold(story).inner_text())
    # The session begins and ends, and there are passes between.
    assert queries(page) >= 3
    saw = page.locator("#service-saw").inner_text()
    assert "Tom and Mia went to the park." in saw
    assert "They saw a dog" not in saw
    everything = bytes(wire.sent)
    assert b"saw a dog" not in everything
    for form in forms(bytes.fromhex(secret_of(story))):
        assert form not in everything
    wire.close()


def test_talks(context: Any, story_service: str) -> None:
    wire = Wire(story_service)
    accepting_insecure(context)
    page = opened(context, wire.url)
    story, talk = named(page, "chat/stories"), named(page, "chat/talks")
    typed, answers = talk.get_by_label("Your message"), talk.locator(".bubble.assistant")
    prints = talk.locator(".bubble.assistant .help")
    talk.locator("summary", has_text="System message").click()
    system = talk.get_by_label("System message, if you want one")
    talk.get_by_label("Tokens of an answer").fill("2")

    def told(text: str) -> str:
        """What the model says after a text, which the private answer and the model in the clear agree on."""
        # All of it is private, so that the dots which hide its length stand at the same place.
        for place, part in zip(story.locator("textarea").all(), ("", text)):
            place.fill(part)
        story.locator("input[type=number]").fill("2")
        assert "The same as in the clear" in ask(story)
        return story.locator(".story strong").text_content()

    def say(text: str, turns: int) -> str:
        typed.fill(text)
        typed.press("Enter")
        prints.nth(turns - 1).wait_for()
        return answers.nth(turns - 1).locator("p").first.text_content()

    assert talk.get_by_role("button", name="Edit last message").is_disabled()
    first = say("Tom and Mia saw a dog", 1)
    assert first == told("Tom and Mia saw a dog")
    assert "Not run again" not in prints.inner_text()
    # In later turns dots stand before each message: tests in Rust compare these with the model in the clear.
    second = say("Tom was", 2)
    assert second
    taken = prints.nth(1).inner_text()
    assert re.search(r"Tokens: 2 in \d pass.*, \d of them guessed. Not run again: [1-9]\d* earlier", taken), taken
    assert "The service saw the number and the times of the passes" in taken

    # Another message in its place; Shift and Enter send nothing.
    talk.get_by_role("button", name="Edit last message").click()
    assert (typed.input_value(), answers.count()) == ("Tom was", 1)
    typed.press("Shift+Enter")
    assert typed.input_value() == "Tom was\n"
    assert say("Mia ran", 2)
    assert "Not run again" in prints.nth(1).inner_text()

    # What is stopped before there is text comes back, and the conversation goes on.
    talk.get_by_role("button", name="Edit last message").click()
    typed.fill("Tom ran")
    typed.press("Enter")
    talk.get_by_role("button", name="Stop").click()
    talk.locator("[role=alert]", has_text="cancelled").wait_for()
    assert (typed.input_value(), answers.count()) == ("Tom ran", 1)
    assert say("Tom was", 2) == second
    assert "Not run again" in prints.nth(1).inner_text()

    # A text of a person is text, and a system message is public if the person says so.
    talk.get_by_role("button", name="New conversation").click()
    assert talk.locator(".bubble").count() == 0
    system.fill("Mia is big.")
    talk.get_by_label("The service may read").check()
    say("<b>a", 1)
    assert talk.locator(".bubble.user").inner_text() == "<b>a"
    assert "The service saw the system message, the number" in prints.inner_text()
    everything = bytes(wire.sent)
    assert b"saw a dog" not in everything
    for form in forms(bytes.fromhex(secret_of(talk))):
        assert form not in everything
    wire.close()


def test_a_page_refuses_insecure_parameters(context: Any, story_service: str) -> None:
    page = opened(context, story_service)
    page.get_by_text("insecure").first.wait_for()
    # There is no card to ask with.
    assert page.locator("article[data-kind]").count() == 0
    page.get_by_role("button", name="Try again").first.wait_for()


def megabytes(text: str) -> float:
    """A number of megabytes, as the page shows it, less the digits that it does not show."""
    number, unit = text.split()
    assert unit == "MB"
    return float(number) - 0.1


def forms(secret: bytes) -> list[bytes]:
    """A secret and parts of it, in the forms in which it could leak."""
    parts = [secret, *(secret[at : at + 16] for at in range(0, len(secret) - 15, 16))]
    encoded = [base64.b64encode(part).rstrip(b"=")[:-1] for part in parts]
    return [*parts, *(part.hex().encode() for part in parts), *encoded]


def test_a_sealed_secret_serves_the_next_visit(context: Any, page_service: Service) -> None:
    page = opened(context, page_service.url)

    unlock(page, "correct horse battery staple")
    codes = card(page, "retrieve")
    codes.locator("input[type=text]").fill("E11.9")
    assert RECORDS["E11.9"] in ask(codes)
    secret = secret_of(codes)
    assert entries(page) == 1
    assert secret not in stored(page)
    assert "correct horse" not in stored(page)

    # Another visit: no keys are made or sent.
    page.reload()
    connected(page)
    urls: list[str] = []
    context.on("request", lambda request: urls.append(request.url))
    unlock(page, "correct horse battery staple")
    codes = card(page, "retrieve")
    codes.get_by_text("the stored one").wait_for()
    codes.locator("input[type=text]").fill("I10")
    assert RECORDS["I10"] in ask(codes)
    assert "none made" in unfold(codes).inner_text()
    assert not any("/v1/keys" in url and "complete" in url for url in urls)
    assert secret_of(codes) == secret

    # A wrong passphrase is refused, and nothing is lost.
    page.reload()
    connected(page)
    unlock(page, "another one")
    page.get_by_text("needed the one with which the secret was sealed").first.wait_for()


def test_forgetting_leaves_nothing(context: Any, page_service: Service) -> None:
    page = opened(context, page_service.url)
    unlock(page, "a passphrase")
    codes = card(page, "retrieve")
    codes.locator("input[type=text]").fill("E11.9")
    assert RECORDS["E11.9"] in ask(codes)
    first = secret_of(codes)
    deleted: list[str] = []
    context.on("request", lambda request: deleted.append(request.url) if request.method == "DELETE" else None)
    codes.get_by_role("button", name="Forget the keys").click()
    codes.get_by_text("not sent yet").wait_for()
    assert entries(page) == 0
    assert len(deleted) == 1
    # The next question has a new secret.
    assert RECORDS["E11.9"] in ask(codes)
    assert secret_of(codes) != first


def test_forgetting_while_keys_are_sent_leaves_nothing(context: Any, page_service: Service) -> None:
    page = opened(context, page_service.url)
    unlock(page, "a passphrase")
    # The upload is held back until the keys are forgotten.
    held: list[Any] = []
    context.route(
        "**/v1/keys/*", lambda route: held.append(route) if route.request.method == "PATCH" else route.continue_()
    )
    codes = card(page, "retrieve")
    codes.locator("button.main").click()
    codes.get_by_text("sending keys").wait_for()
    unfold(codes).get_by_role("button", name="Forget the keys").click()
    codes.get_by_text("not sent yet").wait_for()
    context.unroute("**/v1/keys/*")
    page.wait_for_timeout(500)
    assert entries(page) == 0


def test_a_description_that_must_not_follow_is_refused(context: Any, page_service: Service) -> None:
    page = opened(context, page_service.url)
    unlock(page, "a passphrase")
    codes = card(page, "retrieve")
    codes.locator("input[type=text]").fill("I10")
    assert RECORDS["I10"] in ask(codes)
    # The same name, with a database by index.
    lying(context, {"description": by_index(page_service)})
    page.reload()
    connected(page)
    unlock(page, "a passphrase")
    page.get_by_text("do not trust this service").first.wait_for()
    assert entries(page) == 1


def by_index(service: Service) -> str:
    with urllib.request.urlopen(f"{service.url}/v1/apps/pir%2Frows") as response:
        return json.load(response)["description"]


def test_a_page_closed_in_the_middle_stores_nothing(context: Any, page_service: Service) -> None:
    page = opened(context, page_service.url)
    unlock(page, "a passphrase")
    digits = card(page, "digits")
    digits.locator("canvas.draw").press("3")
    digits.locator("button.main").click()
    digits.get_by_text("making keys").wait_for()
    page.reload()
    connected(page)
    assert entries(page) == 0
    # And it works as before.
    digits = card(page, "digits")
    digits.locator("canvas.draw").press("3")
    assert "This is a" in ask(digits)


def test_cancelling_ends_the_making_of_keys(context: Any, page_service: Service) -> None:
    page = opened(context, page_service.url)
    digits = card(page, "digits")
    digits.locator("canvas.draw").press("5")
    digits.locator("button.main").click()
    digits.get_by_text("making keys").wait_for()
    digits.get_by_role("button", name="Cancel").click()
    digits.get_by_text("cancelled").first.wait_for()


def lying(context: Any, change: dict[str, Any]) -> None:
    """Lets the service describe a database as `change` says."""

    def handle(route: Any) -> None:
        response = route.fetch()
        body = response.json()
        body.update(change)
        route.fulfill(response=response, body=json.dumps(body))

    context.route("**/v1/apps/pir/codes", handle)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"description": base64.b64encode(b"\x00" * 99).decode()}, "description"),
        ({"description": 5}, "is this an Unspoken service?"),
        ({"limits": {"key_format": 1, "max_key_bytes": 5}}, "do not trust this service"),
    ],
)
def test_a_service_that_lies_is_refused(
    context: Any, page_service: Service, change: dict[str, Any], message: str
) -> None:
    lying(context, change)
    page = opened(context, page_service.url)
    if "limits" in change:
        codes = card(page, "retrieve")
        codes.locator("button.main").click()
    page.get_by_text(message).first.wait_for()
    # The other applications work.
    assert card(page, "classify").count() == 1


def test_an_answer_that_is_too_long_is_refused(context: Any, page_service: Service) -> None:
    long = b"\x00" * (1 << 20)
    context.route(re.compile(r"/v1/apps/[^?]+\?key="), lambda route: route.fulfill(status=200, body=long))
    page = opened(context, page_service.url)
    codes = card(page, "retrieve")
    codes.locator("button.main").click()
    codes.get_by_text("needed at most").wait_for()


def test_a_browser_without_simd_is_told(context: Any, page_service: Service) -> None:
    context.add_init_script("WebAssembly.validate = () => false")
    page = context.new_page()
    page.goto(page_service.url)
    page.get_by_text("this browser lacks WebAssembly SIMD").wait_for()


def test_a_page_without_memory_says_so_and_goes_on(browser: Any, page_service: Service) -> None:
    # 300 pages of 64 KiB: enough for a database, too few for a classifier.
    small = browser.browser_type.launch(
        executable_path=chromium(), args=[*tools.ARGUMENTS, "--js-flags=--wasm-max-mem-pages=300"]
    )
    page = opened(small.new_context(), page_service.url)
    card(page, "classify").locator("button.main").click()
    page.get_by_text("no memory for the computation").first.wait_for()
    # The worker was started again.
    codes = card(page, "retrieve")
    codes.locator("input[type=text]").fill("I10")
    assert RECORDS["I10"] in ask(codes)
    small.close()


def test_two_pages_do_not_disturb_each_other(context: Any, page_service: Service) -> None:
    pages = [opened(context, page_service.url) for _ in range(2)]
    for page, code in zip(pages, RECORDS):
        codes = card(page, "retrieve")
        codes.locator("input[type=text]").fill(code)
        codes.locator("button.main").click()
    for page, name in zip(pages, RECORDS.values()):
        card(page, "retrieve").get_by_text(name).wait_for()


def live(page: Any) -> dict[str, int]:
    """The bytes in the drawing of the three parties."""
    return {
        lane: int(page.locator(f"#live-{lane}").get_attribute("value")) for lane in ("keys", "questions", "answers")
    }


def counted(page: Any) -> dict[str, int]:
    """The same bytes, added up from the record of all requests."""
    rows = page.locator("#requests tr").evaluate_all(
        """rows => rows.map((row) => [
            row.querySelector("strong").textContent, ...[...row.querySelectorAll("data")].map(({ value }) => +value),
        ])"""
    )
    queries = [row for row in rows if row[0] == "query"]
    return {
        "keys": sum(sent for purpose, sent, _ in rows if purpose == "keys"),
        "questions": sum(sent for _, sent, _ in queries),
        "answers": sum(received for _, _, received in queries),
        "all": sum(sent for _, sent, _ in rows),
    }


def test_tells_what_each_of_the_three_sees(context: Any, wire: Wire) -> None:
    page = opened(context, wire.url)
    for name in ("You, in this page", "The network", "The service"):
        assert page.get_by_role("region", name=name, exact=True).is_visible()
    levels = page.locator("h1, h2, h3, h4").evaluate_all("all => all.map(({ tagName }) => +tagName[1])")
    assert levels[0] == 1
    assert all(1 < level <= before + 1 for before, level in zip(levels, levels[1:]))
    # Before the first question nothing was sent, and nothing has happened.
    state, happened = page.locator("#live-state"), page.locator("#happened")
    assert state.inner_text().startswith("Nothing has been sent yet")
    assert live(page) == {"keys": 0, "questions": 0, "answers": 0}
    assert counted(page)["all"] == 0
    assert not happened.is_visible()
    assert not page.locator("#live-sample").is_visible()

    codes = card(page, "retrieve")
    for code, name in RECORDS.items():
        codes.locator("input[type=text]").fill(code)
        answer = ask(codes)
        assert re.search(r"[\d.]+\s\w+ left this page", answer), answer
        # The bytes in the drawing are those of the record, and what it shows of them is what was on the wire.
        sums = counted(page)
        assert {**live(page), "all": int(state.locator("data").get_attribute("value"))} == sums
        assert all(value > 0 for value in sums.values())
        newest = bytes.fromhex(page.locator("#live-bytes").inner_text().rstrip(" …"))
        assert len(newest) >= 32
        assert newest in bytes(wire.sent)
        # Only the person saw the question and its answer.
        happened.wait_for()
        yours = page.locator("#you-saw").inner_text()
        assert code in yours
        assert name in yours
        for other in ("#network-saw", "#service-saw"):
            theirs = page.locator(other).inner_text()
            assert code not in theirs
            assert name not in theirs
        assert newest.hex() in page.locator("#service-saw code").inner_text().replace(" ", "")
    # The keys were sent for the first question alone.
    assert "keys" not in answer
    assert "Keys" not in page.locator("#network-saw").inner_text()


# The least contrast of texts with what is behind them.
CONTRAST = """() => {
    const pen = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
    const light = (colour) => {
        pen.fillStyle = colour;
        pen.fillRect(0, 0, 1, 1);
        const parts = [...pen.getImageData(0, 0, 1, 1).data].slice(0, 3).map((part) => part / 255);
        const [red, green, blue] = parts.map((x) => (x <= 0.04045 ? x / 12.92 : ((x + 0.055) / 1.055) ** 2.4));
        return 0.2126 * red + 0.7152 * green + 0.0722 * blue;
    };
    const behind = (element) => {
        const colour = getComputedStyle(element).backgroundColor;
        return colour === "rgba(0, 0, 0, 0)" && element.parentElement ? behind(element.parentElement) : colour;
    };
    const texts = [...document.querySelectorAll("h1, h2, h3, p, li, dt, dd, a, summary, button, label, code")];
    const shown = texts.filter((element) => element.checkVisibility() && element.textContent.trim() !== "");
    return Math.min(...shown.map((element) => {
        const [one, other] = [light(getComputedStyle(element).color), light(behind(element))];
        return (Math.max(one, other) + 0.05) / (Math.min(one, other) + 0.05);
    }));
}"""


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_texts_can_be_read_and_nothing_moves_unasked(browser: Any, page_service: Service, scheme: str) -> None:
    context = browser.new_context(color_scheme=scheme, reduced_motion="reduce")
    page = opened(context, page_service.url)
    codes = card(page, "retrieve")
    codes.locator("input[type=text]").fill("I10")
    ask(codes)
    assert page.evaluate("document.getAnimations().length") == 0
    unfold(codes)
    page.locator("#record > summary").click()
    assert page.evaluate(CONTRAST) >= 4.5
    context.close()


def test_the_page_fits_a_phone(browser: Any, page_service: Service) -> None:
    context = browser.new_context(viewport={"width": 360, "height": 740}, has_touch=True, is_mobile=True)
    page = opened(context, page_service.url)
    assert page.evaluate("document.documentElement.scrollWidth") <= 360
    ask(card(page, "retrieve"))
    page.locator("#happened").wait_for()
    page.locator("details").evaluate_all("all => all.forEach((folded) => { folded.open = true; })")
    assert page.evaluate("document.documentElement.scrollWidth") <= 360
    # Every control has a name, and can be reached with the keyboard.
    for control in page.locator("button:visible, input:visible, textarea:visible, canvas[tabindex]").all():
        name = control.evaluate("e => e.getAttribute('aria-label') || e.labels?.[0]?.textContent || e.textContent")
        assert name.strip()
    context.close()


WORDS = {
    "ship": (1.0, 0.1, 0.2, 0.0),
    "wave": (1.0, 0.0, 0.0, 0.3),
    "harbour": (0.9, 0.2, 0.1, 0.1),
    "tree": (0.1, 1.0, 0.0, 0.1),
    "meadow": (0.0, 1.0, 0.2, 0.0),
    "mountain": (0.1, 0.9, 0.1, 0.3),
}
PLACES = ("ship wave", "harbour ship", "meadow tree", "mountain")


@pytest.fixture(scope="module")
def search_service(binary: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """A collection whose table of words is published, one without, and the page."""
    if not (SITE / "index.html").exists():
        pytest.skip("NO PAGE, SO IT IS NOT TESTED: run `make web`")
    home = tmp_path_factory.mktemp("search")
    words, places = home / "words.txt", home / "places"
    words.write_text("".join(f"{word} {' '.join(map(str, row))}\n" for word, row in WORDS.items()))
    (home / "places.csv").write_text("text\n" + "".join(f"{place}\n" for place in PLACES))
    build = ["search", "build", "--from", home / "places.csv", "--value", "text", "--words", words, places]
    subprocess.run([binary, *map(str, build)], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    offers = (f"search:search/places={places},words={words}", f"search:search/vectors={places}")
    service = Service(binary, home / "data", *offers, flags=("--web", str(SITE)))
    yield service.start()
    service.stop()


def test_finds_documents_by_text_and_by_vector(context: Any, search_service: Service) -> None:
    wire = Wire(search_service.url)
    page = opened(context, wire.url)
    # The documents have no cards of their own.
    assert page.locator("article[data-kind]").count() == 2
    by_text = page.locator("article", has=page.get_by_text("search/places", exact=True))
    by_vector = page.locator("article", has=page.get_by_text("search/vectors", exact=True))

    by_text.locator("textarea").fill("a harbour, a ship")
    by_text.locator("input[type=number]").fill("3")
    ask(by_text)
    found = by_text.locator(".documents li").all_inner_texts()
    assert [text.split(" ", 1)[1] for text in found] == ["harbour ship", "ship wave", "mountain"]
    assert 0.97 < float(found[0].split()[0]) < 1.01
    # A word that is not in the table is refused before anything is sent.
    sent = len(requests(page))
    by_text.locator("textarea").fill("xylophone")
    by_text.locator("button.main").click()
    by_text.locator("[role=alert]", has_text="say it in other words").wait_for()
    assert len(requests(page)) == sent

    by_vector.locator("textarea").fill(json.dumps(WORDS["meadow"]))
    by_vector.locator("input[type=number]").fill("1")
    ask(by_vector)
    assert by_vector.locator(".documents li").all_inner_texts()[0].endswith("meadow tree")

    # One question to the index and one for all documents, whatever was asked.
    asked = [row for row in requests(page) if row.startswith("query")]
    assert len(asked) == 4
    assert sum("-documents" in row for row in asked) == 2
    assert b"harbour" not in bytes(wire.sent)
    wire.close()


FIXTURES = ROOT / "crates" / "models" / "onnx" / "tests" / "models"
IRIS = ("sepal length", "sepal width", "petal length", "petal width")


@pytest.fixture(scope="module")
def model_service(binary: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """Models of one's own, whose inputs have every form that the page draws, and the page."""
    if not (SITE / "index.html").exists():
        pytest.skip("NO PAGE, SO IT IS NOT TESTED: run `make web`")
    home = tmp_path_factory.mktemp("models")
    draw = np.random.default_rng(5)
    iris = draw.uniform((4.3, 2.0, 1.0, 0.1), (7.9, 4.4, 6.9, 2.5), size=(200, 4)).round(2)
    np.savetxt(home / "iris.csv", iris, delimiter=",", header=",".join(IRIS), comments="")
    np.save(home / "digits.npy", draw.integers(0, 17, size=(200, 64)).astype(np.float64))
    np.save(home / "tokens.npy", draw.integers(0, 10, size=(200, 5)).astype(np.float64))
    np.save(home / "grey.npy", draw.choice([0.0, 0.5, 1.0], size=(200, 1, 8, 8)))
    np.save(home / "colours.npy", draw.choice([0.0, 127.5, 255.0], size=(200, 3, 6, 6)))
    offers = []
    for name, model, rows in (
        ("iris", "logistic-zipmap", "iris.csv"),
        ("digits", "logistic-pca", "digits.npy"),
        ("tokens", "embedding-18", "tokens.npy"),
        ("grey", "lenet-18", "grey.npy"),
        ("colours", "residual-18", "colours.npy"),
    ):
        options = ["--calibration", home / rows, "--batch", "1", "--kink-bits", "4", "--out", home / name]
        command = [binary, "compile", FIXTURES / f"{model}.onnx", *options]
        subprocess.run(list(map(str, command)), check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        offers.append(f"model:model/{name}={home / name}")
    service = Service(binary, home / "data", *offers, flags=("--web", str(SITE)))
    yield service.start()
    service.stop()


def asked_by_command(binary: Path, service: Service, name: str, row: Any) -> dict[str, Any]:
    """The outputs of a row, as the command `unspoken ask` has them."""
    home = service.data.parent
    (home / "row.json").write_text(json.dumps(row))
    options = ["--application", f"model/{name}", "--state-dir", home / "state", "--input", home / "row.json"]
    command = [binary, "ask", "--raw", "--url", service.url, *options]
    printed = subprocess.run(list(map(str, command)), check=True, stdout=subprocess.PIPE, text=True).stdout
    outputs: dict[str, Any] = json.loads(printed)
    return outputs


def bars(place: Any) -> dict[str, float]:
    """The probabilities that a card shows, by label."""
    rows = (row.inner_text().split("\n") for row in place.locator(".bars li").all())
    return {label.strip(): float(percent.removesuffix(" %")) / 100 for label, percent in rows}


def queries(page: Any) -> int:
    return sum(row.startswith("query") for row in requests(page))


def test_asks_a_model_by_the_form_of_its_inputs(context: Any, binary: Path, model_service: Service) -> None:
    wire = Wire(model_service.url)
    urls: list[str] = []
    context.on("request", lambda request: urls.append(request.url))
    page = opened(context, wire.url)
    iris = named(page, "model/iris")
    before = len(requests(page))

    # What is missing or outside its range is shown at its field, and nothing is sent, keys included.
    for name, value in zip(IRIS, ("5.1", "3.5", "1.4", "99.25")):
        iris.get_by_label(name, exact=False).fill(value)
    outside = iris.get_by_label("petal width")
    assert outside.get_attribute("aria-invalid") == "true"
    hint = iris.locator(f"#{outside.get_attribute('aria-describedby')}")
    assert re.fullmatch(r"needed -0\.\d+ to 2\.\d+", hint.inner_text()), hint.inner_text()
    iris.get_by_label("sepal length").fill("")
    for field, problem in (("sepal length", "sepal length: needed "), ("petal width", "petal width: needed -0.")):
        iris.locator("button.main").click()
        iris.locator("[role=alert]", has_text=problem).wait_for()
        assert iris.get_by_label(field).evaluate("field => field === document.activeElement")
        iris.get_by_label("sepal length").fill("5.1")
    assert len(requests(page)) == before

    # It may be moved: then the answer is that of the end of the range, which the field tells.
    iris.get_by_label("Move numbers outside").check()
    assert outside.get_attribute("aria-invalid") == "false"
    assert "is asked" in hint.inner_text()
    ask(iris)
    moved = bars(iris)
    end = float(re.findall(r": (\S+) is asked", hint.inner_text())[0])
    iris.get_by_label("Move numbers outside").uncheck()
    outside.fill(str(end - 0.01))
    ask(iris)
    assert bars(iris) == pytest.approx(moved, abs=0.02)

    # A row that is pasted fills all fields, by the names of its columns.
    iris.get_by_label("sepal width").evaluate(
        """(field) => {
            const data = new DataTransfer();
            data.setData("text/plain", "petal width,petal length,sepal width,sepal length\\n0.2,1.4,3.5,5.1");
            field.dispatchEvent(new ClipboardEvent("paste", { clipboardData: data, bubbles: true, cancelable: true }));
        }"""
    )
    assert [iris.get_by_label(name).input_value() for name in IRIS] == ["5.1", "3.5", "1.4", "0.2"]
    answer = ask(iris)
    assert "output_label: setosa" in answer
    expected = asked_by_command(binary, model_service, "iris", [5.1, 3.5, 1.4, 0.2])
    assert expected["output_label"] == "setosa"
    assert bars(iris) == pytest.approx(expected["output_probability"], abs=2e-3)
    assert queries(page) == 3

    assert b"99.25" not in bytes(wire.sent)
    for form in forms(bytes.fromhex(secret_of(iris))):
        assert form not in bytes(wire.sent)
    assert all(url.startswith((wire.url, "blob:", "data:")) for url in urls), urls
    wire.close()


def test_a_question_outside_its_range_leaves_the_answers_to_the_others(context: Any, model_service: Service) -> None:
    page = opened(context, model_service.url)
    script = """async (rows) => {
        const { Service, UnansweredError, UnspokenError } = await import("./index.js");
        let queries = 0;
        const onRequest = ({ purpose }) => { queries += purpose === "query" ? 1 : 0; };
        const service = await Service.open(location.origin, { onRequest });
        const iris = await service.application("model/iris");
        const asked = [];
        for (const some of rows) {
            const before = queries;
            const questions = some.map((X) => ({ inputs: { X } }));
            const told = await iris.ask(questions).catch((error) => error);
            const labels = told.answers.map((answer) => answer?.outputs[0].values[0] ?? null);
            const isError = told instanceof UnansweredError && told instanceof UnspokenError;
            asked.push({ labels, isError, errors: told.errors ?? null, queries: queries - before });
        }
        const gives = iris.info.model.outputs.map(({ gives }) => gives);
        service.close();
        return { asked, gives };
    }"""
    inside, outside = [5.1, 3.5, 1.4, 0.2], [5.1, 3.5, 1.4, 99.25]
    told = page.evaluate(script, [[inside, inside, inside], [inside, outside, inside]])
    assert told["gives"] == ["labels", "probabilities"]
    complete, other = told["asked"]
    assert complete == {"labels": ["setosa"] * 3, "isError": False, "errors": None, "queries": 3}
    assert (other["labels"], other["isError"], other["queries"]) == (["setosa", None, "setosa"], True, 3)
    first, problem, last = other["errors"]
    assert first is None
    assert last is None
    assert problem.startswith('input "X": found a number outside in element 3 ("petal width")')


def test_asks_a_model_by_a_long_row_and_by_indices(context: Any, binary: Path, model_service: Service) -> None:
    page = opened(context, model_service.url)
    digits = named(page, "model/digits")
    row = [(7 * i) % 17 for i in range(64)]
    field = digits.locator("textarea")
    for text, problem in (
        ("1, 2, 3", "found 3 numbers, needed 64"),
        (json.dumps([*row[:-1], 1000]), "1 of 64 numbers cannot be asked; X [63] is 1000, needed -"),
    ):
        field.fill(text)
        digits.locator("button.main").click()
        digits.locator("[role=alert]", has_text=problem).wait_for()
    assert queries(page) == 0
    field.fill(",".join(map(str, row)))
    ask(digits)
    expected = asked_by_command(binary, model_service, "digits", row)
    likely = {str(label): value for label, value in enumerate(expected["probabilities"])}
    assert bars(digits) == pytest.approx(likely, abs=2e-3)
    assert f"label: {expected['label']}" in digits.locator(".answer").inner_text()

    tokens = named(page, "model/tokens")
    fields = tokens.locator("input[type=number]").all()
    assert len(fields) == 5
    for place, (field, token) in enumerate(zip(fields, (0, 3, 5, 1, 2.5))):
        field.fill(str(token))
        assert (field.get_attribute("aria-invalid") == "true") == (place == 4)
    # An index is not moved.
    tokens.get_by_label("Move numbers outside").check()
    tokens.locator("button.main").click()
    tokens.locator("[role=alert]", has_text="needed a whole number from 0 to").wait_for()
    fields[4].fill("2")
    ask(tokens)
    expected = asked_by_command(binary, model_service, "tokens", [0, 3, 5, 1, 2])
    likely = {str(label): value for label, value in enumerate(expected["softmax"])}
    assert bars(tokens) == pytest.approx(likely, abs=5e-3)


def png(pixels: Any) -> bytes:
    """A file with these pixels, of height, width and red, green and blue."""
    height, width, _ = pixels.shape

    def chunk(kind: bytes, content: bytes) -> bytes:
        checksum = zlib.crc32(kind + content)
        return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", checksum)

    lines = b"".join(b"\0" + line.tobytes() for line in pixels.astype(np.uint8))
    head = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(lines)) + chunk(b"IEND", b"")


def brightest_seen(place: Any) -> int:
    """The brightest pixel of what a card shows that it encrypts."""
    return place.locator("canvas.seen").evaluate(
        """canvas => {
            const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
            return Math.max(...data.filter((_, at) => at % 4 < 3));
        }"""
    )


def test_asks_a_model_about_pictures(context: Any, binary: Path, model_service: Service) -> None:
    wire = Wire(model_service.url)
    page = opened(context, wire.url)
    grey = named(page, "model/grey")
    grey.locator("button.main").click()
    grey.locator("[role=alert]", has_text="draw or choose a picture first").wait_for()

    def choose(place: Any, content: bytes, name: str = "picture.png") -> None:
        place.locator("input[type=file]").set_input_files({"name": name, "mimeType": "image/png", "buffer": content})

    choose(grey, b"no picture", "letter.txt")
    grey.get_by_text("letter.txt cannot be read as a picture").wait_for()
    assert queries(page) == 0

    # A file of the input's size is taken pixel by pixel, and of a wide one the middle.
    pixels = (np.arange(64).reshape(8, 8) * 4 % 256)[:, :, None].repeat(3, axis=2)
    expected = asked_by_command(binary, model_service, "grey", [(pixels[:, :, 0] / 255).tolist()])
    likely = {str(label): float(np.exp(value)) for label, value in enumerate(expected["log_softmax"])}
    wide = np.concatenate([np.full((8, 2, 3), 255), pixels, np.full((8, 2, 3), 255)], axis=1)
    for picture in (pixels, wide):
        choose(grey, png(picture))
        page.wait_for_function(
            """([canvas, value]) => canvas.getContext("2d").getImageData(1, 7, 1, 1).data[0] === value""",
            arg=[grey.locator("canvas.seen").element_handle(), int(pixels[7, 1, 0])],
        )
        ask(grey)
        assert bars(grey) == pytest.approx(likely, abs=5e-3)
        # Nothing of it is left for the next one.
        grey.get_by_role("button", name="Clear").click()
        assert brightest_seen(grey) == 0
    assert png(pixels)[-40:] not in bytes(wire.sent)

    # The pad: a stroke, and a letter of the keyboard. Another white is outside the ranges.
    grey.locator("canvas.draw").scroll_into_view_if_needed()
    box = grey.locator("canvas.draw").bounding_box()
    x, y, size = box["x"], box["y"], box["width"]
    page.mouse.move(x + 0.5 * size, y + 0.2 * size)
    page.mouse.down()
    page.mouse.move(x + 0.5 * size, y + 0.8 * size, steps=8)
    page.mouse.up()
    ask(grey)
    assert sum(bars(grey).values()) == pytest.approx(1, abs=0.01)
    assert bars(grey) != pytest.approx(likely, abs=2e-3)
    sent = queries(page)
    grey.locator("canvas.draw").press("B")
    grey.get_by_text("Numbers of pixels").click()
    brightest = grey.get_by_label("Grey: brightest")
    assert brightest.input_value() == "1"
    brightest.fill("300")
    grey.get_by_text(re.compile(r"\d+ of 64 numbers cannot be asked")).wait_for()
    grey.locator("button.main").click()
    grey.locator("[role=alert]", has_text="Choose to move numbers").wait_for()
    assert queries(page) == sent
    grey.get_by_label("Move numbers outside").check()
    grey.get_by_text(re.compile(r"\d+ of 64 numbers are outside their ranges, and are moved")).wait_for()
    ask(grey)
    wire.close()

    # Colours: the numbers of black and white are guessed.
    colours = named(page, "model/colours")
    pixels = (np.arange(108).reshape(6, 6, 3) * 7) % 256
    expected = asked_by_command(binary, model_service, "colours", [pixels.transpose(2, 0, 1).tolist()])
    choose(colours, png(pixels))
    page.wait_for_function(
        """([canvas, value]) => canvas.getContext("2d").getImageData(1, 0, 1, 1).data[0] === value""",
        arg=[colours.locator("canvas.seen").element_handle(), int(pixels[0, 1, 0])],
    )
    ask(colours)
    shown = [float(line.split(": ")[1]) for line in colours.locator(".bars li").all_inner_texts()]
    assert shown == pytest.approx(expected["linear"], rel=2e-2, abs=2e-2)


def test_the_forms_of_models_fit_a_phone(browser: Any, model_service: Service) -> None:
    context = browser.new_context(viewport={"width": 360, "height": 740}, has_touch=True, is_mobile=True)
    page = opened(context, model_service.url)
    assert page.locator("article[data-kind=model]").count() == 5
    assert page.evaluate("document.documentElement.scrollWidth") <= 360
    for control in page.locator("button:visible, input:visible, textarea:visible, canvas[tabindex]").all():
        name = control.evaluate("e => e.getAttribute('aria-label') || e.labels?.[0]?.textContent || e.textContent")
        assert name.strip()
    # The pad draws with a finger.
    grey = named(page, "model/grey")
    pad = grey.locator("canvas.draw")
    pad.scroll_into_view_if_needed()
    pad.tap()
    assert brightest_seen(grey) > 0
    context.close()
