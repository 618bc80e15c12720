"""SciPy computes with corepy's arrays what it computes with NumPy's, where they live.

`tests/conftest.py` has SciPy take arrays of any library, which it decides when it is imported.
`scipy_own_tests.py` runs SciPy's own tests on corepy's arrays.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, Final, TypeAlias

import numpy as np
import pytest

import corepy
import corepy.array_api as xp
from tests.conftest import backends, required
from tests.helpers import assert_values

# Older ones take arrays of other libraries in fewer places.
required("scipy", minversion="1.17")

from scipy import (  # noqa: E402 (it reads the variable)
    constants,
    differentiate,
    fft,
    integrate,
    interpolate,
    linalg,
    ndimage,
    optimize,
    signal,
    special,
    stats,
)
from scipy.cluster import hierarchy, vq  # noqa: E402
from scipy.optimize import elementwise  # noqa: E402
from scipy.spatial.transform import Rotation  # noqa: E402

Case: TypeAlias = Callable[[SimpleNamespace], Any]

#: Backends whose arrays lie on the host, with values that are there when they are asked for. What
#: SciPy computes with NumPy comes back there, so on Dask it would have operands on two devices.
HOSTS: Final = ("numpy", "numba", "torch", "jax", "mlx", "reference")

pytestmark = pytest.mark.skipif(
    os.environ.get("SCIPY_ARRAY_API") != "1", reason="the user has SCIPY_ARRAY_API otherwise"
)


def arrays(dtype: str) -> dict[str, np.ndarray]:
    """Samples, an image, a wave and some points, and what is to be found out about them."""
    random = np.random.default_rng(0)
    x = random.standard_normal((6, 8))
    image = random.uniform(0.0, 1.0, (12, 10))
    knots = np.cumsum(random.uniform(0.2, 0.8, 12))
    wave = np.sin(np.linspace(0.0, 20.0, 200)) + 0.1 * random.standard_normal(200)
    floats = {
        "x": x,
        "y": x + 0.5 * random.standard_normal((6, 8)),
        "p": random.uniform(0.1, 0.9, (6, 8)),
        "a": np.asarray([1.0, 2.0, 3.0]),
        "zeros": np.zeros(3),
        "nines": 9.0 * np.ones(3),
        "image": image,
        "places": random.uniform(0.0, 9.0, (2, 20)),
        "wave": wave,
        "points": random.standard_normal((15, 3)),
        "quaternions": random.standard_normal((5, 4)),
        "knots": knots,
        "heights": np.cos(knots),
        "between": np.linspace(knots[0], knots[-1], 9)[1:-1],
        "section": np.asarray([[1.0, 2.0, 1.0, 1.0, -0.2, 0.1]]),
    }
    return {key: value.astype(dtype) for key, value in floats.items()} | {
        "z": (x + 1j * floats["y"]).astype("complex64" if dtype == "float32" else "complex128"),
        "counts": random.integers(1, 9, (6, 8)),
        "blobs": (image > 0.5).astype(np.int64),
        "labels": np.asarray([0, 1]),
    }


# ---------------------------------------------------------------------------- what is computed


def found(result: Any, *names: str) -> list[Any]:
    """Return some attributes of a result."""
    return [getattr(result, name) for name in names]


def answer(result: Any) -> list[Any]:
    return found(result, "statistic", "pvalue")


def cubic(x: Any, a: Any) -> Any:
    return x**3 - a


def bowl(x: Any, a: Any) -> Any:
    return (x - a) ** 2


def growth(x: Any) -> Any:
    return xp_of(x).exp(x / 2)


def products(x: Any) -> Any:
    return xp_of(x).stack([x[0, ...] ** 2, x[0, ...] * x[1, ...]])


def bell(x: Any) -> Any:
    return xp_of(x).exp(-(x**2))


def hill(x: Any) -> Any:
    return xp_of(x).exp(-xp_of(x).sum(x**2, axis=-1))


def mean(x: Any, axis: int) -> Any:
    return xp_of(x).mean(x, axis=axis)


def xp_of(x: Any) -> Any:
    return x.__array_namespace__()


#: Some of every module that takes arrays of other libraries.
CASES: Final[dict[str, Case]] = {
    "constants.convert_temperature": lambda d: constants.convert_temperature(d.x, "C", "F"),
    # special
    "special.betainc": lambda d: special.betainc(d.p, 1 + d.p, d.p),
    "special.erf": lambda d: special.erf(d.x),
    "special.gammainc": lambda d: special.gammainc(d.p, d.y**2),
    "special.log_softmax": lambda d: special.log_softmax(d.x, axis=-1),
    "special.logit": lambda d: special.logit(d.p),
    "special.logsumexp": lambda d: special.logsumexp(d.x, axis=1, b=d.p),
    "special.logsumexp-complex": lambda d: special.logsumexp(d.z),
    "special.ndtri": lambda d: special.ndtri(d.p),
    "special.polygamma": lambda d: special.polygamma(1, d.p),
    "special.rel_entr": lambda d: special.rel_entr(d.p, d.y**2),
    "special.softmax": lambda d: special.softmax(d.x, axis=0),
    "special.xlogy": lambda d: special.xlogy(d.x, d.p),
    "special.zeta": lambda d: special.zeta(1 + d.p, d.p),
    # fft
    "fft.dctn": lambda d: fft.dctn(d.x, type=2, norm="ortho"),
    "fft.fft": lambda d: fft.fft(d.z),
    "fft.fht": lambda d: fft.fht(d.p, 0.1, 0.5),
    "fft.irfftn": lambda d: fft.irfftn(d.z),
    "fft.rfft": lambda d: fft.rfft(d.x, n=12),
    # linalg
    "linalg.block_diag": lambda d: linalg.block_diag(d.x, d.y),
    "linalg.orthogonal_procrustes": lambda d: linalg.orthogonal_procrustes(d.points, d.points**2),
    # cluster
    "hierarchy.cophenet": lambda d: hierarchy.cophenet(hierarchy.linkage(d.points, "average")),
    "hierarchy.fclusterdata": lambda d: hierarchy.fclusterdata(d.points, 3, criterion="maxclust"),
    "hierarchy.leaves_list": lambda d: hierarchy.leaves_list(hierarchy.linkage(d.points, "ward")),
    "hierarchy.linkage": lambda d: hierarchy.linkage(d.points, "ward"),
    "vq.kmeans2": lambda d: vq.kmeans2(d.points, d.points[:4, :], minit="matrix"),
    "vq.vq": lambda d: vq.vq(d.points, d.points[:4, :]),
    "vq.whiten": lambda d: vq.whiten(d.x),
    # ndimage
    "ndimage.binary_opening": lambda d: ndimage.binary_opening(d.blobs > 0),
    "ndimage.distance_transform_edt": lambda d: ndimage.distance_transform_edt(d.blobs),
    "ndimage.gaussian_filter": lambda d: ndimage.gaussian_filter(d.image, 1.5),
    "ndimage.label": lambda d: ndimage.label(d.blobs)[0],
    "ndimage.map_coordinates": lambda d: ndimage.map_coordinates(d.image, d.places),
    "ndimage.median_filter": lambda d: ndimage.median_filter(d.image, size=3),
    "ndimage.rotate": lambda d: ndimage.rotate(d.image, 30.0),
    "ndimage.sum_labels": lambda d: ndimage.sum_labels(d.image, d.blobs, d.labels),
    "ndimage.vectorized_filter": lambda d: ndimage.vectorized_filter(
        d.image, xp_of(d.x).max, size=3
    ),
    # signal
    "signal.convolve2d": lambda d: signal.convolve2d(d.image, d.x[:3, :3], mode="same"),
    "signal.detrend": lambda d: signal.detrend(d.wave),
    "signal.fftconvolve": lambda d: signal.fftconvolve(d.image, d.x, mode="valid"),
    "signal.firwin": lambda d: signal.firwin(15, d.a / 4, pass_zero=False),
    "signal.freqz": lambda d: signal.freqz(d.a, worN=16),
    "signal.hilbert": lambda d: signal.hilbert(d.wave),
    "signal.lfilter": lambda d: signal.lfilter(d.a / 6, d.a[::-1], d.wave[:20]),
    "signal.resample": lambda d: signal.resample(d.wave, 60),
    "signal.savgol_filter": lambda d: signal.savgol_filter(d.wave, 11, 3),
    "signal.sosfiltfilt": lambda d: signal.sosfiltfilt(d.section, d.wave),
    "signal.zpk2sos": lambda d: signal.zpk2sos(d.a / 4, d.a / 8, 2.0),
    # integrate and differentiate
    "differentiate.derivative": lambda d: found(
        differentiate.derivative(growth, d.a), "df", "success"
    ),
    "differentiate.jacobian": lambda d: differentiate.jacobian(products, d.a[:2]).df,
    "integrate.cubature": lambda d: integrate.cubature(hill, d.zeros[:2], d.a[:2]).estimate,
    "integrate.cumulative_simpson": lambda d: integrate.cumulative_simpson(d.x, dx=0.5),
    "integrate.tanhsinh": lambda d: integrate.tanhsinh(bell, d.zeros, d.a).integral,
    "integrate.trapezoid": lambda d: integrate.trapezoid(d.x, d.y, axis=0),
    # optimize
    "elementwise.bracket_root": lambda d: (
        elementwise.bracket_root(cubic, d.zeros, args=(d.a,)).bracket
    ),
    "elementwise.find_minimum": lambda d: found(
        elementwise.find_minimum(bowl, (d.zeros, d.a / 2, d.nines), args=(d.a,)), "x", "success"
    ),
    "elementwise.find_root": lambda d: found(
        elementwise.find_root(cubic, (d.zeros, d.nines), args=(d.a,)), "x", "success"
    ),
    "optimize.rosen_hess": lambda d: optimize.rosen_hess(d.a),
    # interpolate
    "interpolate.Akima1DInterpolator": lambda d: interpolate.Akima1DInterpolator(
        d.knots, d.heights
    )(d.between),
    "interpolate.CubicSpline": lambda d: interpolate.CubicSpline(d.knots, d.heights)(d.between, 1),
    "interpolate.PchipInterpolator": lambda d: interpolate.PchipInterpolator(
        d.knots, d.heights
    ).integrate(d.between[0], d.between[-1]),
    "interpolate.RegularGridInterpolator": lambda d: interpolate.RegularGridInterpolator(
        (d.a, d.a), d.points[:3, :]
    )(1 + d.p[:, :2]),
    "interpolate.make_interp_spline": lambda d: interpolate.make_interp_spline(d.knots, d.heights)(
        d.between
    ),
    # spatial
    "Rotation.align_vectors": lambda d: Rotation.align_vectors(d.points[:4, :], d.points[4:8, :])[
        0
    ].as_matrix(),
    "Rotation.apply": lambda d: Rotation.from_quat(d.quaternions).apply(d.a),
    "Rotation.as_euler": lambda d: Rotation.from_rotvec(d.points).as_euler("xyz"),
    "Rotation.mul": lambda d: (
        Rotation.from_quat(d.quaternions) * Rotation.from_quat(d.quaternions[::-1, :])
    ).as_quat(),
    # stats
    "stats.bootstrap": lambda d: (
        stats.bootstrap((d.wave,), mean, n_resamples=50, rng=0).standard_error
    ),
    "stats.boxcox_llf": lambda d: stats.boxcox_llf(0.5, d.p),
    "stats.circmean": lambda d: stats.circmean(d.x),
    "stats.describe": lambda d: found(
        stats.describe(d.x, axis=1), "mean", "variance", "skewness", "kurtosis"
    ),
    "stats.entropy": lambda d: stats.entropy(d.p, axis=0),
    "stats.false_discovery_control": lambda d: stats.false_discovery_control(d.p, axis=1),
    "stats.gmean": lambda d: stats.gmean(d.p, axis=1, weights=d.p),
    "stats.kruskal": lambda d: answer(stats.kruskal(d.x, d.y, axis=None)),
    "stats.mannwhitneyu": lambda d: answer(stats.mannwhitneyu(d.x, d.y, axis=1)),
    "stats.mode": lambda d: found(stats.mode(d.counts, axis=1), "mode", "count"),
    "stats.normaltest": lambda d: answer(stats.normaltest(d.x, axis=None)),
    "stats.pearsonr": lambda d: answer(stats.pearsonr(d.x, d.y, axis=1)),
    "stats.quantile": lambda d: stats.quantile(d.x, d.p[0, :], axis=None),
    "stats.quantile-weights": lambda d: stats.quantile(
        d.x, d.p[0, 0], axis=1, method="inverted_cdf", weights=d.p
    ),
    "stats.rankdata": lambda d: stats.rankdata(d.counts, axis=1),
    "stats.ttest_ind": lambda d: answer(stats.ttest_ind(d.x, d.y, axis=1)),
    "stats.zscore": lambda d: stats.zscore(d.x, axis=0),
}

#: What is for double precision alone. Of the first three SciPy writes results of it into arrays of
#: single precision, which NumPy casts silently and corepy refuses; of NumPy's arrays, `Rotation`
#: always has it.
DOUBLE: Final = ("fft.fht", "signal.freqz", "signal.savgol_filter", "Rotation.")
#: What writes through NumPy into memory that is read-only for it on these backends.
WRITING: Final = {"jax": ("signal.sosfiltfilt",), "mlx": ("signal.sosfiltfilt",)}
#: What takes JAX more than a second, which compiles a program for each shape.
DEAR: Final = (
    "Rotation.a",
    "differentiate.",
    "elementwise.",
    "integrate.cubature",
    "integrate.tanhsinh",
    "interpolate.Akima1DInterpolator",
    "interpolate.PchipInterpolator",
    "signal.firwin",
    "signal.savgol_filter",
    "special.logsumexp-complex",
    "stats.bootstrap",
    "stats.boxcox_llf",
    "stats.kruskal",
    "stats.mannwhitneyu",
    "stats.mode",
    "stats.quantile-weights",
    "stats.rankdata",
)
#: Where SciPy itself leaves the standard: it writes to integer arrays as keys, gives fewer indices
#: than there are dimensions, names dtypes by Python's types, or expects `asarray` to truncate.
BEYOND_THE_STANDARD: Final = (
    "differentiate.",
    "elementwise.",
    "integrate.tanhsinh",
    "interpolate.Akima1DInterpolator",
    "interpolate.PchipInterpolator",
    "stats.bootstrap",
    "stats.quantile-weights",
)


def calls() -> list[Any]:
    """Return a parameter for each backend, function and dtype that go together."""
    found = []
    for backend, name, dtype in itertools.product(backends(), CASES, ("float32", "float64")):
        if backend.id not in HOSTS or name in WRITING.get(backend.id, ()):
            continue
        if dtype == "float32" and (name.startswith(DOUBLE) or backend.id == "jax"):
            continue
        if backend.id == "jax" and name.startswith(DEAR):
            continue
        place = f"{backend.id}-{name}-{dtype}"
        found.append(pytest.param(backend.id, name, dtype, id=place, marks=backend.marks))
    return found


# ---------------------------------------------------------------------------- how it is compared

#: Of the greatest magnitude of a result: SciPy adds up in another order for NumPy's own arrays.
TOLERANCE: Final = {"float32": 2e-5, "float64": 1e-10}


def ours(values: dict[str, np.ndarray]) -> SimpleNamespace:
    return SimpleNamespace(**{key: xp.asarray(value.copy()) for key, value in values.items()})


def assert_alike(results: Any, wanted: Any, backend: str, tolerance: float) -> None:
    """Assert that results have NumPy's values and dtypes, and live where the operands do."""
    results, wanted = (
        list(each) if isinstance(each, (list, tuple)) else [each] for each in (results, wanted)
    )
    assert len(results) == len(wanted)
    for one, other in zip(results, wanted, strict=True):
        assert type(one) is corepy.Array
        assert one.backend == backend
        assert one.device.name == "cpu"
        assert one.dtype.name == other.dtype.name
        assert np.max(np.abs(other)) > 0.01  # values that say something
        assert_values(one, other, tolerance)


