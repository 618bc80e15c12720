"""Libraries that are installed and broken: each keeps its reason, and everything else goes on.

The packages are made up, but they break as real ones do, while they are imported.
"""

from __future__ import annotations

import importlib.machinery
import json
import os
import subprocess
import sys
import warnings
from collections.abc import Iterator, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import pytest

import corepy
from corepy.dispatch import load

ROOT = Path(corepy.__file__).parent.parent

#: What breaks each library, by its file, and what its row of ``corepy info`` says then.
BROKEN = {
    "torch": (  # a shared object of its own is missing
        {"torch/__init__.py": "import ctypes\nctypes.CDLL('libtorch_missing.so.2')"},
        "OSError: libtorch_missing.so.2: cannot open shared object file",
    ),
    "numba": (  # made for another NumPy
        {"numba/__init__.py": "raise ImportError('Numba needs NumPy 1.26 or less, not 2.4')"},
        "ImportError: Numba needs NumPy 1.26 or less, not 2.4",
    ),
    "jax": (  # its two halves do not fit
        {
            "jaxlib/__init__.py": "",
            "jax/__init__.py": "raise RuntimeError('jaxlib version 9 is newer than jax version 1')",
        },
        "RuntimeError: jaxlib version 9 is newer than jax version 1",
    ),
    "cupy": (  # as CuPy words it, with lines of ornament
        {
            "cupy/__init__.py": "raise ImportError('Failed to import CuPy.\\n\\nOriginal error:\\n'"
            "'  ImportError: libnvrtc.so.13: cannot open shared object file')",
        },
        "ImportError: Failed to import CuPy.",
    ),
    "mlx": (  # compiled for another machine
        {
            "mlx/__init__.py": "",
            f"mlx/core{importlib.machinery.EXTENSION_SUFFIXES[0]}": "\x7fno ELF\n" * 100,
        },
        "ImportError: ",
    ),
    "tinygrad": (  # another version, with other modules
        {"tinygrad/__init__.py": "Tensor = dtypes = None"},
        "ImportError: cannot import name 'Device' from 'tinygrad'",
    ),
    "dask": (  # compiled against another NumPy
        {
            "dask/__init__.py": "",
            "dask/array.py": "raise ValueError('numpy.dtype size changed, may indicate binary "
            "incompatibility. Expected 96 from C header, got 88 from PyObject')",
        },
        "ValueError: numpy.dtype size changed",
    ),
    "mpmath": ({"mpmath/__init__.py": "from math import no_such_name"}, None),
    # Of Dask, for clusters.
    "distributed": ({"distributed/__init__.py": "import ctypes; ctypes.CDLL('libno.so')"}, None),
}

SCRIPT = """
import contextlib, io, json
import corepy
import corepy.array_api as xp
from corepy._cli import main

text = io.StringIO()
with contextlib.redirect_stdout(text):
    assert main(["info", "--json"]) == 0
found = {"info": json.loads(text.getvalue()), "refused": {}, "sum": {}}
for row in found["info"]["backends"]:
    if not row["usable"]:
        try:
            corepy.set_backend_priority([row["name"]])
        except corepy.BackendUnavailableError as error:
            found["refused"][row["name"]] = str(error)
for name in ("numpy", "reference"):
    with corepy.backend_priority([name]):
        found["sum"][name] = float(xp.sum(xp.asarray([1.0, 2.5])))
for name, call in {
    "connect": lambda: corepy.connect("tcp://127.0.0.1:1"),
    "exp": lambda: float(xp.exp(xp.asarray(0.0))),
    "inv": lambda: float(xp.linalg.inv(xp.eye(2))[0, 0]),
}.items():
    with corepy.backend_priority(["reference"]):
        try:
            found[name] = call()
        except corepy.CorepyError as error:
            found[name] = f"{type(error).__name__}: {error}"
corepy.set_backend_priority(["gpu", "cpu", "reference"])
found["default"] = xp.ones(2).backend
print(json.dumps(found))
"""


