"""Polynomials with exact coefficients: their distinct roots, and how often each occurs.

A polynomial is the list of its coefficients, the leading one first, integers or Gaussian
integers. All of those here but the remainders of the Euclidean algorithm are monic.
"""

from __future__ import annotations

from corepy.backends.reference._integer_matrix import Number

__all__ = ["square_free_factors"]


def square_free_factors(p: list[Number]) -> list[tuple[list[Number], int]]:
    """Split a monic polynomial by the multiplicity of its roots (Musser).

    Returns
    -------
    list of (factor, multiplicity)
        Monic polynomials with simple roots, of which no two share one.
    """
    degree = len(p) - 1
    derivative = [c * (degree - i) for i, c in enumerate(p[:-1])]
    repeated = _gcd(p, derivative)
    distinct = _quotient(p, repeated)
    factors = []
    multiplicity = 0
    while len(distinct) > 1:
        multiplicity += 1
        common = _gcd(distinct, repeated)
        factor = _quotient(distinct, common)
        if len(factor) > 1:
            factors.append((factor, multiplicity))
        distinct = common
        repeated = _quotient(repeated, common)
    return factors


def _gcd(p: list[Number], q: list[Number]) -> list[Number]:
    """Return the monic greatest common divisor, by the subresultant remainder sequence.

    A monic divisor of a monic polynomial has integer coefficients (Gauss), so that the last
    remainder divides by its leading coefficient.
    """
    if len(p) < len(q):
        p, q = q, p
    lead: Number = 1
    scale: Number = 1
    while q:
        drop = len(p) - len(q)
        remainder = _pseudo_remainder(p, q)
        divisor = lead * _power(scale, drop)
        p, q = q, [c // divisor for c in remainder]
        lead = p[0]
        if drop:
            scale = _power(lead, drop) // _power(scale, drop - 1)
    return [c // p[0] for c in p]


def _pseudo_remainder(p: list[Number], q: list[Number]) -> list[Number]:
    """Return the remainder of ``q[0]**(1 + deg p - deg q) * p`` divided by `q`."""
    rest = p
    for _ in range(len(p) - len(q) + 1):
        factor = rest[0]
        padded = q + [0] * (len(rest) - len(q))
        rest = [q[0] * a - factor * b for a, b in zip(rest, padded, strict=True)][1:]
    while rest and not rest[0]:
        rest = rest[1:]
    return rest


def _quotient(p: list[Number], q: list[Number]) -> list[Number]:
    """Divide by a monic polynomial that is known to divide."""
    rest = list(p)
    quotient = []
    for _ in range(len(p) - len(q) + 1):
        factor = rest[0]
        quotient.append(factor)
        padded = q + [0] * (len(rest) - len(q))
        rest = [a - factor * b for a, b in zip(rest, padded, strict=True)][1:]
    return quotient


def _power(base: Number, exponent: int) -> Number:
    result: Number = 1
    for _ in range(exponent):
        result = result * base
    return result
