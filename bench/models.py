#!/usr/bin/env python3
"""Whole models of transformers, end to end, before and after deformkit.accelerate: in their own sizes, with random weights.

usage: PYTHONPATH=build/release/python python bench/models.py [MODEL...]
"""

from __future__ import annotations

import logging
import sys
import time
import warnings
from typing import Any

import torch
import transformers as hf

import deformkit

ROUNDS = 3
LEVELS = ["stage2", "stage3", "stage4"]


def deformable_detr() -> Any:
    config = hf.DeformableDetrConfig(backbone_config=hf.ResNetConfig(out_features=LEVELS))
    return hf.DeformableDetrForObjectDetection(config), (800, 1333), {}


def grounding_dino() -> Any:
    model = hf.GroundingDinoForObjectDetection(
        hf.GroundingDinoConfig(backbone_config=hf.SwinConfig(window_size=7, out_features=["stage2", "stage3", "stage4"]))
    )
    return model, (800, 1333), {"input_ids": torch.tensor([[101, 4937, 1012, 3899, 1012, 102]])}


def mask2former() -> Any:
    return hf.Mask2FormerForUniversalSegmentation(hf.Mask2FormerConfig()), (800, 1344), {}


def oneformer() -> Any:
    return (
        hf.OneFormerForUniversalSegmentation(hf.OneFormerConfig()),
        (800, 1344),
        {"task_inputs": torch.ones(1, 77, dtype=torch.long)},
    )


def rt_detr() -> Any:
    return hf.RTDetrForObjectDetection(hf.RTDetrConfig()), (640, 640), {}


def rt_detr_v2() -> Any:
    return hf.RTDetrV2ForObjectDetection(hf.RTDetrV2Config()), (640, 640), {}


def d_fine() -> Any:
    return hf.DFineForObjectDetection(hf.DFineConfig()), (640, 640), {}


MODELS = [deformable_detr, grounding_dino, mask2former, oneformer, rt_detr, rt_detr_v2, d_fine]


def seconds(model: Any, arguments: Any) -> float:
    start = time.perf_counter()
    with torch.inference_mode():
        model(**arguments)
    return time.perf_counter() - start


def main() -> None:
    warnings.filterwarnings("ignore")
    logging.disable(logging.WARNING)
    names = sys.argv[1:] or [make.__name__ for make in MODELS]
    print(f"{torch.get_num_threads()} threads, float32, best of {ROUNDS}")
    print(f"{'model':18}{'picture':>12}{'before':>10}{'after':>10}{'ratio':>8}  replaced")
    for make in MODELS:
        if make.__name__ not in names:
            continue
        torch.manual_seed(0)
        model, (height, width), arguments = make()
        model.eval()
        arguments["pixel_values"] = torch.randn(1, 3, height, width)
        before, after = [], []
        for _ in range(ROUNDS):  # in turns: what disturbs one disturbs the other
            before.append(seconds(model, arguments))
            with deformkit.accelerate(model) as done:
                after.append(seconds(model, arguments))
        b, a = min(before), min(after)
        print(
            f"{make.__name__:18}{f'{height} x {width}':>12}{b:>8.3f} s{a:>8.3f} s{b / a:>7.2f}x  {len(done.replaced)}", flush=True
        )


if __name__ == "__main__":
    main()
