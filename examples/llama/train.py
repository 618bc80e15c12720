"""Train a small Llama on a text, and write it in the form that checkpoints have on the hub.

    python train.py --out checkpoint

`checkpoint` beside this file is what the command above made of `alice.txt`, chapters I to III of
Lewis Carroll's Alice's Adventures in Wonderland (1865): bfloat16, as Llama's own, in 700 KB. The
model and the writer are those of `transformers`. It takes a minute or two on one processor. The
same machine and libraries make the same file again; others round differently, so the file is kept.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

TEXT: Final = Path(__file__).with_name("alice.txt")
BEGIN: Final = "<|begin|>"
END: Final = "<|end|>"
VOCABULARY: Final = 512
LENGTH: Final = 128
BATCH: Final = 16


def make_tokenizer(text: str) -> Any:
    """Learn byte pairs of a text; every text that is encoded gets a beginning."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCABULARY,
        special_tokens=[BEGIN, END],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator([text], trainer)
    tokenizer.post_processor = processors.TemplateProcessing(
        single=f"{BEGIN} $A", special_tokens=[(BEGIN, tokenizer.token_to_id(BEGIN))]
    )
    return tokenizer


def make_model(tokenizer: Any) -> Any:
    """Make the untrained model: three layers, six heads of queries and two of keys."""
    return LlamaForCausalLM(
        LlamaConfig(
            vocab_size=tokenizer.get_vocab_size(),
            hidden_size=96,
            intermediate_size=256,
            num_hidden_layers=3,
            num_attention_heads=6,
            num_key_value_heads=2,
            max_position_embeddings=256,
            rms_norm_eps=1e-5,
            tie_word_embeddings=True,
            bos_token_id=tokenizer.token_to_id(BEGIN),
            eos_token_id=tokenizer.token_to_id(END),
        )
    )


def train(model: Any, tokens: torch.Tensor, steps: int, show: int = 100) -> list[float]:
    """Train on pieces of a text, each from a random place on, and return the losses."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=4e-3, betas=(0.9, 0.95), weight_decay=0.1)
    rate = torch.optim.lr_scheduler.LambdaLR(
        optimizer,
        lambda step: min(1.0, (step + 1) / 20) * (0.51 + 0.49 * math.cos(math.pi * step / steps)),
    )
    losses = []
    for step in range(1, steps + 1):
        starts = torch.randint(len(tokens), (BATCH, 1))  # the end goes on with the beginning
        batch = tokens[(starts + torch.arange(LENGTH)) % len(tokens)]
        batch[:, 0] = model.config.bos_token_id  # every text that is encoded begins so
        loss = model(input_ids=batch, labels=batch).loss
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        rate.step()
        losses.append(float(loss.detach()))
        if show and step % show == 0:
            print(f"step {step}: loss {losses[-1]:.3f}", flush=True)
    return losses


def main(argv: Sequence[str] | None = None) -> int:
    """Train, and write ``config.json``, ``model.safetensors`` and ``tokenizer.json``."""
    parser = argparse.ArgumentParser(description="Train a small Llama on a text.")
    parser.add_argument("--text", type=Path, default=TEXT)
    parser.add_argument("--out", type=Path, required=True, help="a folder, made if it is not there")
    parser.add_argument("--steps", type=int, default=800)
    options = parser.parse_args(argv)
    if options.steps < 1:
        parser.error(f"--steps is {options.steps}; expected at least 1")
    torch.set_num_threads(1)  # sums in one order, and no waiting for busy processors
    torch.manual_seed(0)
    text = options.text.read_text(encoding="utf-8")
    tokenizer = make_tokenizer(text)
    tokens = torch.tensor(tokenizer.encode(text + END).ids)
    if len(tokens) < LENGTH:
        parser.error(f"--text has {len(tokens)} tokens; expected at least {LENGTH}")
    model = make_model(tokenizer)
    train(model, tokens, options.steps)
    model.to(torch.bfloat16).save_pretrained(options.out)
    PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, bos_token=BEGIN, eos_token=END
    ).save_pretrained(options.out)
    print(f"{model.num_parameters()} parameters in {options.out}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
