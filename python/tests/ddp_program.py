"""One training step of a small attention layer on two processes, and the same on one. usage: ddp_program.py STORE-FILE"""

from __future__ import annotations

import sys
from typing import Any

import torch
import torch.distributed
import torch.multiprocessing

import deformkit

LEVELS = torch.tensor([[6, 5], [3, 3]])
STARTS = torch.tensor([0, 30])
HEADS, CHANNELS, POINTS = 2, 8, 4


class Attention(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        width = HEADS * CHANNELS
        self.value = torch.nn.Linear(width, width)
        self.locations = torch.nn.Linear(width, HEADS * 2 * POINTS * 2)
        self.weights = torch.nn.Linear(width, HEADS * 2 * POINTS)

    def forward(self, queries: Any, features: Any) -> Any:
        batch, count, _ = queries.shape
        value = self.value(features).unflatten(-1, (HEADS, CHANNELS))
        locations = self.locations(queries).sigmoid().view(batch, count, HEADS, 2, POINTS, 2)
        weights = self.weights(queries).unflatten(-1, (HEADS, 2 * POINTS)).softmax(-1).unflatten(-1, (2, POINTS))
        return deformkit.multi_scale_deformable_attn(value, LEVELS, STARTS, locations, weights)


def make() -> Any:
    torch.manual_seed(0)
    return Attention(), torch.randn(4, 10, HEADS * CHANNELS), torch.randn(4, 39, HEADS * CHANNELS)


def step(model: Any, queries: Any, features: Any) -> Any:
    model(queries, features).square().mean().backward()
    return [p.grad.clone() for p in model.parameters()]


def worker(rank: int, store: str) -> None:
    torch.set_num_threads(1)
    torch.distributed.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=2)
    model, queries, features = make()
    half = slice(2 * rank, 2 * rank + 2)
    found = step(torch.nn.parallel.DistributedDataParallel(model), queries[half], features[half])
    alone, queries, features = make()
    for a, b in zip(found, step(alone, queries, features), strict=True):
        assert b.abs().max() > 1e-6
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-6)
    torch.distributed.destroy_process_group()


if __name__ == "__main__":
    torch.multiprocessing.spawn(worker, args=(sys.argv[1],), nprocs=2)
    print("gradients agree")
