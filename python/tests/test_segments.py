"""The tokens of a text, as docs/model-format.md describes them, against those of the package."""

from __future__ import annotations

import json
import unicodedata
import warnings
from collections.abc import Callable, Sequence

import numpy as np
import pytest
from conftest import ROOT

import unspoken

WHITE_SPACE = {*range(0x09, 0x0E), 0x20, 0x85, 0xA0, 0x1680, *range(0x2000, 0x200B), 0x2028, 0x2029, 0x202F}
WHITE_SPACE |= {0x205F, 0x3000}
IDEOGRAPHS = [(0x3400, 0x4DBF), (0x4E00, 0x9FFF), (0xF900, 0xFAFF), (0x20000, 0x2FA1F)]
JOINERS = "\u200c\u200d"


class Document:
    """The section "The tokens of a text", sentence by sentence."""

    def __init__(self, tokens: Sequence[str]) -> None:
        self.tokens = list(tokens)
        self.rows = {token: row for row, token in enumerate(tokens)}
        self.mark = self.mark_of_table()
        accented = any(
            first.isascii() and first.isalpha() and unicodedata.category(second) == "Mn"
            for token in tokens
            for first, second in zip(nfd(token), nfd(token)[1:])
        )
        self.drops_accents = self.mark == "##" and not accented

    def mark_of_table(self) -> str:
        for mark in "\u0120\u2581":
            marked = sum(token.startswith(mark) and len(token) > 1 for token in self.tokens)
            if marked and 10 * marked >= len(self.tokens):
                return mark
        return "##" if any(token.startswith("##") and len(token) > 2 for token in self.tokens) else ""

    def rows_of(self, text: str) -> list[int | None]:
        chunks = "".join(" " if ord(c) in WHITE_SPACE else c for c in text).split(" ")
        return [row for chunk in chunks if chunk for row in self.rows_of_chunk(chunk)]

    def rows_of_chunk(self, chunk: str) -> list[int | None]:
        begins = self.mark in ("\u0120", "\u2581")
        if begins and (pieces := self.split(chunk, start=True)):
            return list(pieces)
        found: list[int | None] = []
        units, at = units_of(chunk), 0
        while at < len(units):
            for count in range(min(8, len(units) - at), 1, -1):
                row = self.whole("".join(units[at : at + count]), start=at == 0)
                if row is not None and not self.is_sign(self.tokens[row]):
                    found.append(row)
                    at += count
                    break
            else:
                row = self.whole(units[at], start=at == 0)
                found += [row] if row is not None else self.split(units[at], start=at == 0) or [None]
                at += 1
        return found

    def is_sign(self, token: str) -> bool:
        ends = (token[0] + token[-1]) in ("<>", "[]")
        return ends or (self.mark == "##" and token.startswith("##"))

    def spellings(self, word: str) -> list[str]:
        lower = word.lower()
        plain = "".join(c for c in nfc(lower) if c not in JOINERS + "\ufe0e\ufe0f").replace("\u2019", "'")
        every = [word, nfc(word), nfd(word), lower, nfc(lower), nfd(lower), plain]
        if self.drops_accents:
            every.append("".join(c for c in nfd(plain) if unicodedata.category(c) != "Mn"))
        return [spelling for spelling in every if spelling]

    def written(self, word: str) -> str:
        return "".join(map(byte_character, word.encode())) if self.mark == "\u0120" else word

    def whole(self, word: str, *, start: bool) -> int | None:
        marked = self.mark if start and self.mark != "##" else ""
        for spelling in self.spellings(word):
            for prefix in dict.fromkeys([marked, ""]):
                if (row := self.rows.get(prefix + self.written(spelling))) is not None:
                    return row
        return None

    def split(self, word: str, *, start: bool) -> list[int] | None:
        if not self.mark:
            return None
        for spelling in self.spellings(word):
            if len(spelling) > 100:
                continue
            written = self.written(spelling)
            if self.mark == "##":
                tries: list[Callable[[], list[int] | None]] = [lambda text=written: self.longest(text, "##")]
            else:
                texts = [self.mark + written, written] if start else [written]
                tries = [lambda text=text: self.longest(text, "") for text in texts]
            for attempt in tries:
                if (rows := attempt()) is not None:
                    return rows
        return None

    def longest(self, text: str, continues: str) -> list[int] | None:
        rows: list[int] = []
        while text:
            prefix = continues if rows else ""
            ends = [end for end in range(len(text), 0, -1) if prefix + text[:end] in self.rows]
            if not ends:
                return None
            rows.append(self.rows[prefix + text[: ends[0]]])
            text = text[ends[0] :]
        return rows