def _environment(*folders: Path) -> dict[str, str]:
    """Return the environment of a process that looks for libraries in some folders first."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith("COREPY_")}
    return kept | {"PYTHONPATH": os.pathsep.join([*map(str, folders), str(ROOT)])}


def _printed(code: str, *folders: Path, options: Sequence[str] = ()) -> str:
    """Return what a process prints that looks for libraries in some folders first."""
    done = subprocess.run(
        [sys.executable, *options, "-c", code],
        env=_environment(*folders),
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Run the script where every optional library is broken, each in its own way."""
    folder = tmp_path_factory.mktemp("broken")
    for files, _ in BROKEN.values():
        for name, text in files.items():
            path = folder / name
            path.parent.mkdir(exist_ok=True)
            path.write_text(f"{text}\n", encoding="utf-8")
    return json.loads(_printed(SCRIPT, folder, options=("-W", "error")))


@pytest.mark.parametrize("name", [name for name, (_, reason) in BROKEN.items() if reason])
def test_a_broken_library_keeps_its_reason(found: Any, name: str) -> None:
    row = next(row for row in found["info"]["backends"] if row["name"] == name)
    _, reason = BROKEN[name]
    assert not row["usable"]
    assert row["reason"].startswith(reason)
    message = found["refused"][name]
    assert message.startswith(f"set_backend_priority: backend {name} is not usable: {reason}")


def test_everything_else_goes_on(found: Any) -> None:
    usable = [row["name"] for row in found["info"]["backends"] if row["usable"]]
    assert usable == ["numpy", "reference"]
    assert found["sum"] == {"numpy": 3.5, "reference": 3.5}
    assert found["default"] == "numpy"


def test_what_needs_a_broken_library_says_so(found: Any) -> None:
    """Of Dask's cluster; and the reference does without mpmath, or NumPy does it."""
    told = "BackendUnavailableError: connect: distributed is not usable: OSError: libno.so: cannot"
    assert found["connect"].startswith(told)
    assert (found["exp"], found["inv"]) == (1.0, 1.0)
    row = next(row for row in found["info"]["backends"] if row["name"] == "reference")
    reason = "linalg and fft need mpmath, which is not usable: ImportError: cannot import name"
    assert row["unserved"][0].startswith(reason)


def test_modules_that_stand_in_for_libraries_disturb_nothing_else() -> None:
    lines = (
        "import sys, types",
        "stands_in = lambda name: sys.modules.__setitem__(name, types.ModuleType(name))",
        "[*map(stands_in, ('torch', 'jax', 'dask', 'numba', 'threadpoolctl', 'matplotlib'))]",
        "class Refuses:",
        "    def find_spec(self, name, path=None, target=None):",
        "        if name == 'cupy': raise ImportError('not in these tests')",
        "sys.meta_path.insert(0, Refuses())",
        "import corepy, corepy.array_api as xp",
        "a = xp.ones((400, 400))",
        "print(float((a @ a)[0, 0]), float(corepy.kernels.softmax(a, axis=0)[0, 0]))",
        "print(*corepy.usable_backends()[:1])",
        "reasons = {row.name: row.reason for row in corepy.backend_status()}",
        "print(reasons['torch'], reasons['cupy'], sep='\\n')",
    )
    values, usable, of_torch, of_cupy = _printed("\n".join(lines)).splitlines()
    assert (values, usable) == ("400.0 0.0025", "numpy")
    assert "'torch'" in of_torch
    assert of_cupy == "ImportError: not in these tests"


def _distribution(folder: Path, name: str, **files: str) -> None:
    """Make what an installer leaves of a distribution, or what an interruption left of it."""
    place = folder / f"{name}-1.0.dist-info"
    place.mkdir()
    for file, text in files.items():
        (place / file.replace("_txt", ".txt")).write_text(text, encoding="utf-8")


