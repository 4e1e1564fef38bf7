"""README.md and the pages of docs: blocks run, commands have the flags that they are given, and links lead somewhere.

A reader begins a page in an empty folder with a few files (`SAMPLES`) and follows it: statements of Python, commands of
the shell, and `unspoken serve`, also where a comment of Python says so. Services get free ports. A block that wants
more data or time than a test has is preceded by `<!-- test: skip REASON -->`; its syntax and flags are checked, too.
"""

from __future__ import annotations

import ast
import builtins
import csv
import doctest
import functools
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from conftest import absent
from running import serving

ROOT = Path(__file__).resolve().parents[2]
PAGES = ["README.md", *sorted(str(path.relative_to(ROOT)) for path in (ROOT / "docs").rglob("*.md"))]
# Pages none of whose blocks run.
WHOLE_PAGES = {
    "docs/deploy.md": "installs a service on other machines",
    "docs/runbook.md": "needs a service that is in trouble",
    "docs/service.md": "shows offers and addresses of an operator's own",
    "docs/upgrade.md": "needs two releases",
    "python/README.md": "repeats the guides' calls with more options; the tests of the package run them",
}
URLS = re.compile(r"http://127\.0\.0\.1:8080|https://HOST:PORT")
SERVE_IN_COMMENT = re.compile(r"#.*?\bunspoken (serve .*)")
READ_ONLY = {"console", "js", "json", "pycon", "text", "toml", "yaml"}


@dataclass(frozen=True)
class Block:
    """A fenced block: where it is, its language, and why it does not run, if so."""

    page: str
    line: int
    language: str
    text: str
    reason: str

    def __str__(self) -> str:
        return f"{self.page}:{self.line}"

    @property
    def runs(self) -> bool:
        return self.language in ("python", "sh") and not self.reason


@functools.cache
def documents() -> list[str]:
    """All Markdown files of the repository."""
    listed = subprocess.run(["git", "ls-files", "*.md"], cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True)
    return [name for name in listed.stdout.splitlines() if (ROOT / name).exists()]


@functools.cache
def blocks(page: str) -> tuple[Block, ...]:
    found: list[Block] = []
    language, begin, reason, collected = None, 0, "", []
    for number, line in enumerate((ROOT / page).read_text(encoding="utf-8").splitlines(), start=1):
        fence = re.fullmatch(r"\s*```(.*)", line)
        marker = re.fullmatch(r"<!-- test: skip (.+) -->", line)
        if language is not None and fence:
            text = "".join(f"{collected_line}\n" for collected_line in collected)
            found.append(Block(page, begin, language, text, reason or WHOLE_PAGES.get(page, "")))
            language, reason, collected = None, "", []
        elif language is not None:
            collected.append(line)
        elif fence:
            language, begin = fence[1], number
        elif marker:
            reason = marker[1]
        else:
            assert not reason, f"{page}:{number}: found {line!r} below a marker, needed a block"
    assert language is None, f"{page}:{begin}: the block does not end"
    return tuple(found)


def commands(text: str) -> Iterator[str]:
    """The commands of a block of shell, each on one line, without comments."""
    for line in re.sub(r"\\\n\s*", " ", text).splitlines():
        if shlex.split(line, comments=True):
            yield line


def write_rows(path: str, header: list[str], rows: list[list[object]]) -> None:
    with Path(path).open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([header, *rows])


def codes(_binary: Path) -> None:
    for name, numbers in (("codes.csv", range(100)), ("new.csv", range(100, 105))):
        write_rows(name, ["code", "title"], [[f"A{n:05}", f"title {n}"] for n in numbers])


def tokens(binary: Path) -> None:
    codes(binary)
    made = subprocess.run([binary, "keys", "token", "reader"], check=True, stdout=subprocess.PIPE, text=True).stdout
    line = next(word for word in made.split() if word.startswith("reader:"))
    token = next(word for word in made.split() if len(word) > 30 and word != line)
    Path("tokens").write_text(line + "\n")
    Path("token").write_text(token)
    os.environ["UNSPOKEN_TOKEN_FILE"] = str(Path("token").resolve())