def nfc(text: str) -> str:
    return unicodedata.normalize("NFC", text)


def nfd(text: str) -> str:
    return unicodedata.normalize("NFD", text)


def byte_character(byte: int) -> str:
    def visible(value: int) -> bool:
        return 0x21 <= value <= 0x7E or 0xA1 <= value <= 0xAC or value >= 0xAE

    return chr(byte if visible(byte) else 0x100 + sum(not visible(other) for other in range(byte)))


def units_of(chunk: str) -> list[str]:
    def of_word(c: str) -> bool:
        return unicodedata.category(c)[0] in "LN" and not any(low <= ord(c) <= high for low, high in IDEOGRAPHS)

    units: list[str] = []
    for c in chunk:
        behind = unicodedata.category(c)[0] == "M" or c in JOINERS
        if units and (behind or (of_word(c) and of_word(units[-1][0]))):
            units[-1] += c
        else:
            units.append(c)
    return units


WORDS = (
    "the a film good don't e-mail c++ #tag u.s. ... "
    "café naïve नमस्ते दुनिया สวัสดี \u0645\u06cc\u200c\u062e\u0648\u0627\u0647\u0645 "
    "תודה שָׁלוֹם 北京 大学 ❤ :) ! , . ' - t s <unk> US"
)
PIECES = (
    "the a film good play ##ing ##ed un ##aff ##able cafe ##s resume 北 京 ##京 ! , ' don t [UNK] [CLS] नमस ##्ते Play"
)
BYTES = "\u0120the \u0120film \u0120caf Ã© \u0120don 't \u0120 e x \u0120good ing ! \u0120un"
SENTENCES = "\u2581the \u2581film \u2581caf é \u2581don ' t \u2581 x \u2581good ing ! s \u2581北 京"
TEXTS = [
    "The film, a GOOD one! don't e-mail c++ #tag U.S. ...",
    "Don\u2019t cafe\u0301 Café CAFÉ cafés résumés naïve",
    "नमस्ते दुनिया สวัสดี \u0645\u06cc\u200c\u062e\u0648\u0627\u0647\u0645 "
    "\u0645\u06cc \u062e\u0648\u0627\u0647\u0645 שָׁלוֹם תודה",
    "北京大学 北京, 大学生 ❤\ufe0f :) \u200d \u0301a \u2003x\u00a0y\u1680z",
    "[UNK] <unk> ##ing playing Played unaffable unaffirm [CLS]film",
    "US us Us 3.14 m² ①② İstanbul ΟΔΟΣ straße Ⓐ x" + "a" * 101,
    "don't film-the ☃film good!good \u0130 \u1e9e the☃x",
    "",
]


@pytest.mark.parametrize("words", [WORDS, PIECES, BYTES, SENTENCES], ids=["words", "pieces", "bytes", "sentences"])
def test_texts_have_the_tokens_that_the_document_says(words: str) -> None:
    tokens = words.split(" ")
    rng = np.random.default_rng(1)
    table = unspoken.compress(rng.normal(size=(len(tokens), 4)).astype(np.float32), tokens, columns=8, progress=False)
    weight, bias = rng.normal(size=(3, 4)), rng.normal(size=3)
    head = unspoken.LinearHead.from_arrays(table, weight, bias, ["x", "y", "z"])
    document = Document(tokens)
    unknown = next((document.rows[name] for name in ("<unk>", "[UNK]", "<UNK>") if name in document.rows), None)
    read = {token: np.asarray(table.reconstruct([token]), float)[0] for token in tokens}
    found = set()
    for text in [*TEXTS, *(word for line in TEXTS for word in line.split())]:
        rows = [unknown if row is None else row for row in document.rows_of(text)]
        known = [read[tokens[row]] for row in rows if row is not None]
        mean = np.mean(known, axis=0) if known else np.zeros(4)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            scores = head.scores([text])[0]
        np.testing.assert_allclose(scores, weight @ mean + bias, atol=1e-5, err_msg=repr(text))
        found.update(row for row in rows if row is not None)
    assert len(found) > len(tokens) // 2


def test_the_known_answers_of_the_crate_are_those_of_the_document() -> None:
    path = ROOT / "crates/models/embedding/tests/segments.json"
    cases = json.loads(path.read_text())
    assert [case["tokens"] for case in cases] == [words.split(" ") for words in (WORDS, PIECES, BYTES, SENTENCES)]
    for case in cases:
        document = Document(case["tokens"])
        assert [each["text"] for each in case["texts"]] == TEXTS
        assert [each["rows"] for each in case["texts"]] == [document.rows_of(text) for text in TEXTS]
