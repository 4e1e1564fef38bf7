"""Clients for asyncio: the same classes as in `unspoken`, with coroutines for what asks the service.

Constructors take the same arguments, check them, read the files of the model, and send nothing. A coroutine returns,
raises and warns as the method of its name. Each client has a thread for its work, so the event loop goes on, and
several clients work at once; the calls of one client wait for each other, in their order. If the task of a call is
cancelled, as a timeout does, the work ends within a fraction of a second, and the next call goes on with what is there:
it resumes an upload. But a cancelled ``SumsClient.send`` may have added some or all of its contributions: sending them
again would count them twice. A callable `progress` is called on the client's thread.

What asks the service as a property of a client of `unspoken` is a coroutine here, for instance
``await client.signature()``.

Examples
--------
>>> import asyncio, unspoken.aio
>>> async def main():
...     async with unspoken.aio.ClassifyClient("http://127.0.0.1:8080", model="model") as client:
...         return await asyncio.wait_for(client.classify(["win a free prize"]), timeout=60)
>>> labels, scores = asyncio.run(main())  # doctest: +SKIP
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import os
from collections.abc import AsyncIterator, Coroutine, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from os import PathLike
from types import TracebackType
from typing import TYPE_CHECKING, Any, Callable, Generic, TypeVar

import unspoken
from unspoken import _unspoken
from unspoken._chat_client import Generation, ProgressOption
from unspoken._client_base import ServiceClient
from unspoken._pir_client import Query
from unspoken._search_queries import Embed

if TYPE_CHECKING:
    import numpy.typing as npt
    from typing_extensions import Concatenate, ParamSpec, Unpack

    from unspoken import (
        CompressedTable,
        ConnectionOptions,
        Cost,
        FastText,
        MatrixSignature,
        ModelInput,
        ModelOutput,
        SamplingOptions,
        ServiceOptions,
        Usage,
    )

    Arguments = ParamSpec("Arguments")

__all__ = [
    "ChatClient",
    "ClassifyClient",
    "DigitsClient",
    "EmbeddingClient",
    "GenerationStream",
    "MatrixClient",
    "ModelClient",
    "PirClient",
    "SearchClient",
    "SumsClient",
]

ClientT = TypeVar("ClientT", bound=ServiceClient)
AsyncT = TypeVar("AsyncT", bound="_AsyncClient[Any]")
Result = TypeVar("Result")


class _AsyncClient(Generic[ClientT]):
    """A client of `unspoken`, and the thread on which it works."""

    def __init__(self, client: ClientT) -> None:
        self._client = client
        # One thread, so that calls wait for each other in their order. It ends with this object.
        self._thread = ThreadPoolExecutor(1, "unspoken")
        self._process = os.getpid()

    async def _run(self, work: Callable[[], Result]) -> Result:
        """Do work on the client's thread. If the task is cancelled, the work has ended when this raises."""
        if self._process != os.getpid():
            # The thread did not follow into a forked process.
            self._thread, self._process = ThreadPoolExecutor(1, "unspoken"), os.getpid()
        interrupt = _unspoken.Interrupt()
        submitted = self._thread.submit(copy_context().run, interrupt.run, work)
        done = asyncio.wrap_future(submitted)
        try:
            await asyncio.wait([done])
        except asyncio.CancelledError:
            # Work that waits for an earlier call never begins.
            if not submitted.cancel():
                # Nobody else looks at its error.
                done.add_done_callback(lambda done: done.cancelled() or done.exception())
                interrupt.set()
                while not done.done():
                    # Another cancellation does not end the work sooner.
                    with contextlib.suppress(asyncio.CancelledError):
                        await asyncio.wait([done])
            raise
        return done.result()

    async def cost(self, questions: int) -> Cost:
        """Return what `questions` questions will take, as `ClassifyClient.cost` does. Sends no query and no keys."""
        return await self._run(lambda: self._client.cost(questions))

    async def connect(self: AsyncT) -> AsyncT:
        """Make the keys and upload them, unless the service has them; return this client."""
        await self._run(self._client.connect)
        return self

    @property
    def application(self) -> str | None:
        """The application; `None` until it is known."""
        return self._client.application

    @property
    def usage(self) -> Usage:
        """Bytes and seconds since this client was created, up to the last completed call."""
        return self._client.usage

    async def close(self) -> None:
        """Close the connection, after the calls that wait. The keys stay stored, locally and at the service."""
        await self._run(self._client.close)

    async def __aenter__(self: AsyncT) -> AsyncT:
        """Return this client."""
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close the connection."""
        await self.close()

    def __repr__(self) -> str:
        """Return address, application and state; never the token."""
        return f"<aio.{repr(self._client)[1:]}"


def _awaited(
    method: Callable[Concatenate[Any, Arguments], Result],
) -> Callable[Concatenate[_AsyncClient[Any], Arguments], Coroutine[Any, Any, Result]]:
    """Return a method of a client of `unspoken` as a coroutine of the client here."""

    @functools.wraps(method)
    async def call(self: _AsyncClient[Any], /, *arguments: Arguments.args, **options: Arguments.kwargs) -> Result:
        return await self._run(functools.partial(method, self._client, *arguments, **options))

    return call


class ClassifyClient(_AsyncClient[unspoken.ClassifyClient]):
    """As `unspoken.ClassifyClient`: a client of one classifier of a service.

    Examples
    --------
    >>> async with unspoken.aio.ClassifyClient("http://127.0.0.1:8080", model="model") as client:  # doctest: +SKIP
    ...     labels, scores = await client.classify(["win a free prize", "see you at home"])
    """

    def __init__(
        self,
        url: str,
        *,
        model: str | PathLike[str] | FastText | CompressedTable,
        cut: bool = False,
        **options: Unpack[ServiceOptions],
    ) -> None:
        super().__init__(unspoken.ClassifyClient(url, model=model, cut=cut, **options))

    classify = _awaited(unspoken.ClassifyClient.classify)
    classify_to_share = _awaited(unspoken.ClassifyClient.classify_to_share)

    async def labels(self) -> list[str]:
        """Return the label names, in the order of the scores; with a linear head it connects on first use."""
        return await self._run(lambda: self._client.labels)


class DigitsClient(_AsyncClient[unspoken.DigitsClient]):
    """As `unspoken.DigitsClient`: a client of one digit recogniser of a service.

    Examples
    --------
    >>> async with unspoken.aio.DigitsClient("http://127.0.0.1:8080") as client:  # doctest: +SKIP
    ...     digits, scores = await client.recognise(images)
    """

    def __init__(self, url: str, **options: Unpack[ServiceOptions]) -> None:
        super().__init__(unspoken.DigitsClient(url, **options))

    recognise = _awaited(unspoken.DigitsClient.recognise)
    recognise_to_share = _awaited(unspoken.DigitsClient.recognise_to_share)


class EmbeddingClient(_AsyncClient[unspoken.EmbeddingClient]):
    """As `unspoken.EmbeddingClient`: a client of one embedding table of a service.

    Examples
    --------
    >>> async with unspoken.aio.EmbeddingClient("http://127.0.0.1:8080", table="glove") as client:  # doctest: +SKIP
    ...     embeddings = await client.embed(["a", "good", "film"])
    """

    def __init__(
        self, url: str, *, table: str | PathLike[str] | CompressedTable, **options: Unpack[ServiceOptions]
    ) -> None:
        super().__init__(unspoken.EmbeddingClient(url, table=table, **options))

    embed = _awaited(unspoken.EmbeddingClient.embed)

    @property
    def tokens(self) -> list[str]:
        """The tokens that can be looked up, in the order of the table's rows."""
        return self._client.tokens


