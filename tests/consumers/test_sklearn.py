"""scikit-learn computes with corepy's arrays what it computes with NumPy's, where they live.

`tests/conftest.py` has SciPy take arrays of any library, without which scikit-learn refuses them.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any, Final, TypeAlias

import numpy as np
import pytest

import corepy
import corepy.array_api as xp
from tests.conftest import backends, required

# Older ones take arrays of other libraries in fewer places.
sklearn = required("sklearn", minversion="1.9")

from sklearn import metrics, preprocessing  # noqa: E402 (they import SciPy)
from sklearn.calibration import CalibratedClassifierCV  # noqa: E402
from sklearn.decomposition import PCA  # noqa: E402
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis  # noqa: E402
from sklearn.kernel_approximation import Nystroem  # noqa: E402
from sklearn.linear_model import (  # noqa: E402
    LogisticRegression,
    PoissonRegressor,
    Ridge,
    RidgeClassifier,
    RidgeCV,
)
from sklearn.metrics import pairwise  # noqa: E402
from sklearn.mixture import GaussianMixture  # noqa: E402
from sklearn.model_selection import GridSearchCV, cross_val_predict, train_test_split  # noqa: E402
from sklearn.naive_bayes import GaussianNB  # noqa: E402
from sklearn.pipeline import make_pipeline  # noqa: E402
from sklearn.utils.extmath import randomized_svd  # noqa: E402

Case: TypeAlias = Callable[[SimpleNamespace], Any]

pytestmark = [
    pytest.mark.skipif(
        os.environ.get("SCIPY_ARRAY_API") != "1", reason="the user has SCIPY_ARRAY_API otherwise"
    ),
    # scikit-learn divides by zero on purpose, and silences NumPy for NumPy's own arrays alone.
    pytest.mark.filterwarnings("ignore:invalid value encountered in divide:RuntimeWarning"),
]

COUNT: Final = 60


def arrays(dtype: str) -> dict[str, np.ndarray]:
    """Three clouds of points in four dimensions, and what is to be found out about them."""
    random = np.random.default_rng(0)
    classes = np.arange(COUNT) % 3
    x = random.standard_normal((COUNT, 4)) + 2.0 * np.eye(3, 4)[classes]
    likely = random.dirichlet(np.ones(3), COUNT) + np.eye(3)[classes]
    return {
        "x": x.astype(dtype),
        "positive": np.abs(x).astype(dtype),
        "classes": classes,
        "guess": np.where(random.random(COUNT) < 0.8, classes, 0),
        "binary": (classes > 0).astype(np.int64),
        "score": (x[:, 0] / 8 + 0.5).clip(0.01, 0.99).astype(dtype),
        "likely": (likely / likely.sum(axis=1, keepdims=True)).astype(dtype),
        "target": (x @ [1.0, -2.0, 0.5, 0.0] + random.standard_normal(COUNT)).astype(dtype),
        "counts": random.poisson(np.exp(x[:, 0] / 4)).astype(dtype),
        "weight": random.uniform(0.5, 2.0, COUNT).astype(dtype),
    }


# ---------------------------------------------------------------------------- what is computed


def transforming(make: Callable[[], Any], name: str = "x") -> Case:
    """Fit a transformer to points and transform them, and back where it can."""

    def case(d: SimpleNamespace) -> list[Any]:
        x = getattr(d, name)
        fitted = make().fit(x)
        found = fitted.transform(x)
        back = getattr(fitted, "inverse_transform", None)
        return [found, back(found)] if back else [found]

    return case


def predicting(make: Callable[[], Any], target: str, *methods: str, weighted: bool = True) -> Case:
    """Fit a model to points and their targets, and let it predict these."""

    def case(d: SimpleNamespace) -> list[Any]:
        weights = {"sample_weight": d.weight} if weighted else {}
        fitted = make().fit(d.x, getattr(d, target), **weights)
        found = [getattr(fitted, method)(d.x) for method in ("predict", *methods)]
        return [*found, fitted.score(d.x, getattr(d, target))]

    return case


def mixture(d: SimpleNamespace) -> list[Any]:
    # What scikit-learn adds to covariances it writes through a view, which JAX and MLX have not.
    params = {"reg_covar": 0.0, "init_params": "random", "random_state": 0}
    model = GaussianMixture(3, means_init=d.x[:3, :], **params).fit(d.x)
    return [model.means_, model.covariances_, model.predict(d.x), model.score_samples(d.x)]


def calibrated(d: SimpleNamespace) -> list[Any]:
    model = LinearDiscriminantAnalysis()
    fitted = CalibratedClassifierCV(model, method="temperature", cv=3).fit(d.x, d.classes)
    return [fitted.predict_proba(d.x), fitted.predict(d.x)]


def searched(d: SimpleNamespace) -> list[Any]:
    search = GridSearchCV(Ridge(solver="svd"), {"alpha": [0.1, 1.0, 10.0]}, cv=3)
    search.fit(d.x, d.target)
    return [search.best_params_["alpha"], search.best_score_, search.predict(d.x)]


def through_a_pipeline(d: SimpleNamespace) -> list[Any]:
    steps = (preprocessing.StandardScaler(), PCA(3), LogisticRegression())
    fitted = make_pipeline(*steps).fit(d.x, d.classes)
    return [fitted.predict_proba(d.x), fitted.predict(d.x)]


def labels(d: SimpleNamespace) -> list[Any]:
    encoder = preprocessing.LabelEncoder()
    codes = encoder.fit_transform(2 * d.guess + 1)
    return [codes, encoder.classes_, encoder.inverse_transform(codes)]


def kernel_of(name: str, points: str = "x", **params: Any) -> Case:
    def case(d: SimpleNamespace) -> Any:
        x = getattr(d, points)
        return pairwise.pairwise_kernels(x, x[:20, :], metric=name, **params)

    return case


def paired(name: str) -> Case:
    return lambda d: getattr(pairwise, name)(d.x, d.positive)


def of_classes(name: str, **params: Any) -> Case:
    return lambda d: getattr(metrics, name)(d.classes, d.guess, sample_weight=d.weight, **params)


def of_scores(name: str, **params: Any) -> Case:
    return lambda d: getattr(metrics, name)(d.binary, d.score, sample_weight=d.weight, **params)


def of_numbers(name: str, **params: Any) -> Case:
    def case(d: SimpleNamespace) -> Any:
        return getattr(metrics, name)(d.positive[:, 0], d.positive[:, 1], **params)

    return case


ESTIMATORS: Final[dict[str, Case]] = {
    "Binarizer": lambda d: preprocessing.Binarizer().fit_transform(d.x),
    "KernelCenterer": lambda d: preprocessing.KernelCenterer().fit_transform(d.x @ d.x.T),
    "LabelEncoder": labels,
    "MaxAbsScaler": transforming(preprocessing.MaxAbsScaler),
    "MinMaxScaler": transforming(preprocessing.MinMaxScaler),
    "Normalizer-l1": lambda d: preprocessing.Normalizer("l1").fit_transform(d.x),
    "Normalizer-max": lambda d: preprocessing.Normalizer("max").fit_transform(d.x),
    "PolynomialFeatures": transforming(lambda: preprocessing.PolynomialFeatures(3)),
    "StandardScaler": transforming(preprocessing.StandardScaler),
    "PCA-full": transforming(lambda: PCA(3, svd_solver="full", whiten=True)),
    "PCA-covariance_eigh": transforming(lambda: PCA(3, svd_solver="covariance_eigh")),
    "PCA-randomized": transforming(
        lambda: PCA(2, svd_solver="randomized", power_iteration_normalizer="QR", random_state=0)
    ),
    "Nystroem": transforming(lambda: Nystroem("rbf", n_components=10, random_state=0)),
    "GaussianMixture": mixture,
    "GaussianNB": predicting(GaussianNB, "classes", "predict_proba"),
    "LinearDiscriminantAnalysis": predicting(
        LinearDiscriminantAnalysis, "classes", "decision_function", weighted=False
    ),
    "LogisticRegression": predicting(LogisticRegression, "classes", "predict_proba"),
    "LogisticRegression-binary": predicting(
        lambda: LogisticRegression(class_weight="balanced"), "binary", "decision_function"
    ),
    "PoissonRegressor": predicting(PoissonRegressor, "counts"),
    "Ridge": predicting(lambda: Ridge(solver="svd"), "target"),
    "RidgeCV": predicting(RidgeCV, "target"),
    "RidgeClassifier": predicting(
        lambda: RidgeClassifier(solver="svd"), "classes", "decision_function"
    ),
    "CalibratedClassifierCV": calibrated,
    "GridSearchCV": searched,
    "cross_val_predict": lambda d: cross_val_predict(Ridge(solver="svd"), d.x, d.target, cv=3),
    "make_pipeline": through_a_pipeline,
    "randomized_svd": lambda d: randomized_svd(
        d.x, 2, random_state=0, power_iteration_normalizer="QR"
    ),
    "train_test_split": lambda d: train_test_split(
        d.x, d.classes, random_state=0, stratify=d.classes
    ),
}

METRICS: Final[dict[str, Case]] = {
    **{
        name: of_classes(name)
        for name in (
            "accuracy_score",
            "balanced_accuracy_score",
            "cohen_kappa_score",
            "hamming_loss",
            "multilabel_confusion_matrix",
            "zero_one_loss",
        )
    },
    **{
        name: of_classes(name, average=None)
        for name in ("f1_score", "jaccard_score", "precision_score", "recall_score")
    },
    **{
        name: of_scores(name)
        for name in (
            "average_precision_score",
            "brier_score_loss",
            "d2_brier_score",
            "det_curve",
            "precision_recall_curve",
        )
    },
    "log_loss": lambda d: metrics.log_loss(d.classes, d.likely, sample_weight=d.weight),
    "d2_log_loss_score": lambda d: metrics.d2_log_loss_score(d.classes, d.likely),
    **{
        name: of_numbers(name)
        for name in (
            "d2_absolute_error_score",
            "explained_variance_score",
            "max_error",
            "mean_absolute_error",
            "mean_gamma_deviance",
            "mean_pinball_loss",
            "mean_poisson_deviance",
            "mean_squared_log_error",
            "median_absolute_error",
            "r2_score",
        )
    },
    "mean_squared_error": lambda d: metrics.mean_squared_error(
        d.x, d.positive, multioutput="raw_values"
    ),
    **{name: kernel_of(name) for name in ("cosine", "linear", "polynomial", "rbf", "sigmoid")},
    "additive_chi2": kernel_of("additive_chi2", "positive"),
    "chi2": kernel_of("chi2", "positive"),
    "euclidean_distances": lambda d: pairwise.euclidean_distances(d.x, d.positive),
    "paired_cosine_distances": paired("paired_cosine_distances"),
    "paired_euclidean_distances": paired("paired_euclidean_distances"),
}

CASES: Final = ESTIMATORS | METRICS

# ---------------------------------------------------------------------------- how it is compared

TOLERANCE: Final = {"float32": 2e-4, "float64": 1e-7}

#: Backends whose arrays lie on the host, with values that are there when they are asked for.
HOSTS: Final = ("numpy", "numba", "torch", "mlx")
#: What JAX computes too, which compiles each operation for each shape.
ON_JAX: Final = (
    "PCA-full",
    "StandardScaler",
    "train_test_split",
    "f1_score",
    "rbf",
)


def trials() -> Iterator[Any]:
    """Give a backend, the name of a case and a dtype for each test."""
    for each in backends():
        if each.id == "jax":
            runs = [(name, "float64") for name in ON_JAX]
        else:
            runs = [(name, dtype) for name in CASES for dtype in TOLERANCE if each.id in HOSTS]
        for run in runs:
            yield pytest.param(each.id, *run, id="-".join((each.id, *run)), marks=each.marks)


@pytest.fixture(autouse=True)
def dispatching() -> Iterator[None]:
    with sklearn.config_context(array_api_dispatch=True):
        yield


def assert_alike(found: Any, wanted: Any, backend: str, tolerance: float) -> None:
    """Assert that a result has NumPy's values, its dtype, and lives where the operands do."""
    if isinstance(wanted, (list, tuple)):
        assert len(found) == len(wanted)
        for one, other in zip(found, wanted, strict=True):
            assert_alike(one, other, backend, tolerance)
        return
    if isinstance(wanted, np.ndarray):
        assert isinstance(found, corepy.Array)
        assert found.backend == backend
        assert found.device.name == "cpu"
        assert (found.shape, found.dtype.name) == (wanted.shape, wanted.dtype.name)
    size = float(np.max(np.abs(wanted), where=np.isfinite(wanted), initial=0.0))
    assert size > 0.01  # values that say something
    np.testing.assert_allclose(np.asarray(found), wanted, rtol=tolerance, atol=tolerance * size)


@pytest.mark.parametrize(("backend", "name", "dtype"), [*trials()], indirect=["backend"])
def test_sklearn(backend: str, name: str, dtype: str) -> None:
    values = arrays(dtype)
    wanted = CASES[name](SimpleNamespace(**values))
    ours = SimpleNamespace(**{key: xp.asarray(value.copy()) for key, value in values.items()})
    found = CASES[name](ours)
    assert_alike(found, wanted, backend, TOLERANCE[dtype])
    for key, value in values.items():
        assert np.array_equal(np.asarray(getattr(ours, key)), value), key
