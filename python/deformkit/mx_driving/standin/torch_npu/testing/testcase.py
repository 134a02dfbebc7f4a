import unittest
from typing import Any

import numpy as np
import torch


class TestCase(unittest.TestCase):
    def assertRtolEqual(self, x: Any, y: Any, prec: float = 1e-4, prec16: float = 1e-3, message: Any = None) -> None:
        """Numbers, tensors, arrays, or sequences of these, of the same shape and type. NaNs in the same places; no more than a
        share of `prec` (prec16 for float16) of the others may be further apart than `prec`, absolutely and relatively."""
        if isinstance(x, (list, tuple)):
            self.assertEqual(len(x), len(y), message)
            for one, other in zip(x, y):
                self.assertRtolEqual(one, other, prec, prec16, message)
            return
        one, other = (np.asarray(a.detach().cpu()) if isinstance(a, torch.Tensor) else np.asarray(a) for a in (x, y))
        self.assertEqual(one.shape, other.shape, message or "shape error")
        self.assertEqual(one.dtype, other.dtype, message or "dtype error")
        if one.dtype.kind != "f":
            self.assertTrue(np.array_equal(one, other), message or "result error")
            return
        allowed, smallest = (prec16, 6e-8) if one.dtype == np.float16 else (prec, 1e-9)
        one, other = one.astype(np.float64), other.astype(np.float64)
        self.assertTrue(np.array_equal(np.isnan(one), np.isnan(other)), message or "NaN in different places")
        same = (one == other) | np.isnan(one)
        apart = np.where(same, 0, np.abs(np.where(same, 0, one) - np.where(same, 0, other)))
        largest = np.where(same, 1, np.maximum(np.abs(one), np.abs(other)))
        outside = apart > allowed
        relatively = apart / (largest + smallest) > allowed
        if relatively.sum() > one.size * allowed and outside.sum() > one.size * allowed:
            self.fail(message or f"result error: {(relatively & outside).sum()} of {one.size} further apart than {allowed}")


def run_tests() -> None:
    unittest.main()