def test_an_entry_point_that_names_no_object_costs_its_backend_alone(
    tmp_path: Path, bare: Path
) -> None:
    points = "[corepy.backends]\nmine = my-lib.corepy:Backend\n"
    _distribution(tmp_path, "mine", METADATA="Name: mine\nVersion: 1.0\n", entry_points_txt=points)
    lines = (
        "import corepy, corepy.array_api as xp",
        "print(xp.ones(2).backend)",
        "print(next(row.reason for row in corepy.backend_status() if row.name == 'mine'))",
        "try: corepy.set_backend('mine')",
        "except corepy.BackendUnavailableError as error: print(error)",
    )
    backend, reason, error = _printed("\n".join(lines), tmp_path, bare).splitlines()
    assert backend == "numpy"
    assert reason == "its entry point is 'my-lib.corepy:Backend'; expected module:class"
    assert error.startswith(f"set_backend: backend mine is not usable: {reason}; expected ")


def test_what_an_interrupted_installation_left_has_no_version(tmp_path: Path, bare: Path) -> None:
    _distribution(tmp_path, "nameless", top_level_txt="numpy\n")  # no METADATA
    _distribution(tmp_path, "unversioned", METADATA="Name: unversioned\n", top_level_txt="numpy\n")
    _distribution(tmp_path, "renamed", METADATA="Name: other\n", top_level_txt="numpy\n")
    lines = (
        "import json, corepy",
        "from corepy._cli import Style, gather, render",
        "facts = gather()",
        "row = next(row for row in facts['backends'] if row['name'] == 'numpy')",
        "print(json.dumps(row['versions']))",
        "print('numpy ' + row['versions']['numpy'] + ', other, unversioned' in "
        "render(facts, Style(False)))",
    )
    printed = _printed("\n".join(lines), tmp_path, bare, options=("-W", "error"))
    versions, is_shown = printed.splitlines()
    found = json.loads(versions)
    assert found.pop("numpy")
    assert found == {"other": None, "unversioned": None}
    assert is_shown == "True"


@pytest.mark.needs("sklearn")
@pytest.mark.parametrize("library", ["sklearn", "matplotlib"])
def test_the_demo_says_what_it_lacks(tmp_path: Path, library: str) -> None:
    (tmp_path / f"{library}.py").write_text("raise OSError('libno.so')\n")
    code = "import sys; sys.stderr = sys.stdout; from corepy._cli import main; print(main())"
    options = ["demo", "--backend", "numpy", "--size", "100"]
    done = subprocess.run(
        [sys.executable, "-c", code, *options],
        env=_environment(tmp_path),
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    *_, why, status = done.stdout.splitlines()
    assert (why, status) == {
        "sklearn": (
            "corepy demo: scikit-learn, which has the digits, is not usable: OSError: libno.so",
            "2",
        ),
        "matplotlib": ("No picture: matplotlib is not usable: OSError: libno.so", "0"),
    }[library]


def test_without_numpy_there_is_no_default(tmp_path: Path) -> None:
    (tmp_path / "numpy.py").write_text("raise ImportError('made for another Python')\n")
    lines = (
        "import corepy, corepy.array_api as xp",
        "for _ in range(2):",
        "    try: xp.ones(3)",
        "    except corepy.BackendUnavailableError as error: print(error)",
        "with corepy.backend_priority(['reference']): print(float(xp.sum(xp.ones(3))))",
        "rows = [row for row in corepy.backend_status() if row.name in ('numpy', 'dask')]",
        "print({row.reason for row in rows} - {'not installed: dask'})",
    )
    reason = "ImportError: made for another Python"
    *errors, total, reasons = _printed("\n".join(lines), tmp_path).splitlines()
    assert len(errors) == 2
    for error in errors:
        assert error.startswith(f"corepy: backend numpy is not usable: {reason}; expected ")
    assert (total, reasons) == ("3.0", f"{{{reason!r}}}")


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "fails (ImportError: cannot import name 'ThreadpoolController' from"),  # before 3.0
        (  # as older ones where OpenBLAS has no version
            "class ThreadpoolController:\n    def __init__(self): None.split()",
            "fails (AttributeError: 'NoneType' object has no attribute 'split'",
        ),
        (  # as before 3.5 beside the OpenBLAS of NumPy's wheels
            "class ThreadpoolController:\n"
            "    lib_controllers = []\n"
            "    select = lambda self, **_: self\n"
            "    info = lambda self: []\n"
            "    limit = lambda self, **_: None",
            "does not know the BLAS of this NumPy",
        ),
        (  # as before 3.2 beside others, whose controllers kept the library for themselves
            "class ThreadpoolController:\n"
            "    internal_api, filepath = 'openblas', '/usr/lib/libopenblas.so.0'\n"
            "    get_num_threads = lambda self: 2\n"
            "    set_num_threads = lambda self, count: None\n"
            "    lib_controllers = property(lambda self: [self])\n"
            "    select = lambda self, **_: self\n"
            "    info = lambda self: [{'user_api': 'blas'}]\n"
            "    limit = lambda self, **_: None",
            None,
        ),
    ],
)
def test_products_need_no_threadpoolctl_that_works(
    tmp_path: Path, text: str, reason: str | None
) -> None:
    (tmp_path / "threadpoolctl.py").write_text(f"{text}\n")
    lines = (
        "import corepy, corepy.array_api as xp",
        "corepy.set_backend('numpy')",
        "a = xp.ones((400, 400))",
        "print(float((a @ a)[0, 0]), float(xp.linalg.inv(xp.eye(200) * 2)[0, 0]))",
        "print(corepy.set_num_threads(1).get('numpy'))",
        "with corepy.reproducible():",
        "    print(float((a @ a)[0, 0]))",
    )
    printed = _printed("\n".join(lines), tmp_path, options=("-W", "error"))
    values, told, again = printed.splitlines()
    assert (values, again) == ("400.0 0.5", "400.0")
    assert told.startswith("None" if reason is None else f"threadpoolctl {reason}")


