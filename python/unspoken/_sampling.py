"""How the next token of a text is chosen."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypedDict


class SamplingOptions(TypedDict, total=False):
    """How the next token is chosen, as keyword arguments. The client chooses: the service sees none of it.

    Applied in this order: bias, penalties, temperature, min-p, top-k, top-p. `top_k`, `top_p`, `min_p` and `seed` need
    `temperature`.

    Attributes
    ----------
    temperature : float
        Logits are divided by it. 0, the default, gives the most likely token.
    top_k : int
        Only so many of the most likely tokens; 0, the default, for all.
    top_p : float
        Only the fewest most likely tokens that have this probability together. 1 by default.
    min_p : float
        Only tokens of at least this part of the largest probability. 0 by default.
    repetition_penalty : float
        Divides the logits of tokens that prompt and text have; negative ones are multiplied. 1 by default.
    presence_penalty, frequency_penalty : float
        Subtracted from the logits of generated tokens, once or as often as they were generated. 0 by default.
    logit_bias : dict of int to float
        Added to the logits of tokens, by id.
    seed : int, optional
        The same seed gives the same text, but for choices that the noise of the encryption decides. By default a
        new one, which `Generation.seed` tells.
    stop : str or sequence of str
        The text ends before the first of these strings.
    logprobs : int, optional
        Tell the log-probability of each token, and of so many of the most likely tokens in its place, at most 20:
        `Generation.logprobs`.

    Examples
    --------
    >>> import unspoken
    >>> options: unspoken.SamplingOptions = {"temperature": 0.8, "top_p": 0.95, "seed": 1}
    >>> client.generate("Once upon a time", **options)  # doctest: +SKIP
    """

    temperature: float
    top_k: int
    top_p: float
    min_p: float
    repetition_penalty: float
    presence_penalty: float
    frequency_penalty: float
    logit_bias: dict[int, float]
    seed: int | None
    stop: str | Sequence[str]
    logprobs: int | None
