"""Measures the client in Chromium, records the rows and writes docs/browser.md: `make tables-browser`.

`browser_tables.py UNSPOKEN NATIVE`: NATIVE is the example `native` of unspoken-web. Needs the page (`make web`), and
for the comparison with SEAL node-seal, which `make tables-browser` installs into .peers/npm.
"""

from __future__ import annotations

import gzip
import json
import platform
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import date
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from statistics import median
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts"))

import pages  # noqa: E402
import records  # noqa: E402
from browser import (  # noqa: E402
    ask,
    chromium,
    draw,
    page_service,
    prepare,
    prepare_stories,
    story_service,
    window,
)
from page import line, number, paragraph  # noqa: E402
from records import plain_row  # noqa: E402

TARGET = ROOT / "docs" / "browser.md"
SEAL = ROOT / ".peers" / "npm" / "node_modules" / "node-seal" / "dist"

# Repetitions of the making of keys (each with a new client) and of questions.
KEYS = 3
QUESTIONS = 15

PIXELS = "Uint8Array.from({ length: 784 }, (_, at) => (at % 28 === 14 ? 255 : 0))"
CASES = (
    ("digits", "digits/mnist", "undefined", f"{{ pixels: {PIXELS} }}"),
    ("classify", "classify/spam", "undefined", "{ text: 'You have won a prize. Call now to claim it.' }"),
    ("retrieve, packed", "pir/codes", "'packed'", "{ key: 'E11.9' }"),
    ("retrieve, compact", "pir/codes", "'compact'", "{ key: 'E11.9' }"),
)

# What runs in the page: medians in milliseconds.
MEASURE = """async () => {
    const { Service } = await import("/index.js");
    const service = await Service.open(location.origin, { kernels: %(kernels)s });
    const [keys, encrypt, decrypt] = [[], [], []];
    let application;
    for (let i = 0; i < %(keys)d; i += 1) {
        application = await service.application(%(name)s, { mode: %(mode)s });
        await application.prepare();
        keys.push(application.info.keyMilliseconds);
    }
    for (let i = 0; i < %(questions)d; i += 1) {
        const asked = await application.ask([%(question)s]);
        encrypt.push(asked.encryptMilliseconds);
        decrypt.push(asked.decryptMilliseconds);
    }
    const memory = await service.memory();
    service.close();
    return { keys, encrypt, decrypt, memory, info: application.info };
}"""

# Encoding and encrypting under a secret key with SEAL: degree 2^14 and 210 bits of modulus, as a query of digits has.
SEAL_MEASURE = """async (repetitions) => {
    const { default: SEAL } = await import("/index_throws.js");
    const seal = await SEAL();
    const parameters = new seal.EncryptionParameters(seal.SchemeType.ckks);
    parameters.setPolyModulusDegree(16384);
    parameters.setCoeffModulus(seal.CoeffModulus.Create(16384, Int32Array.from([30, 30, 30, 30, 30, 30, 30, 30])));
    const context = new seal.SEALContext(parameters, true, seal.SecLevelType.tc128);
    const encoder = new seal.CKKSEncoder(context);
    const generator = new seal.KeyGenerator(context);
    const encryptor = new seal.Encryptor(context, generator.createPublicKey(), generator.secretKey());
    const values = Float64Array.from({ length: 8192 }, (_, at) => (at %% 100) / 100);
    const times = [];
    for (let i = 0; i < repetitions; i += 1) {
        const start = performance.now();
        const plain = new seal.Plaintext();
        encoder.encode(values, 2 ** 30, plain);
        const cipher = encryptor.encryptSymmetricSerializable(plain);
        times.push(performance.now() - start);
        plain.delete?.();
        cipher.delete?.();
    }
    return times;
}""".replace("%%", "%")


def native(program: Path, directories: tuple[Path, Path, Path]) -> dict[str, dict[str, float]]:
    """Times of the same clients without a browser."""
    words, digits, codes = directories
    printed = subprocess.run([program, words, digits, codes], check=True, stdout=subprocess.PIPE, text=True).stdout
    return {row.pop("name"): row for row in map(json.loads, printed.splitlines())}


def measured(browser: Any, url: str, case: tuple[str, str, str, str], kernels: str) -> dict[str, Any]:
    """Times of one case in a new page."""
    _, name, mode, question = case
    page = browser.new_page()
    page.set_default_timeout(600_000)
    page.goto(f"{url}/style.css")
    filled = MEASURE % {
        "kernels": json.dumps(kernels),
        "keys": KEYS,
        "questions": QUESTIONS,
        "name": json.dumps(name),
        "mode": mode,
        "question": question,
    }
    result = page.evaluate(filled)
    page.close()
    for step in ("keys", "encrypt", "decrypt"):
        result[step] = median(result[step])
    return result


