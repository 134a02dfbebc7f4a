"""A PyTorch model with multi-scale deformable attention in ONNX Runtime: one node in place of a chain of GridSample."""

import os
import tempfile

import onnxruntime
import torch

import deformkit
import deformkit.onnx


class Sampling(torch.nn.Module):
    def forward(self, *tensors: torch.Tensor) -> torch.Tensor:
        return deformkit.multi_scale_deformable_attn(*tensors)


shapes = torch.tensor([[50, 40], [25, 20]])
locations, weights = torch.rand(1, 300, 8, 2, 4, 2), torch.rand(1, 300, 8, 2, 4)
inputs = (torch.rand(1, 2500, 8, 32), shapes, torch.tensor([0, 2000]), locations, weights)
names = ["value", "shapes", "starts", "locations", "weights"]
model = Sampling().eval()
os.chdir(tempfile.mkdtemp())
torch.onnx.export(
    model, inputs, "model.onnx", dynamo=True, custom_translation_table=deformkit.onnx.translations(), input_names=names
)

options = onnxruntime.SessionOptions()
options.register_custom_ops_library(deformkit.onnx.runtime_library())
session = onnxruntime.InferenceSession("model.onnx", options)

(output,) = session.run(None, {name: tensor.numpy() for name, tensor in zip(names, inputs)})
print("largest difference", abs(output - model(*inputs).numpy()).max())
