"""Choosing tokens from what a `Llama` gives, in the array API."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator, Sequence
from numbers import Real
from operator import index
from typing import Any

import numpy as np
from llama import Llama

from corepy import array_api as xp
from corepy import kernels


def nucleus(logits: Any, temperature: float, top_p: float) -> tuple[Any, Any]:
    """Return the likeliest tokens that together reach a probability, and the probabilities.

    Parameters
    ----------
    logits : Array (vocab_size,)
    temperature, top_p : float

    Returns
    -------
    tokens, probabilities : Array (vocab_size,)
        In falling order; the probabilities are zero from where those before reach `top_p`.
    """
    tokens = xp.argsort(logits, descending=True)
    scale = min(1.0 / temperature, sys.float_info.max)  # the least of temperatures are zero
    p = kernels.softmax(xp.take(logits, tokens), -1, scale=scale)
    before = xp.cumulative_sum(p) - p
    least = xp.finfo(p.dtype).smallest_normal  # the likeliest is in, before which there is nothing
    return tokens, xp.where(before < max(top_p, least), p, 0.0)


def choose(logits: Any, temperature: float, top_p: float, draw: float) -> int:
    """Choose a token: the likeliest at a temperature of 0, else by a number drawn from [0, 1).

    Raises
    ------
    ValueError
        If the greatest of the logits is NaN or infinite, which tells nothing of any token.
    """
    top = float(xp.max(logits))
    if not math.isfinite(top):
        raise ValueError(f"choose: the greatest of logits is {top}; expected a finite number")
    if temperature == 0.0:
        return int(xp.argmax(logits))
    tokens, p = nucleus(logits, temperature, top_p)
    reached = xp.cumulative_sum(p)
    place = int(xp.count_nonzero(reached <= draw * reached[-1]))
    return int(tokens[min(place, int(xp.count_nonzero(p)) - 1)])  # `draw` may round up to 1


def _whole(argument: str, value: Any) -> int:
    try:
        return index(value)
    except TypeError:
        kind = type(value).__name__
        message = f"generate: {argument} is of type {kind}; expected an integer"
        raise TypeError(message) from None


def _real(argument: str, value: Any) -> float:
    if not isinstance(value, Real):
        kind = type(value).__name__
        raise TypeError(f"generate: {argument} is of type {kind}; expected a real number")
    try:
        return float(value)
    except OverflowError:  # of an integer
        return math.inf


def generate(
    model: Llama,
    prompt: Sequence[int],
    *,
    max_new_tokens: int,
    temperature: float = 0.0,
    top_p: float = 1.0,
    seed: int = 0,
) -> Iterator[int]:
    """Yield the tokens that follow a prompt, up to one that ends the text.

    Raises
    ------
    TypeError
        If a token, `max_new_tokens` or `seed` is no integer, or `temperature` or `top_p` no real
        number. Before any work.
    ValueError
        If the prompt is empty or has unknown tokens, `temperature` or `seed` is negative, `top_p`
        not within (0, 1], or the text would be longer than the context. Before any work. Later if
        the model gives no finite logits.
    MemoryError
        If no memory holds the keys and values of so long a text. Before any work.
    """
    config = model.config
    prompt = [_whole("a token of prompt", token) for token in prompt]
    max_new_tokens, seed = _whole("max_new_tokens", max_new_tokens), _whole("seed", seed)
    temperature, top_p = _real("temperature", temperature), _real("top_p", top_p)
    unknown = [t for t in prompt if not 0 <= t < config.vocab_size]
    if not prompt or unknown:
        raise ValueError(
            f"generate: prompt has {len(prompt)} tokens, of which unknown: {unknown[:3]}; expected "
            f"at least one, and numbers below {config.vocab_size}"
        )
    if not (math.isfinite(temperature) and temperature >= 0.0):
        raise ValueError(f"generate: temperature is {temperature}; expected 0 or more")
    if not 0.0 < top_p <= 1.0:
        raise ValueError(f"generate: top_p is {top_p}; expected more than 0 and at most 1")
    if seed < 0:
        raise ValueError(f"generate: seed is {seed}; expected 0 or more")
    if len(prompt) >= config.context:
        raise ValueError(
            f"generate: prompt has {len(prompt)} tokens; expected fewer than {config.context}, the "
            f"context of the model"
        )
    total = len(prompt) + max_new_tokens
    if max_new_tokens < 1 or total > config.context:
        raise ValueError(
            f"generate: max_new_tokens is {max_new_tokens}; expected 1 to "
            f"{config.context - len(prompt)}, for the prompt has {len(prompt)} tokens and the "
            f"context {config.context}"
        )

    caches = model.caches(total)

    def tokens() -> Iterator[int]:
        rng, new = np.random.default_rng(seed), list(prompt)
        for _ in range(max_new_tokens):
            logits = model([new], caches, last=True)[0, :]
            new = [choose(logits, temperature, top_p, rng.random())]
            if new[0] in config.eos_token_ids:
                return
            yield new[0]

    return tokens()
