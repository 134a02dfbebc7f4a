"""A PyTorch model with multi-scale deformable attention in OpenVINO. Before: python -m deformkit.build_openvino"""

import openvino
import torch

import deformkit


class Sampling(torch.nn.Module):
    def forward(self, *tensors: torch.Tensor) -> torch.Tensor:
        return deformkit.multi_scale_deformable_attn(*tensors)


shapes = torch.tensor([[50, 40], [25, 20]])
locations, weights = torch.rand(1, 300, 8, 2, 4, 2), torch.rand(1, 300, 8, 2, 4)
inputs = (torch.rand(1, 2500, 8, 32), shapes, torch.tensor([0, 2000]), locations, weights)
model = Sampling().eval()

extension = deformkit.openvino_extension()
core = openvino.Core()
core.add_extension(extension)
converted = openvino.convert_model(model, example_input=inputs, extension=extension)
compiled = core.compile_model(converted, "CPU")

output = compiled([tensor.numpy() for tensor in inputs])[0]
print("largest difference", abs(output - model(*inputs).numpy()).max())