@pytest.mark.parametrize(("backend", "name", "dtype"), calls(), indirect=["backend"])
def test_scipy(backend: str, name: str, dtype: str) -> None:
    values = arrays(dtype)
    wanted = CASES[name](SimpleNamespace(**values))
    given = ours(values)
    assert_alike(CASES[name](given), wanted, backend, TOLERANCE[dtype])
    for key, value in values.items():
        assert np.array_equal(np.asarray(getattr(given, key)), value), key


@pytest.mark.parametrize("name", [n for n in CASES if not n.startswith(BEYOND_THE_STANDARD)])
def test_scipy_relies_on_nothing_but_the_standard(name: str) -> None:
    values = arrays("float64")
    wanted = CASES[name](SimpleNamespace(**values))
    with corepy.backend_priority(["numpy"]):
        given = ours(values)
        with corepy.strict():
            results = CASES[name](given)
    assert_alike(results, wanted, "numpy", TOLERANCE["float64"])


def parabola(t: Any) -> Any:
    return xp.asarray(t) ** 2 - 2.0


#: What solves for one number, and looks at values by functions of NumPy's.
SINGLE: Final[dict[str, Case]] = {
    "brentq": lambda f: optimize.brentq(f, 0.0, 2.0),
    "bisect": lambda f: optimize.bisect(f, 0.0, 2.0),
    "toms748": lambda f: optimize.toms748(f, 0.0, 2.0),
    "newton": lambda f: optimize.newton(f, 1.0),
    "minimize_scalar": lambda f: optimize.minimize_scalar(lambda t: f(t) ** 2, (1.0, 2.0)).x,
    "fixed_quad": lambda f: integrate.fixed_quad(f, 0.0, 1.0)[0],
    "quad": lambda f: integrate.quad(f, 0.0, 1.0)[0],
}


@pytest.mark.parametrize("name", SINGLE)
@pytest.mark.parametrize("backend", [b for b in backends() if b.id in HOSTS], indirect=True)
def test_functions_of_a_single_number(name: str, backend: str) -> None:
    found = SINGLE[name](parabola)
    assert abs(float(found) - float(SINGLE[name](lambda t: t**2 - 2.0))) < 1e-6
