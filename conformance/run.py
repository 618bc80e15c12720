"""Run array-api-tests on corepy, count, and keep the published matrix up to date.

    python conformance/run.py --backend numpy
    python conformance/run.py --backend torch --device mps --suite path/to/array-api-tests

The suite is the one of https://github.com/data-apis/array-api-tests at the commit `PIN`. Tests
that a backend is known to fail stand in ``xfails/<backend>.txt``, and those that none can pass on a
kind of device in ``xfails/<kind>.txt``, such as ``cuda.txt``, one id a line, each with its upstream
reason; the list of a backend in a package of its own is named by ``--xfails``. An id there that
matches no test, or a test that passes after all, is a failure, so that the list can only tell the
truth. (With fewer than 200 examples a test may pass by chance.)

Results to publish come from Python 3.11 or 3.12. Since 3.13 compiled docstrings lose their
indentation, and the suite, which reads special cases out of them, finds 1380 tests and not 1384.

The exit status is 0 when everything passed, 1 when a test did not, and 2 when nothing was run.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import importlib.util
import json
import os
import re
import subprocess
import sys
import tempfile
import time
import tomllib
import xml.etree.ElementTree as ET
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

REPOSITORY: Final = "https://github.com/data-apis/array-api-tests"
PIN: Final = "55fcc60179efa2680ddd6cd926ddf17b83530e2b"
VERSION: Final = "2025.12"

HERE: Final = Path(__file__).resolve().parent
RESULTS: Final = HERE / "results"
XFAILS: Final = HERE / "xfails"

#: Examples of each test after which what did not fail is fixed.
ENOUGH: Final = 200

#: The last Python whose results are published: later ones find fewer tests.
LAST_PYTHON: Final = (3, 12)

#: corepy's variables that the caller may set for the suite; the record tells them. The others are
#: taken away: a run under another precision, say, would pass for one under the default.
KEPT: Final = (
    *("COREPY_ROUTES", "COREPY_ROUTES_FORCED", "COREPY_POOL_BYTES"),
    *("COREPY_PURE_PYTHON", "COREPY_NUM_THREADS"),
)

#: pytest's exit statuses after which its report counts: all passed, or some test failed.
_RAN: Final = (0, 1)
#: The one after which nothing was to be run.
_NONE_MATCHED: Final = 5

#: What runs the suite, by module. What the suite needs besides it says itself.
_NEEDS: Final = ("pytest", "xdist")


class ConformanceError(Exception):
    """The suite could not be run, so there is nothing to count."""


# ------------------------------------------------------------------------------- the suite


def require_pytest() -> None:
    """See that what runs the suite is installed.

    Raises
    ------
    ConformanceError
        If it is not.
    """
    missing = [name for name in _NEEDS if importlib.util.find_spec(name) is None]
    if missing:
        raise ConformanceError(
            f"not installed: {', '.join(missing)}; expected what "
            f'`pip install -e ".[conformance]"` in {HERE.parent} brings'
        )


def find_suite(path: Path | None) -> Path:
    """Return a checkout of the suite that can be run.

    Parameters
    ----------
    path : Path or None
        A checkout with its submodule; None clones the pinned commit into the user's cache, once.

    Raises
    ------
    ConformanceError
        If the path is no such checkout, or cloning failed.
    """
    suite = _clone() if path is None else path.resolve()
    if not (suite / "array_api_tests" / "__init__.py").is_file():
        raise ConformanceError(f"--suite: {suite} is no checkout of {REPOSITORY}")
    if not (suite / "array-api" / "src").is_dir():
        raise ConformanceError(
            f"--suite: {suite} lacks its submodule array-api; "
            f"expected one after `git submodule update --init` there"
        )
    return suite


def _clone() -> Path:
    suite = cache_folder() / f"array-api-tests-{PIN[:12]}"
    if suite.is_dir():
        return suite
    print(f"cloning {REPOSITORY} at {PIN[:12]} into {suite}", file=sys.stderr)
    suite.parent.mkdir(parents=True, exist_ok=True)
    # An interrupted clone must not pass for a complete one: it gets its name at the end.
    with tempfile.TemporaryDirectory(dir=suite.parent) as folder:
        checkout = Path(folder) / "checkout"
        try:
            _git("clone", "--quiet", "--no-checkout", REPOSITORY, str(checkout))
            _git("-C", str(checkout), "checkout", "--quiet", PIN)
            _git("-C", str(checkout), "submodule", "--quiet", "update", "--init", "--depth", "1")
        except ConformanceError as error:
            raise ConformanceError(
                f"{error}\nWithout network, name a checkout of that commit with --suite."
            ) from error
        checkout.rename(suite)
    return suite


def cache_folder() -> Path:
    """Return where clones and found examples are kept between runs."""
    home = os.environ.get("XDG_CACHE_HOME", "")  # where it is relative, it counts for nothing
    return (Path(home) if os.path.isabs(home) else Path.home() / ".cache") / "corepy"


def _git(*arguments: str) -> str:
    try:
        done = subprocess.run(["git", *arguments], capture_output=True, text=True, check=False)
    except FileNotFoundError as error:
        raise ConformanceError("git is not installed") from error
    if done.returncode:
        raise ConformanceError(f"`git {' '.join(arguments)}` failed: {done.stderr.strip()}")
    return done.stdout.strip()


def suite_commit(suite: Path) -> str | None:
    """Return the commit of a checkout; say so on stderr unless it is the pinned one.

    Returns
    -------
    str or None
        The full hash, with ``+changes`` where tracked files differ; None outside of git.
    """
    git = ("-C", str(suite))
    try:
        commit = _git(*git, "rev-parse", "HEAD")
        changed = _git(*git, "status", "--porcelain", "-uno", "--ignore-submodules=all")
    except ConformanceError as error:
        print(f"conformance: the suite's commit is unknown: {error}", file=sys.stderr)
        return None
    if changed:
        commit += "+changes"
    if commit != PIN:
        print(f"conformance: the suite is at {commit}; expected {PIN}", file=sys.stderr)
    return commit


# ------------------------------------------------------------------------------ the xfails


def read_xfails(path: Path) -> list[str]:
    """Return the ids in a file; none where there is no file."""
    if not path.is_file():
        return []
    lines = (line.strip() for line in path.read_text(encoding="utf-8").splitlines())
    return [line for line in lines if line and not line.startswith("#")]


def matches(test: str, pattern: str) -> bool:
    """Say whether an id of a test is meant by an xfail id, as the suite reads them.

    An xfail id is a whole id, one without its ``[parameters]``, or a file.
    """
    return pattern in (test, test.partition("[")[0], test.partition("::")[0])


def unmatched(xfails: Iterable[str], tests: Sequence[str]) -> list[str]:
    """Return the xfail ids that mean no test."""
    return [pattern for pattern in xfails if not any(matches(test, pattern) for test in tests)]


# ------------------------------------------------------------------------------- the count


@dataclass
class Counts:
    """What became of the tests of one run.

    Attributes
    ----------
    passed, failed, errors, skipped, xfailed : int
        One of them for each test; an xfail that passes counts as failed.
    failures : list of str
        The ids of the failed tests and of those in error.
    """

    passed: int = 0
    failed: int = 0
    errors: int = 0
    skipped: int = 0
    xfailed: int = 0
    failures: list[str] = field(default_factory=list)

    @property
    def ok(self) -> bool:
        """Whether something ran and nothing went wrong."""
        return self.passed > 0 and self.failed == self.errors == 0


def count(report: Path) -> Counts:
    """Count the outcomes in a JUnit report of pytest (``junit_family=xunit1``)."""
    counts = Counts()
    # A test that fails and whose teardown fails too stands there twice: the worst outcome counts.
    outcomes: dict[str, str] = {}
    for case in ET.parse(report).iter("testcase"):
        test, outcome = _test_id(case), _outcome(case)
        outcomes[test] = max(outcome, outcomes.get(test, outcome), key=_SEVERITY.index)
    for test, outcome in sorted(outcomes.items()):  # workers finish in any order
        setattr(counts, outcome, getattr(counts, outcome) + 1)
        if outcome in ("failed", "errors"):
            counts.failures.append(test)
    return counts


_SEVERITY: Final = ("passed", "skipped", "xfailed", "failed", "errors")


def _outcome(case: ET.Element) -> str:
    if case.find("error") is not None:
        return "errors"
    if case.find("failure") is not None:
        return "failed"
    skipped = case.find("skipped")
    if skipped is None:
        return "passed"
    return "xfailed" if skipped.get("type") == "pytest.xfail" else "skipped"


def _test_id(case: ET.Element) -> str:
    """Put the id together again as pytest prints it."""
    file, name = case.get("file", ""), case.get("name", "")
    module = file.removesuffix(".py").replace("/", ".")
    classes = case.get("classname", "").removeprefix(module).strip(".")
    return "::".join(part for part in (file, *classes.split("."), name) if part)


# --------------------------------------------------------------------------------- the run


@dataclass(frozen=True)
class Options:
    """What to run: the command line, parsed and completed."""

    backend: str
    device: str | None
    examples: int
    workers: str
    selection: str | None

    @property
    def priority(self) -> str:
        """The wish as ``COREPY_BACKEND_PRIORITY`` takes it."""
        return self.backend if self.device is None else f"{self.backend}:{self.device}"

    @property
    def label(self) -> str:
        """The name of the run's files."""
        if self.device is None:
            return self.backend
        return f"{self.backend}-{self.device.replace(':', '-')}"

    def environment(self) -> dict[str, str]:
        """Return the environment the suite runs in: this checkout of corepy, this backend."""
        paths = [str(HERE.parent), os.environ.get("PYTHONPATH", "")]
        others = {k: v for k, v in os.environ.items() if not k.startswith("COREPY_") or k in KEPT}
        return others | {
            "ARRAY_API_TESTS_MODULE": "corepy.array_api",
            "ARRAY_API_TESTS_VERSION": VERSION,
            "COREPY_BACKEND_PRIORITY": self.priority,
            # An example that failed once is tried first next time.
            "HYPOTHESIS_STORAGE_DIRECTORY": str(cache_folder() / "hypothesis" / self.label),
            "PYTHONPATH": os.pathsep.join(filter(None, paths)),
        }

    def pytest(self, *arguments: str) -> list[str]:
        """Return the command that runs the suite's pytest with its own settings."""
        command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *arguments]
        return [*command, "array_api_tests"]


