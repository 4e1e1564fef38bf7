#!/usr/bin/env python3
"""How many questions a language model answers rightly with passages of a private search, and without.

    python3 scripts/fetch_data.py smollm2 wordllama
    cargo build --release -p unspoken-cli
    python3 scripts/measure_passages.py

Builds a collection of the documents of `research/questions/bakery.json`, serves it, searches each question as
`unspoken chat --search` does, and answers with the model in the clear: the texts, the template, the dots and the
choice of tokens are those of the command, only nothing of the model is encrypted. An answer is right if it has one
of the expected texts.
"""

from __future__ import annotations

import argparse
import csv
import json
import subprocess
import sys
import tempfile
from pathlib import Path

from running import serving

ROOT = Path(__file__).resolve().parents[1]
QUESTIONS = ROOT / "research" / "questions" / "bakery.json"


def run(command: list[str | Path]) -> str:
    """The output of a command; ends this script if it fails."""
    done = subprocess.run(list(map(str, command)), stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"{command[0]} {command[1]}: failed with status {done.returncode}")
    return done.stdout


def searched(binary: Path, home: Path, asked: dict, words: list[str | Path], count: int) -> list[list[str]]:
    """The passages that a private search finds for each question."""
    table, queries = home / "documents.csv", home / "queries.txt"
    with table.open("w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(["id", "text"])
        rows.writerows(enumerate(asked["documents"]))
    queries.write_text("".join(question["question"] + "\n" for question in asked["questions"]))
    collection = home / "notes"
    run([binary, "search", "build", "--from", table, "--key", "id", "--value", "text", *words, collection])
    found: list[list[str]] = [[] for _ in asked["questions"]]
    with serving(binary, home, "--search", collection) as url:
        ask = [binary, "search", "ask", "--url", url, "--queries", queries, *words]
        for line in run([*ask, "-k", str(count), "--state-dir", home / "state", "--json"]).splitlines():
            one = json.loads(line)
            found[one["query"]].append(one["document"])
    return found


def answer(binary: Path, home: Path, model: Path, question: str, passages: list[str], tokens: int) -> str:
    """What the model answers in the clear."""
    file = home / "passages.txt"
    file.write_text("".join(passage + "\n" for passage in passages))
    options = ["--question", question, "--passages", file, "--passage-tokens", str(tokens), "--max-tokens", "32"]
    return str(json.loads(run([binary, "llama", "run", "--model", model, *options, "--json"]))["text"])


def main() -> None:
    """Measure, and print the shares."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binary", type=Path, default=ROOT / "target" / "release" / "unspoken")
    parser.add_argument("--data", type=Path, default=ROOT / "data", help="where fetch_data.py has put its files")
    parser.add_argument("--model", type=Path, help="[default: SmolLM2-135M-Instruct of --data]")
    parser.add_argument("--questions", type=Path, default=QUESTIONS)
    parser.add_argument("--passages", type=int, default=3, help="passages for each question")
    parser.add_argument("--passage-tokens", type=int, default=96, help="tokens that they take")
    options = parser.parse_args()
    model = options.model or options.data / "smollm2" / "SmolLM2-135M-Instruct.Q4_1.gguf"
    table = options.data / "wordllama"
    words = ["--words", table / "table.safetensors", "--tensor", "embedding.weight"]
    words += ["--tokens", table / "tokenizer.json"]
    asked = json.loads(options.questions.read_text())
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        found = searched(options.binary, home, asked, words, options.passages)
        right = {"with": 0, "without": 0}
        held = 0
        for one, passages in zip(asked["questions"], found):
            wanted = one["answers"]
            held += any(text in passage.lower() for passage in passages for text in wanted)
            for name, given in (("with", passages), ("without", [])):
                said = answer(options.binary, home, model, one["question"], given, options.passage_tokens)
                is_right = any(text in said.lower() for text in wanted)
                right[name] += is_right
                print(f"{'right' if is_right else 'wrong'}  {name:7}  {one['question']}  {said.strip()!r}", flush=True)
    count = len(asked["questions"])
    print(f"the search found a passage with the answer for {held} of {count} questions")
    print(f"right with passages    {right['with']} of {count}")
    print(f"right without passages {right['without']} of {count}")


if __name__ == "__main__":
    main()