@pytest.mark.backend("numba")
def test_loops_and_kernels_are_read_from_an_archive(tmp_path: Path) -> None:
    """As programs of one file bring their packages: what was compiled stays outside."""
    archive = tmp_path / "program.zip"
    package = ROOT / "corepy"
    with ZipFile(archive, "w") as made:
        for path in package.rglob("*"):
            if path.suffix in (".py", ".c", ".h", ".json"):
                made.write(path, path.relative_to(ROOT))
    lines = (
        "import corepy, corepy.array_api as xp",
        "from corepy._loops._compile import digest",
        "from corepy.kernels._device._runtime import TILES",
        "from pathlib import Path",
        "corepy.set_backend('numba')",
        "print(corepy.__file__, xp.arange(3).backend)",
        "print(digest((TILES,)), digest((Path('nowhere'),)))",
        "from corepy.kernels.softmaxes.device import _program",
        "print(len(_program._source))",
    )
    printed = _printed("\n".join(lines), archive, options=("-P",))  # not from the current folder
    place, digests, length = printed.splitlines()
    assert place == f"{archive / 'corepy' / '__init__.py'} numba"
    folder = package / "kernels" / "_device"
    text = (folder / "tiles.h").read_bytes()
    assert digests.split() == [sha256(text).hexdigest()[:12]]
    assert int(length) > len((folder / "portability.h").read_text(encoding="utf-8"))


#: How a second interpreter is made that shares the lock of the first: what does not, since 3.12,
#: may not import `ctypes` everywhere.
_SECOND = (
    "import _xxsubinterpreters as interpreters; second = interpreters.create()"
    if sys.version_info < (3, 12)
    else "import _xxsubinterpreters as interpreters; second = interpreters.create(isolated=False)"
    if sys.version_info < (3, 13)
    else "import _interpreters as interpreters; second = interpreters.create('legacy')"
)


@pytest.mark.needs("torch")
def test_a_second_interpreter_is_told_what_numpy_says() -> None:
    """NumPy lives in one alone. torch, which goes on without it, hangs in the second."""
    lines = (
        "import numpy",
        _SECOND,
        "text = 'import corepy, corepy.array_api as xp\\ntry: xp.ones(3)\\n'",
        "text += 'except corepy.BackendUnavailableError as error: print(error)\\n'",
        "text += 'print(corepy.backend_status()[2].reason)'",
        "interpreters.run_string(second, text)",
    )
    error, of_torch = _printed("\n".join(lines)).splitlines()
    assert error.startswith("corepy: backend numpy is not usable: ImportError: ")
    assert of_torch in error