def first_digit(browser: Any, url: str) -> float:
    """Seconds from opening the page in a new browser context to the first digit."""
    page = browser.new_context().new_page()
    start = time.perf_counter()
    page.goto(url)
    page.locator("#status", has_text="Connected").wait_for()
    card = page.locator("article[data-kind=digits]")
    draw(page, card)
    ask(card)
    return time.perf_counter() - start


# One turn in a story, with the making and sending of the keys.
STORY_MEASURE = """async () => {
    const { Service } = await import("/index.js");
    const service = await Service.open(location.origin);
    const start = performance.now();
    const application = await service.application("chat/stories");
    await application.prepare();
    const prepared = performance.now();
    const text = { publicText: "One day, Tom and a dog went to the park.", privateText: " They saw", mostTokens: 1 };
    const told = await application.continueText(text);
    const end = performance.now();
    const clear = await application.clearText(text);
    const memory = await service.memory();
    service.close();
    const times = { sent: prepared - start, turn: end - prepared };
    return { ...times, told, memory, info: application.info, same: clear.text === told.text };
}"""


def story(binary: Path) -> str:
    """A paragraph about one turn in a story."""
    with story_service(binary, prepare_stories(binary)) as url, window() as browser:
        page = browser.new_page()
        page.set_default_timeout(1_200_000)
        page.goto(f"{url}/style.css")
        found = page.evaluate(STORY_MEASURE)
    if not found["same"]:
        sys.exit("the story is another one than in the clear")
    info, told = found["info"], found["told"]
    return paragraph(
        f"One turn in a story (stories260K, a pass of 16 tokens, in a window that is not private): keys of "
        f"{info['keyBytes'] / 1e9:.2f} GB are made in {number(info['keyMilliseconds'] / 1e3)} s, and made and sent in "
        f"{number(found['sent'] / 1e3)} s. The turn takes {number(found['turn'] / 1e3)} s, of which the page encrypts "
        f"{number(told['encryptMilliseconds'])} ms and decrypts {number(told['decryptMilliseconds'])} ms; it sends "
        f"{told['queryBytes']:,} bytes and receives {told['answerBytes']:,}. The module has "
        f"{found['memory'] / 1e6:.0f} MB of memory then. The token is the one in the clear."
    )


@contextmanager
def files(directory: Path) -> Iterator[str]:
    """Serves the files of a directory on this machine."""

    class Quiet(SimpleHTTPRequestHandler):
        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(directory)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()


def seal_time(browser: Any) -> float | None:
    """Milliseconds of an encryption by node-seal, if it is installed."""
    if not SEAL.exists():
        return None
    with files(SEAL) as url:
        page = browser.new_page()
        page.goto(f"{url}/index_throws.d.ts")
        times = page.evaluate(SEAL_MEASURE, 2 * QUESTIONS)
        page.close()
    return median(times[QUESTIONS:])


def table(rows: list[tuple[str, dict[str, Any], dict[str, Any], dict[str, float]]]) -> str:
    """Times in milliseconds of each step, and ratios."""
    heads = "| application | step | Chromium, ms | portable kernels, ms | ratio | native, ms | Chromium over native |"
    lines = [heads, "| --- | --- | ---: | ---: | ---: | ---: | ---: |"]
    for name, fast, portable, outside in rows:
        for step in ("keys", "encrypt", "decrypt"):
            a, b, c = float(fast[step]), float(portable[step]), float(outside[step])
            lines.append(line(name, step, a, b, b / a, c, a / c))
    return "\n".join(lines)


def sizes(rows: list[tuple[str, dict[str, Any], dict[str, Any], dict[str, float]]]) -> str:
    """Bytes of keys, questions and answers, and the memory of the module."""
    lines = ["| application | keys, bytes | question, bytes | answer, bytes | memory of the module, bytes |"]
    lines.append("| --- | ---: | ---: | ---: | ---: |")
    for name, fast, _, _ in rows:
        info = fast["info"]
        counts = (info["keyBytes"], info["queryBytes"], info["answerBytes"], fast["memory"])
        lines.append(line(name, *(f"{count:,}" for count in counts)))
    return "\n".join(lines)


