"""What scripts do with torch_npu around the operators: devices by name, threads, loading, mixed precision, memory."""

import concurrent.futures
import io
import threading

import torch
import torch_npu
from torch.npu.amp import autocast as autocast_of_torch
from torch_npu.npu.amp import GradScaler, autocast, custom_bwd, custom_fwd
from torch_npu.testing.testcase import TestCase, run_tests


class TestNpu(TestCase):
    def test_load(self):
        buffer = io.BytesIO()
        torch.save({"weight": torch.rand(3)}, buffer)
        for location in ("npu:0", "npu", torch.device("npu:0"), {"npu:1": "npu:0"}, lambda storage, where: storage.npu()):
            buffer.seek(0)
            self.assertEqual(torch.load(buffer, map_location=location)["weight"].shape, (3,))

    def test_data_loader(self):
        data = torch.utils.data.TensorDataset(torch.arange(8.0))
        for workers in (0, 1):
            batches = [x.npu() for (x,) in torch.utils.data.DataLoader(data, 4, pin_memory=True, num_workers=workers)]
            self.assertRtolEqual(torch.cat(batches), torch.arange(8.0))

    def test_compile(self):
        @torch.compile(fullgraph=True, backend="aot_eager")
        def scaled(x):
            return (x.npu() + torch.ones(3, device="npu")).to("npu:0") * 2

        self.assertRtolEqual(scaled(torch.ones(3)), torch.full((3,), 4.0))

    def test_autocast(self):
        a = torch.rand(2, 2).npu()
        for context, dtype in (
            (torch.autocast("npu", dtype=torch.bfloat16), torch.bfloat16),
            (torch.autocast(device_type="npu"), torch.float16),
            (torch.amp.autocast("npu"), torch.float16),
            (autocast(), torch.float16),
            (autocast_of_torch(dtype=torch.bfloat16), torch.bfloat16),
            (torch.npu.amp.autocast(enabled=False), torch.float32),
        ):
            with context:
                self.assertEqual((a @ a).dtype, dtype)

    def test_training_with_a_scaler(self):
        class Double(torch.autograd.Function):
            @staticmethod
            @custom_fwd(cast_inputs=torch.float32)
            def forward(ctx, x):
                assert x.dtype == torch.float32 and not torch.is_autocast_enabled("cpu")
                return 2 * x

            @staticmethod
            @custom_bwd
            def backward(ctx, grad):
                return 2 * grad

        layer = torch.nn.Linear(4, 4).npu()
        optimizer = torch_npu.optim.NpuFusedSGD(layer.parameters(), lr=0.1)
        before = layer.weight.detach().clone()
        for scaler in (GradScaler(init_scale=8.0), torch.amp.GradScaler("npu"), torch.npu.amp.GradScaler(dynamic=False)):
            with torch.npu.amp.autocast(dtype=torch.bfloat16):
                loss = Double.apply(layer(torch.ones(2, 4, device="npu"))).sum()
            scaler.scale(loss).backward()
            scaler.unscale_(optimizer)
            optimizer.clip_grad_norm_fused_(1.0)
            scaler.step(optimizer)
            scaler.update()
            optimizer.zero_grad()
        self.assertGreater((layer.weight - before).abs().max(), 0)

    def test_generator(self):
        numbers = [
            torch.rand(3, generator=torch.Generator(device="npu").manual_seed(5), device=torch.device("npu", 0)) for _ in range(2)
        ]
        self.assertRtolEqual(*numbers)
        self.assertIsInstance(torch.default_generator, torch.Generator)

    def test_default_device(self):
        torch.set_default_device("npu")
        try:
            self.assertTrue(torch.zeros(2).sum() == 0 and torch.nn.Linear(2, 2).weight.sum().isfinite())
        finally:
            torch.set_default_device(None)
        with torch.device("npu:0"):
            self.assertEqual(torch.zeros(2).shape, (2,))

    def test_threads(self):
        def on_npu():
            return torch.zeros(2, device="npu") + torch.ones(2).to("npu:0") + torch.ones(2, device=torch.device("npu"))

        found = []
        thread = threading.Thread(target=lambda: found.append(on_npu()))
        thread.start()
        thread.join()
        with concurrent.futures.ThreadPoolExecutor(2) as pool:
            found += pool.map(lambda _: on_npu(), range(2))
        for result in found:
            self.assertTrue(result.is_npu)
            self.assertRtolEqual(result, torch.full((2,), 2.0))

    def test_is_npu(self):
        a = torch.ones(2)
        layer = torch.nn.Linear(2, 2).to("npu")
        for moved in (
            a.npu(),
            a.to("npu"),
            torch.zeros(2, device="npu"),
            a.npu() + 1,
            layer.weight,
            layer(a.npu()),
            a.npu().chunk(2)[0],
        ):
            self.assertTrue(moved.is_npu)
        for left in (a, a + 1, torch.nn.Linear(2, 2).weight, a.npu().cpu(), a.npu().to("cpu")):
            self.assertFalse(left.is_npu)
        b = a.npu()
        b.cpu().add_(1)
        self.assertRtolEqual(b, a)

    def test_device(self):
        self.assertTrue(torch_npu.npu.get_device_name(0).startswith("Ascend910B"))
        properties = torch.npu.get_device_properties("npu:0")
        self.assertGreater(properties.total_memory, 1 << 28)
        block = torch.ones(1 << 20, device="npu")
        self.assertGreaterEqual(torch.npu.max_memory_allocated(), torch.npu.memory_allocated())
        self.assertGreater(torch_npu.npu.memory_allocated(), block.nbytes)
        free, total = torch.npu.mem_get_info()
        self.assertTrue(0 < free <= total)
        torch.npu.config.allow_internal_format = False
        torch.npu.reset_peak_memory_stats()
        with torch.npu.device(0), torch.npu.stream(torch.npu.Stream()):
            state = torch.npu.get_rng_state()
            a = torch.rand(2)
            torch.npu.set_rng_state(state)
            self.assertRtolEqual(torch.rand(2), a)
        self.assertIn("deformkit", torch_npu.__version__)

    def test_what_is_not_there_says_so(self):
        with self.assertRaisesRegex(NotImplementedError, "torch_npu.npu_fusion_attention"):
            torch_npu.npu_fusion_attention(torch.ones(2))
        for module, name in ((torch_npu, "profiler"), (torch.npu, "memory_snapshot"), (torch_npu.optim, "NpuFusedLamb")):
            with self.assertRaisesRegex(AttributeError, f"{name}: not in deformkit"):
                getattr(module, name)

    def test_assert_rtol_equal(self):
        a = torch.rand(1000) + 1
        self.assertRtolEqual(a, a * (1 + 5e-5))
        few = a.clone()
        few[0] += 1  # a share of 1e-3 of them, of 1e-4 that may be wrong
        nan = a.clone()
        nan[0] = float("nan")
        for wrong in (a * 1.01, few, nan, a.double(), a[:1]):
            with self.assertRaises(AssertionError):
                self.assertRtolEqual(a, wrong)
        self.assertRtolEqual(nan, nan)


if __name__ == "__main__":
    try:
        run_tests()
    except SystemExit as done:
        assert not done.code
    print("npu agrees")