@pytest.mark.needs("torch")
@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere a folder in use cannot be deleted")
def test_torch_is_not_imported_where_the_current_folder_was_deleted() -> None:
    lines = (
        "import os, tempfile, corepy",
        "with tempfile.TemporaryDirectory() as folder: os.chdir(folder)",
        "print(next(row.reason for row in corepy.backend_status() if row.name == 'torch'))",
    )
    reason = "ImportError: torch needs a current folder, and this one was deleted\n"
    assert _printed("\n".join(lines)) == reason


# ---------------------------------------------------------------------------- drivers

OLD_DRIVER = (
    "CUDA initialization: The NVIDIA driver on your system is too old (found version 11040). "
    "Please update your GPU driver"
)


@pytest.fixture
def torch_with_an_old_driver(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Let torch be built for CUDA and its driver be too old, as torch tells it: by a warning."""
    import torch

    from corepy.backends.torch import _devices

    def is_available() -> bool:
        warnings.warn(OLD_DRIVER, UserWarning, stacklevel=2)
        return False

    monkeypatch.setattr(torch.backends.cuda, "is_built", lambda: True)
    monkeypatch.setattr(torch.cuda, "is_available", is_available)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)  # the driver's own count
    _devices._cuda.cache_clear()
    _devices.present.cache_clear()
    yield
    _devices._cuda.cache_clear()
    _devices.present.cache_clear()


@pytest.mark.backend("torch")
@pytest.mark.usefixtures("torch_with_an_old_driver")
def test_a_driver_that_is_too_old_costs_the_gpu_alone() -> None:
    backend = load("torch")
    assert [device.name for device in backend.devices()] == ["cpu"]
    assert backend.unserved() == (f"cuda: {OLD_DRIVER}",)
    row = next(row for row in corepy.backend_status() if row.name == "torch")
    assert (row.usable, row.reason, row.unserved) == (True, None, (f"cuda: {OLD_DRIVER}",))
    with pytest.raises(corepy.BackendUnavailableError, match="driver on your system is too old"):
        corepy.set_backend_priority(["torch:cuda:0"])
    with pytest.raises(corepy.BackendUnavailableError, match="driver on your system is too old"):
        corepy.array_api.ones(2, device="cuda:0")
    with corepy.backend_priority(["torch"]):
        assert corepy.array_api.ones(2).tolist() == [1.0, 1.0]


@pytest.mark.needs("jax")
@pytest.mark.parametrize(
    ("platforms", "reason"),
    [
        ("cuda", "JAX_PLATFORMS is 'cuda', of which JAX finds nothing; expected a list that ends"),
        ("none", "RuntimeError: Unable to initialize backend 'none': "),
    ],
)
def test_jax_without_a_device_costs_jax_alone(platforms: str, reason: str) -> None:
    lines = (
        "import os",
        f"os.environ['JAX_PLATFORMS'] = '{platforms}'",
        "import corepy, corepy.array_api as xp",
        "CPU = corepy.devices.as_device('cpu')",
        "print(next(row.reason for row in corepy.backend_status() if row.name == 'jax'))",
        "assert CPU in corepy.list_devices() and CPU in xp.__array_namespace_info__().devices()",
        "assert corepy.empty_cache() >= 0 and corepy.select_backend('add') != 'jax'",
        "for call in (lambda: xp.ones(2**45), lambda: corepy.set_backend('jax')):",
        "    try: call()",
        "    except corepy.CorepyError as error: print(type(error).__name__)",
    )
    told, *errors = _printed("\n".join(lines)).splitlines()
    # JAX may see the GPU that it is asked for.
    assert told.startswith(reason) or (told, platforms) == ("None", "cuda")
    if told != "None":
        assert errors == ["InsufficientMemoryError", "BackendUnavailableError"]
