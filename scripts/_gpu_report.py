"""The table that `scripts/gpu_check.py` makes of its results."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

from benchmarks import _measure

Row = Mapping[str, Any]
KERNEL_PEERS: Final = ("corepy on CuPy", "corepy on torch", "torch", "torch.compile", "JAX")
LIBRARIES: Final = ("CuPy", "torch", "JAX")
#: Failed tests that are named in full.
NAMED: Final = 40


def markdown(content: Mapping[str, Any]) -> str:
    """Set the results of all steps as a page of Markdown."""
    steps = content["steps"]
    measured = [record for name, record in steps.items() if name.startswith("benchmarks")]
    rows = [row for record in measured for row in record.get("rows", ()) if "table" in row]
    tables: dict[str, list[Row]] = {}
    for row in rows:
        tables.setdefault(row["table"], []).append(row)
    parts = [
        _heading(content),
        _states(steps),
        _tests(steps),
        _accuracy(steps.get("accuracy", {}).get("rows", ())),
        _sanitizer(steps.get("sanitizer", {}).get("rows", ())),
        _bandwidth(tables.get("bandwidth", ())),
        _attention(tables.get("attention", ())),
        _dispatch(tables.get("dispatch", ())),
        _large(tables.get("large", ()), content["facts"]["corepy_sees"]["default"]),
        _left_out(rows),
        _seen(content["facts"]),
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def _heading(content: Mapping[str, Any]) -> str:
    facts = content["facts"]
    dates = sorted(record["date"] for record in content["steps"].values() if "date" in record)
    title = "rehearsal on the host, which says nothing about a GPU"
    if not content["rehearsal"]:
        title = facts["gpu"] or "no GPU"
    lines = [
        f"# GPU check: {title}",
        "",
        f"- GPU: {facts['nvidia_smi'] or ', '.join(facts['gpus']) or 'none'}",
        f"- Host: {facts['processor']}, {facts['processors']} processors",
        f"- Python {facts['python']}, "
        + ", ".join(f"{name} {version}" for name, version in facts["versions"].items()),
        f"- Hot path: {'compiled' if facts['compiled'] else 'in Python'}",
        f"- Date: {dates[0] if dates else 'never'} to {dates[-1] if dates else 'never'}",
        "",
        "Made by `scripts/gpu_check.sh`.",
    ]
    return "\n".join(lines)


def _states(steps: Mapping[str, Row]) -> str:
    names = ["passed", "failed", "skipped", "xfailed"]
    rows = [["step", "how it ended", "when", "seconds", *names]]
    for name, record in steps.items():
        counts = record.get("counts")
        told = [str(counts.get(k, 0)) for k in names] if counts is not None else [""] * 4
        when = record.get("date", "")[:16].replace("T", " ")
        rows.append([name, record["state"], when, str(record["seconds"]), *told])
    return "## Steps\n\n" + _measure.markdown(rows, words=3)


def _tests(steps: Mapping[str, Row]) -> str:
    lines = []
    for name, record in steps.items():
        failures = record.get("failures", ())
        for failure in failures[:NAMED]:
            message = " ".join(failure.get("message", "").split())[:240]
            lines.append(f"- {name}: `{failure['test']}`: {message}")
        if len(failures) > NAMED:
            lines.append(f"- {name}: and {len(failures) - NAMED} more, see the JSON")
        for reason, count in record.get("skips", {}).items():
            lines.append(f"- {name}: {count} skipped: {' '.join(reason.split())[:200]}")
        if record.get("tail"):
            lines.append(f"- {name}, {record['state']}: {_last_line(record['tail'])}")
    return "## Failures and skips\n\n" + "\n".join(lines) if lines else ""


def _last_line(text: str) -> str:
    lines = [line for line in text.splitlines() if line.strip()]
    return lines[-1][:240] if lines else ""


def _accuracy(found: Iterable[Row]) -> str:
    rows = [row for row in found if "kernel" in row]
    if not rows:
        return ""
    columns = list(dict.fromkeys((row["library"], row["dtype"]) for row in rows))
    cells = {(row["kernel"], row["library"], row["dtype"]): row for row in rows}
    table = [["kernel", *(f"{library} {dtype}" for library, dtype in columns)]]
    failed = []
    for kernel in dict.fromkeys(row["kernel"] for row in rows):
        line = [kernel]
        for column in columns:
            row = cells.get((kernel, *column), {})
            if "failed" in row:
                failed.append(f"- {kernel} on {' '.join(column)}: {row['failed']}")
                line.append("failed")
            elif row:
                mark = "" if row["within"] else " !"
                line.append(f"{_figure(row['error'])} / {_figure(row['of_greatest'])}{mark}")
            else:
                line.append("")
        table.append(line)
    return (
        "## Accuracy\n\nThe greatest error against float64 on the host: in parts of an element "
        "(of those above a thousandth of the greatest) / in parts of the greatest; `!` is beyond "
        "the bound of the tests.\n\n" + "\n".join([_measure.markdown(table), "", *failed]).rstrip()
    )


def _sanitizer(found: Sequence[Row]) -> str:
    if not found:
        return ""
    rows = [["tool", "errors"]]
    rows += [[r["tool"], str(r.get("missing") or r["errors"])] for r in found]
    further = [
        f"- {r['tool']}: {' '.join(r['found'].split())[:600]}" for r in found if "found" in r
    ]
    return (
        "## Sanitizer\n\nAll kernels in all dtypes on CuPy's arrays, without its pool, under "
        "compute-sanitizer.\n\n" + "\n".join([_measure.markdown(rows), "", *further]).rstrip()
    )


def _figure(value: float) -> str:
    return f"{value:.1e}" if math.isfinite(value) else "not finite"


def _bandwidth(found: Sequence[Row]) -> str:
    def share(row: Row, peer: str) -> str:
        timing = row["timings"].get(peer)
        return f"{1 / timing['ratio']:.0%} ({_micro(timing)})" if timing else ""

    if not found:
        return ""
    rates = [
        r["bytes"] / r["timings"]["copy"]["median_ns"] for r in found if "copy" in r["timings"]
    ]
    rows = [["operation", "shape", "dtype", *KERNEL_PEERS]]
    for row in found:
        shape = " x ".join(map(str, row["shape"]))
        rows.append(
            [row["operation"], shape, row["dtype"], *(share(row, peer) for peer in KERNEL_PEERS)]
        )
    return (
        "## Kernels, as a share of the bandwidth of a copy\n\n"
        f"The device copies {min(rates, default=0):.0f} to {max(rates, default=0):.0f} GB/s, read "
        "and written. 100 % is a kernel that takes as long as a copy of the same bytes; in "
        "parentheses microseconds. `decode` is attention of one query a sequence: batch, heads, "
        "heads of keys, queries, keys, head_dim.\n\n" + _measure.markdown(rows, words=3)
    )


def _micro(timing: Row) -> str:
    return f"{timing['median_ns'] / 1e3:.1f}"


def _attention(found: Sequence[Row]) -> str:
    if not found:
        return ""
    peers = ("corepy on CuPy", "corepy on torch", "torch")
    rows = [["length", "dtype", "causal", *(f"{p}, TFLOP/s" for p in peers), "of torch, at best"]]
    for row in found:
        timings = row["timings"]
        rates = {p: row["flops"] / timings[p]["median_ns"] / 1e3 for p in peers if p in timings}
        own = [timings[p]["ratio"] for p in peers[:2] if p in timings]
        best = f"{1 / min(own):.2f}" if own and row.get("base") == "torch" else ""
        cells = [f"{rates[p]:.3g}" if p in rates else "" for p in peers]
        rows.append([str(row["length"]), row["dtype"], str(row["causal"]), *cells, best])
    heads, size = found[0]["heads"], found[0]["head_dim"]
    return (
        f"## Attention of prompts\n\nOne sequence, {heads} heads of {size}; torch's is "
        "`scaled_dot_product_attention`.\n\n" + _measure.markdown(rows, words=3)
    )


def _pairs(found: Sequence[Row], cell: Callable[[Row, Row], str], *names: str) -> list[list[str]]:
    """Set for each operation what a library takes, and what corepy makes of it there."""
    rows = [[*names, *(f"{part}{name}" for name in LIBRARIES for part in ("", "corepy on "))]]
    for row in found:
        line = [str(row.get(name, "")) for name in names]
        for name in LIBRARIES:
            raw, own = (row["timings"].get(part + name) for part in ("", "corepy on "))
            line += [f"{_micro(raw)} us" if raw else "", cell(raw, own) if raw and own else ""]
        rows.append(line)
    return rows


def _dispatch(found: Sequence[Row]) -> str:
    def over(raw: Row, own: Row) -> str:
        return f"{own['over_ns'] / 1e3:+.2f} us"

    if not found:
        return ""
    forms: dict[str, list[Row]] = {}
    for row in found:
        forms.setdefault(row["hot_path"], []).append(row)
    tables = [
        f"### Hot path {form}\n\n{_measure.markdown(_pairs(rows, over, 'operation'))}"
        for form, rows in forms.items()
    ]
    about = "On ten float32 elements: what a library's call takes, and what corepy adds (or saves)."
    return "\n\n".join(["## Dispatch", about, *tables])


def _large(found: Sequence[Row], default: Mapping[str, Any] | None) -> str:
    def ratio(raw: Row, own: Row) -> str:
        return f"{own['ratio']:.3f}"

    if not found:
        return ""
    chosen = {name.lower(): name for name in LIBRARIES}.get((default or {}).get("backend", ""))
    rows = _pairs(found, ratio, "operation", "dtype")
    rows[0].append("corepy, unless told otherwise, over the fastest")
    for line, row in zip(rows[1:], found, strict=True):
        raw = [row["timings"][n]["median_ns"] for n in LIBRARIES if n in row["timings"]]
        own = row["timings"].get(f"corepy on {chosen}")
        line.append(f"{own['median_ns'] / min(raw):.3f}" if own and raw else "")
    return (
        f"## Large operations\n\nOn {' x '.join(map(str, found[0].get('shape', ())))} elements: "
        "what a library's own call takes, and corepy's on its arrays as a multiple of that. The "
        "last column is corepy on arrays that it made itself, by the fastest of the libraries.\n\n"
        + _measure.markdown(rows, words=2)
    )


def _left_out(rows: Iterable[Row]) -> str:
    lines: dict[str, None] = {}
    for row in rows:
        told = row.get("left_out", {}) | row.get("missing", {})
        of = " ".join(str(row[k]) for k in ("operation", "length", "dtype") if k in row)
        for name, reason in told.items():
            lines[f"- {row['table']} {of}: {name}: {reason}"] = None
        for name, off in row.get("off", {}).items():
            if not off < 0.02:
                lines[
                    f"- {row['table']} {of}: {name} is off by {off:.2g} of the greatest value"
                ] = None
    return "## Left out, or off\n\n" + "\n".join(lines) if lines else ""


def _seen(facts: Mapping[str, Any]) -> str:
    own = facts["corepy_sees"]
    lines = [
        f"- {name} sees {row['gpus'] or row.get('reason', 'no GPU')}"
        for name, row in facts["seen_by"].items()
    ]
    lines += [f"- corepy's {name}: {told}" for name, told in own["backends"].items()]
    lines += [f"- corepy's detection: {own['gpus'] or 'no GPU'}"]
    lines += [f"- corepy's problem: {problem}" for problem in own["problems"]]
    lines += [f"- corepy's default: {own['default']}"]
    return "## What was seen\n\n" + "\n".join(lines)
