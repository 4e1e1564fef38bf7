"""The example of answers from documents at a service."""

from __future__ import annotations

import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from conftest import Service

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "examples" / "python"))

import private_rag


@pytest.fixture
def notes(binary, tmp_path):
    private_rag.main(["build", str(tmp_path / "notes")])
    running = Service(binary, tmp_path / "data", f"search={tmp_path / 'notes'}").start()
    yield running
    running.stop()


def test_questions_are_answered_from_documents_of_a_service(notes, state, capsys):
    for question, said in (
        ("How long does rye bread bake?", "Rye bread bakes for 45 minutes at 220 degrees."),
        ("Where are the keys of the shop?", "The keys of the shop hang behind the door of the office."),
        ("When does the train to Ghent leave?", "The train to Ghent leaves at seven from platform three."),
    ):
        private_rag.main(["ask", notes.url, question, "--state", str(state)])
        assert capsys.readouterr().out.splitlines()[-1] == said


def test_a_private_model_reads_the_notes_encrypted(notes, state, monkeypatch, capsys):
    seen = []

    class Chat:
        def __init__(self, url, model, state_dir):
            assert (url, model, state_dir) == ("http://chat", "half", str(state))

        def answer(self, question, passages, *, passage_tokens, public, max_tokens):
            seen.append((question, passages, public))
            assert max_tokens > 0
            assert passage_tokens == 128
            return SimpleNamespace(text=" Forty-five minutes.\nQuestion: another")

    monkeypatch.setattr(private_rag.unspoken, "ChatClient", Chat)
    model = ["--private-model", "http://chat", "--client-half", "half"]
    private_rag.main(["ask", notes.url, "How long does rye bread bake?", "--state", str(state), *model])
    assert capsys.readouterr().out.splitlines()[-1] == "Forty-five minutes."
    [(question, passages, public)] = seen
    # The service reads the same of each question.
    assert public == private_rag.INSTRUCTION
    assert "Rye bread bakes" in passages[0]
    assert len(passages) == 3
    assert question == "How long does rye bread bake?"


def test_the_model_is_given_what_was_found():
    prompts = []

    class Client:
        def search(self, question, k):
            assert (question, k) == ("What?", 3)
            return [private_rag.unspoken.Found(text.encode(), 0.9, 0) for text in ("one", "two")]

    answer = private_rag.reading(lambda prompt: prompts.append(prompt) or "it")
    assert private_rag.ask(Client(), "What?", answer) == "it"
    assert prompts == ["Notes:\none\ntwo\n\nQuestion: What?\nAnswer:"]
