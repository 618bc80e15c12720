"""Coefficients of approximations that the reference and the compiled kernels share.

The tail of the normal distribution, ``Q(u) = erfc(u / sqrt(2)) / 2``, falls to nothing while its
relative precision has to stay, so it is taken as ``exp(-u**2 / 2) * t * P(2 * t - 1)`` with
``t = 1 / (1 + u / 4)``. P interpolates the quotient at Chebyshev's nodes; the coefficients, lowest
power first, were computed with 60 digits. The greatest relative error of P is 1.3e-8 for `TAIL_32`
(u up to 15, where float32 has nothing left) and 4e-17 for `TAIL_64` (u up to 40).
"""

from __future__ import annotations

from typing import Final

TAIL_32: Final = (
    0.18882129,
    0.15197414,
    0.096784174,
    0.046630826,
    0.015101546,
    0.0018813506,
    -0.0008802432,
    -0.00039172042,
    4.724913e-05,
    3.1389598e-05,
)
TAIL_64: Final = (
    0.18882128260393788,
    0.15197416049297294,
    0.09678435018555484,
    0.04663046448992335,
    0.015099143722669163,
    0.0018850472414062543,
    -0.0008699230904510149,
    -0.00040770461062014716,
    3.333606244589607e-05,
    5.777370603749276e-05,
    -4.769608514812176e-07,
    -8.78605374206445e-06,
    1.7873270813696003e-07,
    1.479753296538511e-06,
    -1.5624767488424463e-07,
    -2.5501783481421163e-07,
    6.588577640171114e-08,
    3.86549204780548e-08,
    -1.9086782108602714e-08,
    -3.710597518187836e-09,
    3.4941320389877053e-09,
    2.538239294124045e-12,
    -2.497656040005819e-10,
)
#: GELU and SiLU of anything below are zero in every dtype; beyond, ``x * 0`` would meet -inf.
GELU_FLOOR: Final = -40.0
SILU_FLOOR: Final = -1000.0
#: Of the tanh form of GELU: sqrt(8 / pi), and the weight of the cube.
GELU_SLOPE: Final = 1.5957691216057308
GELU_CUBE: Final = 0.044715
