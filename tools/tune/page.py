"""One page, in one file, of what has been measured: convergence, what each knob matters, and times by workload."""

from __future__ import annotations

import html
import math
import warnings
from pathlib import Path
from typing import Any, Optional

import optuna
from optuna.trial import TrialState
from search import geometric_mean, stored
from space import machine, write_atomically

WIDTH = 760
COLOURS = ("#4269d0", "#efb118", "#3ca951", "#9467bd", "#ff725c", "#6cc5b0")

STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; color: #222; background: #fff }
body { max-width: 820px; margin: 2em auto; padding: 0 1em }
h1 { font-size: 1.5em } h2 { font-size: 1.2em; margin-top: 2.5em; border-top: 1px solid #ddd; padding-top: 1em }
h3 { font-size: 1em }
svg { max-width: 100%; height: auto; display: block } svg text { font: 12px system-ui, sans-serif; fill: #333 }
table { border-collapse: collapse; font-variant-numeric: tabular-nums } td, th { padding: .15em .8em .15em 0; text-align: right }
td:first-child, th:first-child { text-align: left } .quiet { color: #777 } code { font-size: .95em }
"""


def _text(x: float, y: float, text: str, anchor: str = "start", extra: str = "") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" {extra}>{html.escape(text)}</text>'


def _svg(height: float, parts: list[str], label: str) -> str:
    return f'<svg viewBox="0 0 {WIDTH} {height:.0f}" width="{WIDTH}" role="img" aria-label="{label}">{"".join(parts)}</svg>'


def _gain(trial: optuna.trial.FrozenTrial) -> Optional[float]:
    """How many times as fast as the start; of a pruned one, over the workloads that it got to."""
    ratios = list(trial.user_attrs.get("ratios", {}).values())
    return 1 / geometric_mean(ratios) if ratios else None


def convergence(study: optuna.Study) -> str:
    """Every candidate, and the best that won twice."""
    height, left, right, top, bottom = 260, 56, 16, 14, 40
    trials = study.trials
    gains = {t.number: g for t in trials if (g := _gain(t)) is not None}
    if not gains:
        return "<p>Nothing has been measured yet.</p>"
    shown = {n: max(g, 0.4) for n, g in gains.items()}
    low, high = min(0.9, *shown.values()) * 0.97, max(1.1, *shown.values()) * 1.03
    last = max(len(trials) - 1, 1)

    def x(number: float) -> float:
        return left + (WIDTH - left - right) * number / last

    def y(gain: float) -> float:
        return top + (height - top - bottom) * math.log(high / gain) / math.log(high / low)

    parts: list[str] = []
    last_y = math.inf
    for tick in (1.0, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.1, 1.2, 1.3, 1.5, 2.0, 3.0, 5.0, 10.0):
        if low <= tick <= high and (tick == 1 or (abs(y(tick) - last_y) > 16 < abs(y(tick) - y(1)))):
            last_y = y(tick)
            colour = "#999" if tick == 1 else "#e5e5e5"
            parts.append(f'<line x1="{left}" x2="{WIDTH - right}" y1="{y(tick):.1f}" y2="{y(tick):.1f}" stroke="{colour}"/>')
            parts.append(_text(left - 8, y(tick) + 4, f"{tick:g}x", "end"))
    best, path = 1.0, [f"M{x(0):.1f},{y(1):.1f}"]
    for trial in trials:
        if trial.number in shown:
            colour = COLOURS[0] if trial.state == TrialState.COMPLETE else "#bbb"
            title = "" if trial.state == TrialState.COMPLETE else " (pruned)"
            parts.append(
                f'<circle cx="{x(trial.number):.1f}" cy="{y(shown[trial.number]):.1f}" r="3" fill="{colour}" fill-opacity=".7">'
                f"<title>candidate {trial.number}: {gains[trial.number]:.3f}x{title}</title></circle>"
            )
        elif "rejected" in trial.user_attrs:
            parts.append(
                _text(x(trial.number), height - bottom - 2, "×", "middle", f'style="fill:{COLOURS[4]}"').replace(
                    "</text>", f"<title>{html.escape(': '.join(trial.user_attrs[k] for k in ('rejected', 'why')))}</title></text>"
                )
            )
        if trial.user_attrs.get("won"):
            path.append(f"H{x(trial.number):.1f}")
            best = gains[trial.number]
            path.append(f"V{y(best):.1f}")
    parts.append(f'<path d="{" ".join(path)} H{x(last):.1f}" fill="none" stroke="{COLOURS[2]}" stroke-width="2.5"/>')
    parts.append(_text(x(last), y(best) - 8, f"{best:.3f}x", "end", 'font-weight="bold"'))
    parts.append(_text(left, height - 8, "candidate 0"))
    parts.append(_text(WIDTH - right, height - 8, f"{last}", "end"))
    return _svg(height, parts, "how fast candidates are") + (
        '<p class="quiet">How many times as fast as the start, in geometric mean over the workloads. Blue: measured on all; '
        "grey: pruned; red ×: rejected; green: the best that won again in a fresh process.</p>"
    )


def importances(study: optuna.Study) -> str:
    names = study.user_attrs.get("start", {})
    if len([t for t in study.trials if t.state == TrialState.COMPLETE]) < 4:
        return "<p>Too few candidates to tell.</p>"
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            evaluator = optuna.importance.PedAnovaImportanceEvaluator()
            found = optuna.importance.get_param_importances(study, evaluator=evaluator)
    except (ValueError, RuntimeError) as error:
        return f"<p>Cannot be told: {html.escape(str(error))}</p>"
    won = [t for t in study.trials if t.user_attrs.get("won")]
    best = min(won, key=lambda t: t.value or 0).user_attrs["values"] if won else names
    rows, step = [], 22
    most = max([*found.values(), 1e-9])
    for i, (name, importance) in enumerate(found.items()):
        at = step * i
        value = f"{names.get(name, '?')}" + (f" → {best[name]}" if best.get(name) != names.get(name) else "")
        rows.append(_text(360, at + 15, name, "end"))
        rows.append(f'<rect x="370" y="{at + 4}" height="14" width="{250 * importance / most:.1f}" fill="{COLOURS[0]}"/>')
        rows.append(_text(376 + 250 * importance / most, at + 15, value, extra='class="quiet"'))
    return _svg(step * len(found) + 4, rows, "importance of knobs") + (
        '<p class="quiet">How much a knob decides whether a candidate is among the better ones (PED-ANOVA), with its value at '
        "the start and in the best.</p>"
    )


def columns(study: optuna.Study) -> dict[str, dict[str, float]]:
    """Milliseconds by competitor and workload; all are shown over the default that they were measured against."""
    found: dict[str, dict[str, float]] = {}
    ratio: dict[str, float] = {}
    final: dict[str, list[float]] = study.user_attrs.get("final", {})
    if final:
        found["default"] = {w: b for w, (b, _) in final.items()}
        found["tuned"] = {w: a for w, (_, a) in final.items()}
    for key, times in study.user_attrs.items():
        if key.startswith("autoscheduler ") and isinstance(times, dict):
            found.setdefault("default", {w: b for w, (b, _) in times.items()})
            ratio = {w: a / b for w, (b, a) in times.items()}
            default = found["default"]
            found[key.removeprefix("autoscheduler ")] = {w: r * default[w] for w, r in ratio.items() if w in default}
    return found


def workloads(study: optuna.Study) -> str:
    found = columns(study)
    refused = "".join(
        f"<p>{html.escape(key.removeprefix('autoscheduler '))} has no time: <code>{html.escape(text[:300])}</code></p>"
        for key, text in study.user_attrs.items()
        if key.startswith("autoscheduler ") and isinstance(text, str)
    )
    if not found:
        return "<p>Not compared yet: a search does so in the end, <code>--autoscheduler</code> with Halide's own.</p>" + refused
    names = list(found["default"])
    parts, bar, gap, y = [], 14, 14, 6
    most = max(min(values[w] / found["default"][w], 6.0) for values in found.values() for w in values)
    for name in names:
        parts.append(_text(210, y + bar * len(found) / 2 + 4, name, "end"))
        for i, (who, values) in enumerate(found.items()):
            if name not in values:
                continue
            over = values[name] / found["default"][name]
            width = 380 * min(over, 6.0) / most
            parts.append(
                f'<rect x="220" y="{y}" width="{width:.1f}" height="{bar - 2}" fill="{COLOURS[i]}"><title>{who}</title></rect>'
            )
            more = " (cut off)" if over > 6 else ""
            parts.append(_text(226 + width, y + bar - 4, f"{over:.2f}  {values[name]:.3g} ms{more}"))
            y += bar
        y += gap
    legend, x = [], 220.0
    for i, who in enumerate(found):
        legend.append(f'<rect x="{x}" y="{y}" width="12" height="12" fill="{COLOURS[i]}"/>')
        legend.append(_text(x + 17, y + 11, who))
        x += 40 + 8 * len(who)
    means = {
        who: geometric_mean([values[w] / found["default"][w] for w in names if w in values])
        for who, values in found.items()
        if who != "default"
    }
    summary = ", ".join(f"{html.escape(who)} {mean:.3f}" for who, mean in means.items())
    return (
        _svg(y + 20, parts + legend, "time by workload")
        + f'<p class="quiet">Time over the default\'s, and milliseconds. In geometric mean: {summary}.</p>'
        + refused
    )


def _section(study: optuna.Study) -> str:
    attributes: dict[str, Any] = study.user_attrs
    trials = study.trials
    states = {state: sum(t.state == state for t in trials) for state in TrialState}
    rejected = sum("rejected" in t.user_attrs for t in trials)
    noise = attributes.get("noise")
    threads = attributes.get("threads")
    return (
        f"<h2>{html.escape(attributes.get('subject', study.study_name))}</h2>"
        f"<p>{len(attributes.get('workloads', []))} workloads, {threads} thread{'' if threads == 1 else 's'}, "
        f"{len(trials)} candidates: {states[TrialState.COMPLETE]} measured on all workloads, "
        f"{states[TrialState.PRUNED]} pruned, {rejected} rejected"
        + (f"; a library differs from itself by up to {noise:.3f}x" if noise else "")
        + f".</p><h3>Convergence</h3>{convergence(study)}<h3>Knobs</h3>{importances(study)}<h3>Workloads</h3>{workloads(study)}"
    )


def write(folder: Path, path: Path) -> None:
    studies = stored(folder)
    sections = "".join(_section(s) for s in studies) or "<p>Nothing has been measured yet: ./run tune does.</p>"
    write_atomically(
        path,
        '<!DOCTYPE html><html lang="en"><head><meta charset="utf-8"><title>deformkit: tuning</title>'
        f"<style>{STYLE}</style></head><body><h1>Tuning of deformkit</h1><p>{html.escape(machine())}</p>"
        f"{sections}</body></html>\n",
    )
