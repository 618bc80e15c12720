"""Tables of the angles of rotary embeddings, also for texts longer than a model was trained on."""

from __future__ import annotations

import math
from typing import Any, Literal

import numpy as np

from corepy._errors import bad_argument
from corepy.dispatch import make, table_of
from corepy.kernels._arguments import choice, finite, floating, whole
from corepy.kernels._memory import Host

_SCALINGS = (None, "linear", "ntk", "yarn")


def rope_tables(
    length: int,
    head_dim: int,
    *,
    base: float = 10000.0,
    scaling: Literal["linear", "ntk", "yarn"] | None = None,
    factor: float = 1.0,
    original_length: int | None = None,
    beta_fast: float = 32.0,
    beta_slow: float = 1.0,
    attention_factor: float | None = None,
    like: Any = None,
) -> tuple[Any, Any]:
    """Make the tables ``cos`` and ``sin`` that `rope` takes.

    The angle of pair i at a position is ``position / base ** (2 * i / head_dim)``.

    Parameters
    ----------
    length : int
        Positions, from 0 on.
    head_dim : int
        Elements of a head; even.
    base : float
        Often called theta; more than 1.
    scaling : {None, "linear", "ntk", "yarn"}
        How a model is stretched to `factor` times the positions that it was trained on.
        ``"linear"`` divides all positions by `factor`. ``"ntk"`` raises the base to
        ``base * factor ** (head_dim / (head_dim - 2))``, so that the slowest pair is divided by
        `factor` and the fastest stays. ``"yarn"`` divides the pairs that turn less than `beta_slow`
        times over `original_length`, leaves those that turn more than `beta_fast` times, and goes
        from one to the other linearly in between.
    factor : float
        At least 1, and 1 without `scaling`.
    original_length : int or None
        Positions that the model was trained on; needed by ``"yarn"``, and by that alone.
    beta_fast, beta_slow : float
        As above; for ``"yarn"``.
    attention_factor : float or None
        What both tables are multiplied by under ``"yarn"``. None: ``0.1 * log(factor) + 1``.
    like : array or None
        The tables are arrays of its library, on its device: of float64 if it is, else of float32,
        in which 16-bit floats are computed too. None: NumPy arrays of float32.

    Returns
    -------
    cos, sin : array (length, head_dim // 2)
        Computed in float64 and rounded once.

    Raises
    ------
    TypeError
        If an argument is of another type.
    ValueError
        If a number is out of its range, or means nothing without another `scaling`.

    References
    ----------
    Su et al., RoFormer, 2021, https://arxiv.org/abs/2104.09864; Chen et al., Extending Context
    Window of Large Language Models via Positional Interpolation, 2023,
    https://arxiv.org/abs/2306.15595; Peng et al., YaRN, 2023, https://arxiv.org/abs/2309.00071,
    which describes "NTK-aware" scaling too.

    Examples
    --------
    >>> cos, sin = rope_tables(4, 8)
    >>> cos.shape, cos[0].tolist(), sin[0].tolist()
    ((4, 4), [1.0, 1.0, 1.0, 1.0], [0.0, 0.0, 0.0, 0.0])
    """
    name = "rope_tables"
    length = whole(name, "length", length, 0)
    size = whole(name, "head_dim", head_dim, 2)
    if size % 2:
        raise bad_argument(name, "head_dim", head_dim, "an even number")
    base = finite(name, "base", base)
    if base <= 1.0:
        raise bad_argument(name, "base", base, "a number greater than 1")
    choice(name, "scaling", scaling, _SCALINGS)
    factor = finite(name, "factor", factor, 1.0)
    if scaling is None and factor != 1.0:
        raise bad_argument(name, "factor", factor, "1, or a scaling that uses it")
    if scaling != "yarn":
        for argument, value in (
            ("original_length", original_length),
            ("attention_factor", attention_factor),
        ):
            if value is not None:
                raise bad_argument(name, argument, value, 'None, or scaling="yarn"')
    model = None if like is None else floating(name, "like", like)

    exponents = np.arange(0, size, 2) / size
    gain = 1.0
    if scaling == "ntk":
        if size == 2:
            raise bad_argument(name, "head_dim", head_dim, 'more than 2, with scaling="ntk"')
        base *= factor ** (size / (size - 2))
    speeds = base**-exponents
    if scaling == "linear":
        speeds = speeds / factor
    elif scaling == "yarn":
        trained = whole(name, "original_length", original_length, 1)
        fast = finite(name, "beta_fast", beta_fast, 0.0)
        slow = finite(name, "beta_slow", beta_slow, 0.0)
        if not 0.0 < slow < fast:
            raise bad_argument(name, "beta_slow", beta_slow, "more than 0 and less than beta_fast")
        speeds = _yarn(speeds, base, factor, trained, fast, slow)
        gain = 0.1 * math.log(factor) + 1.0
        if attention_factor is not None:
            gain = finite(name, "attention_factor", attention_factor)
    angles = np.arange(length)[:, None] * speeds
    dtype = "float32" if model is None else model.wide
    tables = tuple((f(angles) * gain).astype(dtype) for f in (np.cos, np.sin))
    if model is None:
        return tables[0], tables[1]
    place = model.device or model.backend.devices()[0]
    natives = [model.backend.from_numpy(table, place) for table in tables]
    if model.table is not None:
        table = table_of(model.backend, place, model.table.dtype)
        natives = [make(native, table) for native in natives]
    return natives[0], natives[1]


def _yarn(speeds: Host, base: float, factor: float, trained: int, fast: float, slow: float) -> Host:
    """Divide slow pairs by the factor and leave fast ones, as section 3.2 of YaRN has it."""
    half = len(speeds)

    def pair(turns: float) -> float:
        """Return which pair turns so many times over the trained length."""
        return half * math.log(trained / (turns * 2.0 * math.pi)) / math.log(base)

    low = max(math.floor(pair(fast)), 0)
    high = min(math.ceil(pair(slow)), 2 * half - 1)
    # Where both are one pair, the way from one to the other is a step.
    ramp = np.clip((np.arange(half) - low) / (high - low if high > low else 0.001), 0.0, 1.0)
    return speeds * (1.0 - ramp) + speeds / factor * ramp
