"""Checkpoints of Llama as they are on the Hugging Face hub: ``config.json`` and safetensors."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import ml_dtypes  # noqa: F401 (tells NumPy of bfloat16, in which most checkpoints are kept)
import numpy as np
from safetensors import SafetensorError, safe_open

import corepy
from corepy import array_api as xp

#: What the scalings of a config are called by `rope_tables`.
_SCALINGS: Final = {
    "default": None,
    "linear": "linear",
    "dynamic": "ntk",
    "yarn": "yarn",
    "llama3": "llama3",
}
_FLOATS: Final = ("BF16", "F16", "F32", "F64")


@dataclass(frozen=True, slots=True)
class Config:
    """Sizes of a model, by their names in ``config.json``.

    Attributes
    ----------
    rope : mapping
        What `corepy.kernels.rope_tables` takes.
    dynamic : bool
        Whether a text is stretched as it grows beyond `max_position_embeddings`, and not before.
    eos_token_ids : frozenset of int
        Tokens that end a text.
    """

    vocab_size: int
    hidden_size: int
    intermediate_size: int
    num_hidden_layers: int
    num_attention_heads: int
    num_key_value_heads: int
    head_dim: int
    max_position_embeddings: int
    rms_norm_eps: float = 1e-6
    tie_word_embeddings: bool = False
    rope: Mapping[str, Any] = field(default_factory=dict)
    dynamic: bool = False
    eos_token_ids: frozenset[int] = frozenset()

    @property
    def context(self) -> int:
        """How many positions there are."""
        stretched = self.rope["factor"] if self.dynamic else 1.0
        return int(self.max_position_embeddings * stretched)

    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Return the shape of each tensor, by its name in a checkpoint."""
        hidden, inner = self.hidden_size, self.intermediate_size
        queries = self.num_attention_heads * self.head_dim
        keys = self.num_key_value_heads * self.head_dim
        layer = {
            "input_layernorm": (hidden,),
            "self_attn.q_proj": (queries, hidden),
            "self_attn.k_proj": (keys, hidden),
            "self_attn.v_proj": (keys, hidden),
            "self_attn.o_proj": (hidden, queries),
            "post_attention_layernorm": (hidden,),
            "mlp.gate_proj": (inner, hidden),
            "mlp.up_proj": (inner, hidden),
            "mlp.down_proj": (hidden, inner),
        }
        found: dict[str, tuple[int, ...]] = {
            f"model.layers.{i}.{name}.weight": shape
            for i in range(self.num_hidden_layers)
            for name, shape in layer.items()
        }
        found["model.embed_tokens.weight"] = (self.vocab_size, hidden)
        found["model.norm.weight"] = (hidden,)
        if not self.tie_word_embeddings:
            found["lm_head.weight"] = (self.vocab_size, hidden)
        return found


# ---------------------------------------------------------------------------- config.json


