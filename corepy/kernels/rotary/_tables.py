"""Tables of the angles of rotary embeddings, also for texts longer than a model was trained on."""

from __future__ import annotations

import math
from operator import index
from typing import Any, Literal

import numpy as np

from corepy._errors import bad_argument
from corepy.array_api._arguments import addressable
from corepy.kernels._arguments import choice, finite, floating, whole
from corepy.kernels._memory import Host, placed

_SCALINGS = (None, "linear", "ntk", "yarn", "llama3")
#: How often a pair turns over the trained length that is still left alone, where nobody says.
_FAST = {"yarn": 32.0, "llama3": 4.0}


def rope_tables(
    length: int,
    head_dim: int,
    *,
    base: float = 10000.0,
    scaling: Literal["linear", "ntk", "yarn", "llama3"] | None = None,
    factor: float = 1.0,
    original_length: int | None = None,
    beta_fast: float | None = None,
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
    scaling : {None, "linear", "ntk", "yarn", "llama3"}
        How a model is stretched to `factor` times the positions that it was trained on.
        ``"linear"`` divides all positions by `factor`. ``"ntk"`` raises the base to
        ``base * factor ** (head_dim / (head_dim - 2))``, so that the slowest pair is divided by
        `factor` and the fastest stays. ``"yarn"`` divides the pairs that turn less than `beta_slow`
        times over `original_length`, leaves those that turn more than `beta_fast` times, and goes
        from one to the other linearly in between, over the numbers of the pairs. ``"llama3"`` does
        so over how often they turn, as Llama 3.1 and later have it, where the two are called
        ``low_freq_factor`` and ``high_freq_factor``.
    factor : float
        At least 1, and 1 without `scaling`.
    original_length : int or None
        Positions that the model was trained on; needed by ``"yarn"`` and ``"llama3"``, and by
        those alone.
    beta_fast : float or None
        As above; for ``"yarn"`` and ``"llama3"``. None: 32 and 4.
    beta_slow : float
        As above.
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
    MemoryError
        If no memory holds the tables.

    References
    ----------
    Su et al., RoFormer, 2021, https://arxiv.org/abs/2104.09864; Chen et al., Extending Context
    Window of Large Language Models via Positional Interpolation, 2023,
    https://arxiv.org/abs/2306.15595; Peng et al., YaRN, 2023, https://arxiv.org/abs/2309.00071,
    which describes "NTK-aware" scaling too; Grattafiori et al., The Llama 3 Herd of Models, 2024,
    https://arxiv.org/abs/2407.21783

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
    addressable(name, length, size, holder="its tables have")
    base = finite(name, "base", base)
    if base <= 1.0:
        raise bad_argument(name, "base", base, "a number greater than 1")
    choice(name, "scaling", scaling, _SCALINGS)
    factor = finite(name, "factor", factor, 1.0)
    if scaling is None and factor != 1.0:
        raise bad_argument(name, "factor", factor, "1, or a scaling that uses it")
    for argument, value, users in (
        ("original_length", original_length, ("yarn", "llama3")),
        ("beta_fast", beta_fast, ("yarn", "llama3")),
        ("attention_factor", attention_factor, ("yarn",)),
    ):
        if value is not None and scaling not in users:
            words = " or ".join(f'scaling="{user}"' for user in users)
            raise bad_argument(name, argument, value, f"None, or {words}")
    slow = finite(name, "beta_slow", beta_slow, 0.0)
    if slow != 1.0 and scaling not in _FAST:
        raise bad_argument(name, "beta_slow", beta_slow, "1, or a scaling that uses it")
    model = None if like is None else floating(name, "like", like)
    dtype = "float32" if model is None else model.wide

    if scaling == "ntk" and size == 2:
        raise bad_argument(name, "head_dim", head_dim, 'more than 2, with scaling="ntk"')
    trained = fast = 0.0
    if scaling in _FAST:
        if original_length is None:
            expected = f'an integer, which scaling="{scaling}" needs'
            raise bad_argument(name, "original_length", original_length, expected)
        trained = finite(
            name, "original_length", whole(name, "original_length", original_length, 1)
        )
        fast = finite(name, "beta_fast", _FAST[scaling] if beta_fast is None else beta_fast, 0.0)
        if not 0.0 < slow < fast:
            raise bad_argument(name, "beta_slow", beta_slow, "more than 0 and less than beta_fast")
    gain = None
    if attention_factor is not None:
        gain = finite(name, "attention_factor", attention_factor)
        if abs(gain) > float(np.finfo(dtype).max):
            raise bad_argument(name, "attention_factor", gain, f"a number that {dtype} holds")
    numbers = [_settled(x) for x in (base, factor, trained, fast, slow)]
    speeds, usual = _speeds(index(size), scaling, *numbers)
    angles = np.arange(length)[:, None] * np.asarray(speeds, np.float64)
    gain = usual if gain is None else gain
    cos, sin = ((f(angles) * gain).astype(dtype) for f in (np.cos, np.sin))
    if model is None:
        return cos, sin
    return placed(cos, model), placed(sin, model)


def _settled(number: float) -> float:
    """Return a number, which `torch.compile` takes for one that does not change, as `index` one."""
    return float.fromhex(float(number).hex())


def _speeds(
    size: int,
    scaling: str | None,
    base: float,
    factor: float,
    trained: float,
    fast: float,
    slow: float,
) -> tuple[list[float], float]:
    """Return the angle of each pair at position 1, and what tables are multiplied by."""
    exponents = np.arange(0, size, 2) / size
    gain = 1.0
    if scaling == "ntk":
        try:
            base *= factor ** (size / (size - 2))
        except OverflowError:
            base = math.inf  # all pairs but the fastest stand still
    speeds = base**-exponents
    if scaling == "linear":
        speeds = speeds / factor
    elif scaling == "yarn":
        speeds = _yarn(speeds, base, factor, trained, fast, slow)
        gain = 0.1 * math.log(factor) + 1.0
    elif scaling == "llama3":
        speeds = _llama3(speeds, factor, trained, fast, slow)
    return speeds.tolist(), gain


# `torch.compile` would trace NumPy's functions, and compute the speeds in float32.
_speeds._dynamo_marked_constant = True  # type: ignore[attr-defined]


def _yarn(
    speeds: Host, base: float, factor: float, trained: float, fast: float, slow: float
) -> Host:
    """Divide slow pairs by the factor and leave fast ones, as section 3.2 of YaRN has it."""
    half = len(speeds)

    def pair(turns: float) -> float:
        """Return which pair turns so many times over the trained length."""
        # A difference of logarithms, for the quotient may be more or less than any float.
        turned = math.log(trained) - math.log(turns) - math.log(2.0 * math.pi)
        return half * turned / math.log(base)

    low = min(max(math.floor(pair(fast)), 0), 2 * half)  # all beyond the last pair are alike
    high = min(math.ceil(pair(slow)), 2 * half - 1)
    # Where both are one pair, the way from one to the other is a step.
    ramp = np.clip((np.arange(half) - low) / (high - low if high > low else 0.001), 0.0, 1.0)
    return speeds * (1.0 - ramp) + speeds / factor * ramp


def _llama3(speeds: Host, factor: float, trained: float, fast: float, slow: float) -> Host:
    """Divide slow pairs by the factor and leave fast ones, as Llama 3.1 has it."""
    turns = trained * speeds / (2.0 * math.pi)
    with np.errstate(over="ignore"):  # of bounds that are almost one
        kept = np.clip((turns - slow) / (fast - slow), 0.0, 1.0)
    return speeds * kept + speeds / factor * (1.0 - kept)
