"""The table that run_bench.py prints, and the ratios in it."""

HAND = "hand_avx512"
GRID_SAMPLE = "grid_sample"
PEER = "torch_ms_deform_attn"


# Of a core, on average while a row was measured; above it the row is marked. A best-of time survives some noise, but threads
# that wait for each other (OpenMP's spin) can be slowed down a hundredfold by one busy neighbour: such ratios say nothing.
BUSY = 0.1


def busy(row):
    return row["cores_taken_by_others"] is not None and row["cores_taken_by_others"] > BUSY


def target_of(variant):
    return variant.rsplit("_", 1)[1]


def ratios(row):
    """competitor -> how many times its time deformkit's chosen variant is faster: their time / ours."""
    times = row["milliseconds"]
    ours = times[row["chosen"]]
    return {name: time / ours for name, time in times.items() if name != row["chosen"]}


def gigabytes_per_second(row, name):
    return row["bytes"] / row["milliseconds"][name] * 1e-6


def megasamples_per_second(row, name):
    return row["samples"] / row["milliseconds"][name] * 1e-3


def _milliseconds(value):
    return "-" if value is None else f"{value:.4g}" if value < 100 else f"{value:.0f}"


def _ratio(value):
    return "-" if value is None else f"{value:.2f}x" if value < 10 else f"{value:.1f}x"


def _layout(header, lines):
    """Text columns: the first left-aligned, the others right-aligned."""
    widths = [max(len(cells[i]) for cells in [header, *lines]) for i in range(len(header))]
    text = []
    for cells in [header, ["-" * width for width in widths], *lines]:
        first, *others = (f"{cell:<{w}}" if i == 0 else f"{cell:>{w}}" for i, (cell, w) in enumerate(zip(cells, widths)))
        text.append("  ".join([first, *others]).rstrip())
    return text


def _google_benchmark_rows(result):
    """run name -> best row of msda_bench, errors left out."""
    rows = result.get("google_benchmark", {}).get("benchmarks", [])
    return {row["run_name"]: row for row in rows if not row.get("error_occurred")}


def _footer(result):
    text = []
    chosen = result["rows"][0]["chosen"]
    found = _google_benchmark_rows(result)
    timed = {name for row in result["rows"] for name in row["milliseconds"]}  # variants on devices are not
    overhead = {v: found.get(f"{v}/call_overhead/threads:1") for v in result["variants"] if v in timed}
    if any(overhead.values()):
        figures = ", ".join(f"{target_of(v)} {row['real_time']:.0f} ns" for v, row in overhead.items() if row)
        text.append(f"Call of one query (Q = 1, 8 x 32, 4 x 4 samples) through C, 1 thread: {figures}")
    for threads in sorted({row["threads"] for row in result["rows"]}):
        aligned, unaligned = (
            found.get(f"{chosen}/detr_encoder{suffix}/threads:{threads}") for suffix in ("", "/unaligned")
        )
        if aligned and unaligned:
            text.append(
                f"detr_encoder with value on 16 instead of 64 bytes, {target_of(chosen)}, threads {threads}: "
                f"{_milliseconds(unaligned['real_time'])} ms instead of {_milliseconds(aligned['real_time'])} ms (msda_bench)"
            )
    return text


STORAGE_TYPES = ("f32", "f16", "bf16", "f64")


def types_table(result):
    """Rows of msda_bench: the chosen variant for each storage type, and float32's time divided by its own."""
    found = _google_benchmark_rows(result)
    lines = []
    for row in result["rows"]:
        names = {t: f"{row['chosen'].replace('_f32_', f'_{t}_')}/{row['workload']}/threads:{row['threads']}" for t in STORAGE_TYPES}
        times = {t: found[name]["real_time"] for t, name in names.items() if name in found}
        if "f32" not in times or len(times) == 1:
            continue
        cells = [row["workload"], str(row["threads"]), _milliseconds(times["f32"])]
        for storage in STORAGE_TYPES[1:]:
            time = times.get(storage)
            cells += [_milliseconds(time), _ratio(times["f32"] / time if time else None)]
        lines.append(cells)
    if not lines:
        return []
    header = ["workload", "threads", "f32 ms"]
    for storage in STORAGE_TYPES[1:]:
        header += [f"{storage} ms", "vs f32"]
    return ["Storage types (msda_bench; vs f32: float32's time / the type's):", "", *_layout(header, lines), ""]


def table(result):
    rows = result["rows"]
    # Columns for the variants that the library did not choose, if any row has them.
    others = [
        name
        for name in result["variants"]
        if any(name in row["milliseconds"] and name != row["chosen"] for row in rows)
    ]
    header = ["workload", "threads", "variant", "ms", "GB/s", "Msamples/s", "vs grid_sample", "vs torch-msda", "vs hand"]
    for name in others:
        header += [f"{target_of(name)} ms", "vs grid_sample"]

    lines = []
    for row in rows:
        chosen, times, ratio = row["chosen"], row["milliseconds"], ratios(row)
        cells = [
            row["workload"] + (" *" if busy(row) else ""),
            str(row["threads"]),
            target_of(chosen),
            _milliseconds(times[chosen]),
            f"{gigabytes_per_second(row, chosen):.1f}",
            f"{megasamples_per_second(row, chosen):.0f}",
            *(_ratio(ratio.get(name)) for name in (GRID_SAMPLE, PEER, HAND)),
        ]
        for name in others:
            time, grid = times.get(name), times.get(GRID_SAMPLE)
            cells += [_milliseconds(time), _ratio(grid / time if grid and time else None)]
        lines.append(cells)

    machine, versions = result["machine"], result["versions"]
    title = [
        f"MSDA forward, float32: {machine['cpu']}, {machine['cores']} cores; "
        + ", ".join(f"{name} {version}" for name, version in versions.items()),
        "A ratio is the other's time / deformkit's; torch-msda: torch-ms-deform-attn; hand: the hand-written AVX-512 kernel.",
        "",
    ]
    slower = [
        f"{row['workload']}, threads {row['threads']}: {target_of(name)} is {1 / ratio:.2f}x faster than the library's choice"
        for row in rows
        for name, ratio in ratios(row).items()
        if name in others and ratio < 0.95
    ]
    marked = []
    if any(busy(row) for row in rows):
        most = max(row["cores_taken_by_others"] for row in rows if busy(row))
        marked.append(f"* Other processes were using up to {most:.1f} cores: do not quote these figures.")
    return "\n".join([*title, *_layout(header, lines), "", *marked, *slower, *types_table(result), *_footer(result)])
