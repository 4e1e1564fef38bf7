"""Continuing text with a language model without revealing the private part of the text."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from os import PathLike
from typing import TYPE_CHECKING, Callable, Literal, Union

from unspoken import _unspoken
from unspoken._client_base import ConnectionOptions, ServiceClient
from unspoken.errors import ConfigurationError

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from unspoken._sampling import SamplingOptions

_LOGGER = logging.getLogger("unspoken")

ProgressOption = Union[bool, Callable[[_unspoken.Progress], object], None]


@dataclass(frozen=True)
class Generation:
    """A continued text, and what it took.

    Attributes
    ----------
    text : str
        The continuation, without the text that it continues. ``str(generation)`` is the same.
    tokens : tuple of int
        Its tokens.
    end : {"end token", "maximum", "context", "stop"} or None
        Why it ended: the model gave a token that ends a text, `max_tokens` were given, the session has no
        room for a further chunk, or one of the strings `stop` came. `None` while a stream is not at its end.
    seed : int or None
        Seed of the random choices; `None` if the most likely tokens were chosen.
    logprobs : tuple or None
        If asked for, for each token its log-probability and a tuple of the most likely tokens in its place,
        each with its log-probability: those of the model, whatever the other options are. They contain the
        noise of the encryption, which depends on the secret key: do not share them.
    passes : int
        Passes of the service: encrypted chunks of tokens that it ran.
    tokens_per_pass : float
        Tokens given by each of the passes that gave any; the others ran full chunks of the private text.
    guessed : int
        Tokens that the client had guessed, so that the same pass also gave the token after each of them.
    seconds : float
        Seconds from the first request to the last answer, without those between two calls.
    query_bytes, answer_bytes : int
        Bytes of all queries and of all answers.

    Examples
    --------
    >>> import unspoken
    >>> str(unspoken.Generation(text=" a dog.", tokens=(263, 11203, 29889)))
    ' a dog.'
    """

    text: str = ""
    tokens: tuple[int, ...] = ()
    end: Literal["end token", "maximum", "context", "stop"] | None = None
    seed: int | None = None
    logprobs: tuple[tuple[float, tuple[tuple[int, float], ...]], ...] | None = None
    passes: int = 0
    tokens_per_pass: float = 0.0
    guessed: int = 0
    seconds: float = 0.0
    query_bytes: int = 0
    answer_bytes: int = 0

    def __str__(self) -> str:
        """Return the text."""
        return self.text


class GenerationStream(Iterator[str]):
    """Pieces of a continued text as they come: one or more tokens each, never empty.

    Made by `ChatClient.stream`. After an error, `next` asks for the same piece again. An
    `UnreadableAnswerError` is final: then the client asks nothing more.

    Attributes
    ----------
    generation : Generation
        All text so far, and what it took; at the end of the stream the same as `ChatClient.generate` returns.

    Examples
    --------
    >>> stream = client.stream("Once upon a time")  # doctest: +SKIP
    >>> for piece in stream:  # doctest: +SKIP
    ...     print(piece, end="", flush=True)
    >>> stream.generation.passes  # doctest: +SKIP
    """

    def __init__(self, proceed: Callable[[], tuple[str | None, _unspoken._Generation]]) -> None:
        self._proceed = proceed
        self.generation = Generation()

    def __next__(self) -> str:
        """Return the next piece; raise `StopIteration` at the end."""
        while True:
            piece, statistics = self._proceed()
            self.generation = Generation(text=self.generation.text + (piece or ""), **statistics)
            if piece is None:
                raise StopIteration
            if piece:
                return piece


class ChatClient(ServiceClient):
    """A client of one language model of a service. The service sees neither private text nor continuation.

    Text begins with a public part, which the service reads, and ends with a private one, which the
    client encrypts. The service reads the public text, and sees how many chunks of tokens the rest has and
    how many passes each of them takes. Each pass takes seconds to minutes.

    Parameters
    ----------
    url : str
        ``https://host:port``, or ``http://`` for a service on this machine.
    model : path
        A directory with the client half of the model: ``DIR/client`` of ``unspoken llama prepare --out DIR``.
    application : str, optional
        The model at the service, for instance ``"chat/stories"``. Default: its only application.
    hide_length : bool
        Fill private texts up to whole chunks, with dots in front of them or after the last answer. Otherwise
        the service can count the tokens of a private text, to within the right guesses.
    **options
        How to connect, where keys are stored: see `ConnectionOptions`. The keys have some gigabytes.

    Raises
    ------
    ConfigurationError
        If the address, the token or the certificates cannot be used.
    ModelError
        If `model` is not the client half of a model.

    Examples
    --------
    >>> import unspoken
    >>> with unspoken.ChatClient("http://127.0.0.1:8080", model="prepared/client") as client:  # doctest: +SKIP
    ...     print(client.generate("Once upon a time, there was a dog.", max_tokens=16).text)
    """

    _kind = "llama"

    def __init__(
        self,
        url: str,
        *,
        model: str | PathLike[str],
        application: str | None = None,
        hide_length: bool = True,
        **options: Unpack[ConnectionOptions],
    ) -> None:
        super().__init__(url, application=application, **options)
        self._hide_length = hide_length
        self._model = _unspoken.LlamaModel.load(model)
        self._conversation: tuple[int, _unspoken.LlamaConversation | None] = (os.getpid(), None)

    def generate(
        self,
        private: str,
        *,
        public: str = "",
        max_tokens: int = 32,
        progress: ProgressOption = None,
        **sampling: Unpack[SamplingOptions],
    ) -> Generation:
        """Continue a text without revealing its private part, nor the continuation.

        Parameters
        ----------
        private : str
            The end of the text; one token or more. Control tokens such as ``<|im_start|>`` are recognised.
        public : str
            The text in front of it, which the service reads.
        max_tokens : int
            Maximum number of tokens of the continuation. It also ends at a token that ends a text, and
            when the service's session is full.
        progress : bool or callable, optional
            Instead of the client's. The stage ``"answering"`` counts the layers of a pass; its note has
            the numbers of the pass and of the tokens so far.
        **sampling
            How tokens are chosen: see `SamplingOptions`. By default, the most likely ones.

        Returns
        -------
        Generation
            The continuation, and what it took.

        Raises
        ------
        ConfigurationError
            If there is no private text, no token is wanted, or an option is out of range; nothing was sent.
        MismatchError
            If the text does not fit a session, or the model is not prepared for so few public tokens;
            nothing but keys was sent.
        UnreadableAnswerError
            If what the answer decrypts to is refused. That is final: from then on this client raises it at
            once and sends nothing, because each refusal tells a dishonest service something about the text.
            Do not ask this service for this text again, also not with another client.
        KeysExpiredError
            If the service no longer has the keys; the next call makes new ones.
        KeyboardInterrupt
            On Control-C, within a fraction of a second, also within a pass.
        UnspokenError
            As for `connect`.

        Examples
        --------
        >>> generation = client.generate(" Anna has a fever.", public="Note to the doctor:")  # doctest: +SKIP
        >>> generation.text, generation.end, generation.seconds  # doctest: +SKIP
        """
        prompt = self._model.text(public, private)
        return self._whole(prompt, self._new_conversation, max_tokens, progress, sampling)

    def chat(
        self,
        messages: Sequence[Mapping[str, str]],
        *,
        public_messages: int = 0,
        max_tokens: int = 32,
        progress: ProgressOption = None,
        **sampling: Unpack[SamplingOptions],
    ) -> Generation:
        """Answer a conversation without revealing its messages, nor the answer.

        Messages become text as the model's own template says. The client keeps one session at the service:
        what the service has run of a conversation does not run again when it goes on, when its last message
        is replaced, or when it is answered once more.

        Parameters
        ----------
        messages : sequence of mappings
            The messages so far, each with ``"role"`` (``"system"``, ``"user"`` or ``"assistant"``) and ``"content"``.
        public_messages : int
            The number of messages in front that the service may read; for instance 1 for a system message
            that is no secret. They run in the clear, once.
        max_tokens, progress, **sampling
            As for `generate`.

        Returns
        -------
        Generation
            The answer, and what it took. Append ``{"role": "assistant", "content": str(generation)}`` and the
            next message to go on.

        Raises
        ------
        ConfigurationError
            If the model has no template, or the template refuses the messages; nothing was sent.
        UnspokenError
            As for `generate`.

        Examples
        --------
        >>> messages = [{"role": "user", "content": "Why is the sky blue?"}]
        >>> answer = client.chat(messages, max_tokens=64)  # doctest: +SKIP
        """
        prompt = self._prompt(messages, public_messages)
        return self._whole(prompt, self._idle_conversation, max_tokens, progress, sampling)

    def stream_chat(
        self,
        messages: Sequence[Mapping[str, str]],
        *,
        public_messages: int = 0,
        max_tokens: int = 32,
        progress: ProgressOption = None,
        **sampling: Unpack[SamplingOptions],
    ) -> GenerationStream:
        """Answer a conversation as `chat` does; return an iterator over pieces of text as they come.

        Parameters
        ----------
        messages, public_messages
            As for `chat`.
        max_tokens, progress, **sampling
            As for `stream`.

        Returns
        -------
        GenerationStream
            An iterator of str. Its attribute `generation` has what came so far, and what it took.

        Raises
        ------
        UnspokenError
            As for `chat`; some errors are raised by the iterator.

        Examples
        --------
        >>> messages = [{"role": "user", "content": "Why is the sky blue?"}]
        >>> for piece in client.stream_chat(messages, max_tokens=64):  # doctest: +SKIP
        ...     print(piece, end="", flush=True)
        """
        prompt = self._prompt(messages, public_messages)
        return self._stream(prompt, self._idle_conversation, max_tokens, self._quiet(progress), sampling)

    def stream(
        self,
        private: str,
        *,
        public: str = "",
        max_tokens: int = 32,
        progress: ProgressOption = None,
        **sampling: Unpack[SamplingOptions],
    ) -> GenerationStream:
        """Continue a text as `generate` does; return an iterator over pieces of text as they come.

        The keys are made and uploaded, if necessary, before this method returns. A client can have
        several streams, and other calls between their pieces. A stream that is not read to its end
        keeps its session at the service until that expires or makes room for another.

        Parameters
        ----------
        private, public, max_tokens
            As for `generate`.
        progress : bool or callable, optional
            As for `generate`. By default, passes draw no bars, which would overwrite the text.
        **sampling
            As for `generate`.

        Returns
        -------
        GenerationStream
            An iterator of str. Its attribute `generation` has what came so far, and what it took.

        Raises
        ------
        UnspokenError
            As for `generate`; some errors are raised by the iterator.

        Examples
        --------
        >>> for piece in client.stream("Once upon a time", max_tokens=64):  # doctest: +SKIP
        ...     print(piece, end="", flush=True)
        """
        prompt = self._model.text(public, private)
        return self._stream(prompt, self._new_conversation, max_tokens, self._quiet(progress), sampling)

    def choices(
        self,
        private: str,
        n: int,
        *,
        public: str = "",
        max_tokens: int = 32,
        progress: ProgressOption = None,
        **sampling: Unpack[SamplingOptions],
    ) -> list[Generation]:
        """Continue a text as `generate` does, `n` times, each time with other random choices.

        All are in one session of the service: the text runs once, and then for each choice only the chunk in which
        the text ends, and those of the choice.

        Parameters
        ----------
        private, public
            As for `generate`.
        n : int
            Number of continuations.
        max_tokens, progress
            As for `generate`, of each continuation.
        **sampling
            As for `generate`, with a `temperature`. The first continuation has the seed `seed`, a new one by default,
            and the others have the numbers after it.

        Returns
        -------
        list of Generation
            The continuations. To rank them, ask for `logprobs` and sum the log-probabilities of their tokens.

        Raises
        ------
        ConfigurationError
            If there is no temperature, so that all would be the same; nothing was sent.
        UnspokenError
            As for `generate`.

        Examples
        --------
        >>> choices = client.choices(" One day, she", 3, temperature=0.8, logprobs=0)  # doctest: +SKIP
        >>> best = max(choices, key=lambda one: sum(place[0] for place in one.logprobs))  # doctest: +SKIP
        """
        return self._choices(self._model.text(public, private), n, max_tokens, progress, sampling)

    def chat_choices(
        self,
        messages: Sequence[Mapping[str, str]],
        n: int,
        *,
        public_messages: int = 0,
        max_tokens: int = 32,
        progress: ProgressOption = None,
        **sampling: Unpack[SamplingOptions],
    ) -> list[Generation]:
        """Answer a conversation as `chat` does, `n` times, each time with other random choices.

        The session is another one than that of `chat`.

        Parameters
        ----------
        messages, public_messages
            As for `chat`.
        n, max_tokens, progress, **sampling
            As for `choices`.

        Returns
        -------
        list of Generation
            The answers.

        Raises
        ------
        UnspokenError
            As for `chat` and `choices`.

        Examples
        --------
        >>> messages = [{"role": "user", "content": "Name a colour."}]
        >>> client.chat_choices(messages, 3, temperature=1.0, max_tokens=8)  # doctest: +SKIP
        """
        return self._choices(self._prompt(messages, public_messages), n, max_tokens, progress, sampling)

    def answer(
        self,
        question: str,
        passages: Sequence[str],
        *,
        passage_tokens: int = 192,
        public: str = "",
        max_tokens: int = 32,
        progress: ProgressOption = None,
        **sampling: Unpack[SamplingOptions],
    ) -> Generation:
        """Answer a question from passages, such as those that `SearchClient.search` finds, without revealing either.

        Passages stand in front of the question, in the message of a conversation if the model has a template of
        conversations. They always take `passage_tokens` tokens, so that the service's work does not depend on what
        was found.

        Parameters
        ----------
        question : str
            The question.
        passages : sequence of str
            The best first: those that do not fit are cut. May be empty.
        passage_tokens : int
            Tokens of all passages together, 16 or more.
        public : str
            Text in front that the service reads: a system message, if the model has a template.
        max_tokens, progress, **sampling
            As for `generate`.

        Returns
        -------
        Generation
            The answer, and what it took.

        Raises
        ------
        ConfigurationError
            If there is no question, or there are too few tokens for passages; nothing was sent.
        UnspokenError
            As for `generate`.

        Examples
        --------
        >>> found = search.search("How long does bread bake?", k=3)  # doctest: +SKIP
        >>> client.answer("How long does bread bake?", [one.text for one in found]).text  # doctest: +SKIP
        """
        if not question.strip():
            raise ConfigurationError("answer a question: found an empty one, needed a text")
        prompt = self._model.question(question, list(passages), passage_tokens, public, int(time.time()))
        return self._whole(prompt, self._new_conversation, max_tokens, progress, sampling)

    def _prompt(self, messages: Sequence[Mapping[str, str]], public: int) -> _unspoken.LlamaPrompt:
        """Return the text of messages."""
        pairs = []
        for number, message in enumerate(messages):
            if set(message) != {"role", "content"}:
                raise ConfigurationError(
                    f"messages: found the keys {sorted(message)} in message {number}, needed 'content' and 'role'"
                )
            pairs.append((message["role"], message["content"]))
        if not 0 <= public <= len(pairs):
            raise ConfigurationError(f"public_messages: found {public}, needed 0 to {len(pairs)}")
        return self._model.messages(pairs, public, int(time.time()))

    def _idle_conversation(self) -> _unspoken.LlamaConversation:
        """Return the conversation whose session is kept; a new one if a stream, or the parent process, uses it."""
        process, conversation = self._conversation
        if process != os.getpid() or conversation is None or not conversation.idle:
            conversation = self._model.conversation(True)
            self._conversation = (os.getpid(), conversation)
        return conversation

    def _new_conversation(self) -> _unspoken.LlamaConversation:
        """Return a conversation whose session ends with its text."""
        return self._model.conversation(False)

    def _choices(
        self,
        prompt: _unspoken.LlamaPrompt,
        n: int,
        max_tokens: int,
        progress: ProgressOption,
        sampling: SamplingOptions,
    ) -> list[Generation]:
        """Continue a prompt `n` times in one session."""
        if n < 1:
            raise ConfigurationError(f"choices: found n={n}, needed 1 or more")
        if n > 1 and not sampling.get("temperature"):
            raise ConfigurationError(f"choices: found n={n} without temperature, needed one: else all are the same")
        conversation = self._model.conversation(True)
        choices: list[Generation] = []
        for number in range(n):
            options = sampling
            if choices and choices[0].seed is not None:
                options = {**sampling, "seed": (choices[0].seed + number) % 2**64}
            choices.append(self._whole(prompt, lambda: conversation, max_tokens, progress, options))
        conversation.close()
        with self._use_connection() as connection:
            connection.proceed(conversation)
        return choices

    def _quiet(self, progress: ProgressOption) -> ProgressOption:
        """Return whether a stream shows progress: bars would overwrite the text."""
        if progress is None:
            return self._progress if callable(self._progress) else False
        return progress

    def _whole(
        self,
        prompt: _unspoken.LlamaPrompt,
        conversation: Callable[[], _unspoken.LlamaConversation],
        max_tokens: int,
        progress: ProgressOption,
        sampling: SamplingOptions,
    ) -> Generation:
        progress = self._progress if progress is None else progress
        stream = self._stream(prompt, conversation, max_tokens, progress, sampling)
        for _ in stream:
            pass
        return stream.generation

    def _stream(
        self,
        prompt: _unspoken.LlamaPrompt,
        conversation: Callable[[], _unspoken.LlamaConversation],
        max_tokens: int,
        progress: ProgressOption,
        sampling: SamplingOptions,
    ) -> GenerationStream:
        if max_tokens < 1:
            raise ConfigurationError(f"continue a text: found max_tokens={max_tokens}; needed 1 or more")
        _, tokens, uncovered = self._model.read(prompt)
        if not tokens:
            raise ConfigurationError("continue a text: found no private text, needed one token or more")
        if uncovered:
            # Logs are kept where the text may not be: the number, not the tokens.
            _LOGGER.warning(
                "the preparation of the model never ran %d tokens of the text, so the answer may be refused or wrong",
                len(uncovered),
            )
        self._model.check_sampling(sampling)
        with self._use_connection() as connection:
            generation = connection.begin(conversation(), prompt, max_tokens, self._hide_length, progress, sampling)

        def proceed() -> tuple[str | None, _unspoken._Generation]:
            with self._use_connection() as connection:
                piece = connection.proceed(generation)
                return piece, generation.statistics

        return GenerationStream(proceed)

    def _part(self) -> _unspoken.LlamaModel:
        """Return the client half of the model."""
        return self._model