class PirClient(_AsyncClient[unspoken.PirClient]):
    """As `unspoken.PirClient`: a client of one database of a service.

    Examples
    --------
    >>> async with unspoken.aio.PirClient("http://127.0.0.1:8080", "pir/codes") as client:  # doctest: +SKIP
    ...     record = await client.get("A00.1")
    """

    def __init__(
        self,
        url: str,
        application: str | None = None,
        *,
        query: Query = "packed",
        oprf: str | None = None,
        public_key: str | None = None,
        **options: Unpack[ConnectionOptions],
    ) -> None:
        client = unspoken.PirClient(url, application, query=query, oprf=oprf, public_key=public_key, **options)
        super().__init__(client)

    get = _awaited(unspoken.PirClient.get)
    get_many = _awaited(unspoken.PirClient.get_many)
    get_index = _awaited(unspoken.PirClient.get_index)

    @property
    def version(self) -> int | None:
        """The database version of the last answer; `None` before the first."""
        return self._client.version


class SearchClient(_AsyncClient[unspoken.SearchClient]):
    """As `unspoken.SearchClient`: a client of one collection of a service. `embed` is called on the client's thread.

    Examples
    --------
    >>> async with unspoken.aio.SearchClient("http://127.0.0.1:8080", embed=model.encode) as client:  # doctest: +SKIP
    ...     found = await client.search("How long does bread bake?", k=3)
    """

    def __init__(
        self,
        url: str,
        application: str | None = None,
        *,
        embed: Embed | None = None,
        embedder: str | None = None,
        **options: Unpack[ConnectionOptions],
    ) -> None:
        super().__init__(unspoken.SearchClient(url, application, embed=embed, embedder=embedder, **options))

    search = _awaited(unspoken.SearchClient.search)
    search_many = _awaited(unspoken.SearchClient.search_many)

    async def embedder(self) -> str | None:
        """Return the name of what embedded the documents; `None` if it is unknown. Connects, if necessary."""
        return await self._run(lambda: self._client.embedder)

    async def width(self) -> int:
        """Return the number of coordinates of a vector. Connects as `embedder` does."""
        return await self._run(lambda: self._client.width)

    async def documents(self) -> int:
        """Return the number of documents when this client connected. Connects as `embedder` does."""
        return await self._run(lambda: self._client.documents)

    async def error(self) -> float:
        """Return the predicted standard deviation of the error of a cosine. Connects as `embedder` does."""
        return await self._run(lambda: self._client.error)


