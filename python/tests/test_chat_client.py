"""Mistakes, streams and interruptions. Encrypted passes are tested in Rust: services accept no insecure parameters."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import socket
import threading
import time

import pytest
from conftest import Child

import unspoken
from unspoken import ChatClient, Generation, GenerationStream

NOWHERE = "http://127.0.0.1:9"


def quiet(model, url=NOWHERE, **options):
    return ChatClient(url, model=model, progress=False, **options)


@pytest.fixture(scope="session")
def half(prepared_stories):
    """The client half of stories260K."""
    return prepared_stories / "client"


def test_mistakes_are_named_before_anything_is_sent(half, tmp_path):
    with pytest.raises(unspoken.ModelError, match="absent"):
        quiet(tmp_path / "absent")
    with pytest.raises(unspoken.ModelError, match=r"client\.json"):
        quiet(half.parent)
    client = quiet(half, token="unspoken_secret", state_dir=tmp_path)
    assert repr(client) == f"<ChatClient of {NOWHERE}, application None, not connected>"
    with pytest.raises(unspoken.ConfigurationError, match="found no private text"):
        client.generate("", public="a public text")
    for tokens in (0, -1):
        with pytest.raises(unspoken.ConfigurationError, match=f"max_tokens={tokens}"):
            client.stream("a", max_tokens=tokens)
    with pytest.raises(TypeError):
        client.generate(["a", "b"])
    assert client.usage == unspoken.Usage()
    client.close()
    with pytest.raises(unspoken.UnspokenError, match="it is closed"):
        client.generate("a")


def test_a_damaged_half_is_refused(half, tmp_path):
    shutil.copytree(half, tmp_path / "client")
    tokenizer = tmp_path / "client/tokenizer.json"
    tokenizer.write_text(tokenizer.read_text().replace("the", "tha", 1))
    with pytest.raises(unspoken.ModelError, match=r"tokenizer\.json"):
        quiet(tmp_path / "client")


def test_tokens_that_the_preparation_never_ran_are_counted_in_a_warning(half, tmp_path, caplog):
    shutil.copytree(half, tmp_path / "client")
    coverage = json.loads((tmp_path / "client/coverage.json").read_text())
    assert coverage["tokens"] == [[0, 511]], "all tokens of the vocabulary ran"
    client = connected(half, None)
    client.generate("They saw")
    assert not caplog.records
    coverage["tokens"] = [[0, 2]]
    (tmp_path / "client/coverage.json").write_text(json.dumps(coverage))
    client = connected(tmp_path / "client", None)
    client.generate("They saw", public="One day.")
    (record,) = caplog.records
    assert (record.name, record.levelname) == ("unspoken", "WARNING")
    # Logs are kept where the text may not be.
    assert re.search(r"never ran \d+ tokens of the text", record.getMessage())
    assert "saw" not in record.getMessage()
    assert "day" not in record.getMessage()


def test_nothing_listens(half, tmp_path):
    client = quiet(half, state_dir=tmp_path, timeout=0.3)
    for call in (client.generate, client.stream):
        with pytest.raises(unspoken.ConnectionFailedError, match=r"127\.0\.0\.1:9"):
            call("Once upon a time")
    with pytest.raises(unspoken.ConnectionFailedError):
        client.cost(1)


def test_applications_of_other_kinds_are_refused(half, digits_service, state):
    with pytest.raises(unspoken.MismatchError, match=r"use unspoken\.DigitsClient"):
        quiet(half, digits_service.url, state_dir=state).generate("Once upon a time")


class Connection:
    """A connection whose service has a text; it fails where the text has an error."""

    application = "chat/stories"

    def __init__(self, *steps):
        self.steps = steps
        self.begun = []

    @property
    def usage(self):
        return {"query_bytes": 10 * len(self.begun)}

    def begin(self, conversation, prompt, most, hide_length, progress, sampling):
        steps = iter(self.steps)
        self.begun.append((conversation, most, progress, sampling))
        self.prompt, self.hides = prompt, hide_length
        return type("Generation", (), {"steps": steps, "statistics": {"passes": 0}})()

    def proceed(self, generation):
        step = next(generation.steps)
        generation.statistics = {"passes": generation.statistics["passes"] + 1, "end": None if step else "maximum"}
        if isinstance(step, Exception):
            raise step
        return step


def connected(half, *steps, **options):
    client = ChatClient(NOWHERE, model=half, **options)
    client._connection = Connection(*steps)
    return client


def test_pieces_come_one_by_one(half):
    client = connected(half, "", " a", "", " dog", "", None)
    stream = client.stream("They saw", public="One day.", max_tokens=5)
    assert iter(stream) is stream
    assert (stream.generation, str(stream.generation)) == (Generation(), "")
    assert next(stream) == " a"
    assert (stream.generation.text, stream.generation.passes, stream.generation.end) == (" a", 2, None)
    # Other calls may come between two pieces, of the same client too.
    other = client.generate("They saw", max_tokens=7)
    assert (other.text, other.passes, other.end) == (" a dog", 6, "maximum")
    assert list(stream) == [" dog"]
    assert stream.generation == other
    assert str(other) == " a dog"
    assert client.usage.query_bytes == 20
    (first, most, *_), (second, more, *_) = client._connection.begun
    assert (first is second, most, more) == (False, 5, 7)


class Choices(Connection):
    """A connection that tells the seeds, and that the session of several texts has ended."""

    ended = False

    def begin(self, conversation, prompt, most, hide_length, progress, sampling):
        generation = super().begin(conversation, prompt, most, hide_length, progress, sampling)
        generation.statistics["seed"] = sampling.get("seed", 2**64 - 2)
        return generation

    def proceed(self, generation):
        if any(generation is begun[0] for begun in self.begun):
            self.ended = True
            return None
        seed = generation.statistics["seed"]
        try:
            return super().proceed(generation)
        finally:
            generation.statistics["seed"] = seed


def test_choices_have_seeds_of_their_own_in_one_session(half):
    client = connected(half)
    client._connection = Choices(" a", " dog", None)
    choices = client.choices("They saw", 3, public="One day.", max_tokens=5, temperature=0.8)
    assert [one.text for one in choices] == [" a dog"] * 3
    assert [one.seed for one in choices] == [2**64 - 2, 2**64 - 1, 0]
    begun = client._connection.begun
    assert all(one[0] is begun[0][0] for one in begun), "one conversation"
    assert begun[0][3] == {"temperature": 0.8}, "the first seed is new"
    assert client._connection.ended
    for n, options, match in [(0, {}, "n=0"), (2, {}, "n=2 without temperature"), (2, {"temperature": 0}, "n=2")]:
        with pytest.raises(unspoken.ConfigurationError, match=match):
            client.choices("They saw", n, **options)
    assert len(client.choices("They saw", 1)) == 1
    with pytest.raises(unspoken.ConfigurationError, match="template"):
        client.chat_choices([{"role": "user", "content": "Why?"}], 2, temperature=1.0)


def test_neither_part_of_a_text_has_the_token_for_the_begin(half):
    model = quiet(half)._model
    public, private, _ = model.read(model.text("One day.", "They saw"))
    assert len(public) > 1
    assert len(private) > 1
    # The prefix has it.
    assert 1 not in public + private


TEMPLATE = "{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}"


@pytest.fixture
def talking(half, tmp_path):
    """The client half with a template of conversations."""
    shutil.copytree(half, tmp_path / "talking")
    model = json.loads((half / "client.json").read_text())["model"]["id"]
    text = json.dumps({"id": model, "template": {"source": TEMPLATE, "tokens": {}}})
    (tmp_path / "talking/chat_template.json").write_text(text)
    return tmp_path / "talking"


def test_messages_become_text_and_a_conversation_keeps_its_session(half, talking):
    client = connected(talking, " a", None)
    messages = [{"role": "user", "content": "They saw"}]
    assert str(client.chat(messages, max_tokens=5)) == " a"
    messages += [{"role": "assistant", "content": " a"}, {"role": "user", "content": "What?"}]
    assert "".join(client.stream_chat(messages, temperature=0.5)) == " a"
    assert client._connection.hides
    assert not connected(talking, " a", None, hide_length=False)._hide_length
    (first, most, *_), (second, _, _, sampling) = client._connection.begun
    assert (first is second, most, sampling) == (True, 5, {"temperature": 0.5})
    # A child of a fork has a session of its own.
    client._conversation = (os.getpid() + 1, first)
    client.chat(messages)
    assert client._connection.begun[-1][0] is not first
    prompt = client._model.messages([("system", "Be kind."), ("user", "They saw")], 1, 0)
    text = client._model.text("system: Be kind.", "\nuser: They saw\n")
    assert client._model.read(prompt) == client._model.read(text)
    for wrong, found in [
        ([{"role": "user"}], "message 0"),
        ([{"role": "user", "content": "a", "name": "b"}], "name"),
        ([], "0 messages"),
        ([{"role": "user", "content": "a\n</s>\nb"}], "message 1 contains"),
    ]:
        with pytest.raises(unspoken.ConfigurationError, match=found):
            client.chat(wrong)
    with pytest.raises(unspoken.ConfigurationError, match="public_messages: found 9, needed 0 to 3"):
        client.chat(messages, public_messages=9)
    with pytest.raises(unspoken.ConfigurationError, match="--chat-template"):
        connected(half, None).chat(messages)


def test_questions_have_passages_of_a_fixed_number_of_tokens(half, talking):
    for model, public, begin in [(half, "Be kind.\n", "Be kind.\n"), (talking, "Be kind.", "system: Be kind.")]:
        client = connected(model, " a cat", None)
        lengths = set()
        for passages in ([], ["Tom has a cat."], ["Tom has a cat. " * 30], ["a", "b\n</s>\nc", "d"]):
            said = client.answer("What has Tom?", passages, passage_tokens=48, public=public, max_tokens=5)
            assert str(said) == " a cat"
            read, private, _ = client._model.read(client._connection.prompt)
            assert read == client._model.read(client._model.text(begin, ""))[0]
            lengths.add(len(private))
        assert len(lengths) == 1
        for wrong in ({"question": " "}, {"passage_tokens": 15}):
            given = {"question": "a", "passages": [], "public": public, **wrong}
            with pytest.raises(unspoken.ConfigurationError, match="needed"):
                client.answer(**given)


def test_a_piece_can_be_asked_for_again(half):
    client = connected(half, " a", unspoken.TimedOutError("late"), " dog", None)
    stream = client.stream("They saw")
    assert next(stream) == " a"
    with pytest.raises(unspoken.TimedOutError):
        next(stream)
    assert stream.generation.text == " a"
    assert list(stream) == [" dog"]
    assert stream.generation.text == " a dog"


def test_streams_draw_no_bars(half):
    def show(progress):
        pass

    for options, of_client, streamed in [
        ({}, True, False),
        ({"progress": False}, False, False),
        ({"progress": show},) + (show,) * 2,
    ]:
        client = connected(half, None, **options)
        client.generate("a")
        client.stream("a")
        client.stream("a", progress=True)
        client.generate("a", progress=show)
        assert [begun[2] for begun in client._connection.begun] == [of_client, streamed, True, show]


def test_a_stream_of_a_closed_client_ends_with_an_error():
    def closed():
        raise unspoken.UnspokenError("it is closed")

    with pytest.raises(unspoken.UnspokenError, match="closed"):
        next(GenerationStream(closed))


CONTROL_C = """
import signal, sys, unspoken
signal.signal(signal.SIGINT, signal.default_int_handler)
url, model, state = sys.argv[1:]
options = {"state_dir": state, "progress": False, "timeout": 600, "application": "chat/stories"}
client = unspoken.ChatClient(url, model=model, **options)
try:
    print("asking", flush=True)
    client.generate("Once upon a time")
