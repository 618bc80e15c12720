"""The example beside transformers' own Llama: logits, tokens, scalings, sampling, bad input."""

from __future__ import annotations

import json
import math
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import pytest

import corepy
from corepy import array_api as xp
from corepy import kernels, testing

pytest.importorskip("ml_dtypes")
pytest.importorskip("safetensors")
pytest.importorskip("torch")
pytest.importorskip("transformers")

sys.path.insert(0, str(Path(__file__).parents[1]))

import generate as command
import speed
import torch
import train
import transformers
from checkpoint import read_config
from llama import Llama
from safetensors.numpy import load_file, save_file
from sampling import choose, generate, nucleus

EXAMPLE = Path(__file__).parents[1]
CHECKPOINT = EXAMPLE / "checkpoint"
BACKENDS = [b for b in ("numpy", "numba", "torch", "jax", "mlx") if b in corepy.usable_backends()]


@pytest.fixture(scope="module", autouse=True)
def one_thread() -> Iterator[None]:
    """Let torch compute in one thread, for its others wait for busy processors."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="module")
def theirs() -> Any:
    return peer(CHECKPOINT)


@pytest.fixture(scope="module")
def model() -> Llama:
    return load("numpy")


def peer(folder: Path) -> Any:
    return transformers.LlamaForCausalLM.from_pretrained(
        folder, dtype=torch.float32, local_files_only=True
    ).eval()


def load(backend: str, folder: Path = CHECKPOINT) -> Llama:
    with corepy.backend_priority([backend]):
        return Llama.load(folder)


def host(x: Any) -> Any:
    return np.asarray(corepy.to(x, backend="numpy"))


def their_logits(theirs: Any, tokens: Any) -> Any:
    with torch.no_grad():
        return theirs(torch.tensor(tokens)).logits.numpy()


def their_tokens(theirs: Any, prompt: list[int], n: int) -> list[int]:
    found = theirs.generate(
        torch.tensor([prompt]),
        attention_mask=torch.ones(1, len(prompt), dtype=torch.long),
        pad_token_id=1,
        max_new_tokens=n,
        do_sample=False,
    )
    return found[0, len(prompt) :].tolist()


def tokens_of(text: str) -> list[int]:
    return command.Tokenizer.from_file(str(CHECKPOINT / "tokenizer.json")).encode(text).ids


def close(found: Any, expected: Any) -> None:
    """Hold logits together; they go to 15, and are sums of a hundred products over three layers."""
    np.testing.assert_allclose(host(found), expected, rtol=0, atol=1e-4)


# ---------------------------------------------------------------------------- as transformers


@pytest.mark.parametrize("backend", BACKENDS)
def test_logits_and_tokens(backend: str, theirs: Any) -> None:
    ours = load(backend)
    assert ours.backend == ours.layers[0].gate.backend == backend
    prompt = tokens_of("So she set to work, and the Rabbit")
    expected = their_logits(theirs, [prompt])
    close(ours([prompt], ours.caches(32)), expected)
    n = 1 if backend == "jax" else 60  # which compiles for each length
    assert list(generate(ours, prompt, max_new_tokens=n)) == their_tokens(theirs, prompt, n)


@pytest.mark.parametrize("device", [*testing.DEVICES])
def test_on_a_device(device: str, model: Llama) -> None:
    prompt = tokens_of("So she set to work")
    options: dict[str, Any] = {"max_new_tokens": 4, "temperature": 1.0, "top_p": 0.9, "seed": 3}
    expected = list(generate(model, prompt, **options))
    before = corepy.get_fallback()
    corepy.set_fallback("raise")
    try:
        with testing.fake_devices() as fake:
            ours = load(f"fake:{device}")
            assert str(ours.embedding.device) == device
            assert list(generate(ours, prompt, **options)) == expected
            assert fake.bytes_left == 0  # but for single numbers, such as the chosen token
    finally:
        corepy.set_fallback(before)


def test_in_pieces_and_in_batches(model: Llama, theirs: Any) -> None:
    tokens = np.random.default_rng(0).integers(2, 512, (2, 17))
    expected = their_logits(theirs, tokens)
    caches = model.caches(17, batch=2)
    close(model(tokens[:, :9], caches), expected[:, :9])
    close(model(tokens[:, 9:10], caches), expected[:, 9:10])
    close(model(tokens[:, 10:], caches, last=True), expected[:, -1])
    assert [cache.length for cache in caches] == [17] * 3


def test_an_interrupt_leaves_the_caches_as_they_were(
    model: Llama, monkeypatch: pytest.MonkeyPatch
) -> None:
    caches = model.caches(8)
    model([[5, 6]], caches)
    swiglu, calls = kernels.swiglu, count(1)

    def interrupted(*args: Any) -> Any:
        if next(calls) == 2:
            raise KeyboardInterrupt
        return swiglu(*args)

    with monkeypatch.context() as patch:
        patch.setattr(kernels, "swiglu", interrupted)
        with pytest.raises(KeyboardInterrupt):
            model([[7]], caches)
    assert [cache.length for cache in caches] == [2] * 3
    expected = model([[5, 6, 7]], model.caches(8), last=True)
    np.testing.assert_allclose(
        np.asarray(model([[7]], caches, last=True)), np.asarray(expected), rtol=1e-4, atol=1e-4
    )


def test_caches_of_several_lengths_are_refused(model: Llama) -> None:
    caches = model.caches(8)
    model([[5, 6]], caches)
    caches[1].truncate(1)
    with pytest.raises(ValueError, match="^Llama: caches have lengths 1 to 2; expected one$"):
        model([[7]], caches)


SMALL: dict[str, Any] = {
    "vocab_size": 40,
    "hidden_size": 24,
    "intermediate_size": 20,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 16,
}
LLAMA3 = {"factor": 4.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0}
LONG = {"original_max_position_embeddings": 16}
MSCALE = {"mscale": 2.0, "mscale_all_dim": 1.0, "beta_fast": 2.0, "beta_slow": 0.5}
VARIANTS: dict[str, dict[str, Any]] = {
    "plain": {"num_key_value_heads": 4, "rope_parameters": {"rope_type": "default"}},
    "wide heads": {"num_key_value_heads": 1, "head_dim": 10},
    "linear": {"rope_parameters": {"rope_type": "linear", "factor": 4.0}},
    "dynamic": {"rope_parameters": {"rope_type": "dynamic", "factor": 4.0}},
    "yarn": {"rope_parameters": {"rope_type": "yarn", "factor": 4.0, **LONG}},
    "yarn by mscale": {"rope_parameters": {"rope_type": "yarn", "factor": 4.0, **MSCALE, **LONG}},
    "llama3": {"rope_parameters": {"rope_type": "llama3", **LLAMA3, **LONG}},
}


def save_small(folder: Path, **options: Any) -> Any:
    torch.manual_seed(0)
    if "rope_parameters" in options:
        options["rope_parameters"] = {"rope_theta": 100.0, **options["rope_parameters"]}
        if options["rope_parameters"]["rope_type"] not in ("default", "dynamic"):
            options["max_position_embeddings"] = 64
    config = transformers.LlamaConfig(**{**SMALL, **options})
    theirs = transformers.LlamaForCausalLM(config).eval()
    with torch.no_grad():
        for parameter in theirs.parameters():  # so that every part has a say
            parameter.normal_(0.0, 0.3).add_(parameter.ndim == 1)
    theirs.save_pretrained(folder, max_shard_size="3KB")
    return theirs


@pytest.mark.parametrize("name", VARIANTS)
def test_variants(name: str, tmp_path: Path) -> None:
    theirs = save_small(tmp_path, **VARIANTS[name])
    assert len(list(tmp_path.glob("model-*.safetensors"))) > 1
    ours = load("numpy", tmp_path)
    context = 16 if name in ("plain", "wide heads") else 64
    assert ours.config.context == context
    tokens = np.random.default_rng(1).integers(0, 40, (1, min(context, 40)))
    steps = [(0, 12), *((i, i + 1) for i in range(12, tokens.shape[1]))]
    caches, theirs_cache = ours.caches(context), transformers.DynamicCache(config=theirs.config)
    for start, stop in steps:
        piece = tokens[:, start:stop]
        with torch.no_grad():
            expected = speed.with_cache(theirs, piece, theirs_cache).logits.numpy()
        np.testing.assert_allclose(host(ours(piece, caches)), expected, rtol=0, atol=3e-4)


def test_older_configs(tmp_path: Path) -> None:
    save_small(tmp_path, **VARIANTS["llama3"])
    path = tmp_path / "config.json"
    new = read_config(tmp_path)
    values = json.loads(path.read_text())
    values |= {"rope_theta": values["rope_parameters"].pop("rope_theta")}
    values["rope_scaling"] = values.pop("rope_parameters")
    values["rope_scaling"]["type"] = values["rope_scaling"].pop("rope_type")
    path.write_text(json.dumps(values))
    assert read_config(tmp_path) == new
    assert new.rope["scaling"] == "llama3"


def test_configs_of_both_forms(tmp_path: Path) -> None:
    """As by hand, to stretch what a newer transformers has saved."""
    save_small(tmp_path, rope_parameters={"rope_type": "default"}, max_position_embeddings=64)
    path = tmp_path / "config.json"
    values = json.loads(path.read_text())
    values["rope_scaling"] = {"type": "linear", "factor": 4.0}
    path.write_text(json.dumps(values))
    theirs = transformers.LlamaForCausalLM.from_pretrained(tmp_path).eval()
    tokens = np.arange(40)[None, :]
    with torch.no_grad():
        expected = theirs(torch.asarray(tokens)).logits.numpy()
    ours = load("numpy", tmp_path)
    assert ours.config.rope["scaling"] == "linear"
    np.testing.assert_allclose(host(ours(tokens, ours.caches(40))), expected, rtol=0, atol=3e-4)


# ---------------------------------------------------------------------------- the checkpoint


def test_the_checkpoint_is_trained(model: Llama) -> None:
    text = train.TEXT.read_text(encoding="utf-8")
    start = text.index("Alice was not a bit hurt")
    tokens = tokens_of(text[start : start + 300])
    logits = host(model([tokens], model.caches(len(tokens))))[0].astype(np.float64)
    sums = np.log(np.exp(logits).sum(-1))
    losses = sums[:-1] - logits[np.arange(len(tokens) - 1), tokens[1:]]
    assert losses[5:].mean() < 0.3 < math.log(512)
    assert train.make_tokenizer(text).encode(text[:500]).ids == tokens_of(text[:500])


def test_training_writes_what_is_read(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert train.main(["--out", str(tmp_path), "--steps", "2"]) == 0
    assert "344736 parameters" in capfd.readouterr().out
    ours, theirs = load("numpy", tmp_path), peer(tmp_path)
    prompt = tokens_of("Alice")
    close(ours([prompt], ours.caches(9)), their_logits(theirs, [prompt]))
    torch.manual_seed(0)
    tokens = torch.tensor(tokens_of(train.TEXT.read_text(encoding="utf-8")))
    losses = train.train(theirs.train(), tokens, steps=8, show=0)
    assert losses[-1] < losses[0] - 0.15


# ---------------------------------------------------------------------------- choosing tokens


@pytest.mark.parametrize(
    ("temperature", "top_p"), [(1.0, 0.9), (0.5, 0.6), (2.0, 1.0), (1.0, 0.01)]
)
def test_nucleus(temperature: float, top_p: float) -> None:
    logits = np.random.default_rng(3).normal(0.0, 3.0, 50).astype(np.float32)
    warped = torch.from_numpy(logits)[None] / temperature
    if top_p < 1.0:
        warped = transformers.TopPLogitsWarper(top_p)(None, warped)
    expected = torch.softmax(warped, -1)[0].numpy()
    tokens, p = nucleus(xp.asarray(logits), temperature, top_p)
    found = np.zeros(50)
    found[host(tokens)] = host(p) / host(p).sum()
    np.testing.assert_allclose(found, expected, atol=1e-6)
    assert (found > 0).sum() == (expected > 0).sum()


@pytest.mark.parametrize("temperature", [1e-30, 1e-40, 1e-310])
def test_low_temperatures_choose_the_likeliest(temperature: float) -> None:
    logits = xp.asarray(np.asarray([1.0, 3.0, 2.0], np.float32))
    tokens, p = nucleus(logits, temperature, 1.0)
    assert host(tokens).tolist() == [1, 2, 0]
    assert host(p).tolist() == [1.0, 0.0, 0.0]


def test_the_least_top_p_chooses_the_likeliest() -> None:
    logits = xp.asarray(np.asarray([1.0, 3.0, 2.0], np.float32))
    for top_p in (1e-30, 1e-46, 5e-324):  # of which float32 lacks the last two
        for draw in (0.0, 0.99):
            assert choose(logits, 1.0, top_p, draw) == 1


def test_choosing() -> None:
    p = np.asarray([0.5, 0.0625, 0.25, 0.125, 0.0625])
    logits = xp.asarray(np.log(p).astype(np.float32))
    draws = (np.arange(1600) + 0.5) / 1600
    found = np.bincount([choose(logits, 1.0, 1.0, d) for d in draws], minlength=5)
    np.testing.assert_allclose(found / 1600, p, atol=2e-3)
    found = np.bincount([choose(logits, 1.0, 0.7, d) for d in draws], minlength=5)
    np.testing.assert_allclose(found / 1600, [2 / 3, 0, 1 / 3, 0, 0], atol=2e-3)
    assert choose(logits, 1.0, 0.7, np.nextafter(1.0, 0.0)) == 2
    assert choose(logits, 0.0, 0.7, 0.99) == 0
    assert choose(logits, 1e-4, 1.0, 0.99) == 0


def test_seeds(model: Llama) -> None:
    prompt = tokens_of("The Mouse")

    def texts(*seeds: int, **options: float) -> list[tuple[int, ...]]:
        return [tuple(generate(model, prompt, max_new_tokens=8, seed=s, **options)) for s in seeds]

    assert len({*texts(0, 1, 2, temperature=3.0)}) == 3
    assert len({*texts(1, 1, temperature=3.0)}) == 1
    assert {*texts(0, 1, temperature=3.0, top_p=1e-6)} == {*texts(0)}


def test_a_text_ends(tmp_path: Path, model: Llama) -> None:
    prompt = tokens_of("The Mouse")
    whole = list(generate(model, prompt, max_new_tokens=6))
    for name in ("model.safetensors", "config.json"):
        shutil.copy(CHECKPOINT / name, tmp_path)
    edit(eos_token_id=[1, whole[3]])(tmp_path)
    assert list(generate(load("numpy", tmp_path), prompt, max_new_tokens=6)) == whole[:3]


# ---------------------------------------------------------------------------- bad input


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"prompt": []}, "prompt has 0 tokens"),
        ({"prompt": [0, 512]}, "unknown: [512]; expected at least one, and numbers below 512"),
        ({"temperature": -0.1}, "temperature is -0.1; expected 0 or more"),
        ({"temperature": math.nan}, "temperature is nan; expected 0 or more"),
        ({"top_p": 0.0}, "top_p is 0.0; expected more than 0 and at most 1"),
        ({"top_p": 1.5}, "top_p is 1.5; expected more than 0 and at most 1"),
        ({"seed": -1}, "seed is -1; expected 0 or more"),
        ({"max_new_tokens": 0}, "max_new_tokens is 0; expected 1 to 254"),
        ({"max_new_tokens": 255}, "max_new_tokens is 255; expected 1 to 254, for the prompt has 2"),
        ({"prompt": [0] * 261}, "prompt has 261 tokens; expected fewer than 256, the context"),
        ({"prompt": [0, 5.5]}, "a token of prompt is of type float; expected an integer"),
        ({"max_new_tokens": 3.0}, "max_new_tokens is of type float; expected an integer"),
        ({"seed": 1.0}, "seed is of type float; expected an integer"),
        ({"temperature": "1"}, "temperature is of type str; expected a real number"),
        ({"temperature": 10**400}, "temperature is inf; expected 0 or more"),
        ({"top_p": None}, "top_p is of type NoneType; expected a real number"),
    ],
)
def test_bad_requests(model: Llama, options: dict[str, Any], words: str) -> None:
    given: dict[str, Any] = {"prompt": [0, 5], "max_new_tokens": 3} | options
    error = TypeError if "of type" in words else ValueError
    with pytest.raises(error, match=re.escape(words)):  # at once, not with the first token
        generate(model, given.pop("prompt"), **given)


@pytest.mark.parametrize(
    ("tokens", "error", "words"),
    [
        ([[3, -1]], IndexError, "tokens has values from -1 to 3; expected 0 to 511"),
        ([[10**6]], IndexError, "tokens has values from 1000000 to 1000000; expected 0 to 511"),
        ([[]], ValueError, "tokens has shape (1, 0); expected (batch, length)"),
        ([3], ValueError, "tokens has shape (1,); expected (batch, length)"),
        ([[5.5]], TypeError, "tokens has dtype float64; expected integers"),
    ],
)
def test_bad_tokens(model: Llama, tokens: Any, error: type[Exception], words: str) -> None:
    caches = model.caches(8)
    with pytest.raises(error, match=re.escape(words)):
        model(tokens, caches)
    assert caches[0].length == 0


def test_caches_are_one_for_each_layer(model: Llama) -> None:
    words = f"^Llama: caches has {{}} entries; expected {len(model.layers)}, one for each layer$"
    caches = model.caches(4)
    for few in ([], caches[1:]):
        with pytest.raises(ValueError, match=words.format(len(few))):
            model([[3]], few)


@pytest.mark.parametrize("temperature", [0.0, 1.0])
@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_logits_that_tell_nothing(temperature: float, value: float) -> None:
    logits = xp.asarray([1.0, value, -math.inf], dtype=xp.float32)
    with pytest.raises(ValueError, match=f"^choose: the greatest of logits is {value}; expected a"):
        choose(logits, temperature, 0.9, 0.5)
    hidden = xp.asarray([-math.inf, 2.0, -math.inf], dtype=xp.float32)
    assert choose(hidden, temperature, 1.0, 0.5) == 1


def test_the_context_and_the_caches_have_an_end(model: Llama) -> None:
    with pytest.raises(ValueError, match="tokens reach position 257; expected at most 256"):
        model(np.zeros((1, 257), int), model.caches(300))
    caches = model.caches(4)
    with pytest.raises(ValueError, match="KVCache.append: k has 5 positions"):
        model(np.zeros((1, 5), int), caches)


Change = Callable[[Path], object]


def edit(**values: Any) -> Change:
    """Change ``config.json``."""

    def change(folder: Path) -> None:
        path = folder / "config.json"
        path.write_text(json.dumps(json.loads(path.read_text()) | values))

    return change


def write(name: str, text: str) -> Change:
    return lambda folder: (folder / name).write_text(text)


def store(**tensors: Any) -> Change:
    return lambda folder: save_file(tensors, folder / "model.safetensors")


def rename(old: str, new: str | None, *, dtype: Any = np.float32) -> Change:
    """Store the tensors of the config, one of them by another name, or not."""

    def change(folder: Path) -> None:
        shapes = read_config(folder).shapes()
        tensors = {n: np.zeros(s, np.float32) for n, s in shapes.items()}
        kept = tensors.pop(old).astype(dtype)
        save_file(tensors | ({} if new is None else {new: kept}), folder / "model.safetensors")

    return change


NORM = "model.norm.weight"


def spoil(folder: Path) -> None:
    """Store a weight that is no number, as of a training that came apart."""
    tensors = load_file(folder / "model.safetensors")
    tensors[NORM][0] = math.nan
    save_file(tensors, folder / "model.safetensors")


@pytest.mark.parametrize(
    ("change", "error", "words"),
    [
        (lambda f: (f / "config.json").unlink(), FileNotFoundError, "config.json"),
        (edit(architectures=["GPT2LMHeadModel"]), ValueError, "expected LlamaForCausalLM"),
        (edit(hidden_act="gelu"), ValueError, "hidden_act is 'gelu'; this example computes 'silu'"),
        (edit(attention_bias=True), ValueError, "attention_bias is True"),
        (edit(num_hidden_layers=0), ValueError, "num_hidden_layers is 0; expected a positive int"),
        (edit(vocab_size=None), ValueError, "vocab_size is None; expected a positive integer"),
        (edit(num_key_value_heads=4), ValueError, "num_key_value_heads is 4; expected a divisor"),
        (edit(head_dim=7), ValueError, "head_dim is 7; expected an even number"),
        (edit(rope_parameters={"rope_type": "longrope"}), ValueError, "computes default, linear"),
        (edit(rope_parameters={"rope_type": "linear"}), ValueError, "factor is None; expected a f"),
        (edit(rope_parameters=[1]), ValueError, "rope scaling is [1]; this example computes"),
        (edit(rope_parameters={"rope_type": ["a"]}), ValueError, "this example computes default"),
        (
            edit(rope_parameters={"rope_type": "llama3", **LLAMA3, "high_freq_factor": [4]}),
            ValueError,
            "high_freq_factor is [4]; expected a finite number of at least 0",
        ),
        (
            edit(
                rope_parameters={
                    "rope_type": "llama3",
                    **LLAMA3,
                    "original_max_position_embeddings": "8192",
                }
            ),
            ValueError,
            "original_max_position_embeddings is '8192'; expected a positive integer",
        ),
        (edit(rms_norm_eps=math.nan), ValueError, "rms_norm_eps is nan; expected a finite number"),
        (edit(rms_norm_eps="tiny"), ValueError, "rms_norm_eps is 'tiny'; expected a finite number"),
        (edit(eos_token_id=[{}]), ValueError, "eos_token_id is [{}]; expected integers"),
        (edit(architectures=3), ValueError, "architectures is 3; expected LlamaForCausalLM"),
        (
            write("model.safetensors.index.json", '{"weight_map": {"a": ["b"]}}'),
            ValueError,
            "index.json has no weight_map; expected one from tensors to files",
        ),
        (edit(hidden_size=90), ValueError, "has shape (512, 96); expected (512, 90) by the config"),
        (edit(tie_word_embeddings=False), ValueError, "lm_head.weight is missing; expected the"),
        (edit(num_hidden_layers=2), ValueError, "and 6 more are unknown in a Llama of this config"),
        (lambda f: (f / "model.safetensors").unlink(), FileNotFoundError, "model.safetensors is m"),
        (store(), ValueError, "and 26 more are missing"),
        (write("config.json", "{"), ValueError, "config.json is no JSON: Expecting property"),
        (write("config.json", "[" * 100_000), ValueError, "config.json is no JSON: maximum recurs"),
        (write("config.json", "[]"), ValueError, "config.json holds a list; expected an object"),
        (write("model.safetensors", "no header"), ValueError, "expected files of safetensors"),
        (write("model.safetensors.index.json", "{}"), ValueError, "index.json has no weight_map"),
        (
            write("model.safetensors.index.json", '{"weight_map": {"a": "b.safetensors"}}'),
            FileNotFoundError,
            "b.safetensors is missing",
        ),
        (rename(NORM, None), ValueError, "model.norm.weight is missing"),
        (rename(NORM, "model.norm.bias"), ValueError, "model.norm.bias is unknown"),
        (rename(NORM, NORM, dtype=np.int8), ValueError, "norm.weight has dtype I8; expected BF16"),
    ],
)
def test_bad_checkpoints(
    change: Change, error: type[Exception], words: str, tmp_path: Path
) -> None:
    for name in ("config.json", "model.safetensors"):
        shutil.copy(CHECKPOINT / name, tmp_path)
    change(tmp_path)
    with pytest.raises(error) as caught:
        Llama.load(tmp_path)
    assert words in str(caught.value)


# ---------------------------------------------------------------------------- the command


def test_the_command(theirs: Any, capfd: pytest.CaptureFixture[str]) -> None:
    prompt = "Alice was not a bit hurt"
    options = [str(CHECKPOINT), "--prompt", prompt, "--backend", "torch"]
    assert command.main([*options, "--max-new-tokens", "20"]) == 0
    shown = capfd.readouterr().out
    assert shown.startswith(prompt)
    assert shown.strip() in train.TEXT.read_text(encoding="utf-8")  # which it knows by heart
    tokenizer = command.Tokenizer.from_file(str(CHECKPOINT / "tokenizer.json"))
    tokens = their_tokens(theirs, tokens_of(prompt), 20)
    assert shown == prompt + tokenizer.decode(tokens) + "\n"


def test_the_benchmark(capfd: pytest.CaptureFixture[str]) -> None:
    options = ["--backends", "numpy", "torch", "--prompt", "5", "--new", "3", "--rounds", "1"]
    assert speed.main([str(CHECKPOINT), *options]) == 0
    shown, complaints = capfd.readouterr()
    assert not complaints  # all chose the same tokens
    rows = [line.split("|")[1:-1] for line in shown.splitlines() if line.startswith("|")]
    assert [row[0].strip() for row in rows[2:]] == ["`numpy`", "`torch`", "transformers"]
    assert [float(cell) for cell in rows[-1][2::2]] == [1.0, 1.0]
    assert all(float(cell) > 0 for row in rows[2:] for cell in row[1:])


def test_no_memory_for_the_text_is_told(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    def caches(*args: Any) -> NoReturn:
        raise MemoryError("KVCache: 8 GiB; 1 GiB is free")

    monkeypatch.setattr(Llama, "caches", caches)
    with pytest.raises(SystemExit) as caught:
        command.main([str(CHECKPOINT), "--prompt", "Alice"])
    assert caught.value.code == 2
    assert "KVCache: 8 GiB; 1 GiB is free" in capfd.readouterr().err


@pytest.mark.skipif(sys.platform == "win32", reason="no pipes that break")
def test_a_reader_that_goes_away() -> None:
    arguments = [sys.executable, command.__file__, str(CHECKPOINT), "--prompt", "Alice"]
    with subprocess.Popen(arguments, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        assert process.stderr.read() == b""
    assert process.returncode == 141


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["nowhere"], "nowhere/tokenizer.json is missing"),
        ([str(CHECKPOINT), "--backend", "fortran"], "'fortran'"),
        ([str(CHECKPOINT), "--temperature", "-1"], "temperature is -1.0; expected 0 or more"),
        ([str(CHECKPOINT), "--max-new-tokens", "900"], "max_new_tokens is 900; expected 1 to"),
    ],
)
def test_bad_commands(options: list[str], words: str, capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        command.main([*options, "--prompt", "Alice"])
    assert caught.value.code == 2
    assert words in capfd.readouterr().err


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (write("tokenizer.json", '{"version"'), "tokenizer.json: EOF while parsing"),
        (edit(max_position_embeddings=10**15), "rope_tables: its tables have"),
        (spoil, "choose: the greatest of logits is nan; expected a finite number"),
    ],
)
def test_commands_on_bad_checkpoints(
    change: Change, words: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    for name in ("config.json", "model.safetensors", "tokenizer.json"):
        shutil.copy(CHECKPOINT / name, tmp_path)
    change(tmp_path)
    with pytest.raises(SystemExit) as caught:
        command.main([str(tmp_path), "--prompt", "Alice"])
    assert caught.value.code == 2
    assert words in capfd.readouterr().err