def notes(_binary: Path) -> None:
    words = ROOT / "data" / "wordllama"
    if not words.exists():
        absent("no data/wordllama; run `make data` first")
    for name in ("table.safetensors", "tokenizer.json"):
        Path(name).symlink_to(words / name)
    things, places = ("bread", "train", "river", "house", "song"), ("oven", "city", "garden", "school")
    texts = [f"The {a} near the {b} of the {c}." for a in things for b in places for c in things if a != c]
    for name in ("notes.csv", "all.csv", "english.csv", "dutch.csv"):
        write_rows(name, ["id", "text"], [[n, text] for n, text in enumerate(texts)])
    write_rows("more.csv", ["id", "text"], [[100, "A new song of the river."]])


def contributions(_binary: Path) -> None:
    write_rows("clinic.csv", ["visits", "falls", "change"], [[n, n % 12, n % 13 - 6] for n in range(60)])


def own_model(_binary: Path) -> None:
    from skl2onnx import to_onnx
    from sklearn.datasets import load_breast_cancer
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    rows, labels = load_breast_cancer(return_X_y=True)
    pipeline = make_pipeline(StandardScaler(), LogisticRegression()).fit(rows, labels)
    Path("model.onnx").write_bytes(to_onnx(pipeline, rows, options={"zipmap": False}).SerializeToString())
    np.savez("rows.npz", X=rows)
    Path("row.json").write_text(json.dumps(rows[:1].tolist()))


SAMPLES = {
    "docs/models.md": own_model,
    "docs/pir.md": codes,
    "docs/pir-database.md": tokens,
    "docs/search.md": notes,
    "docs/sums.md": contributions,
}


class Reader:
    """Follows a page in the working directory."""

    def __init__(self, binary: Path, home: Path, stack: ExitStack) -> None:
        self.binary, self.home, self.stack = binary, home, stack
        self.service: ExitStack | None = None
        self.url = ""
        self.hexadecimal = ""
        self.names: dict[str, object] = {"__name__": "__main__"}

    def follow(self, block: Block) -> None:
        (self.python if block.language == "python" else self.shell)(block)

    def with_url(self, text: str) -> str:
        found = URLS.search(text)
        assert self.url or not found, f"found {found}, needed `unspoken serve` before it"
        return URLS.sub(self.url, text)

    def serve(self, command: str) -> None:
        """Starts a service in place of the last one, at the same address, as another terminal would."""
        if self.service:
            self.service.close()
        self.service = self.stack.enter_context(ExitStack())
        options = shlex.split(command, comments=True)[1:]
        listen = self.url.rpartition("/")[2] or "127.0.0.1:0"
        self.url = self.service.enter_context(serving(self.binary, self.home, *options, listen=listen))

    def python(self, block: Block) -> None:
        lines = block.text.splitlines(keepends=True)
        for node in ast.parse(block.text).body:
            text = "".join(lines[node.lineno - 1 : node.end_lineno])
            above = "\n" * (block.line + node.lineno - 1)  # so that errors name the line of the page
            exec(compile(above + self.with_url(text), block.page, "exec"), self.names)
            for served in SERVE_IN_COMMENT.finditer(text):
                self.serve(served[1])

    def shell(self, block: Block) -> None:
        for command in commands(block.text):
            words = shlex.split(command, comments=True)
            if words[:2] == ["unspoken", "serve"]:
                self.serve(shlex.join(words[1:]))
                continue
            asked = re.sub(r"\bHEX\b", self.hexadecimal, self.with_url(command))
            ran = subprocess.run(["sh", "-c", asked], check=False, capture_output=True, text=True, timeout=80)
            assert ran.returncode == 0, f"{block}: {asked}\n{ran.stdout}{ran.stderr}"
            self.hexadecimal = (re.findall(r"\b[0-9a-f]{32,}\b", ran.stdout) or [self.hexadecimal])[-1]


FOLLOWED: list[Block] = []


