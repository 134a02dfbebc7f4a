"""A script that was written for CUDA, and imports transfer_to_npu."""

import io

import torch
import torch_npu  # noqa: F401
from mx_driving import multi_scale_deformable_attn
from torch_npu.contrib import transfer_to_npu  # noqa: F401

assert torch.cuda.is_available() and torch.cuda.device_count() == 1 and torch.cuda.current_device() == 0
assert torch.cuda.get_device_name(0) and torch.cuda.max_memory_allocated() > 0
device = torch.device("cuda:0" if torch.cuda.is_available() else "cpu")
torch.cuda.set_device(device)
torch.cuda.manual_seed_all(0)

value = torch.rand(2, 50, 4, 8, device="cuda").requires_grad_()
shapes = torch.tensor([[5, 10]]).to("cuda:0")
locations = torch.rand(2, 6, 4, 1, 3, 2).cuda()
weights = torch.rand(2, 6, 4, 1, 3, device=device)
start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
start.record()
output = multi_scale_deformable_attn(value, shapes, torch.zeros(1, dtype=torch.long, device="cuda"), locations, weights)
end.record()
torch.cuda.synchronize()
assert start.elapsed_time(end) > 0 and output.is_npu

model = torch.nn.Linear(32, 2).to(device)
scaler = torch.cuda.amp.GradScaler(init_scale=128.0)
with torch.cuda.amp.autocast():
    prediction = model(output)
assert prediction.dtype == torch.float16
with torch.autocast("cuda", dtype=torch.bfloat16):
    assert model(output).dtype == torch.bfloat16
scaler.scale(prediction.float().sum()).backward()
assert value.grad.abs().max() > 0

buffer = io.BytesIO()
torch.save(model.state_dict(), buffer)
buffer.seek(0)
model.load_state_dict(torch.load(buffer, map_location="cuda:0"))
compiled = torch.compile(model, backend="aot_eager")
assert torch.equal(compiled(output), model(output))
print("cuda agrees")
