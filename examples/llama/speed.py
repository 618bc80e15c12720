"""Tokens per second on each backend, beside transformers' own Llama, interleaved in one run.

    python speed.py checkpoint
    python speed.py --random                # random weights in the sizes of SmolLM2-135M
    python speed.py checkpoint --backends numpy torch --rounds 10

The prompt is read at once, then tokens one by one, each the likeliest to follow. The figures are
medians; "of transformers" is the median over the rounds of the ratio within one round. JAX compiles
for each length that a text has: what is measured is the second time.
"""

from __future__ import annotations

import argparse
import inspect
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
import torch
from llama import Llama
from transformers import DynamicCache, LlamaConfig, LlamaForCausalLM
from transformers.utils import logging

import corepy
from corepy import array_api as xp

# From a checkout, of which this is a part.
sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from benchmarks import _measure

PEER: Final = "transformers"
SIZES: Final = {
    "vocab_size": 49152,
    "hidden_size": 576,
    "intermediate_size": 1536,
    "num_hidden_layers": 30,
    "num_attention_heads": 9,
    "num_key_value_heads": 3,
    "max_position_embeddings": 2048,
    "tie_word_embeddings": True,
}

Calls = tuple[Callable[[], Any], Callable[[], Any]]


def ours(folder: Path, backend: str, prompt: Any, new: int) -> Calls:
    """Return what reads a prompt, and what goes on from it, with a backend."""
    with corepy.backend_priority([backend]):
        model = Llama.load(folder)
    length = prompt.shape[1]
    read = model.caches(length + new)
    first = int(xp.argmax(model(prompt, read, last=True)))

    def fill() -> Any:
        return int(xp.argmax(model(prompt, model.caches(length + new), last=True)))

    def go_on() -> list[int]:
        for cache in read:
            cache.truncate(length)
        tokens = [first]
        while len(tokens) <= new:
            tokens.append(int(xp.argmax(model([tokens[-1:]], read, last=True))))
        return tokens

    return fill, go_on


def with_cache(model: Any, tokens: Any, cache: Any, **params: Any) -> Any:
    """Run transformers' model with a cache, by the name that this has in its version."""
    known = inspect.signature(model.forward).parameters
    name = "cache" if "cache" in known else "past_key_values"  # from 5.24 on, and before
    return model(torch.as_tensor(tokens), **{name: cache}, **params)


def theirs(folder: Path, prompt: Any, new: int) -> Calls:
    """Return the same of transformers, on torch, without the loop of its `generate`."""
    model = LlamaForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
    length = prompt.shape[1]

    def read(tokens: Any, cache: Any) -> int:
        with torch.inference_mode():
            found = with_cache(model, tokens, cache, logits_to_keep=1)
            return int(found.logits[0, -1].argmax())

    kept = DynamicCache(config=model.config)
    first = read(prompt, kept)

    def go_on() -> list[int]:
        if (added := kept.get_seq_length() - length) > 0:
            kept.crop(-added)
        tokens = [first]
        while len(tokens) <= new:
            tokens.append(read([tokens[-1:]], kept))
        return tokens

    return lambda: read(prompt, DynamicCache(config=model.config)), go_on


def measure(folder: Path, backends: Sequence[str], length: int, new: int, rounds: int) -> str:
    """Measure, hold the answers together, and return the table."""
    vocabulary = LlamaConfig.from_pretrained(folder).vocab_size
    prompt = np.random.default_rng(0).integers(2, vocabulary, (1, length))
    players = {f"`{backend}`": ours(folder, backend, prompt, new) for backend in backends}
    players[PEER] = theirs(folder, prompt, new)
    rows = [["", "prompt, tokens/s", "of transformers", "decode, tokens/s", "of transformers"]]
    rows += [[name] for name in players]
    for work, count in enumerate((length, new)):
        calls = {name: pair[work] for name, pair in players.items()}
        answers = {name: call() for name, call in calls.items()}
        for name, answer in answers.items():
            if answer != answers[PEER]:
                print(f"{name} chose {answer}, {PEER} {answers[PEER]}", file=sys.stderr)
        statements = {n: _measure.Statement("f()", {"f": call}) for n, call in calls.items()}
        once = dict.fromkeys(statements, 1)
        times = _measure.interleave(statements, rounds, once, pause=0.01, rehearse=1e-3)
        timings = _measure.compare(times, PEER)
        for row in rows[1:]:
            timing = timings[row[0]]
            row += [f"{count / timing.median_ns * 1e9:.0f}", f"{1 / timing.ratio:.2f}"]
    return _measure.markdown(rows)


def main(argv: Sequence[str] | None = None) -> int:
    """Measure and print the table."""
    parser = argparse.ArgumentParser(description="Measure tokens per second on each backend.")
    parser.add_argument("checkpoint", type=Path, nargs="?", help="a folder")
    parser.add_argument("--random", action="store_true", help="random weights of 135M parameters")
    parser.add_argument("--backends", nargs="+", default=["numpy", "numba", "torch", "jax"])
    parser.add_argument("--prompt", type=int, default=128, metavar="N", help="tokens to read")
    parser.add_argument("--new", type=int, default=32, metavar="N", help="tokens to add")
    parser.add_argument("--rounds", type=int, default=5, metavar="N")
    options = parser.parse_args(argv)
    if (options.checkpoint is None) is not options.random:
        parser.error("expected a checkpoint or --random, and not both")
    if min(options.prompt, options.new, options.rounds) < 1:
        parser.error("expected numbers of at least 1")
    # Else transformers would look for a repository of that name.
    if options.checkpoint is not None and not (options.checkpoint / "config.json").is_file():
        parser.error(f"checkpoint is {str(options.checkpoint)!r}; expected a folder with a model")
    usable = corepy.usable_backends()
    if unusable := [backend for backend in options.backends if backend not in usable]:
        parser.error(f"--backends has {', '.join(unusable)}; expected some of {', '.join(usable)}")
    logging.disable_progress_bar()
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made) if options.random else options.checkpoint
        if options.random:
            torch.manual_seed(0)
            LlamaForCausalLM(LlamaConfig(**SIZES)).to(torch.bfloat16).save_pretrained(folder)
        table = measure(folder, options.backends, options.prompt, options.new, options.rounds)
    names = _measure.versions(["numpy", "numba", "torch", "jax", "transformers"])
    print(
        f"{_measure.processor()}, {corepy.get_num_threads()} threads, "
        f"{', '.join(f'{name} {number}' for name, number in names.items())}; float32; a prompt of "
        f"{options.prompt} tokens and {options.new} more, {options.rounds} rounds.\n\n{table}"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