@pytest.mark.parametrize("page", [page for page in PAGES if any(block.runs for block in blocks(page))])
def test_a_page_can_be_followed(page, binary, tmp_path, monkeypatch):
    reading, commands_here = tmp_path / "reading", tmp_path / "bin"
    reading.mkdir()
    commands_here.mkdir()
    (commands_here / "unspoken").symlink_to(binary.resolve())
    monkeypatch.setenv("PATH", f"{commands_here}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("UNSPOKEN_TOKEN_FILE", "")
    monkeypatch.delenv("UNSPOKEN_TOKEN_FILE")  # `tokens` sets it; the value of before comes back
    monkeypatch.chdir(reading)
    running = [block for block in blocks(page) if block.runs]
    if any("data/" in block.text for block in running):
        if not (ROOT / "data" / "icd10").exists():
            absent("no data; run `make data` first")
        Path("data").symlink_to(ROOT / "data")
    SAMPLES.get(page, lambda _binary: None)(binary)
    with ExitStack() as stack:
        reader = Reader(binary, tmp_path, stack)
        for block in running:
            reader.follow(block)
            FOLLOWED.append(block)
    shutil.rmtree(tmp_path)  # tables and keys have hundreds of megabytes


@pytest.mark.parametrize("page", [*PAGES, "python/README.md"])
def test_every_block_has_a_language_and_its_syntax(page):
    for block in blocks(page):
        assert block.language in READ_ONLY | {"python", "sh"}, f"{block}: found the language {block.language!r}"
        if block.language == "python":
            ast.parse(block.text, filename=str(block))
        elif block.language == "pycon":
            for example in doctest.DocTestParser().get_examples(block.text, name=str(block)):
                ast.parse(example.source, filename=str(block))
        elif block.language == "sh":
            subprocess.run(["sh", "-n", "-c", block.text], check=True)
            for command in commands(block.text):
                check_make_and_scripts(block, shlex.split(command, comments=True))
        elif block.language == "json":
            json.loads(block.text)
        elif block.language == "toml" and sys.version_info >= (3, 11):
            import tomllib

            tomllib.loads(block.text)


def check_make_and_scripts(block: Block, words: list[str]) -> None:
    if words[0] == "make":
        makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
        for target in (word for word in words[1:] if "=" not in word):
            assert re.search(rf"^(?:\S+ )*{target}(?: \S+)*:", makefile, re.MULTILINE), f"{block}: no target {target}"
    for word in words[:2]:
        if word.startswith(("scripts/", "fuzz/")):
            assert (ROOT / word).exists(), f"{block}: there is no {word}"


def defined_names(tree: ast.AST) -> set[str]:
    names = set(dir(builtins))
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
            names.add(node.id)
        elif isinstance(node, (ast.Import, ast.ImportFrom)):
            names.update((alias.asname or alias.name).split(".")[0] for alias in node.names)
        elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            names.add(node.name)
        elif isinstance(node, ast.arg):
            names.add(node.arg)
    return names


def test_the_readme_of_the_package_uses_only_names_that_it_defines():
    tree = ast.parse("\n".join(block.text for block in blocks("python/README.md") if block.language == "python"))
    used = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)}
    assert used - defined_names(tree) == set()


@functools.cache
def help_of(binary: Path, *words: str) -> tuple[frozenset[str], frozenset[str]]:
    """The subcommands and the flags of a command."""
    text = subprocess.run([binary, *words, "--help"], check=True, stdout=subprocess.PIPE, text=True).stdout
    listed = re.search(r"^Commands:\n((?:  .*\n)+)", text, re.MULTILINE)
    subcommands = re.findall(r"^  ([a-z][a-z-]*)", listed[1], re.MULTILINE) if listed else []
    return frozenset(subcommands), frozenset(re.findall(r"^\s+(?:-\w, )?(--[a-z][a-z0-9-]*)", text, re.MULTILINE))


