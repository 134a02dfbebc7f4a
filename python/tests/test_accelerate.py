"""accelerate() on models of transformers with random weights, against the models' own results."""

from __future__ import annotations

import copy
import inspect
from typing import Any

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

import transformers_models as models  # noqa: E402

import deformkit  # noqa: E402
from deformkit.adapters.accelerate import stand_ins  # noqa: E402

EPSILON = 2.0**-23


@pytest.fixture(params=models.MODELS, ids=lambda make: make.__name__)
def model(request: pytest.FixtureRequest) -> Any:
    return made(request.param)


def made(make: Any, **options: Any) -> Any:
    """A model and the arguments of a call."""
    torch.manual_seed(0)
    model, arguments = make(**options)
    # Fresh models look straight ahead and take the mean of what they see: any sampling would do for them.
    for name, parameter in model.named_parameters():
        if "sampling_offsets" in name or "attention_weights" in name or "value_proj" in name:
            torch.nn.init.normal_(parameter, std=0.5)
        elif parameter.ndim == 4:
            torch.nn.init.kaiming_normal_(parameter)
    return model.eval(), {"pixel_values": torch.randn(1, 3, 128, 160), **arguments}


def outputs_of(model: Any, arguments: Any) -> dict[str, Any]:
    """All floating-point results, and what each deformable attention gave."""
    seen = {}

    def note(name: str) -> Any:
        return lambda module, args, output: seen.update({name: output[0] if isinstance(output, tuple) else output})

    hooks = [
        module.register_forward_hook(note(name))
        for name, module in model.named_modules()
        if hasattr(module, "sampling_offsets") or type(module).__name__ == "MultiScaleDeformableAttention"
    ]
    with torch.no_grad():
        result = model(**arguments)
    for hook in hooks:
        hook.remove()
    seen.update({f"result {key}": value for key, value in result.items() if isinstance(value, torch.Tensor)})
    return {key: value for key, value in seen.items() if value.is_floating_point()}


def assert_same(found: Any, expected: Any) -> None:
    assert found.keys() == expected.keys()
    for key, value in expected.items():
        scale = value[value.isfinite()].abs().max().item()
        torch.testing.assert_close(
            found[key], value, rtol=0, atol=4096 * EPSILON * scale, equal_nan=True, msg=f"{key}: {{}}".format
        )


def test_same_result(model: Any) -> None:
    model, arguments = model
    expected = outputs_of(model, arguments)
    done = deformkit.accelerate(model)
    assert done.replaced and not done.left_alone
    is_known = not any(name in type(model).__name__ for name in ("RTDetrV2", "DFine"))  # whose few queries cost nothing
    assert is_known == bool(done.rewritten)
    deformkit.set_target("sse41")  # another rounding than the best kernel's: shows that the library is what runs
    found = outputs_of(model, arguments)
    assert deformkit.last_variant().endswith("_sse41")
    deformkit.set_target(None)
    assert_same(found, expected)
    assert_same(outputs_of(model, arguments), expected)
    for name in done.replaced:
        assert expected[name].abs().max() > 0.01 and name in str(done)
    done.undo()
    for key, value in outputs_of(model, arguments).items():
        assert torch.equal(value.nan_to_num(), expected[key].nan_to_num())


def test_same_gradients() -> None:
    model, arguments = made(models.deformable_detr)
    gradients = []
    for accelerated in (False, True):
        model.zero_grad()
        if accelerated:
            deformkit.accelerate(model)
        model(**arguments).logits.square().sum().backward()
        gradients.append({name: p.grad.clone() for name, p in model.named_parameters() if p.grad is not None})
    assert any("sampling_offsets" in name and gradient.abs().max() > 0 for name, gradient in gradients[0].items())
    largest = max(gradient.abs().max() for gradient in gradients[0].values())
    for name, gradient in gradients[0].items():
        torch.testing.assert_close(
            gradients[1][name], gradient, rtol=1e-3, atol=1e-5 * largest.item(), msg=f"{name}: {{}}".format
        )


