"""The plots that run_bench.py writes: times faster than the first peer, or samples per second without peers."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any, Callable

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import report
from matplotlib.ticker import NullLocator
from report import Row

INK, MUTED = "#1f2430", "#6b7280"
OURS = ["#0b5fa5", "#4f9bd9", "#a8d0f0"]  # best variant first
PEERS = ["#9aa0aa", "#f2a33a"]
BAR = 0.8


def _series(of_pass: Row, rows: list[Row], peers: dict[str, str]) -> list[Any]:
    """(competitor, label, colour), in the order of the bars; only what some row has."""
    found = [(name, f"deformkit {report.target_of(name)}") for name in of_pass["variants"]], list(peers.items())
    series = []
    for names, colours in zip(found, (OURS, PEERS)):
        there = [(name, label) for name, label in names if any(name in row["milliseconds"] for row in rows)]
        series += [(name, label, colours[min(i, len(colours) - 1)]) for i, (name, label) in enumerate(there)]
    return series


def _nice_ticks(low: float, high: float) -> list[float]:
    ticks = [m * 10.0**e for e in range(-4, 7) for m in (1, 2, 5)]
    return [t for t in ticks if low <= t <= high]


def _panel(
    axes: Any, rows: list[Row], series: list[Any], value_of: Callable[[Row, str], float | None], number: Callable[[float], str]
) -> None:
    for y, row in enumerate(rows):
        present = [(name, v, colour) for name, _, colour in series if (v := value_of(row, name)) is not None]
        height = BAR / len(series)
        for i, (name, value, colour) in enumerate(present):
            centre = y + (i - (len(present) - 1) / 2) * height
            axes.barh(centre, value, height * 0.9, color=colour, left=0, zorder=2)
            bold = name == row["chosen"]
            axes.annotate(
                number(value),
                (value, centre),
                xytext=(3, 0),
                textcoords="offset points",
                va="center",
                fontsize=7.5,
                color=INK if bold else MUTED,
                fontweight="bold" if bold else "normal",
            )
    axes.set_yticks(range(len(rows)), [row["workload"] for row in rows], fontsize=9, color=INK)
    axes.set_ylim(len(rows) - 0.45, -0.55)
    axes.tick_params(length=0)
    for side in ("top", "right", "left"):
        axes.spines[side].set_visible(False)
    axes.spines["bottom"].set_color(MUTED)
    axes.grid(axis="x", color="#e5e7eb", linewidth=0.8, zorder=0)


def write(result: Row, of_pass: Row, path: Path) -> Path:
    baseline, *others = of_pass["peers"]
    compared = [row for row in of_pass["rows"] if row["compared"]]
    rows = [row for row in compared if baseline in row["milliseconds"]]
    relative = bool(rows)
    rows = rows or compared
    series = _series(of_pass, rows, {name: of_pass["peers"][name] for name in (others if relative else of_pass["peers"])})
    threads_list = sorted({row["threads"] for row in rows})
    if relative:
        headline = f"{of_pass['title']}, float32: times faster than {of_pass['peers'][baseline]}"

        def value_of(row: Row, name: str) -> float | None:
            time = row["milliseconds"].get(name)
            return None if time is None else row["milliseconds"][baseline] / time

        def number(value: float) -> str:
            return f"{value:.1f}" if value < 10 else f"{value:.0f}"
    else:
        headline = f"{of_pass['title']}, float32: million samples per second"

        def value_of(row: Row, name: str) -> float | None:
            return report.megasamples_per_second(row, name) if name in row["milliseconds"] else None

        def number(value: float) -> str:
            return f"{value:.0f}"

    values = [v for row in rows for name, _, _ in series if (v := value_of(row, name)) is not None]
    # Bars on a log axis start where the ratio says "no faster".
    low = min(1.0, min(values) * 0.9) if relative else 10 ** math.floor(math.log10(min(values)))
    high = max(values) * 1.6

    workloads = len({row["workload"] for row in rows})
    tall = 1.6 + workloads * (0.16 * len(series) + 0.16)
    figure, panels = plt.subplots(1, len(threads_list), figsize=(1.6 + 4.9 * len(threads_list), tall), sharey=True, squeeze=False)
    for axes, threads in zip(panels[0], threads_list):
        _panel(axes, [row for row in rows if row["threads"] == threads], series, value_of, number)
        axes.set_xscale("log")
        axes.set_xlim(low, high)
        axes.set_xticks(_nice_ticks(low, high), [f"{t:g}" for t in _nice_ticks(low, high)], fontsize=8, color=MUTED)
        axes.xaxis.set_minor_locator(NullLocator())
        axes.set_title(f"{threads} thread" + ("s" if threads > 1 else ""), fontsize=10, color=INK, loc="left")

    inch = 1 / tall
    subtitle = report.machine_line(result)
    figure.subplots_adjust(left=0.155, right=0.985, top=1 - 1.15 * inch, bottom=0.32 * inch, wspace=0.06)
    figure.text(0.012, 1 - 0.24 * inch, headline, fontsize=13, fontweight="bold", color=INK, va="center")
    if any(report.busy(row) for row in rows):
        subtitle += "; measured while the machine was busy: not to be quoted"
    figure.text(0.012, 1 - 0.47 * inch, subtitle, fontsize=8, color=MUTED, va="center")
    handles = [plt.Rectangle((0, 0), 1, 1, color=colour) for _, _, colour in series]
    figure.legend(
        handles,
        [label for _, label, _ in series],
        loc="center left",
        bbox_to_anchor=(0.005, 1 - 0.73 * inch),
        ncols=len(series),
        frameon=False,
        fontsize=8.5,
        labelcolor=INK,
        handlelength=1.0,
        columnspacing=1.4,
    )
    figure.savefig(path, dpi=160)
    plt.close(figure)
    return path
