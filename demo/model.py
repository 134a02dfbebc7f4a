#!/usr/bin/env python3
"""A Deformable DETR of transformers looks at a photograph, with and without deformkit: times, the difference, and a picture.

The weights are random, since none are downloaded: time and agreement do not depend on them, what is recognised does.
"""

from __future__ import annotations

import argparse
import logging
import os
import sys
import time
import warnings
from typing import Any

try:
    import torch
    import transformers
    from PIL import Image, ImageDraw
except ImportError as error:
    sys.exit(f"the demo of a model needs PyTorch, transformers and Pillow: {error}")

import deformkit

HEIGHT, WIDTH = 800, 1333  # what detection models are measured at
COLOURS = ["#e6194b", "#3cb44b", "#ffe119", "#4363d8", "#f58231", "#46f0f0", "#f032e6", "#bcf60c"]


def load(path: str) -> Any:
    """The middle of the picture in the model's shape."""
    picture = Image.open(path).convert("RGB")
    scale = max(WIDTH / picture.width, HEIGHT / picture.height)
    picture = picture.resize((round(picture.width * scale), round(picture.height * scale)), Image.Resampling.BICUBIC)
    left, top = (picture.width - WIDTH) // 2, (picture.height - HEIGHT) // 2
    return picture.crop((left, top, left + WIDTH, top + HEIGHT))


def pixels_of(picture: Any) -> Any:
    """[1, 3, H, W], normalised by the mean and deviation of ImageNet's colours."""
    pixels = torch.frombuffer(bytearray(picture.tobytes()), dtype=torch.uint8).view(HEIGHT, WIDTH, 3).permute(2, 0, 1) / 255
    mean, deviation = torch.tensor([0.485, 0.456, 0.406]), torch.tensor([0.229, 0.224, 0.225])
    return ((pixels - mean[:, None, None]) / deviation[:, None, None])[None]


def build() -> Any:
    torch.manual_seed(0)
    backbone = transformers.ResNetConfig(out_features=["stage2", "stage3", "stage4"])  # its defaults are those of ResNet-50
    model = transformers.DeformableDetrForObjectDetection(transformers.DeformableDetrConfig(backbone_config=backbone))
    # Fresh weights make all queries look at the same place with the same weights; trained ones do not.
    for name, parameter in model.named_parameters():
        if "attention_weights" in name or "sampling_offsets.weight" in name:
            torch.nn.init.normal_(parameter, std=0.02)
        elif name.endswith("reference_points.weight"):
            torch.nn.init.normal_(parameter, std=0.1)
    return model.eval()


class Sampling:
    """Time spent in the model's deformable attention without its linear layers, and the last call's arguments."""

    def __init__(self, model: Any) -> None:
        self.seconds = 0.0
        for module in model.modules():
            if type(module).__name__ == "MultiScaleDeformableAttention":
                module.register_forward_pre_hook(self.start)
                module.register_forward_hook(self.stop, with_kwargs=False)

    def start(self, module: Any, arguments: Any) -> None:
        self.last = arguments
        self.started = time.perf_counter()

    def stop(self, module: Any, arguments: Any, output: Any) -> None:
        self.seconds += time.perf_counter() - self.started


def run(model: Any, pixels: Any, sampling: Any) -> Any:
    """The result, and seconds in all and in sampling."""
    sampling.seconds = 0.0
    start = time.perf_counter()
    with torch.inference_mode():
        result = model(pixel_values=pixels)
    return result, (time.perf_counter() - start, sampling.seconds)


def draw(picture: Any, result: Any, sampling: Any, path: str) -> None:
    """Where the last decoder layer looked for some of its queries, and the boxes that came of it."""
    locations, weights = sampling.last[4][0], sampling.last[5][0]  # [Q, M, L, P, 2] and [Q, M, L, P]
    canvas = ImageDraw.Draw(picture, "RGBA")
    chosen = result.logits[0].max(-1).values.argsort(descending=True)[: len(COLOURS)].tolist()
    for query, colour in zip(chosen, COLOURS):
        x, y, width, height = result.pred_boxes[0, query].tolist()
        box = [(x - width / 2) * WIDTH, (y - height / 2) * HEIGHT, (x + width / 2) * WIDTH, (y + height / 2) * HEIGHT]
        canvas.rectangle(box, outline=colour, width=3)
        for (u, v), weight in zip(locations[query].reshape(-1, 2).tolist(), weights[query].flatten().tolist()):
            radius = 2 + 24 * weight
            centre = u * WIDTH, v * HEIGHT
            canvas.ellipse([c - radius for c in centre] + [c + radius for c in centre], fill=colour + "b0")
    picture.save(path)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("picture", metavar="PICTURE")
    parser.add_argument("--out", metavar="FILE", required=True, help="the picture to write")
    parser.add_argument("--rounds", type=int, default=3, help="the best time of so many counts")
    arguments = parser.parse_args()
    warnings.filterwarnings("ignore")
    logging.disable(logging.WARNING)
    try:
        picture = load(arguments.picture)
    except OSError as error:
        sys.exit(f"{arguments.picture}: {error}")

    model, pixels = build(), pixels_of(picture)
    sampling = Sampling(model)
    print(f"Deformable DETR, ResNet-50, random weights, {HEIGHT} x {WIDTH}, {torch.get_num_threads()} threads", flush=True)
    names = ["transformers", "with deformkit"]
    results: list[Any] = [None, None]
    times: list[list[tuple[float, float]]] = [[], []]
    for _ in range(arguments.rounds):
        for i in range(2):
            if i == 1:
                done = deformkit.accelerate(model)
            results[i], seconds = run(model, pixels, sampling)
            times[i].append(seconds)
            if i == 1:
                arguments_of_fast = sampling.last
                done.undo()
    sampling.last = arguments_of_fast

    print(f"{'':16}{'end to end':>12}{'sampling':>12}{'share':>8}")
    best = [min(seconds) for seconds in times]
    for name, (whole, part) in zip(names, best):
        print(f"{name:16}{whole:>10.2f} s{part:>10.3f} s{part / whole:>8.1%}")
    difference = {
        key: (results[0][key] - results[1][key]).abs().max().item() / results[0][key].abs().max().item()
        for key in ("logits", "pred_boxes", "encoder_last_hidden_state")
    }
    print(f"{best[0][0] / best[1][0]:.2f} times as fast; {done.replaced and len(done.replaced)} attentions replaced")
    print("largest difference, relative to the largest value: " + ", ".join(f"{k} {v:.1e}" for k, v in difference.items()))
    if not max(difference.values()) < 1e-3:
        sys.exit("the results differ by more than rounding")
    draw(picture, results[1], sampling, arguments.out)
    print(f"wrote {os.path.abspath(arguments.out)}")


if __name__ == "__main__":
    main()
