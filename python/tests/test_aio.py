"""Clients for asyncio: the answers of the others, several at once, and calls that are cancelled."""

from __future__ import annotations

import asyncio
import inspect
import os
import signal
import threading
import time

import numpy as np
import pytest
from conftest import HAM, NOTES, SPAM, Service, embed_notes, note_vectors
from test_chat_client import Connection

import unspoken
from unspoken import aio

NOWHERE = "http://127.0.0.1:9"


def quiet(url, **options):
    return aio.ClassifyClient(url, **{"progress": False, **options})


async def counted(ticks):
    """Counts how often the event loop comes round."""
    while True:
        await asyncio.sleep(0.01)
        ticks.append(time.monotonic())


def test_classifies_as_the_model_in_the_clear(service, state, model):
    async def ask():
        async with quiet(service.url, model=model, state_dir=state) as client:
            assert client.application is None
            cost = await client.cost(8)
            labels, scores = await client.classify(HAM + SPAM)
            assert await client.labels() == ["ham", "spam"]
            noisy, _ = await client.classify_to_share(HAM + SPAM, bits=1)
            assert noisy.tolist() == labels.tolist()
            with pytest.raises(unspoken.UncertainError, match="noise of 40 bits"):
                await client.classify_to_share(HAM, 40)
            return cost, labels, scores, client

    cost, labels, scores, client = asyncio.run(ask())
    assert (cost.questions, cost.queries) == (8, 1)
    np.testing.assert_array_equal(labels, model.predict(HAM + SPAM))
    assert np.abs(scores - model.scores(HAM + SPAM)).max() < 0.01
    assert (client.application, client.usage.messages) == ("classify/spam", 20)
    assert repr(client).startswith("<aio.ClassifyClient of http://127.0.0.1")
    with pytest.raises(unspoken.UnspokenError, match="it is closed"):
        # A client outlives the event loop that it worked in.
        asyncio.run(client.classify(HAM))


def test_the_loop_goes_on_while_clients_work_at_once(service, retrieval_service, model, tmp_path):
    ticks, spans = [], {}

    async def timed(name, call):
        start = time.monotonic()
        answer = await call
        spans[name] = (start, time.monotonic())
        return answer

    async def both():
        counting = asyncio.create_task(counted(ticks))
        options = {"state_dir": tmp_path, "progress": False}
        async with (
            quiet(service.url, model=model, state_dir=tmp_path) as classifier,
            aio.PirClient(retrieval_service.url, "pir/codes", **options) as database,
        ):
            labels, record = await asyncio.gather(
                timed("classify", classifier.classify(HAM)), timed("get", database.get("C007"))
            )
            assert database.version == 1
            counting.cancel()
            return labels[0].tolist(), record

    assert asyncio.run(both()) == (["ham"] * 4, b"t" * 7 + b"7")
    # Both began before either ended, and generating keys did not stop the loop.
    assert max(start for start, _ in spans.values()) < min(end for _, end in spans.values())
    assert max(later - tick for tick, later in zip(ticks, ticks[1:])) < 1


def test_calls_of_one_client_wait_for_each_other(service, state, model):
    async def ask():
        async with quiet(service.url, model=model, state_dir=state) as client:
            done = []

            async def named(name, messages):
                labels, _ = await client.classify(messages)
                done.append(name)
                return labels.tolist()

            answers = await asyncio.gather(*(named(i, HAM if i % 2 else SPAM) for i in range(6)))
            return answers, done, client.usage.messages

    answers, done, messages = asyncio.run(ask())
    assert answers == [["ham" if i % 2 else "spam"] * 4 for i in range(6)]
    assert (done, messages) == (list(range(6)), 24)