def read_config(folder: Path) -> Config:
    """Read ``config.json``.

    Raises
    ------
    FileNotFoundError
        If there is none.
    ValueError
        If it is of another architecture, or of a variant that this example does not compute.
    """
    path = folder / "config.json"
    values = _json(path)
    known = values.get("architectures") or [values.get("model_type")]
    if not isinstance(known, list) or known[0] not in ("LlamaForCausalLM", "llama"):
        raise ValueError(f"{path}: architectures is {known}; expected LlamaForCausalLM")
    for name, expected in (
        ("hidden_act", "silu"),
        ("attention_bias", False),
        ("mlp_bias", False),
        ("quantization_config", None),
    ):
        if (found := values.get(name, expected)) != expected:
            raise ValueError(f"{path}: {name} is {found!r}; this example computes {expected!r}")

    def size(name: str, default: int | None = None) -> int:
        return _size(path, values, name, default)

    heads, hidden = size("num_attention_heads"), size("hidden_size")
    kv_heads, head_dim = size("num_key_value_heads", heads), size("head_dim", hidden // heads)
    if heads % kv_heads:
        raise ValueError(
            f"{path}: num_key_value_heads is {kv_heads}; expected a divisor of the {heads} heads"
        )
    if head_dim % 2:
        raise ValueError(f"{path}: head_dim is {head_dim}; expected an even number")
    positions = size("max_position_embeddings", 2048)
    rope, dynamic = _rope(path, values, positions)
    ends = values.get("eos_token_id")
    ends = [] if ends is None else ends if isinstance(ends, list) else [ends]
    if not all(isinstance(end, int) for end in ends):
        raise ValueError(f"{path}: eos_token_id is {ends}; expected integers")
    return Config(
        vocab_size=size("vocab_size"),
        hidden_size=hidden,
        intermediate_size=size("intermediate_size"),
        num_hidden_layers=size("num_hidden_layers"),
        num_attention_heads=heads,
        num_key_value_heads=kv_heads,
        head_dim=head_dim,
        max_position_embeddings=positions,
        rms_norm_eps=_number(path, values, "rms_norm_eps", 1e-6),
        tie_word_embeddings=bool(values.get("tie_word_embeddings", False)),
        rope=rope,
        dynamic=dynamic,
        eos_token_ids=frozenset(ends),
    )


def _json(path: Path) -> dict[str, Any]:
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:  # of what is nested too deep
        raise ValueError(f"{path} is no JSON: {error}") from None
    if not isinstance(found, dict):
        raise ValueError(f"{path} holds a {type(found).__name__}; expected an object")
    return found


def _rope(path: Path, values: Mapping[str, Any], positions: int) -> tuple[dict[str, Any], bool]:
    """Return what `rope_tables` takes, of either form that configs have had.

    Where there are both the older one counts, as in transformers.
    """
    given = values.get("rope_scaling") or values.get("rope_parameters") or {}
    known = isinstance(given, dict) and given.get("truncate", True)
    kind = given.get("rope_type", given.get("type", "default")) if known else None
    if kind not in list(_SCALINGS):
        raise ValueError(
            f"{path}: rope scaling is {given}; this example computes {', '.join(_SCALINGS)}, "
            f"the one of yarn truncated"
        )

    def number(name: str, default: float | None = None) -> float:
        return _number(path, given, name, default)

    rope: dict[str, Any] = {
        "base": number("rope_theta", _number(path, values, "rope_theta", 10000.0))
    }
    if kind == "default":
        return rope, False
    rope |= {"scaling": _SCALINGS[kind], "factor": number("factor")}
    if kind in ("yarn", "llama3"):
        original = _size(path, given, "original_max_position_embeddings", positions)
        rope["original_length"] = original
    if kind == "llama3":
        rope["beta_fast"] = number("high_freq_factor")
        rope["beta_slow"] = number("low_freq_factor")
    if kind == "yarn":
        rope["beta_fast"] = number("beta_fast", 0.0) or 32.0
        rope["beta_slow"] = number("beta_slow", 0.0) or 1.0
        rope["attention_factor"] = _attention_factor(path, given)
    return rope, kind == "dynamic"


def _attention_factor(path: Path, given: Mapping[str, Any]) -> float | None:
    """Return the factor of YaRN's tables, or None for the paper's."""
    if given.get("attention_factor") is not None:
        return _number(path, given, "attention_factor")
    over, under = (_number(path, given, name, 0.0) for name in ("mscale", "mscale_all_dim"))
    if not (over and under):
        return None
    grown = 0.1 * math.log(_number(path, given, "factor"))
    return (grown * over + 1.0) / (grown * under + 1.0)


def _size(path: Path, values: Mapping[str, Any], name: str, default: int | None = None) -> int:
    found = values.get(name)
    found = default if found is None else found
    if not isinstance(found, int) or found < 1:
        raise ValueError(f"{path}: {name} is {found!r}; expected a positive integer")
    return found


def _number(
    path: Path, values: Mapping[str, Any], name: str, default: float | None = None
) -> float:
    found = values.get(name)
    found = default if found is None else found
    if not isinstance(found, (int, float)) or not 0 <= found <= sys.float_info.max:
        raise ValueError(f"{path}: {name} is {found!r}; expected a finite number of at least 0")
    return float(found)


# ---------------------------------------------------------------------------- tensors


def read_tensors(folder: Path, config: Config) -> dict[str, Any]:
    """Read the tensors of a model as float32 arrays, where new arrays are created.

    Raises
    ------
    FileNotFoundError
        If there is neither ``model.safetensors`` nor the index of one in parts, or a part lacks.
    ValueError
        If tensors are missing or unknown, or one has another shape, or no floating-point dtype.
    """
    expected = config.shapes()
    home = xp.empty(0, dtype=xp.float32)  # where the priority has new arrays
    found = {}
    try:
        for name, tensor in _stored(folder, expected):
            host = tensor.astype(np.float32, copy=False)
            found[name] = corepy.to(host, backend=home.backend, device=home.device)
    except SafetensorError as error:
        raise ValueError(f"{folder}: {error}; expected files of safetensors") from error
    if missing := expected.keys() - found:
        raise ValueError(f"{folder}: {_names(missing)} missing; expected the tensors of a Llama")
    return found


def _stored(folder: Path, expected: Mapping[str, tuple[int, ...]]) -> Iterator[tuple[str, Any]]:
    """Yield the tensors that are expected, of all files."""
    for path in _files(folder):
        with safe_open(path, framework="np") as file:
            ignored = {n for n in file.keys() if n.endswith("rotary_emb.inv_freq")}  # noqa: SIM118
            ignored.add("lm_head.weight")  # of tied ones, some keep both
            unknown = set(file.keys()) - expected.keys() - ignored
            if unknown:
                raise ValueError(f"{path}: {_names(unknown)} unknown in a Llama of this config")
            for name in sorted(set(file.keys()) & expected.keys()):
                stored = file.get_slice(name)
                shape, dtype = tuple(stored.get_shape()), stored.get_dtype()
                if shape != expected[name]:
                    raise ValueError(
                        f"{path}: {name} has shape {shape}; expected {expected[name]} by the config"
                    )
                if dtype not in _FLOATS:
                    raise ValueError(
                        f"{path}: {name} has dtype {dtype}; expected {', '.join(_FLOATS)}"
                    )
                yield name, file.get_tensor(name)


def _files(folder: Path) -> list[Path]:
    """Return the files of a checkpoint: one, or the parts that its index names."""
    index = folder / "model.safetensors.index.json"
    if index.is_file():
        parts = _json(index).get("weight_map")
        if not isinstance(parts, dict) or not all(isinstance(p, str) for p in parts.values()):
            raise ValueError(f"{index} has no weight_map; expected one from tensors to files")
        files = [folder / part for part in sorted(set(parts.values()))]
    else:
        files = [folder / "model.safetensors"]
    for file in files:
        if not file.is_file():
            raise FileNotFoundError(f"{file} is missing; expected the weights of a checkpoint")
    return files


def _names(names: set[str]) -> str:
    """Name the first of some tensors."""
    first = sorted(names)[:3]
    more = f" and {len(names) - 3} more" if len(names) > 3 else ""
    return f"{', '.join(first)}{more} {'is' if len(names) == 1 else 'are'}"