class MatrixClient(_AsyncClient[unspoken.MatrixClient]):
    """As `unspoken.MatrixClient`: a client of one matrix program of a service.

    Examples
    --------
    >>> async with unspoken.aio.MatrixClient("http://127.0.0.1:8080") as client:  # doctest: +SKIP
    ...     result = await client.compute(a=np.ones((4, 3)))
    """

    def __init__(self, url: str, **options: Unpack[ServiceOptions]) -> None:
        super().__init__(unspoken.MatrixClient(url, **options))

    compute = _awaited(unspoken.MatrixClient.compute)
    compute_to_share = _awaited(unspoken.MatrixClient.compute_to_share)

    async def signature(self) -> MatrixSignature:
        """Return shapes, parameters and keys of the program. Connects, if there is no connection yet."""
        return await self._run(lambda: self._client.signature)

    async def error(self) -> float:
        """Return the predicted largest error of an entry, for inputs up to `largest`. Connects as `signature` does."""
        return await self._run(lambda: self._client.error)

    async def largest(self) -> float:
        """Return the largest entry of inputs for which `error` is predicted. Connects as `signature` does."""
        return await self._run(lambda: self._client.largest)


class ModelClient(_AsyncClient[unspoken.ModelClient]):
    """As `unspoken.ModelClient`: a client of one model of a service.

    Examples
    --------
    >>> async with unspoken.aio.ModelClient("http://127.0.0.1:8080") as client:  # doctest: +SKIP
    ...     labels = await client.predict(rows)
    """

    def __init__(self, url: str, **options: Unpack[ServiceOptions]) -> None:
        super().__init__(unspoken.ModelClient(url, **options))

    ask = _awaited(unspoken.ModelClient.ask)
    predict = _awaited(unspoken.ModelClient.predict)
    predict_proba = _awaited(unspoken.ModelClient.predict_proba)

    async def inputs(self) -> tuple[ModelInput, ...]:
        """Return the inputs of the model. Connects, if there is no connection yet."""
        return await self._run(lambda: self._client.inputs)

    async def outputs(self) -> tuple[ModelOutput, ...]:
        """Return the outputs of the model. Connects as `inputs` does."""
        return await self._run(lambda: self._client.outputs)

    async def classes_(self) -> npt.NDArray[Any] | None:
        """Return the labels of the classes; `None` of a regression. Connects as `inputs` does."""
        return await self._run(lambda: self._client.classes_)