@pytest.mark.skipif(os.name != "posix", reason="signals are sent the POSIX way")
@pytest.mark.parametrize("stage", ["generating keys", "hashing keys", "classifying"])
def test_cancelling_a_task_cancels_the_work(service, state, model, tmp_path, stage):
    home = state if stage == "classifying" else tmp_path
    threads = threading.active_count()

    async def ask():
        reached = asyncio.Event()
        loop = asyncio.get_running_loop()

        def show(progress):
            if progress.stage == stage:
                loop.call_soon_threadsafe(reached.set)

        async with quiet(service.url, model=model, state_dir=home, progress=show, timeout=600) as client:
            if stage == "classifying":
                await client.connect()
            call = asyncio.create_task(client.classify(["free cash"] * 10_000))
            await asyncio.wait_for(reached.wait(), 60)
            # The stopped service does not answer from here on: the client is in this stage or waits in the next.
            service.process.send_signal(signal.SIGSTOP)
            try:
                waiting = asyncio.create_task(client.classify(HAM))
                await asyncio.sleep(0.1)
                start = time.monotonic()
                waiting.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await waiting
                # It had not begun.
                assert time.monotonic() - start < 1
                call.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await call
                taken = time.monotonic() - start
            finally:
                service.process.send_signal(signal.SIGCONT)
            before = client.usage.messages
            # A cancelled call can be repeated.
            labels, _ = await client.classify(SPAM)
            return taken, labels.tolist(), client.usage.messages - before

    taken, labels, messages = asyncio.run(ask())
    assert taken < 10
    assert (labels, messages) == (["spam"] * 4, 4)
    # No thread is left to work.
    assert threading.active_count() <= threads + 1


def test_a_timeout_ends_the_wait_for_a_service(model, tmp_path):
    async def ask():
        async with quiet(NOWHERE, model=model, state_dir=tmp_path, application="classify/spam", timeout=600) as client:
            start = time.monotonic()
            with pytest.raises(asyncio.TimeoutError):
                await asyncio.wait_for(client.connect(), 0.5)
            return time.monotonic() - start

    assert asyncio.run(ask()) < 10


def test_errors_are_those_of_other_clients(service, digits_service, state, model, tmp_path):
    async def ask():
        async with quiet(NOWHERE, model=model, state_dir=tmp_path, timeout=0.3) as client:
            with pytest.raises(unspoken.ConnectionFailedError, match="connection refused"):
                await client.connect()
            with pytest.raises(unspoken.ArgumentError, match="needed several texts"):
                await client.classify("free cash")
            with pytest.raises(unspoken.ConfigurationError, match="questions=-1"):
                await client.cost(-1)
        with pytest.raises(unspoken.MismatchError, match=r"use unspoken\.DigitsClient"):
            await quiet(digits_service.url, model=model, state_dir=state).connect()

        def fail(_progress):
            raise RuntimeError("my own")

        async with quiet(service.url, model=model, state_dir=state, progress=fail) as client:
            with pytest.raises(RuntimeError, match="my own"):
                await client.classify(HAM)

    asyncio.run(ask())
    for wrong in ({"url": "ftp://127.0.0.1"}, {"url": NOWHERE, "timeout": -1.0}):
        with pytest.raises(unspoken.ConfigurationError):
            quiet(model=model, **wrong)


def test_every_application_is_asked(
    binary,
    digits_service,
    embedding_service,
    matrix_service,
    retrieval_service,
    search_service,
    strokes,
    table,
    network,
    state,
    tmp_path,
):
    survey = unspoken.SumsCollection.create({"visits": 60}, most=200, least=2)
    survey.save(tmp_path / "survey")
    sums_service = Service(binary, tmp_path / "data", f"sums={tmp_path / 'survey.public'}").start()
    options = {"state_dir": state, "progress": False}

    async def ask():
        async with aio.DigitsClient(digits_service.url, **options) as client:
            digits, _ = await client.recognise(strokes[0][:3])
            assert digits.tolist() == network.predict(strokes[0][:3]).tolist()
        async with aio.EmbeddingClient(embedding_service.url, table=table, **options) as client:
            assert (await client.embed(["w1", "w2"])).shape == (2, 8)
            assert client.tokens[1] == "w1"
        async with aio.MatrixClient(matrix_service.url, **options) as client:
            assert (await client.signature()).shape == (4,)
            assert 0 < await client.error() < await client.largest()
            result = await client.compute(a=np.ones((4, 3)), b=np.ones(3))
            assert np.abs(result - 7).max() < 0.01
        async with aio.PirClient(retrieval_service.url, "pir/titles", **options) as client:
            assert await client.get_index(0) == b"0"
            with pytest.raises(unspoken.NoSuchIndexError):
                await client.get_index(300)
        async with aio.SearchClient(search_service.url, "search/notes", embed=embed_notes, **options) as client:
            assert [found.id for found in await client.search("note 7", k=1)] == [b"N007"]
            assert [found[0].id for found in await client.search_many(note_vectors()[:2], k=1)] == [b"N000", b"N001"]
            assert (await client.embedder(), await client.width()) == ("notes-16", 16)
            assert (await client.documents() >= NOTES, 0 < await client.error() < 0.01) == (True, True)
        async with aio.SumsClient(sums_service.url, fingerprint=survey.fingerprint, **options) as client:
            assert await client.columns() == {"visits": (0, 60)}
            assert await client.send({"visits": [3, 4]}) == 2
            assert await client.count(survey) == 2
            assert (await client.fetch(survey)).sums == {"visits": 7}

    try:
        asyncio.run(ask())
    finally:
        sums_service.stop()


