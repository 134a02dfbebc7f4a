"""What PyTorch users would otherwise run on a CPU. Everything here is optional: without torch there are no peers."""

try:
    import torch
    import torch.nn.functional as F
except ImportError:
    torch = None

try:
    from torch_ms_deform_attn.functional import ms_deform_attn
except ImportError:
    ms_deform_attn = None


def grid_sample_msda(value, levels, sampling_locations, attention_weights):
    """The formulation that model code falls back to without a compiled kernel: one grid_sample per level, heads in the batch.

    `levels` holds Python integers, so that nothing is read back from tensors.
    """
    batch, _, heads, channels = value.shape
    queries = sampling_locations.shape[1]
    grids = 2 * sampling_locations - 1  # grid_sample's coordinates run from -1 to 1

    sampled = []
    maps = value.split([height * width for height, width in levels], dim=1)
    for level, (height, width) in enumerate(levels):
        feature_map = maps[level].flatten(2).transpose(1, 2).reshape(batch * heads, channels, height, width)
        grid = grids[:, :, :, level].transpose(1, 2).flatten(0, 1)
        sampled.append(F.grid_sample(feature_map, grid, mode="bilinear", padding_mode="zeros", align_corners=False))

    weights = attention_weights.transpose(1, 2).reshape(batch * heads, 1, queries, -1)
    output = (torch.stack(sampled, dim=-2).flatten(-2) * weights).sum(-1)
    return output.view(batch, heads * channels, queries).transpose(1, 2).contiguous()


def versions():
    if torch is None:
        return {}
    found = {"torch": torch.__version__}
    if ms_deform_attn is not None:
        from importlib.metadata import version

        found["torch-ms-deform-attn"] = version("torch-ms-deform-attn")
    return found


def _available_memory():
    try:
        with open("/proc/meminfo") as lines:
            for line in lines:
                if line.startswith("MemAvailable:"):
                    return int(line.split()[1]) * 1024
    except OSError:
        pass
    return None


def calls(problem, notice):
    """name -> call without arguments, which returns the output as a NumPy array. Inputs are the problem's own memory."""
    if torch is None:
        return {}
    value, shapes, starts, locations, weights = (torch.from_numpy(array) for array in problem.inputs)
    levels = problem.workload.levels
    found = {}

    # The sampled channels of all levels, twice more while they are stacked and weighted.
    needed = 3.5 * problem.workload.samples * problem.workload.channels * 4
    available = _available_memory()
    if available is not None and needed > 0.8 * available:
        notice(f"grid_sample left out of {problem.workload.name}: it takes {needed / 2**30:.1f} GiB")
    else:

        def grid_sample():
            with torch.inference_mode():
                return grid_sample_msda(value, levels, locations, weights).numpy()

        found["grid_sample"] = grid_sample

    if ms_deform_attn is not None:

        def compiled():
            with torch.inference_mode():
                return ms_deform_attn(value, shapes, starts, locations, weights).numpy()

        found["torch_ms_deform_attn"] = compiled
    return found


def set_num_threads(count):
    if torch is not None:
        torch.set_num_threads(count)
