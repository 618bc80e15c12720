"""A Llama in the array API and `corepy.kernels`.

Nothing here names a library. The model's arrays say where it runs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

# The example's folder is the first place where Python looks for modules.
from checkpoint import Config, read_config, read_tensors

import corepy
from corepy import array_api as xp
from corepy import kernels


@dataclass(frozen=True, slots=True)
class Layer:
    """Weights of one block; matrices are turned, (in, out), so that ``x @ matrix`` applies them."""

    attention_norm: Any
    q: Any
    k: Any
    v: Any
    o: Any
    mlp_norm: Any
    gate: Any
    up: Any
    down: Any


class Llama:
    """A decoder-only transformer: RMSNorm, rotary embeddings, grouped heads, SwiGLU.

    Parameters
    ----------
    config : Config
    tensors : mapping of str to Array
        Weights by their names in a checkpoint, as `read_tensors` returns them.
    """

    def __init__(self, config: Config, tensors: Mapping[str, Any]) -> None:
        def layer(i: int) -> Layer:
            def of(name: str) -> Any:
                return tensors[f"model.layers.{i}.{name}.weight"]

            return Layer(
                attention_norm=of("input_layernorm"),
                **{name: of(f"self_attn.{name}_proj").T for name in "qkvo"},
                mlp_norm=of("post_attention_layernorm"),
                **{name: of(f"mlp.{name}_proj").T for name in ("gate", "up", "down")},
            )

        self.config = config
        self.layers = [layer(i) for i in range(config.num_hidden_layers)]
        self.embedding = tensors["model.embed_tokens.weight"]
        self.norm = tensors["model.norm.weight"]
        tied = config.tie_word_embeddings
        self.head = (self.embedding if tied else tensors["lm_head.weight"]).T
        self._tables = self._rope_tables(0 if config.dynamic else config.context)

    @classmethod
    def load(cls, folder: str | Path) -> Llama:
        """Load a checkpoint, to where new arrays are created."""
        config = read_config(Path(folder))
        return cls(config, read_tensors(Path(folder), config))

    @property
    def backend(self) -> str:
        """Name of the backend that has the weights."""
        return str(self.embedding.backend)

    def caches(self, capacity: int, batch: int = 1) -> list[kernels.KVCache]:
        """Make memory for the keys and values of so many positions, for each layer."""
        c = self.config
        shape = (batch, c.num_key_value_heads, capacity, c.head_dim)
        return [kernels.KVCache(*shape, like=self.embedding) for _ in self.layers]

    def __call__(
        self, tokens: Any, caches: Sequence[kernels.KVCache], *, last: bool = False
    ) -> Any:
        """Read tokens on from what the caches hold, and return what may follow each of them.

        Parameters
        ----------
        tokens : integers (batch, length)
        caches : sequence of KVCache
            As `caches` made them; the tokens' keys and values are added, if all goes well.
        last : bool
            Whether only the last position is asked for.

        Returns
        -------
        Array (batch, length, vocab_size) or, for the last position, (batch, vocab_size)
            Logits.

        Raises
        ------
        TypeError
            If tokens are no integers.
        ValueError
            If there are none, in one row for each sequence, or more than fit, or if the caches
            are not one for each layer, or hold texts of several lengths.
        IndexError
            If one is not in the vocabulary.
        """
        host = self._known(tokens)
        if len(caches) != len(self.layers):
            raise ValueError(
                f"Llama: caches has {len(caches)} entries; expected {len(self.layers)}, one for "
                f"each layer"
            )
        start, *more = sorted({cache.length for cache in caches})
        if more:
            raise ValueError(f"Llama: caches have lengths {start} to {more[-1]}; expected one")
        try:
            return self._read(host, caches, start, last)
        except BaseException:  # an interrupt, too, which leaves some layers without the tokens
            for cache in caches:
                cache.truncate(start)
            raise

    def _read(self, host: Any, caches: Sequence[kernels.KVCache], start: int, last: bool) -> Any:
        (batch, length), eps = host.shape, self.config.rms_norm_eps
        cos, sin = self._angles(start, start + length)
        ids = corepy.to(host.reshape(-1), backend=self.backend, device=self.embedding.device)
        x = xp.take(self.embedding, ids, axis=0)  # (batch * length, hidden_size), as all below
        y = kernels.rms_norm(x, self.layers[0].attention_norm, eps)
        following = [*(layer.attention_norm for layer in self.layers[1:]), self.norm]
        for layer, cache, norm in zip(self.layers, caches, following, strict=True):
            y = self._attention(layer, y, cache, batch, cos, sin)
            y, x = kernels.rms_norm(y, layer.mlp_norm, eps, residual=x)
            y = kernels.swiglu(y @ layer.up, y @ layer.gate) @ layer.down
            y, x = kernels.rms_norm(y, norm, eps, residual=x)
        if last:
            return xp.reshape(y, (batch, length, -1))[:, -1, :] @ self.head
        return xp.reshape(y @ self.head, (batch, length, -1))

    def _known(self, tokens: Any) -> Any:
        """Return tokens as an array of the host."""
        host = np.asarray(tokens)
        if host.ndim != 2 or not host.size:
            raise ValueError(f"Llama: tokens has shape {host.shape}; expected (batch, length)")
        if host.dtype.kind not in "iu":
            raise TypeError(f"Llama: tokens has dtype {host.dtype}; expected integers")
        low, high, most = int(host.min()), int(host.max()), self.config.vocab_size - 1
        if low < 0 or high > most:
            raise IndexError(f"Llama: tokens has values from {low} to {high}; expected 0 to {most}")
        return host.astype(np.int32)

    def _attention(
        self, layer: Layer, x: Any, cache: kernels.KVCache, batch: int, cos: Any, sin: Any
    ) -> Any:
        """Let each position look at itself and at what came before."""

        def heads(y: Any) -> Any:  # (batch, heads, length, head_dim)
            y = xp.reshape(y, (batch, x.shape[0] // batch, -1, self.config.head_dim))
            return xp.permute_dims(y, (0, 2, 1, 3))

        q, k, v = heads(x @ layer.q), heads(x @ layer.k), heads(x @ layer.v)
        cache.append(kernels.rope(k, cos, sin), v)
        y = cache.attend(kernels.rope(q, cos, sin))
        return xp.reshape(xp.permute_dims(y, (0, 2, 1, 3)), (x.shape[0], -1)) @ layer.o

    def _angles(self, start: int, stop: int) -> tuple[Any, Any]:
        """Return the tables of some positions."""
        if stop > self.config.context:
            raise ValueError(
                f"Llama: tokens reach position {stop}; expected at most {self.config.context}, "
                f"the context of the model"
            )
        # Stretched for the present length; keys in the cache keep the angles that they have.
        tables = self._rope_tables(stop) if self.config.dynamic else self._tables
        return tables[0][start:stop, :], tables[1][start:stop, :]

    def _rope_tables(self, length: int) -> tuple[Any, Any]:
        c, rope = self.config, dict(self.config.rope)
        if c.dynamic:
            over = max(length / c.max_position_embeddings, 1.0)
            rope["factor"] = rope["factor"] * over - (rope["factor"] - 1.0)
        return kernels.rope_tables(length, c.head_dim, **rope, like=self.embedding)