def misused(binary: Path, words: list[str]) -> str | None:
    """What is wrong with the words after `unspoken`."""
    path: list[str] = []
    subcommands, flags = help_of(binary)
    while subcommands and len(path) < len(words) and not words[len(path)].startswith("-"):
        word = words[len(path)]
        if word not in subcommands:
            return f"no command `unspoken {' '.join([*path, word])}`"
        path.append(word)
        subcommands, flags = help_of(binary, *path)
    unknown = [word for word in words if word.startswith("--") and word.split("=")[0] not in flags | {"--version"}]
    return f"`unspoken {' '.join(path)}` has no {', '.join(unknown)}" if unknown else None


def mentioned(page: str) -> Iterator[str]:
    """All commands `unspoken ...` of a page: of blocks, of comments in Python, and of its prose."""
    for block in blocks(page):
        if block.language == "sh":
            yield from (command for command in commands(block.text) if command.startswith("unspoken "))
        elif block.language == "console":
            yield from re.findall(r"^\$ (unspoken .*)", block.text, re.MULTILINE)
        elif block.language == "python":
            yield from (f"unspoken {served[1]}" for served in SERVE_IN_COMMENT.finditer(block.text))
    prose = re.sub(r"^\s*```.*?^\s*```", "", (ROOT / page).read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    yield from re.findall(r"`(unspoken\s+[a-z][^`]*)`", prose)


def test_commands_and_flags_exist(binary):
    problems = set()
    for page in documents():
        if page != "CHANGELOG.md":  # which names what is gone
            found = {misused(binary, shlex.split(command, comments=True)[1:]) for command in mentioned(page)}
            problems |= {f"{page}: {problem}" for problem in found if problem}
    assert problems == set()


def slug(heading: str) -> str:
    """The anchor of a heading, as repository views and our site make it."""
    text = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", heading).replace("`", "").strip().lower()
    return re.sub(r"[^\w\- ]", "", text).replace(" ", "-")


@functools.cache
def anchors(path: Path) -> frozenset[str]:
    text = re.sub(r"^\s*```.*?^\s*```", "", path.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    found: list[str] = []
    for heading in re.findall(r"^#+ (.+)", text, re.MULTILINE):
        anchor = slug(heading)
        found.append(f"{anchor}-{found.count(anchor)}" if anchor in found else anchor)
    return frozenset(found)


def test_links_lead_somewhere():
    problems = []
    for name in documents():
        text = (ROOT / name).read_text(encoding="utf-8")
        text = re.sub(r"^\s*```.*?^\s*```", "", text, flags=re.MULTILINE | re.DOTALL)
        for link in re.findall(r"\]\(([^)\s]+)\)", re.sub(r"`[^`]*`", "", text)):
            path, _, anchor = link.partition("#")
            target = ROOT / name if not path else (ROOT / name).parent / path
            if re.match(r"[a-z]+:", link):
                continue
            if not target.exists() or (anchor and anchor not in anchors(target.resolve())):
                problems.append(f"{name}: {link}")
    assert problems == []


def test_the_readme_is_short_and_says_how_to_begin():
    lines = (ROOT / "README.md").read_text(encoding="utf-8").splitlines()
    assert len(lines) <= 150
    starts = [line.split()[1] for line in lines if line.startswith("make ")]
    assert starts == ["demo", "test"]


def test_every_block_runs_or_says_why_not(capsys):
    """Comes last in this file, and prints the reasons."""
    followed, summary = set(FOLLOWED), []
    for page in PAGES:
        runnable = [block for block in blocks(page) if block.language in ("python", "sh")]
        running = [block for block in runnable if block.runs]
        # A page whose test ran to its end ran all of its blocks.
        assert not followed.intersection(running) or followed.issuperset(running), page
        for block in runnable:
            assert block.runs or len(block.reason.split()) >= 3, f"{block}: needs a reason why it does not run"
        reasons = sorted({block.reason for block in runnable if block.reason})
        if runnable:
            summary.append(f"{page:24} {len(running):2} of {len(runnable):2} run; not: {'; '.join(reasons) or 'none'}")
    skipped = [block for page in PAGES for block in blocks(page) if block.language in ("python", "sh") if block.reason]
    assert all(any(block.page in line and block.reason in line for line in summary) for block in skipped)
    with capsys.disabled():
        print("", "blocks of pages", *summary, sep="\n")
