"""As tests of mx_driving call its Functions: forward and backward by hand, with contexts of their own."""

import unittest
from unittest.mock import Mock

import mx_driving
import torch
import torch_npu  # noqa: F401
from mx_driving.ops.geometric_kernel_attention import GeometricKernelAttentionFunc
from mx_driving.ops.npu_deformable_aggregation import AdsDeformableAggregation

MSDA = mx_driving.MultiScaleDeformableAttnFunction
EMPTY = "Erorr! Input Tensor can not be a empty Tensor.\n"


def aggregation(num_groups=8):
    return [
        torch.rand(1, 16 * 22, 64).npu().requires_grad_(),
        torch.tensor([[[16, 22]]], dtype=torch.int32).npu(),
        torch.tensor([[0]], dtype=torch.int32).npu(),
        torch.rand(1, 10, 13, 1, 2).npu().requires_grad_(),
        torch.rand(1, 10, 13, 1, 1, num_groups).npu().requires_grad_(),
    ]


def attention():
    return [
        torch.rand(2, 60, 4, 16).npu().requires_grad_(),
        torch.tensor([[6, 10]]).npu(),
        torch.tensor([0]).npu(),
        (torch.rand(2, 7, 4, 1, 3, 2) * 0.8 + 0.1).npu().requires_grad_(),
        torch.rand(2, 7, 4, 1, 3).npu().requires_grad_(),
    ]


class TestFunctions(unittest.TestCase):
    def check(self, function, tensors, differentiable=(0, 3, 4)):
        output = function.apply(*tensors)
        grad_output = torch.rand_like(output)
        output.backward(grad_output)
        self.assertTrue(issubclass(function, torch.autograd.Function))
        self.assertGreater(output.abs().max(), 0)

        ctx = Mock()
        self.assertTrue(torch.equal(function.forward(ctx, *tensors), output))
        ctx.saved_tensors = ctx.save_for_backward.call_args.args
        gradients = function.backward(ctx, grad_output)
        self.assertEqual(len(gradients), 5)
        for i, gradient in enumerate(gradients):
            if i in differentiable:
                self.assertGreater(gradient.abs().max(), 0)
                self.assertTrue(torch.equal(gradient, tensors[i].grad))
            else:
                self.assertIsNone(gradient)

    def test_forward_and_backward(self):
        self.check(MSDA, attention())
        self.check(AdsDeformableAggregation, aggregation())
        cells = attention()
        cells[3] = (cells[3].detach() * 5).requires_grad_()
        self.check(GeometricKernelAttentionFunc, cells, differentiable=(0, 4))

    def test_keywords(self):
        value, shapes, starts, locations, weights = attention()
        output = MSDA.forward(
            Mock(),
            value=value,
            value_spatial_shapes=shapes,
            value_level_start_index=starts,
            sampling_locations=locations,
            attention_weights=weights,
        )
        self.assertTrue(torch.equal(output, MSDA.apply(value, shapes, starts, locations, weights)))
        names = ("mc_ms_feat", "spatial_shape", "scale_start_index", "sampling_location", "weights")
        AdsDeformableAggregation.forward(Mock(), **dict(zip(names, aggregation())))
        names = ("value", "spatial_shapes", "level_start_index", "sampling_locations", "attention_weights")
        GeometricKernelAttentionFunc.forward(Mock(), **dict(zip(names, attention())))

    def test_empty(self):
        features, *others = aggregation()
        empty = torch.empty((0,)).npu()
        with self.assertRaises(Exception) as caught:
            AdsDeformableAggregation.forward(Mock(), empty, *others[:-1], empty)
        self.assertEqual(str(caught.exception), EMPTY)
        ctx = Mock()
        ctx.saved_tensors = (empty, empty.int(), others[1], empty, others[-1])
        with self.assertRaises(Exception) as caught:
            AdsDeformableAggregation.backward(ctx, torch.randn(1, 1, 1).npu())
        self.assertEqual(str(caught.exception), EMPTY)
        for i in (0, 1, 4):
            tensors = attention()
            tensors[i] = tensors[i][:0]
            with self.assertRaises(Exception) as caught:
                mx_driving.multi_scale_deformable_attn(*tensors)
            self.assertEqual(str(caught.exception), EMPTY)

    def test_wrong_count(self):
        for function, tensors, last in (
            (MSDA, attention(), "attention_weights"),
            (AdsDeformableAggregation, aggregation(), "weights"),
            (GeometricKernelAttentionFunc, attention(), "attention_weights"),
        ):
            for arguments in (tensors[:-1], [*tensors, 64]):
                with self.assertRaisesRegex(TypeError, last):
                    function.apply(*arguments)

    def test_autocast(self):
        """The attention computes in float32; the others in the first tensor's type."""
        tensors = attention()
        with torch.autocast("cpu", dtype=torch.bfloat16):
            self.assertEqual(MSDA.apply(tensors[0].bfloat16(), *tensors[1:]).dtype, torch.float32)
            self.assertEqual(GeometricKernelAttentionFunc.apply(tensors[0].bfloat16(), *tensors[1:]).dtype, torch.bfloat16)


if __name__ == "__main__":
    unittest.main(exit=False, verbosity=0)
    print("functions agrees")