ABOUT = """\
The client as a module in a worker of a page, the service on the same machine. Medians of 3 (keys) and 15 (questions)
repetitions, one case after the other. Native is the same client in a process with one thread, on the fastest kernels of
the machine. Keys include handing over their bytes. A vector of degree 2^14 is encoded and encrypted under 210 bits of
modulus with the secret key, beside node-seal in the same browser: ours is a question of digits, with its conversion
from JavaScript, and the seed of its second half instead of that half.
"""


def recorded(rows: list[Any], first: list[float], seal: float | None) -> list[dict[str, Any]]:
    """Rows of docs/benchmarks/browser.jsonl."""
    found = []
    for name, fast, portable, outside in rows:
        for step, metric in (("keys", "key_time"), ("encrypt", "encrypt_time"), ("decrypt", "decrypt_time")):
            for other, baseline in ((portable, "portable kernels"), (outside, "native")):
                row = plain_row("web", metric, "ms", name, float(fast[step]))
                ratio = float(other[step]) / float(fast[step])
                found.append({**row, "baseline": float(other[step]), "baseline_name": baseline, "ratio": ratio})
        sizes = (fast["info"]["keyBytes"], fast["info"]["queryBytes"], fast["info"]["answerBytes"], fast["memory"])
        for metric, size in zip(("key_bytes", "query_bytes", "answer_bytes", "module_memory"), sizes):
            found.append(plain_row("web", metric, "bytes", name, float(size)))
    found.append(plain_row("web", "first_answer_time", "s", "digits", median(first), visits=len(first)))
    if seal is not None:
        ours = float(rows[0][1]["encrypt"])
        row = plain_row("web", "encrypt_vector_time", "ms", "degree 2^14", ours)
        found.append({**row, "baseline": seal, "baseline_name": "node-seal", "ratio": seal / ours})
    return found


def document(rows: list[Any], first: list[float], seal: float | None, version: str, turn: str) -> str:
    """The page."""
    module = ROOT / "web" / "site" / "wasm" / "unspoken_web_bg.wasm"
    brotli = module.with_name(module.name + ".br").stat().st_size
    zipped = len(gzip.compress(module.read_bytes()))
    intro = (
        f"Made by `make tables-browser` on {date.today()}: {platform.system()}, Chromium {version}, headless, the "
        f"service on the same machine. Medians of {KEYS} (keys) and {QUESTIONS} (questions) repetitions, one case "
        "after the other, in a worker of the page. Native is the same client in a process with one thread, on the "
        "fastest kernels of the machine. Keys include handing over their bytes."
    )
    parts = ["# The client in the browser\n", paragraph(intro), table(rows) + "\n", sizes(rows) + "\n"]
    parts.append(
        paragraph(
            f"The module has {module.stat().st_size:,} bytes, {zipped:,} with gzip and {brotli:,} with brotli, as the "
            f"service sends it. First private digit after opening the page, with making and sending of the keys: "
            f"{number(median(first))} s, median of {len(first)} visits without a cache."
        )
    )
    if seal is not None:
        ours = float(rows[0][1]["encrypt"])
        parts.append(
            paragraph(
                f"Encoding and encrypting one vector of degree 2^14 under 210 bits of modulus with the secret key, in "
                f"the same browser: {number(ours)} ms (a question of digits, with its conversion from JavaScript, the "
                f"seed of its second half instead of that half), node-seal {number(seal)} ms: {number(seal / ours)} "
                "times."
            )
        )
    return "\n".join([*parts, turn])


def main() -> None:
    """Measures everything and writes the document."""
    binary, program = (Path(argument).resolve() for argument in sys.argv[1:3])
    directories = prepare(binary)
    outside = native(program, directories)
    with page_service(binary, *directories) as url, chromium() as browser:
        rows = []
        for case in CASES:
            fast, portable = (measured(browser, url, case, kernels) for kernels in ("simd128", "portable"))
            rows.append((case[0], fast, portable, outside[case[0]]))
            print(case[0], {step: (fast[step], portable[step]) for step in ("keys", "encrypt", "decrypt")}, flush=True)
        first = [first_digit(browser, url) for _ in range(5)]
        seal, version = seal_time(browser), browser.version
    section = records.begin("browser", binary, ABOUT)
    section.version = f"{section.version}, Chromium {version}, headless"
    section.rows = recorded(rows, first, seal)
    TARGET.write_text(document(rows, first, seal, version, story(binary)))
    print(f"wrote {TARGET.relative_to(ROOT)} and {records.write(section).relative_to(ROOT)}")
    pages.write(records.read_all())


if __name__ == "__main__":
    main()
