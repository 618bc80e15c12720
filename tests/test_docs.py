"""The documentation: that its code runs, and that its links lead somewhere."""

from __future__ import annotations

import inspect
import json
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

import corepy

ROOT = Path(__file__).resolve().parent.parent
#: Those of packages and programs of their own, whose code needs what they set up.
EXAMPLES = sorted(ROOT.glob("examples/*/README.md"))
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/*.md"), ROOT / "benchmarks/README.md"])

_LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")


def code(text: str) -> str:
    """Return the Python blocks of a page, each line of code on the line that it has there."""
    lines, inside = [], False
    for line in text.splitlines():
        if line.startswith("```"):
            inside = line == "```python"
            lines.append("")
        else:
            lines.append(line if inside else "")
    return "\n".join(lines)


def links(text: str) -> list[str]:
    """Return the targets of a page's links into the checkout, code blocks left out."""
    prose = re.sub(r"```.*?```", "", text, flags=re.DOTALL)
    return [target for target in _LINK.findall(prose) if "://" not in target]


def anchors(text: str) -> set[str]:
    """Return the names by which a page's headings can be linked to."""
    titles = re.findall(r"^#+ (.+)$", text, flags=re.MULTILINE)
    return {re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-") for title in titles}


@pytest.mark.parametrize(
    "page", [page for page in PAGES if "```python\n" in page.read_text()], ids=lambda p: p.name
)
def test_code_runs(page: Path, tmp_path: Path) -> None:
    # In a process of its own: pages set priorities and register backends.
    environ = {k: v for k, v in os.environ.items() if not k.startswith("COREPY_")}
    script = tmp_path / page.with_suffix(".py").name
    script.write_text(code(page.read_text(encoding="utf-8")), encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-W", "error", str(script)],
        capture_output=True,
        text=True,
        env=environ | {"PYTHONPATH": str(ROOT), "COREPY_ROUTES": "shipped"},
        check=False,
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("page", [*PAGES, *EXAMPLES], ids=lambda p: str(p.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    for link in links(page.read_text(encoding="utf-8")):
        path, _, anchor = link.partition("#")
        target = (page.parent / path) if path else page
        assert target.exists(), link
        if anchor:
            assert anchor in anchors(target.read_text(encoding="utf-8")), link


@pytest.mark.parametrize("page", EXAMPLES, ids=lambda p: p.parent.name)
def test_examples_install_corepy_from_its_checkout(page: Path) -> None:
    # By that name the package index has another project.
    installs = re.findall(r"pip install [^`#\n]*", page.read_text(encoding="utf-8"))
    assert installs
    assert all("../.." in install for install in installs), installs


def test_messages_name_the_libraries_that_are_to_be_installed() -> None:
    # An extra of "corepy" leads pip to that other project where this one is used from a checkout.
    hints = [
        hint
        for path in ROOT.glob("corepy/**/*.py")
        for hint in re.findall(r"pip install (?!--)[^`)\n]*", path.read_text(encoding="utf-8"))
    ]
    assert len(hints) > 4
    assert [hint for hint in hints if "corepy" in hint] == []


def test_index_lists_every_page() -> None:
    listed = links((ROOT / "docs" / "index.md").read_text(encoding="utf-8"))
    pages = {page.name for page in ROOT.glob("docs/*.md")} - {"index.md"}
    assert pages <= {*listed}
    assert {"design.md", "writing-backends.md", "conformance.md"} <= pages


def test_the_reference_names_all_that_is_public() -> None:
    page = (ROOT / "docs" / "reference.md").read_text(encoding="utf-8")
    words = {*re.findall(r"\w+", " ".join(re.findall(r"`[^`\n]+`", page)))}
    public = {name: getattr(corepy, name) for name in corepy.__all__}
    # Of exceptions it names the first, and design.md has the table.
    derived = {
        name
        for name, value in public.items()
        if inspect.isclass(value) and issubclass(value, corepy.CorepyError)
    }
    assert {*public} - derived - words == set()
    assert "CorepyError" in words