#: Prints where an array is made, and whether its backend knows shapes that depend on values, or why
#: none can be.
#: Without this check a priority that leads elsewhere than meant would publish the results of one
#: backend under the name of another. Zeros are made at home whatever is routed.
_PROBE: Final = """
import corepy
try:
    made = corepy.explain(corepy.array_api.zeros, 1).records[-1]
except (corepy.CorepyError, ValueError) as error:
    raise SystemExit(str(error).removeprefix("COREPY_BACKEND_PRIORITY: "))
can = corepy.array_api.__array_namespace_info__().capabilities()
print(made.backend, made.device, can["data-dependent shapes"])
"""


def placement(options: Options) -> tuple[str, bool]:
    """Return the device on which the tests will run, and whether it knows every shape at once.

    Raises
    ------
    ConformanceError
        If new arrays would not be made by the backend, on the device, that the options name.
    """
    done = subprocess.run(
        [sys.executable, "-c", _PROBE],
        cwd=HERE.parent,
        env=options.environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        reason = done.stderr.strip().rpartition("\n")[2]
        raise ConformanceError(f"--backend: {options.priority} cannot run: {reason}")
    backend, device, shapes_known = done.stdout.split()
    if backend != options.backend or options.device not in (None, device):
        raise ConformanceError(
            f"--backend: {options.priority} makes arrays in {backend} on {device}; "
            f"expected the name of a backend, and of its device as `corepy info` lists it"
        )
    return device, shapes_known == "True"


def collect(suite: Path, options: Options) -> list[str]:
    """Return the ids of all tests of the suite."""
    done = subprocess.run(
        options.pytest("--collect-only", "--verbosity=-1"),
        cwd=suite,
        env=options.environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    tests = [line for line in done.stdout.splitlines() if "::" in line]
    if done.returncode or not tests:
        raise ConformanceError(f"the suite could not be collected:\n{done.stdout}{done.stderr}")
    return tests


def run_suite(
    suite: Path,
    options: Options,
    xfails: Sequence[str],
    report: Path,
    *,
    shapes_known: bool = True,
) -> None:
    """Run the suite and write its JUnit report.

    Where shapes that depend on values are not known at once, the suite skips the tests of them.

    Raises
    ------
    ConformanceError
        If pytest was stopped by anything but failing tests, so that its report is not whole.
    """
    arguments = [
        f"--max-examples={options.examples}",
        "--disable-deadline",
        f"--numprocesses={options.workers}",
        f"--junitxml={report}",
        "--override-ini=junit_family=xunit1",  # the family that names the files
        # An xfail that passes is a line to delete; few examples may not meet what fails.
        f"--override-ini=xfail_strict={str(options.examples >= ENOUGH).lower()}",
        "--tb=short",
        "-rfE",
        "--disable-warnings",  # libraries warn of every overflow that a test provokes
    ]
    if not shapes_known:
        arguments.append("--disable-data-dependent-shapes")
    if options.selection is not None:
        arguments += ["-k", options.selection]
    # Always both lists: without them the suite looks for files of its own. And always with "=":
    # a path that stands alone would be taken for one to find tests and settings in.
    for name, ids in {"xfails": xfails, "skips": ()}.items():
        path = report.with_name(f"{name}.txt")
        path.write_text("".join(f"{line}\n" for line in ids), encoding="utf-8")
        arguments.append(f"--{name}-file={path}")
    done = subprocess.run(
        options.pytest(*arguments), cwd=suite, env=options.environment(), check=False
    )
    if done.returncode == _NONE_MATCHED and options.selection is not None:
        raise ConformanceError(f"-k: no test matches {options.selection!r}")
    if done.returncode not in _RAN or not report.is_file():
        raise ConformanceError(f"pytest ended with status {done.returncode}; expected 0 or 1")


def versions(backend: str) -> dict[str, str]:
    """Return the versions of corepy, what it needs, and what the extra of a backend names.

    The extras of pyproject.toml say which distributions a backend consists of, so that a new
    backend needs no second list here.
    """
    text = (HERE.parent / "pyproject.toml").read_text(encoding="utf-8")
    project: Mapping[str, Any] = tomllib.loads(text)["project"]
    needs = list(project["dependencies"])
    for extra, names in project["optional-dependencies"].items():
        if extra == backend or extra.startswith(f"{backend}-"):
            needs += names
    found = {"python": ".".join(map(str, sys.version_info[:3])), "corepy": project["version"]}
    for need in needs:
        name = re.split(r"[^\w.-]", need, maxsplit=1)[0]
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue  # of cupy-cuda12x, cupy-cuda13x, ... one is installed
    return found


# ------------------------------------------------------------------------------ the matrix


def write_result(output: Path, options: Options, counts: Counts, **facts: Any) -> Path:
    """Write the record of one run; return its path.

    The facts are ``device``, ``seconds``, ``date``, ``suite_commit``, ``versions`` and
    ``environment``, those of `KEPT` that are set.
    """
    record = {
        "backend": options.backend,
        **facts,
        "examples": options.examples,
        **asdict(counts),
    }
    output.mkdir(parents=True, exist_ok=True)
    path = output / f"{options.label}.json"
    path.write_text(json.dumps(record, indent=2) + "\n", encoding="utf-8")
    return path


_COLUMNS: Final = ("passed", "failed", "errors", "skipped", "xfailed", "examples")
_HEADING: Final = f"""\
# Conformance

[array-api-tests]({REPOSITORY}) on `corepy.array_api`, standard {VERSION}, one row a backend:
written by `conformance/run.py`. Examples are those Hypothesis tries for each test.
"""


def write_matrix(output: Path) -> Path:
    """Put the records in a folder together into one table, ``matrix.md``; return its path."""
    found = (json.loads(path.read_text(encoding="utf-8")) for path in output.glob("*.json"))
    records = [record for record in found if "backend" in record]  # others lie there too
    records.sort(key=lambda record: (record["backend"], record["device"]))
    titles = ["backend", "device", *_COLUMNS, "seconds", "versions", "suite", "date"]
    rows = [titles, ["---"] * 2 + ["--:"] * (len(_COLUMNS) + 1) + ["---"] * 3]
    rows += [_row(record) for record in records]
    table = "".join(f"| {' | '.join(row)} |\n" for row in rows)
    path = output / "matrix.md"
    path.write_text(f"{_HEADING}\n{table}", encoding="utf-8")
    return path


def _row(record: Mapping[str, Any]) -> list[str]:
    commit = record["suite_commit"]
    built = [f"{name} {version}" for name, version in record["versions"].items()]
    built += [f"{name}={value}" for name, value in record.get("environment", {}).items()]
    return [
        record["backend"],
        record["device"],
        *(str(record[column]) for column in _COLUMNS),
        str(record["seconds"]),
        ", ".join(built),
        "unknown" if commit is None else commit.replace(PIN, PIN[:12]),
        record["date"],
    ]


# ------------------------------------------------------------------------------ the command


def parser() -> argparse.ArgumentParser:
    """Describe the command line."""
    made = argparse.ArgumentParser(
        prog="corepy conformance",
        description="Run array-api-tests on one backend of corepy.",
        allow_abbrev=False,
    )
    made.add_argument("--backend", required=True, help="the backend to test, such as numpy")
    made.add_argument("--device", help="one of its devices, such as cuda:0 (default: its first)")
    made.add_argument(
        "--suite", type=Path, help="a checkout of array-api-tests (default: clone it)"
    )
    made.add_argument(
        "--max-examples",
        type=_at_least(1),
        default=100,
        metavar="N",
        help="examples for each test (default: 100)",
    )
    made.add_argument(
        "--workers",
        type=_workers,
        default="auto",
        metavar="N",
        help="processes (default: auto, one a core; 0: none)",
    )
    made.add_argument(
        "--xfails",
        type=Path,
        metavar="FILE",
        help="a further list of tests that the backend is known to fail, one id a line",
    )
    made.add_argument("-k", dest="selection", help="run only tests whose name matches, as pytest")
    made.add_argument(
        "--output",
        type=Path,
        help="folder for the results (default: conformance/results, none with -k or Python 3.13)",
    )
    return made


def _at_least(least: int) -> Callable[[str], int]:
    def number(text: str) -> int:
        if text.isascii() and text.isdecimal() and int(text) >= least:
            return int(text)
        raise argparse.ArgumentTypeError(f"it is {text!r}; expected a number of at least {least}")

    return number


def _workers(text: str) -> str:
    return text if text == "auto" else str(_at_least(0)(text))


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; return the exit status.

    Parameters
    ----------
    argv : sequence of str, optional
        The arguments; those of the process by default.

    Returns
    -------
    int
        0 if everything passed, 1 if a test did not, 2 if the suite could not be run.
    """
    arguments = parser().parse_args(argv)
    try:
        return _run(arguments)
    except ConformanceError as error:
        print(f"conformance: {error}", file=sys.stderr)
        return 2


def _run(arguments: argparse.Namespace) -> int:
    options = Options(
        backend=arguments.backend,
        device=arguments.device,
        examples=arguments.max_examples,
        workers=arguments.workers,
        selection=arguments.selection,
    )
    # What may end it before the suite is cloned for nothing.
    given = [] if arguments.xfails is None else [arguments.xfails]
    for file in given:
        if not file.is_file():
            raise ConformanceError(f"--xfails: there is no file {file}")
    require_pytest()
    device, shapes_known = placement(options)
    suite = find_suite(arguments.suite)
    commit = suite_commit(suite)
    kind = device.partition(":")[0]
    files = [*(XFAILS / f"{name}.txt" for name in (options.backend, kind)), *given]
    xfails = [test for file in files for test in read_xfails(file)]
    lost = unmatched(xfails, collect(suite, options)) if xfails else []
    if lost:
        told = " or ".join(file.name for file in files)
        raise ConformanceError(f"{told} has ids that match no test:\n  " + "\n  ".join(lost))

    start = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.xml"
        run_suite(suite, options, xfails, report, shapes_known=shapes_known)
        counts = count(report)
    print(_summary(options, counts))

    output = arguments.output
    if output is None and options.selection is None:  # a part of the suite is nothing to publish
        if sys.version_info[:2] <= LAST_PYTHON:
            output = RESULTS
        else:
            print("conformance: published are results of Python 3.11 and 3.12", file=sys.stderr)
    if output is not None:
        write_result(
            output,
            options,
            counts,
            device=device,
            seconds=round(time.monotonic() - start),
            date=datetime.now(UTC).date().isoformat(),
            suite_commit=commit,
            versions=versions(options.backend),
            environment={name: os.environ[name] for name in KEPT if name in os.environ},
        )
        print(f"wrote {write_matrix(output)}")
    return 0 if counts.ok else 1


def _summary(options: Options, counts: Counts) -> str:
    numbers = ", ".join(f"{getattr(counts, name)} {name}" for name in _COLUMNS[:-1])
    return f"{options.label}: {numbers}"


if __name__ == "__main__":
    sys.exit(main())
