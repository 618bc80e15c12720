"""How corepy finds the backend and works with it."""

from __future__ import annotations

import subprocess
import sys
import textwrap

import numpy as np
import pytest

import corepy
import corepy.array_api as xp
from corepy.demo.digits import pca, project

METADATA = "Metadata-Version: 2.1\nName: corepy-remote\nVersion: 0.1.0\n"


def test_registered(remote):
    assert "remote" in corepy.usable_backends()
    row = next(row for row in corepy.backend_status() if row.name == "remote")
    assert [device.name for device in row.devices] == ["remote:0"]
    assert xp.ones((2,)).device.name == "remote:0"
    assert xp.ones((2,), device="cpu").device.name == "cpu"


def test_announced_by_an_entry_point(server, tmp_path, environment):
    """A program that never names the package finds it by the metadata of an installed one."""
    info = tmp_path / "corepy_remote-0.1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(METADATA)
    (info / "entry_points.txt").write_text(
        "[corepy.backends]\nremote = corepy_remote:RemoteBackend\n"
    )
    program = """
        import sys
        import corepy
        assert "corepy_remote" not in sys.modules
        xp = corepy.array_api
        with corepy.backend_priority(["remote"]):
            x = xp.asarray([1.0, 2.0])
        print(x.device, (x + x).tolist(), "remote" in corepy.usable_backends())
    """
    environment["PYTHONPATH"] += f":{tmp_path}"
    environment["COREPY_REMOTE_URL"] = server.url
    command = [sys.executable, "-W", "error", "-c", textwrap.dedent(program)]
    done = subprocess.run(
        command, env=environment, capture_output=True, text=True, timeout=20, check=False
    )
    assert (done.stdout, done.stderr) == ("remote:0 [2.0, 4.0] True\n", "")


def test_the_entry_point_is_the_one_in_pyproject(source):
    import tomllib

    project_file = tomllib.loads((source.parent / "pyproject.toml").read_text())
    points = project_file["project"]["entry-points"]["corepy.backends"]
    assert points == {"remote": "corepy_remote:RemoteBackend"}


def test_principal_components(remote):
    values = np.random.default_rng(7).normal(size=(40, 3)) @ np.diag([3.0, 1.0, 0.1])
    x = xp.asarray(values, device="remote:0")
    explanation = corepy.explain(lambda: pca(x, 2))
    found = explanation.result
    assert set(explanation.summary()) == {"remote"}
    assert {r.device for r in explanation.records} == {"remote:0"}
    assert "linalg.svd" in [r.operation for r in explanation.records]

    centred = values - values.mean(axis=0)
    _, scale, rows = np.linalg.svd(centred, full_matrices=False)
    np.testing.assert_allclose(np.asarray(found.explained), (scale**2 / (scale**2).sum())[:2])
    np.testing.assert_allclose(abs(np.asarray(found.components)), abs(rows[:2]))
    np.testing.assert_allclose(abs(np.asarray(project(x, found))), abs(centred @ rows[:2].T))


class TestOperationThatTheServerDoesNotHave:
    """The FFTs are not on the server's list."""

    expected = np.fft.fft(np.array([1.0, 2.0, 4.0]))

    def test_warn(self, remote):
        x = xp.asarray([1.0, 2.0, 4.0])
        with pytest.warns(corepy.FallbackWarning, match=r"fft.fft: .*numpy on cpu runs it"):
            y = xp.fft.fft(x)
        assert y.device.name == "remote:0"
        np.testing.assert_array_equal(np.asarray(y), self.expected)

    def test_raise(self, remote):
        x = xp.asarray([1.0, 2.0, 4.0])
        with corepy.set_fallback("raise"), pytest.raises(corepy.FallbackError, match="fft.fft"):
            xp.fft.fft(x)
        assert x.tolist() == [1.0, 2.0, 4.0]

    def test_allow(self, remote):
        with corepy.set_fallback("allow"):
            explanation = corepy.explain(xp.fft.fft, xp.asarray([1.0, 2.0, 4.0]))
        np.testing.assert_array_equal(np.asarray(explanation.result), self.expected)
        record = explanation.records[-1]
        assert (record.operation, record.backend, record.device) == ("fft.fft", "numpy", "cpu")
        assert record.bytes_moved == 48 + 48  # three complex numbers there, and three back


def test_execute(remote):
    """The table can be used directly, as the contract has it."""
    device = remote.devices()[0]
    x = remote.from_numpy(np.array([[4.0, 2.0], [2.0, 3.0]]), device)
    factor = remote.execute("linalg.cholesky", [x], upper=False)
    np.testing.assert_allclose(remote.to_numpy(factor), [[2.0, 0.0], [1.0, 2.0**0.5]])
    assert remote.dtype_of(factor) is xp.float64
    assert remote.shape_of(factor) == (2, 2)
    assert remote.owns(factor)
    assert not remote.owns(np.ones(2))
    with pytest.raises(corepy.UnsupportedOperationError, match="backend remote has no such"):
        remote.execute("fft.fft", [x], n=2, axis=0, norm="backward")
