"""Coefficients of approximations that the reference and the compiled kernels share.

The tail of the normal distribution, ``Q(u) = erfc(u / sqrt(2)) / 2``, falls to nothing while its
relative precision has to stay, so it is taken as ``exp(-u**2 / 2) * P(2 * u * t - 1) * t`` with
``t = 1 / (POLE + u)``. P is a polynomial; the coefficients, lowest power first, were computed with
60 digits. The greatest relative error of P is 1.2e-7 for `TAIL_32` (Remez' algorithm, u up to 13.6,
where float32 has but subnormal numbers left), and 1.8e-7 with its coefficients rounded to float32;
and 2.2e-17 for `TAIL_64` (Chebyshev's nodes, u up to 40). The POLE is the one of those
tried with the least error at the seventh degree.

``exp(-v / 2)`` where ``abs(v) <= log(2)`` is `BELL_32` to 7.5e-8 (Remez).
"""

from __future__ import annotations

from typing import Final

POLE: Final = 4.25
TAIL_32: Final = (
    0.75955433,
    -0.62513,
    0.41822103,
    -0.22050945,
    0.08534702,
    -0.019383934,
    -0.0010398006,
    0.0021061932,
)
TAIL_64: Final = (
    0.7595542082672071,
    -0.6251297770834486,
    0.41822752582253236,
    -0.22051601745278393,
    0.08527207614552376,
    -0.019358324077842784,
    -0.0007453379414932446,
    0.0021493826887034333,
    -0.0004044562430635731,
    -0.00019212299465119225,
    7.800540657928158e-05,
    2.0649036156332646e-05,
    -1.261961890466979e-05,
    -3.1967976667287726e-06,
    2.00357764669028e-06,
    6.77625519943032e-07,
    -2.965581898127952e-07,
    -1.6025349341954835e-07,
    3.1182975058052095e-08,
    3.399983409863891e-08,
    1.2517872783821803e-09,
    -4.496134236701255e-09,
    -1.0984073814867176e-09,
)
BELL_32: Final = (
    1.0000001,
    -0.49999985,
    0.12499724,
    -0.020834468,
    0.0026197115,
    -0.0002593019,
)
#: GELU and SiLU of anything below are zero in every dtype; beyond, ``x * 0`` would meet -inf.
GELU_FLOOR: Final = -40.0
SILU_FLOOR: Final = -1000.0
#: Beyond it both return what they are given, in every dtype.
CEILING: Final = 40.0
#: Of the tanh form of GELU: sqrt(8 / pi), and the weight of the cube.
GELU_SLOPE: Final = 1.5957691216057308
GELU_CUBE: Final = 0.044715