except KeyboardInterrupt:
    print("interrupted", flush=True)
"""


@pytest.mark.skipif(os.name != "posix", reason="signals are sent the POSIX way")
def test_control_c_stops_waiting_for_a_silent_service(half, tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as silent:
        child = Child(CONTROL_C, f"http://127.0.0.1:{silent.getsockname()[1]}", half, tmp_path)
        accepted = threading.Thread(target=silent.accept)
        accepted.start()
        child.wait_for("asking")
        accepted.join(timeout=60)
        start = time.monotonic()
        child.process.send_signal(signal.SIGINT)
        out, err = child.finish(timeout=60)
    assert out.split() == ["interrupted"], err
    assert time.monotonic() - start < 10


def test_options_of_sampling_are_read(half):
    client = connected(half, None)
    options = {"temperature": 0.7, "stop": "end", "logprobs": 2, "logit_bias": {3: -1.0}, "seed": 1}
    client.generate("a", **options)
    assert client._connection.begun[0][3] == options
    with pytest.raises(TypeError, match="temprature"):
        client.generate("a", temprature=1)
    with pytest.raises(unspoken.ConfigurationError, match=r"top_p: found 0\.9, needed a temperature"):
        client.generate("a", top_p=0.9)
    with pytest.raises(unspoken.ConfigurationError, match="seed: found 1, needed a temperature"):
        client.generate("a", seed=1)
    for wrong in ({"temperature": -1}, {"stop": 3}, {"logprobs": 21}, {"logit_bias": {100_000: 1.0}}):
        with pytest.raises(unspoken.ConfigurationError):
            client.generate("a", **wrong)
    assert len(client._connection.begun) == 1, "mistakes are found before anything is sent"
