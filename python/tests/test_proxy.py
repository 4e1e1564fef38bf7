"""`unspoken proxy` with the official client of OpenAI's protocol, in front of a service of one small layer.

The proxy and the service are the example `stand_in` of the crate: the command itself accepts no small parameters.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator

import openai
import pytest
from conftest import ROOT, absent


@pytest.fixture(scope="module")
def proxy() -> Iterator[tuple[openai.OpenAI, str]]:
    target = os.environ.get("CARGO_TARGET_DIR", ROOT / "target")
    program = ROOT / target / "release" / "examples" / "stand_in"
    if not program.exists():
        absent("no proxy for tests; run `cargo build --release -p unspoken-proxy --examples` first")
    process = subprocess.Popen([program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    url, key, model = process.stdout.readline().split()
    yield openai.OpenAI(base_url=url, api_key=key, max_retries=0), model
    process.communicate()


def test_a_conversation_goes_on(proxy: tuple[openai.OpenAI, str]) -> None:
    client, model = proxy
    messages = [{"role": "user", "content": "One day, Tom went to"}]
    first = client.chat.completions.create(model=model, messages=messages, temperature=0, max_tokens=3)
    answer = first.choices[0].message
    assert answer.content
    assert answer.role == "assistant"
    assert (first.choices[0].finish_reason, first.usage.completion_tokens) == ("length", 3)
    # As programs do it: with all that came.
    messages += [answer.model_dump(), {"role": "user", "content": [{"type": "text", "text": " with his mom"}]}]
    options = {"model": model, "messages": messages, "temperature": 0, "max_completion_tokens": 3}
    second = client.chat.completions.create(**options)
    assert second.usage.prompt_tokens_details.cached_tokens >= 8
    with client.chat.completions.create(**options, stream=True, stream_options={"include_usage": True}) as stream:
        chunks = list(stream)
    text = "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)
    assert text == second.choices[0].message.content
    assert chunks[-1].usage.total_tokens == second.usage.total_tokens


def test_sampling_choices_and_log_probabilities(proxy: tuple[openai.OpenAI, str]) -> None:
    client, model = proxy
    messages = [{"role": "user", "content": "One day, Tom"}]
    options = {"model": model, "messages": messages, "max_tokens": 3, "seed": 4, "n": 2, "temperature": 0.9}
    one, same = (client.chat.completions.create(**options, logprobs=True, top_logprobs=2) for _ in range(2))
    assert [choice.message.content for choice in one.choices] == [choice.message.content for choice in same.choices]
    places = one.choices[1].logprobs.content
    assert len(places) == 3
    assert all(len(place.top_logprobs) == 2 and place.logprob <= 0 for place in places)
    public = {"public": "One day, Mia"}
    told = client.completions.create(model=model, prompt=" went to", max_tokens=2, extra_body=public)
    assert told.choices[0].text


def test_models_embeddings_and_errors(proxy: tuple[openai.OpenAI, str]) -> None:
    client, model = proxy
    assert [one.id for one in client.models.list()] == [model, "letters"]
    assert client.models.retrieve(model).owned_by == "unspoken"
    vectors = client.embeddings.create(model="letters", input=["abc", "ab"])
    assert [one.embedding for one in vectors.data] == [[3.0, 0.5], [2.0, 0.5]]
    messages = [{"role": "user", "content": "One day"}]
    with pytest.raises(openai.NotFoundError, match="needed") as found:
        client.chat.completions.create(model="other", messages=messages)
    assert found.value.code == "model_not_found"
    with pytest.raises(openai.BadRequestError, match="json_object"):
        client.chat.completions.create(model=model, messages=messages, response_format={"type": "json_object"})
    with pytest.raises(openai.AuthenticationError):
        client.with_options(api_key="sk-other").models.list()