class GenerationStream(AsyncIterator[str]):
    """Pieces of a continued text as they come: as `unspoken.GenerationStream`. Made by `ChatClient.stream`.

    Examples
    --------
    >>> async for piece in await client.stream("Once upon a time"):  # doctest: +SKIP
    ...     print(piece, end="", flush=True)
    """

    def __init__(self, client: ChatClient, stream: unspoken.GenerationStream) -> None:
        self._client = client
        self._stream = stream
        # Characters that the caller has: a piece may come while its call is cancelled.
        self._given = 0

    @property
    def generation(self) -> Generation:
        """All text so far, and what it took."""
        return self._stream.generation

    async def __anext__(self) -> str:
        """Return the next piece; raise `StopAsyncIteration` at the end."""
        if len(self.generation.text) == self._given:
            await self._client._run(lambda: next(self._stream, None))
        piece = self.generation.text[self._given :]
        if not piece:
            raise StopAsyncIteration
        self._given += len(piece)
        return piece


class ChatClient(_AsyncClient[unspoken.ChatClient]):
    """As `unspoken.ChatClient`: a client of one language model of a service.

    Examples
    --------
    >>> async with unspoken.aio.ChatClient("http://127.0.0.1:8080", model="client") as client:  # doctest: +SKIP
    ...     async for piece in await client.stream("Once upon a time", max_tokens=64):
    ...         print(piece, end="", flush=True)
    """

    def __init__(
        self,
        url: str,
        *,
        model: str | PathLike[str],
        application: str | None = None,
        hide_length: bool = True,
        **options: Unpack[ConnectionOptions],
    ) -> None:
        client = unspoken.ChatClient(url, model=model, application=application, hide_length=hide_length, **options)
        super().__init__(client)

    generate = _awaited(unspoken.ChatClient.generate)

    async def stream(
        self,
        private: str,
        *,
        public: str = "",
        max_tokens: int = 32,
        progress: ProgressOption = None,
        **sampling: Unpack[SamplingOptions],
    ) -> GenerationStream:
        """Continue a text as `unspoken.ChatClient.stream` does; return an asynchronous iterator over its pieces."""
        stream = functools.partial(self._client.stream, private, public=public, max_tokens=max_tokens)
        begin = functools.partial(stream, progress=progress, **sampling)
        return GenerationStream(self, await self._run(begin))

    chat = _awaited(unspoken.ChatClient.chat)
    answer = _awaited(unspoken.ChatClient.answer)
    choices = _awaited(unspoken.ChatClient.choices)
    chat_choices = _awaited(unspoken.ChatClient.chat_choices)

    async def stream_chat(
        self,
        messages: Sequence[Mapping[str, str]],
        *,
        public_messages: int = 0,
        max_tokens: int = 32,
        progress: ProgressOption = None,
        **sampling: Unpack[SamplingOptions],
    ) -> GenerationStream:
        """Answer as `unspoken.ChatClient.stream_chat` does; return an asynchronous iterator over pieces."""
        stream = functools.partial(self._client.stream_chat, messages, public_messages=public_messages)
        begin = functools.partial(stream, max_tokens=max_tokens, progress=progress, **sampling)
        return GenerationStream(self, await self._run(begin))


class SumsClient(_AsyncClient[unspoken.SumsClient]):
    """As `unspoken.SumsClient`: a client of a collection at a service.

    Examples
    --------
    >>> async with unspoken.aio.SumsClient("http://127.0.0.1:8080", fingerprint=told) as client:  # doctest: +SKIP
    ...     await client.send({"visits": 3, "change": -1})
    """

    def __init__(
        self,
        url: str,
        application: str | None = None,
        *,
        fingerprint: str | None = None,
        trust_first: bool = False,
        **options: Unpack[ConnectionOptions],
    ) -> None:
        client = unspoken.SumsClient(url, application, fingerprint=fingerprint, trust_first=trust_first, **options)
        super().__init__(client)

    send = _awaited(unspoken.SumsClient.send)
    count = _awaited(unspoken.SumsClient.count)
    fetch = _awaited(unspoken.SumsClient.fetch)

    async def columns(self) -> dict[str, tuple[int, int]]:
        """Return the smallest and largest value of one contribution, by column. Connects, if necessary."""
        return await self._run(lambda: self._client.columns)
