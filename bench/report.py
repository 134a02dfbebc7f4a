"""The tables that run_bench.py prints, and the ratios in them."""

from __future__ import annotations

from typing import Any

Row = dict[str, Any]  # of bench.json

# Of a core, on average while a row was measured; above it the row is marked. A best-of time survives some noise, but threads
# that wait for each other (OpenMP's spin) can be slowed down a hundredfold by one busy neighbour: such ratios say nothing.
BUSY = 0.1


def busy(row: Row) -> bool:
    return row["cores_taken_by_others"] is not None and row["cores_taken_by_others"] > BUSY


def target_of(variant: str) -> str:
    return variant.rsplit("_", 1)[1]


def ratios(row: Row) -> dict[str, float]:
    """competitor -> how many times its time deformkit's chosen variant is faster: their time / ours."""
    times = row["milliseconds"]
    ours = times[row["chosen"]]
    return {name: time / ours for name, time in times.items() if name != row["chosen"]}


def gigabytes_per_second(row: Row, name: str) -> float:
    return row["bytes"] / row["milliseconds"][name] * 1e-6


def megasamples_per_second(row: Row, name: str) -> float:
    return row["samples"] / row["milliseconds"][name] * 1e-3


def _milliseconds(value: float | None) -> str:
    return "-" if value is None else f"{value:.4g}" if value < 100 else f"{value:.0f}"


def _ratio(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}x" if value < 10 else f"{value:.1f}x"


def _layout(header: list[str], lines: list[list[str]]) -> list[str]:
    """Text columns: the first left-aligned, the others right-aligned."""
    widths = [max(len(cells[i]) for cells in [header, *lines]) for i in range(len(header))]
    text = []
    for cells in [header, ["-" * width for width in widths], *lines]:
        first, *others = (f"{cell:<{w}}" if i == 0 else f"{cell:>{w}}" for i, (cell, w) in enumerate(zip(cells, widths)))
        text.append("  ".join([first, *others]).rstrip())
    return text


def _google_benchmark_rows(result: Row) -> dict[str, Row]:
    """run name -> best row of operator_bench, errors left out."""
    rows = result.get("google_benchmark", {}).get("benchmarks", [])
    return {row["run_name"]: row for row in rows if not row.get("error_occurred")}


def _calls(result: Row, of_pass: Row) -> list[str]:
    """What operator_bench says about this pass."""
    text = []
    found = _google_benchmark_rows(result)
    overhead = {v: found.get(f"{v}/call_overhead/threads:1") for v in of_pass["variants"]}
    if any(overhead.values()):
        figures = ", ".join(f"{target_of(v)} {row['real_time']:.0f} ns" for v, row in overhead.items() if row)
        text.append(f"Call of next to no work through C, 1 thread: {figures}")
    chosen, workload = of_pass["rows"][0]["chosen"], of_pass["unaligned"]
    for threads in sorted({row["threads"] for row in of_pass["rows"]}):
        aligned, unaligned = (found.get(f"{chosen}/{workload}{suffix}/threads:{threads}") for suffix in ("", "/unaligned"))
        if aligned and unaligned:
            text.append(
                f"{workload}, feature maps on 16 instead of 64 bytes, {target_of(chosen)}, threads {threads}: "
                f"{_milliseconds(unaligned['real_time'])} instead of {_milliseconds(aligned['real_time'])} ms (operator_bench)"
            )
    return text + [""] if text else []


def _marked(row: Row) -> str:
    return row["workload"] + (" *" if busy(row) else "")


def _types_table(of_pass: Row) -> list[str]:
    """The library's choice for each storage type, and float32's time divided by its own, taken in turns."""
    rows = [row for row in of_pass["rows"] if len(row["types"]) > 1]
    types = list(dict.fromkeys(t for row in rows for t in row["types"] if t != "f32"))
    if not rows:
        return []
    header = ["workload", "threads", "f32 ms"]
    for storage in types:
        header += [f"{storage} ms", "vs f32"]
    lines = []
    for row in rows:
        times = {t: row["milliseconds"][name] for t, name in row["types"].items()}
        cells = [_marked(row), str(row["threads"]), _milliseconds(times["f32"])]
        for storage in types:
            time = times.get(storage)
            cells += [_milliseconds(time), _ratio(times["f32"] / time if time else None)]
        lines.append(cells)
    return [f"{of_pass['title']}, storage types (vs f32: float32's time / the type's)", "", *_layout(header, lines), ""]


def _comparison(of_pass: Row) -> list[str]:
    rows = [row for row in of_pass["rows"] if row["compared"]]
    if not rows:
        return []

    def there(name: str) -> bool:
        return any(name in row["milliseconds"] for row in rows)

    peers = [name for name in of_pass["peers"] if there(name)]
    # Columns for the variants that the library did not choose, if any row has them.
    others = [name for name in of_pass["variants"] if there(name) and any(name != row["chosen"] for row in rows)]
    header = ["workload", "threads", "variant", "ms", "GB/s", "Msamples/s", *(f"vs {name}" for name in peers)]
    for name in others:
        header += [f"{target_of(name)} ms", *(f"vs {peer}" for peer in peers[:1])]

    lines, slower = [], []
    for row in rows:
        chosen, times, ratio = row["chosen"], row["milliseconds"], ratios(row)
        cells = [
            _marked(row),
            str(row["threads"]),
            target_of(chosen),
            _milliseconds(times[chosen]),
            f"{gigabytes_per_second(row, chosen):.1f}",
            f"{megasamples_per_second(row, chosen):.0f}",
            *(_ratio(ratio.get(name)) for name in peers),
        ]
        for name in others:
            time = times.get(name)
            cells += [_milliseconds(time)]
            cells += [_ratio(times[peer] / time if time and peer in times else None) for peer in peers[:1]]
            if ratio.get(name, 1) < 0.95:
                slower.append(
                    f"{row['workload']}, threads {row['threads']}: {target_of(name)} is {1 / ratio[name]:.2f}x faster than "
                    "the library's choice"
                )
        lines.append(cells)
    title = f"{of_pass['title']}, float32 (vs: the other's time / deformkit's)"
    return [title, "", *_layout(header, lines), "", *slower, *([""] if slower else [])]


def machine_line(result: Row) -> str:
    machine, versions = result["machine"], result["versions"]
    return ", ".join(
        [machine["cpu"], f"{machine['cores']} cores", *(f"{n} {v}" for n, v in versions.items()), result["date"][:10]]
    )


def text(result: Row) -> str:
    lines = [machine_line(result), ""]
    for of_pass in result["passes"]:
        lines += _comparison(of_pass) + _types_table(of_pass) + _calls(result, of_pass)
    if result["python_microseconds"]:
        figures = ", ".join(f"{name} {time:.1f} us" for name, time in result["python_microseconds"].items())
        lines += [f"Call of one query from Python: {figures}", ""]
    rows = [row for of_pass in result["passes"] for row in of_pass["rows"] if busy(row)]
    if rows:
        most = max(row["cores_taken_by_others"] for row in rows)
        lines.append(f"* Other processes were using up to {most:.1f} cores: do not quote these figures.")
    lines += [f"note: {note}" for note in result["left_out"]]
    lines.append(f"{result['seconds'] / 60:.1f} minutes")
    return "\n".join(lines)
