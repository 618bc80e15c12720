"""What the tests need is skipped where it is missing, and demanded where it is expected."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import backends, pytest_configure, required
from tests.together import together


def test_what_is_there_is_imported(monkeypatch: pytest.MonkeyPatch) -> None:
    for names in ("", "json"):
        monkeypatch.setenv("COREPY_EXPECT_BACKENDS", names)
        assert required("json.decoder") is json.decoder


@pytest.mark.parametrize(
    ("module", "names", "outcome"),
    [
        ("numba", "", pytest.skip.Exception),
        ("numba", "numpy,torch", pytest.skip.Exception),
        ("numba", "numpy,numba", pytest.fail.Exception),
        ("mlx.core", "mlx", pytest.fail.Exception),
        ("mpmath", "reference", pytest.fail.Exception),
    ],
)
def test_what_is_missing_is_skipped_unless_it_is_expected(
    module: str, names: str, outcome: type[BaseException], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    monkeypatch.setenv("COREPY_EXPECT_BACKENDS", names)
    with pytest.raises((pytest.skip.Exception, pytest.fail.Exception)) as raised:
        required(module)
    assert raised.type is outcome


@pytest.mark.parametrize(("names", "outcome"), [("", "skip"), ("numpy", "fail")])
def test_what_is_too_old_counts_as_missing(
    names: str, outcome: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COREPY_EXPECT_BACKENDS", names)
    with pytest.raises(
        getattr(pytest, outcome).Exception, match="'numpy' has .* required is: '99'"
    ):
        required("numpy", minversion="99")


@pytest.mark.backend("jax")
def test_on_the_device_that_is_named(tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text(
        "from tests.helpers import compiles\n"
        "def test_it(xp, backend):\n"
        "    x = xp.ones(1)\n"
        "    assert (str(x.device), x.backend, compiles()) == ('cpu:1', 'jax', True)\n"
    )
    flags = f"{os.environ.get('XLA_FLAGS', '')} --xla_force_host_platform_device_count=2"
    done = subprocess.run(
        [
            *(sys.executable, "-m", "pytest", "-p", "tests.conftest", "-p", "no:cacheprovider"),
            *("-q", "-n", "0", "-W", "ignore", "-rs", "-k", "numpy or jax"),
            *(str(tmp_path), "-c", os.devnull, "--rootdir", str(tmp_path)),
        ],
        env=os.environ
        | {"PYTHONPATH": str(Path(__file__).parent.parent), "XLA_FLAGS": flags}
        | {"COREPY_TEST_DEVICE": "cpu:1", "COREPY_EXPECT_BACKENDS": "jax"}
        | {"COREPY_TEST_BACKENDS": ""},
        capture_output=True,
        text=True,
        check=False,
    )
    *_, told = done.stdout.splitlines()
    assert told.startswith("1 passed, 1 skipped"), done.stdout + done.stderr
    assert "needs numpy: backend_priority: backend numpy has no device cpu:1" in done.stdout


def test_on_the_backends_that_are_named_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COREPY_EXPECT_BACKENDS", "numpy")
    monkeypatch.setenv("COREPY_TEST_BACKENDS", "reference, numpy")
    assert [parameter.id for parameter in backends()] == ["reference", "numpy"]
    pytest_configure()
    monkeypatch.setenv("COREPY_TEST_BACKENDS", "nmupy")
    with pytest.raises(pytest.UsageError, match="^COREPY_TEST_BACKENDS: 'nmupy' is no backend; ex"):
        pytest_configure()


def test_cases_that_are_tried_together_are_all_tried_and_told() -> None:
    seen = []

    @together(("a", "b"), [(1, 2), (3, 3), (5, 4), (7, 8)])
    def test_less(a: int, b: int, also: str) -> None:
        seen.append((a, b, also))
        if a == 3:
            pytest.fail("equal")
        assert a < b

    with pytest.raises(BaseExceptionGroup, match="^2 of 4 cases failed") as raised:
        test_less(also="x")
    assert seen == [(1, 2, "x"), (3, 3, "x"), (5, 4, "x"), (7, 8, "x")]
    assert [error.__notes__ for error in raised.value.exceptions] == [
        ["in case 1, a=3, b=3"],
        ["in case 2, a=5, b=4"],
    ]


def test_one_of_some_cases_that_fails_is_told_by_itself_and_none_is_skipped() -> None:
    @together("outcome", ["pass", "fail"])
    def test_it(outcome: str) -> None:
        getattr(pytest, outcome, lambda _: None)("so")

    with pytest.raises(pytest.fail.Exception, match="^so") as raised:
        test_it()
    assert raised.value.__notes__ == ["in case 1, outcome='fail'"]
    with pytest.raises(TypeError, match="a case is skipped, number 0, outcome='skip'"):
        together("outcome", ["skip"])(test_it.__wrapped__)()  # type: ignore[attr-defined]


def test_cases_that_are_none_and_arguments_that_are_not_there_are_refused() -> None:
    with pytest.raises(ValueError, match="^together: a has no cases; expected some$"):
        together("a", [])
    with pytest.raises(TypeError, match="^together: <lambda> has no argument b$"):
        together(("a", "b"), [(1, 2)])(lambda a: None)
