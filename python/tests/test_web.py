"""The page of `unspoken serve --web`, in Chromium: draws, types, looks up, and reads what each party saw."""

from __future__ import annotations

import base64
import json
import re
import subprocess
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import Service, absent
from web_page import (
    Wire,
    ask,
    card,
    connected,
    entries,
    forms,
    megabytes,
    named,
    opened,
    queries,
    requests,
    secret_of,
    stored,
    unfold,
    unlock,
)

import unspoken

RECORDS = {"E11.9": "Type 2 diabetes mellitus", "I10": "Essential (primary) hypertension"}


@pytest.fixture(scope="module")
def page_service(
    binary: Path, site: Path, model: unspoken.FastText, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Service]:
    """A classifier, a recogniser of digits and a database, and the page."""
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
    service = Service(binary, home / "data", *offers, flags=("--web", str(site)))
    yield service.start()
    service.stop()


@pytest.fixture(scope="module")
def story_service(
    binary: Path, site: Path, prepared_stories: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[str]:
    """A service that continues stories and answers messages with insecure parameters, and the page; its URL."""
    program = binary.parent / "examples" / "story"
    if not program.exists():
        absent("NO EXAMPLE story, SO STORIES ARE NOT TESTED: run `cargo test --release --no-run`")
    data = tmp_path_factory.mktemp("story") / "data"
    process = subprocess.Popen([program, prepared_stories, site, data], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    yield json.loads(process.stdout.readline())["listening"]
    process.terminate()
    process.wait(timeout=60)
    process.stdout.close()


@pytest.fixture
def wire(page_service: Service) -> Iterator[Wire]:
    made = Wire(page_service.url)
    yield made
    made.close()


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


def test_a_page_without_memory_says_so_and_goes_on(
    browser: Any, chromium: dict[str, Any], page_service: Service
) -> None:
    # 300 pages of 64 KiB: enough for a database, too few for a classifier.
    small = browser.browser_type.launch(
        **{**chromium, "args": [*chromium["args"], "--js-flags=--wasm-max-mem-pages=300"]}
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
def search_service(binary: Path, site: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """A collection whose table of words is published, one without, and the page."""
    home = tmp_path_factory.mktemp("search")
    words, places = home / "words.txt", home / "places"
    words.write_text("".join(f"{word} {' '.join(map(str, row))}\n" for word, row in WORDS.items()))
    (home / "places.csv").write_text("text\n" + "".join(f"{place}\n" for place in PLACES))
    build = ["search", "build", "--from", home / "places.csv", "--value", "text", "--words", words, places]
    subprocess.run([binary, *map(str, build)], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    offers = (f"search:search/places={places},words={words}", f"search:search/vectors={places}")
    service = Service(binary, home / "data", *offers, flags=("--web", str(site)))
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