def test_pieces_of_text_come_one_by_one(prepared_stories):
    client = aio.ChatClient(NOWHERE, model=prepared_stories / "client", progress=False)
    client._client._connection = Connection("", " a", unspoken.TimedOutError("late"), " dog", None)

    async def read():
        stream = await client.stream("They saw", public="One day.", max_tokens=5)
        pieces = [await stream.__anext__()]
        # After an error the same piece can be asked for again.
        with pytest.raises(unspoken.TimedOutError):
            await stream.__anext__()
        pieces += [piece async for piece in stream]
        return pieces, stream.generation

    pieces, generation = asyncio.run(read())
    assert (pieces, generation.text, generation.end) == ([" a", " dog"], " a dog", "maximum")
    client._client._connection = Connection(" a", " cat", None)
    assert asyncio.run(client.generate("They saw")).text == " a cat"


def test_a_piece_that_came_while_its_call_was_cancelled_is_not_lost(prepared_stories):
    client = aio.ChatClient(NOWHERE, model=prepared_stories / "client", progress=False)
    client._client._connection = Connection(" a", " dog", None)

    async def read():
        stream = await client.stream("They saw", public="One day.", max_tokens=5)
        # The thread has the piece, and nobody took it.
        next(stream._stream)
        return [piece async for piece in stream]

    assert asyncio.run(read()) == [" a", " dog"]


def test_work_has_ended_when_a_call_ends_however_often_it_is_cancelled():
    client, ended = quiet(NOWHERE, model=unspoken.FastText(dim=4, columns=8).fit(HAM + SPAM, [0, 1] * 4)), []

    def work():
        time.sleep(0.3)
        ended.append(True)

    async def cancel_twice():
        call = asyncio.create_task(client._run(work))
        for _ in range(2):
            await asyncio.sleep(0.05)
            call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        return list(ended)

    assert asyncio.run(cancel_twice()) == [True]


def public(kind):
    return {name for name in dir(kind) if not name.startswith("_")}


@pytest.mark.parametrize("name", [name for name in aio.__all__ if name != "GenerationStream"])
def test_clients_have_the_methods_of_the_others(name):
    own, other = getattr(aio, name), getattr(unspoken, name)
    assert public(own) == public(other)
    if "__init__" in vars(other):
        assert str(inspect.signature(own)) == str(inspect.signature(other))
    else:
        # It has the constructor of its base, which names some of the options.
        named = inspect.signature(other).parameters.values()
        named = {each.name for each in named if each.kind is inspect.Parameter.KEYWORD_ONLY}
        options = unspoken.ServiceOptions.__annotations__
        assert named | set(unspoken.ConnectionOptions.__annotations__) == set(options)
        assert list(inspect.signature(own).parameters) == ["url", "options"]
    for each in public(own):
        found, model = getattr(own, each), getattr(other, each)
        if isinstance(found, property):
            assert isinstance(model, property)
            continue
        # What asks the service is a coroutine.
        assert inspect.iscoroutinefunction(found), each
        if not isinstance(model, property):
            assert list(inspect.signature(found).parameters) == list(inspect.signature(model).parameters)