def test_undo_leaves_no_trace(model: Any) -> None:
    model, _ = model
    before = {name: dict(vars(module)) for name, module in model.named_modules()}
    with deformkit.accelerate(model) as done:
        changed = [
            name
            for name, module in model.named_modules()
            if vars(module).keys() != before[name].keys()
            or any(vars(module)[key] is not value for key, value in before[name].items())
        ]
        assert set(changed) == {*done.replaced, *done.rewritten}
    for name, module in model.named_modules():
        assert vars(module).keys() == before[name].keys()
        assert all(vars(module)[key] is value for key, value in before[name].items())


def test_only_this_model_is_touched() -> None:
    """Another model of the same kind goes on as before, and so does a copy made before."""
    for make in models.MODELS:
        model, arguments = made(make)
        other = copy.deepcopy(model)
        deformkit.accelerate(model)
        outputs_of(model, arguments)
        assert deformkit.accelerate(other).replaced


def test_twice(model: Any) -> None:
    model, _ = model
    first, second = deformkit.accelerate(model), deformkit.accelerate(model)
    assert not second.replaced and set(second.left_alone) == set(first.replaced)
    assert set(second.left_alone.values()) == {"it was replaced before"}
    second.undo()
    first.undo()
    assert deformkit.accelerate(model).replaced == first.replaced


def test_what_cannot_be_served_is_left_alone() -> None:
    model, arguments = made(models.rt_detr_v2, method="discrete")
    expected = outputs_of(model, arguments)
    done = deformkit.accelerate(model)
    assert not done.replaced and done.left_alone
    assert all("nearest cell" in reason for reason in done.left_alone.values())
    for key, value in outputs_of(model, arguments).items():
        assert torch.equal(value, expected[key])

    class Unknown(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.sampling_offsets = torch.nn.Linear(2, 2)

        def forward(self, x: Any) -> Any:
            return x

    done = deformkit.accelerate(torch.nn.Sequential(Unknown()))
    assert list(done.left_alone) == ["0"] and "Unknown" in str(done)
    assert str(deformkit.accelerate(torch.nn.Linear(2, 2))) == "replaced 0 of 0 deformable attentions"
    with pytest.raises(TypeError, match="torch.nn.Module"):
        deformkit.accelerate("model")


def test_other_devices_go_on_as_before() -> None:
    """On meta tensors, which stand for a GPU's here, the model's own code runs."""
    for make in (models.deformable_detr, models.mask2former, models.rt_detr_v2, models.d_fine):
        model, _ = made(make)
        (name, *_) = deformkit.accelerate(model).replaced
        module = model.get_submodule(name)
        value = torch.empty(1, 6, 2, 8, device="meta")
        locations, weights = torch.empty(1, 5, 2, 1, 4, 2, device="meta"), torch.empty(1, 5, 2, 1, 4, device="meta")
        run = module.forward.function if "forward" in vars(module) else None
        if isinstance(run, stand_ins.Function):
            call = run
            arguments: Any = (value, None, [(2, 3)], None, locations, weights, 64)
        else:
            functions = {**vars(module), **inspect.unwrap(type(module).forward).__globals__}
            call = next(v for v in functions.values() if isinstance(v, stand_ins.Function))
            arguments = (value, [(2, 3)], locations, weights)
            if call.original.__name__.endswith("_v2"):
                arguments = (value, [(2, 3)], locations.flatten(3, 4), weights.flatten(3, 4), [4])
        with torch.profiler.profile() as profile:
            call(*arguments)
        names = {event.key for event in profile.key_averages()}
        assert any("grid_sampler" in key for key in names) and not any("deformkit" in key for key in names)


def test_compiled_model() -> None:
    """torch.compile of a whole accelerated layer, without a break."""
    model, arguments = made(models.deformable_detr)
    deformkit.accelerate(model)
    layer = model.model.encoder.layers[0].self_attn.attn
    value = torch.randn(1, 9, 4, 8)
    tables = torch.tensor([[3, 3]]), [(3, 3)], torch.tensor([0])
    inputs = (value, *tables, torch.rand(1, 5, 4, 1, 4, 2), torch.rand(1, 5, 4, 1, 4), 64)
    compiled = torch.compile(layer, fullgraph=True, backend="aot_eager")
    assert torch.equal(compiled(*inputs), layer(*inputs))
