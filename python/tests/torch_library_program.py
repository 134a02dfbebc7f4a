"""libdeformkit_torch.so in a process without the package, which is imported only in the end.

usage: torch_library_program.py LIBRARY
"""

import sys

import numpy as np
import torch

torch.ops.load_library(sys.argv[1])
assert not any(name.startswith("deformkit") for name in sys.modules)
ops = torch.ops.deformkit
NAMES = ["multi_scale_deformable_attn", "deformable_aggregation", "geometric_kernel_attention"]
schemas = [str(getattr(ops, name + suffix).default._schema) for name in NAMES for suffix in ("", "_backward")]

try:
    ops.multi_scale_deformable_attn(*[torch.rand(1)] * 5)
except RuntimeError as error:
    assert "deformkit::multi_scale_deformable_attn: value: expected 4 axes" in str(error), error
else:
    raise AssertionError("not refused")

# The package would register its own operators once it is there: the problems come after what they are compared with.
del sys.modules["torch"]  # not seen by the package, which then leaves PyTorch alone
from problems import DTYPES, PROBLEMS  # noqa: E402

sys.modules["torch"] = torch
assert "deformkit.torch" not in sys.modules


def tensor(array: np.ndarray) -> torch.Tensor:
    if array.dtype.name == "bfloat16":
        return torch.from_numpy(array.view(np.uint16)).view(torch.bfloat16)
    return torch.from_numpy(array)


def same(result: torch.Tensor, expected: np.ndarray) -> None:
    assert torch.equal(result, tensor(expected)) and result.is_contiguous()


for problem in PROBLEMS:
    for dtype in DTYPES:
        inputs = problem.inputs(dtype)
        tensors = [tensor(a) for a in inputs]
        expected = problem.forward(*inputs)
        forward, backward = getattr(ops, problem.name), getattr(ops, f"{problem.name}_backward")
        same(forward(*tensors), expected)
        same(forward(*(t.transpose(0, -1).contiguous().transpose(0, -1) for t in tensors)), expected)
        grad_output = problem.grad_output(inputs)
        gradients = problem.backward(*inputs, grad_output)
        flags = [True] * len(gradients)
        for result, gradient in zip(backward(*tensors, tensor(grad_output), flags), gradients):
            same(result, gradient)
        (last,) = backward(*tensors, tensor(grad_output), [False] * (len(flags) - 1) + [True])
        same(last, gradients[-1])
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    same(forward(*tensors), expected)
    torch.set_num_threads(threads)

from deformkit import torch as package  # noqa: E402

assert sorted(package.OPERATORS) == sorted(NAMES)
tensors[0].requires_grad_()
problem.forward(*tensors).sum().backward()
assert tensors[0].grad is not None
assert schemas == [str(getattr(ops, name + suffix).default._schema) for name in NAMES for suffix in ("", "_backward")]
for problem in PROBLEMS:
    operator = problem.operator
    arguments = ", ".join(f"Tensor {name}" for name in operator.arguments)
    assert f"deformkit::{problem.name}({arguments}) -> Tensor" in schemas
    assert f"deformkit::{problem.name}_backward({arguments}, Tensor grad_output, bool[] wanted) -> Tensor[]" in schemas
