"""Models of one's own on the page: forms, pictures and answers."""

from __future__ import annotations

import json
import re
import struct
import subprocess
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import ROOT, Service
from web_page import Wire, ask, forms, named, opened, queries, requests, secret_of

FIXTURES = ROOT / "crates" / "models" / "onnx" / "tests" / "models"
IRIS = ("sepal length", "sepal width", "petal length", "petal width")


@pytest.fixture(scope="module")
def model_service(binary: Path, site: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """Models of one's own, whose inputs have every form that the page draws, and the page."""
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
    service = Service(binary, home / "data", *offers, flags=("--web", str(site)))
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
