"""Go on with a text.

    python generate.py checkpoint --prompt "Alice was beginning"
    python generate.py checkpoint --prompt "The Rabbit" --temperature 0.8 --top-p 0.9 --seed 1

The folder holds ``config.json``, ``tokenizer.json`` and ``model.safetensors``, or its parts with an
index, as the hub has them for models of the architecture LlamaForCausalLM.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path

from llama import Llama
from sampling import generate
from tokenizers import Tokenizer
from tokenizers.decoders import DecodeStream

import corepy


def read_tokenizer(path: Path) -> Tokenizer:
    """Read ``tokenizer.json``.

    Raises
    ------
    FileNotFoundError
        If there is none.
    ValueError
        If it is none of the library tokenizers.
    """
    if not path.is_file():
        raise FileNotFoundError(f"{path} is missing; expected the tokenizer of the model")
    try:
        return Tokenizer.from_file(str(path))
    except Exception as error:  # the library has no narrower one
        raise ValueError(f"{path}: {error}; expected what tokenizers saves") from error


def main(argv: Sequence[str] | None = None) -> int:
    """Print the prompt and what the model makes of it, as it comes."""
    parser = argparse.ArgumentParser(description="Go on with a text.")
    parser.add_argument("checkpoint", type=Path, help="a folder")
    parser.add_argument("--prompt", required=True)
    parser.add_argument("--max-new-tokens", type=int, default=60, metavar="N")
    parser.add_argument("--temperature", type=float, default=0.0, help="0: the likeliest tokens")
    parser.add_argument(
        "--top-p",
        type=float,
        default=1.0,
        metavar="P",
        help="sample from the likeliest tokens whose probabilities add up to P",
    )
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--backend", help="default: where corepy creates arrays")
    options = parser.parse_args(argv)
    try:
        vocabulary = options.checkpoint / "tokenizer.json"
        tokenizer = read_tokenizer(vocabulary)
        priority = corepy.backend_priority([options.backend]) if options.backend else nullcontext()
        with priority:
            model = Llama.load(options.checkpoint)
        prompt = tokenizer.encode(options.prompt).ids
        tokens = generate(
            model,
            prompt,
            max_new_tokens=options.max_new_tokens,
            temperature=options.temperature,
            top_p=options.top_p,
            seed=options.seed,
        )
    except (ValueError, OSError, MemoryError, corepy.CorepyError) as error:
        parser.error(str(error))
    text = DecodeStream(ids=prompt, skip_special_tokens=True)
    try:
        print(options.prompt, end="", flush=True)
        for token in tokens:
            print(text.step(tokenizer, token) or "", end="", flush=True)
        print(flush=True)
    except BrokenPipeError:  # the reader has seen enough, as `head` does
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141
    except ValueError as error:  # the model gives no numbers
        print(flush=True)
        parser.error(str(error))
    return 0


if __name__ == "__main__":
    sys.exit(main())
