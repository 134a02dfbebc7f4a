"""A module with deformable attention as a package of AOTInductor and as a TorchScript module, for the program in main.cpp."""

import torch

import deformkit


class Attention(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.value = torch.nn.Linear(256, 256)
        self.output = torch.nn.Linear(256, 256)

    def forward(
        self, memory: torch.Tensor, shapes: torch.Tensor, starts: torch.Tensor, locations: torch.Tensor, scores: torch.Tensor
    ) -> torch.Tensor:
        value = self.value(memory).unflatten(-1, (8, 32))
        weights = scores.flatten(-2).softmax(-1).view_as(scores)
        return self.output(deformkit.multi_scale_deformable_attn(value, shapes, starts, locations, weights))


shapes, starts = torch.tensor([[50, 40], [25, 20]]), torch.tensor([0, 50 * 40])
inputs = (torch.rand(1, 2500, 256), shapes, starts, torch.rand(1, 300, 8, 2, 4, 2), torch.rand(1, 300, 8, 2, 4))
model = Attention().eval()
with torch.no_grad():
    torch.jit.trace(model, inputs).save("model.ts")
    torch._inductor.aoti_compile_and_package(torch.export.export(model, inputs), package_path="model.pt2")
    torch.save([*inputs, model(*inputs)], "tensors.pt")