README = (ROOT / "README.md").read_text(encoding="utf-8")


def rows(text: str, head: str) -> dict[str, list[str]]:
    """Return the cells of a page's table that begins so, by the first one of each row."""
    _, found, rest = text.partition(f"\n| {head}")
    assert found, head
    lines = rest.partition("\n\n")[0].splitlines()[2:]
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    return {name: others for name, *others in cells}


def kept(cell: str, name: str) -> Any:
    """Return the record beside the page of results that a cell links to by a name."""
    link = re.search(rf"\[{name}\]\(([^)]+)\.md\)", cell)
    assert link, cell
    return json.loads((ROOT / f"{link[1]}.json").read_text(encoding="utf-8"))


def two_digits(value: float) -> str:
    return f"{value:.1f}" if value < 9.95 else f"{value:.0f}"


def test_the_readme_has_the_speeds_of_the_pages_that_it_links_to() -> None:
    slower = rows(README, "two cores of | small: NumPy |")
    faster = rows(README, "two cores of | 10 | 1,000 |")
    assert [*slower] == [*faster]
    worst = []
    for name, (*told, links_) in faster.items():
        grid, program = kept(links_, "grid"), kept(links_, "program")
        claims = " ".join(claim["text"] for claim in grid["claims"])
        speeds = [float(found) for found in re.findall(r"([\d.]+) times as fast", claims)]
        speeds += [run["speed"] for run in program["runs"]]
        assert told == [two_digits(speed) for speed in speeds], name
        small, *others = re.findall(r": (\d+ of \d+)", claims)
        orders = [
            cell["timings"]["corepy"]["ratio"]
            for cell in grid["cells"]
            if (cell["group"], cell["size"]) == ("linear algebra", 128)
        ]
        between = f"{sum(ratio > 1.1 for ratio in orders)} of {len(orders)}"
        assert slower[name] == [small, between, *others], name
        worst.append(two_digits(max(orders)))
    assert f"the worst entries take {', '.join(worst[:-1])} and {worst[-1]} times" in README


def test_the_readme_has_the_counts_of_the_records_of_array_api_tests() -> None:
    told = rows(README, "backend | passed | failed |")
    records = [
        json.loads(path.read_text(encoding="utf-8"))
        for path in (ROOT / "conformance" / "results").glob("*.json")
        if path.name != "accuracy.json"
    ]
    found = {}
    for record in records:
        by_default = record["backend"] != "tinygrad"
        name = f"`{record['backend']}`" + ("" if by_default else f" on `{record['device']}`")
        counts = ("passed", "failed", "errors", "skipped", "xfailed", "examples")
        found[name] = [str(record[count]) for count in counts]
    assert {name: cells[:-1] for name, cells in told.items()} == found


def test_code_keeps_its_lines_and_finds_mistakes() -> None:
    page = "# Title\n```python\nx = 1\n```\nx = 2\n```toml\ny = 3\n```\n```python\nassert x == 1\n"
    assert code(page).splitlines() == ["", "", "x = 1", "", "", "", "", "", "", "assert x == 1"]
    with pytest.raises(AssertionError):
        exec(code(page.replace("x = 1", "x = 5", 1)), {})


def test_links_and_anchors_are_read() -> None:
    page = "# A title, with `code`\n[a](b.md#c) [web](https://x.org)\n```\n[no](no.md)\n```\n"
    assert links(page) == ["b.md#c"]
    assert anchors(page) == {"a-title-with-code"}


def test_a_source_distribution_holds_what_tests_and_make_read() -> None:
    with (ROOT / "pyproject.toml").open("rb") as file:
        build = tomllib.load(file)["tool"]["hatch"]["build"]["targets"]["sdist"]
    named = {entry.strip("/") for entry in build["include"]}
    read = {"corepy", "tests", "conformance", "examples", "docs", "benchmarks", "scripts", ".ci"}
    assert read <= named
    assert all((ROOT / name).is_dir() for name in read)
