#!/usr/bin/env python3
"""Whole models, end to end, before and after deformkit.accelerate: in their own sizes, with random weights.

usage: ./run bench --models [MODEL...] [--threads N]
"""

from __future__ import annotations

import argparse
import logging
import time
import warnings
from collections.abc import Iterator
from typing import Any, Callable

import torch

import deformkit

ROUNDS = 3
LEVELS = ["stage2", "stage3", "stage4"]
#: What a model has to gain before it counts: less is noise.
PAYS = 1.05


def pictures(height: int, width: int) -> Any:
    return torch.randn(1, 3, height, width)


def deformable_detr() -> Any:
    import transformers as hf

    config = hf.DeformableDetrConfig(backbone_config=hf.ResNetConfig(out_features=LEVELS))
    return hf.DeformableDetrForObjectDetection(config), {"pixel_values": pictures(800, 1333)}


def mask2former() -> Any:
    import transformers as hf

    return hf.Mask2FormerForUniversalSegmentation(hf.Mask2FormerConfig()), {"pixel_values": pictures(800, 1344)}


def oneformer() -> Any:
    import transformers as hf

    task = torch.ones(1, 77, dtype=torch.long)
    return hf.OneFormerForUniversalSegmentation(hf.OneFormerConfig()), {"pixel_values": pictures(800, 1344), "task_inputs": task}


def grounding_dino() -> Any:
    import transformers as hf

    config = hf.GroundingDinoConfig(backbone_config=hf.SwinConfig(window_size=7, out_features=LEVELS))
    words = torch.tensor([[101, 4937, 1012, 3899, 1012, 102]])
    return hf.GroundingDinoForObjectDetection(config), {"pixel_values": pictures(800, 1333), "input_ids": words}


def rt_detr() -> Any:
    import transformers as hf

    return hf.RTDetrForObjectDetection(hf.RTDetrConfig()), {"pixel_values": pictures(640, 640)}


def rt_detr_v2() -> Any:
    import transformers as hf

    return hf.RTDetrV2ForObjectDetection(hf.RTDetrV2Config()), {"pixel_values": pictures(640, 640)}


def d_fine() -> Any:
    import transformers as hf

    return hf.DFineForObjectDetection(hf.DFineConfig()), {"pixel_values": pictures(640, 640)}


def rf_detr() -> Any:
    from rfdetr.config import RFDETRNanoConfig
    from rfdetr.models.lwdetr import build_model_from_config

    config = RFDETRNanoConfig(device="cpu")
    return build_model_from_config(config), (pictures(config.resolution, config.resolution),)


def ultralytics_rt_detr() -> Any:
    from ultralytics.nn.tasks import RTDETRDetectionModel

    return RTDETRDetectionModel("rtdetr-l.yaml", verbose=False), (pictures(640, 640),)


MODELS: list[Callable[[], Any]] = [
    deformable_detr,
    mask2former,
    oneformer,
    grounding_dino,
    rt_detr,
    rt_detr_v2,
    d_fine,
    rf_detr,
    ultralytics_rt_detr,
]


class Attentions:
    """The time that passes in a model's deformable attentions."""

    def __init__(self, model: Any) -> None:
        self.seconds = 0.0
        self.since = 0.0
        attentions = (module for module in model.modules() if hasattr(module, "sampling_offsets"))
        self.hooks = [hook for module in attentions for hook in self._watch(module)]

    def _watch(self, module: Any) -> Iterator[Any]:
        yield module.register_forward_pre_hook(self._begin)
        yield module.register_forward_hook(self._end)

    def _begin(self, *arguments: Any) -> None:
        self.since = time.perf_counter()

    def _end(self, *arguments: Any) -> None:
        self.seconds += time.perf_counter() - self.since

    def remove(self) -> None:
        for hook in self.hooks:
            hook.remove()


def run(model: Any, arguments: Any) -> tuple[float, Any]:
    start = time.perf_counter()
    with torch.inference_mode():
        output = model(**arguments) if isinstance(arguments, dict) else model(*arguments)
    return time.perf_counter() - start, output


def results_of(output: Any) -> Iterator[torch.Tensor]:
    if isinstance(output, torch.Tensor):
        if output.is_floating_point() and output.ndim > 1:
            yield output
    elif isinstance(output, (dict, list, tuple)):
        for part in output.values() if isinstance(output, dict) else output:
            yield from results_of(part)


def difference(one: Any, other: Any) -> float:
    """The largest, in parts of the largest value of each result. Queries of equal score may have changed places."""
    found = 0.0
    for a, b in zip(results_of(one), results_of(other)):
        a, b = (tensor.nan_to_num(0, 0, 0).sort(1).values for tensor in (a, b))
        found = max(found, ((a - b).abs().max() / b.abs().max().clamp(min=1e-30)).item())
    return found


def measure(make: Callable[[], Any]) -> str:
    torch.manual_seed(0)
    model, arguments = make()
    model.eval()
    before, after, shares = [], [], []
    for _ in range(ROUNDS):  # in turns: what disturbs one disturbs the other
        attentions = Attentions(model)
        seconds, expected = run(model, arguments)
        attentions.remove()
        before.append(seconds)
        shares.append(attentions.seconds / seconds)
        with deformkit.accelerate(model) as done:
            seconds, found = run(model, arguments)
            after.append(seconds)
    b, a, share = min(before), min(after), min(shares)
    said = f"{len(done.replaced)} replaced" + (f", {len(done.left_alone)} left alone" if done.left_alone else "")
    if b / a < PAYS:
        said = f"replaced, but expect no gain: its attention is {share:.0%} of it" if done.replaced else "nothing replaced"
    return f"{b:>8.3f} s{a:>8.3f} s{b / a:>7.2f}x{share:>11.0%}{difference(found, expected):>12.1e}  {said}"


def main() -> None:
    parser = argparse.ArgumentParser(usage=(__doc__ or "").split("usage: ")[1])
    parser.add_argument("models", nargs="*", metavar="MODEL", choices=[[], *(make.__name__ for make in MODELS)])
    parser.add_argument("--threads", type=int)
    options = parser.parse_args()
    if options.threads:
        torch.set_num_threads(options.threads)
    warnings.filterwarnings("ignore")
    logging.disable(logging.WARNING)
    print(f"{torch.get_num_threads()} threads, float32, batch 1, best of {ROUNDS}")
    print(f"{'model':20}{'before':>10}{'after':>10}{'ratio':>8}{'attention':>11}{'difference':>12}")
    for make in MODELS:
        if options.models and make.__name__ not in options.models:
            continue
        try:
            print(f"{make.__name__:20}{measure(make)}", flush=True)
        except ImportError as error:
            print(f"{make.__name__:20}  skipped: {error}", flush=True)


if __name__ == "__main__":
    main()
