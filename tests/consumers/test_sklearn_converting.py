"""Without its array API scikit-learn converts corepy's arrays to NumPy's, and keeps their dtype."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import pytest

import corepy.array_api as xp
from tests.conftest import backends, required

required("sklearn", minversion="1.9")

from sklearn.cluster import KMeans  # noqa: E402 (it imports SciPy)
from sklearn.decomposition import PCA  # noqa: E402
from sklearn.linear_model import LogisticRegression, Ridge  # noqa: E402
from sklearn.manifold import TSNE  # noqa: E402
from sklearn.neighbors import KNeighborsRegressor  # noqa: E402
from sklearn.preprocessing import StandardScaler  # noqa: E402

#: What is computed of some points and a class and a number of each.
CASES: Final[dict[str, Any]] = {
    "KMeans": lambda x, c, y: KMeans(3, random_state=0).fit(x).transform(x),
    "KNeighborsRegressor": lambda x, c, y: KNeighborsRegressor().fit(x, y).kneighbors(x)[0],
    "LogisticRegression": lambda x, c, y: LogisticRegression().fit(x, c).predict_proba(x),
    "PCA": lambda x, c, y: PCA(2).fit_transform(x),
    "Ridge": lambda x, c, y: Ridge().fit(x, y).predict(x),
    "StandardScaler": lambda x, c, y: StandardScaler().fit_transform(x),
    # It takes single precision too, and before the other: of an unknown dtype it computes in that.
    "TSNE": lambda x, c, y: TSNE(init="random", perplexity=5, random_state=0).fit_transform(x),
}
#: Where the values are in memory that NumPy reads, so that one backend tells as much as all.
HOSTS: Final = ("numpy", "torch", "jax")


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("backend", [b for b in backends() if b.id in HOSTS], indirect=True)
def test_values_and_dtypes_are_those_of_numpy(backend: str, name: str, dtype: str) -> None:
    random = np.random.default_rng(0)
    classes = np.arange(30) % 3
    x = (random.standard_normal((30, 4)) + 2.0 * np.eye(3, 4)[classes]).astype(dtype)
    y = (x @ np.asarray([1.0, -2.0, 0.5, 0.0])).astype(dtype)
    wanted = CASES[name](x, classes, y)
    found = CASES[name](*(xp.asarray(each.copy()) for each in (x, classes, y)))
    assert type(found) is np.ndarray
    assert found.dtype == wanted.dtype
    np.testing.assert_array_equal(found, wanted)
