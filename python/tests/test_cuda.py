"""CUDA tensors of PyTorch, up to the library: tensors without memory stand for them, so this needs no GPU."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from problems import Problem

torch = pytest.importorskip("torch")

from torch._subclasses.fake_tensor import FakeTensorMode  # noqa: E402

import deformkit.torch  # noqa: E402


@pytest.fixture(autouse=True)
def _fake_tensors() -> Iterator[None]:
    with FakeTensorMode():
        yield


def cuda_tensors(problem: Problem, device: str = "cuda:1") -> list[Any]:
    tensors = []
    for array in problem.inputs("float32"):
        tensors.append(torch.empty(array.shape, dtype=getattr(torch, str(array.dtype)), device=device))
    return tensors


def side_of(problem: Problem) -> Any:
    return deformkit.torch.OPERATORS[problem.name]


@pytest.fixture
def calls(problem: Problem, monkeypatch: pytest.MonkeyPatch) -> list[tuple[Any, ...]]:
    """What the library would have been asked."""
    made: list[tuple[Any, ...]] = []
    native, operator = deformkit._native, side_of(problem).operator
    monkeypatch.setattr(native, "set_stream", lambda *a: made.append(("set_stream", *a)))
    monkeypatch.setattr(native, "set_deterministic", lambda *a: made.append(("set_deterministic", *a)))
    monkeypatch.setattr(operator, "native_forward", lambda *a: made.append(("forward", *a)))
    monkeypatch.setattr(operator, "native_backward", lambda *a: made.append(("backward", *a)))
    monkeypatch.setattr(torch.cuda, "current_stream", lambda device: SimpleNamespace(cuda_stream=0x5EED + device))
    return made


def test_calls_follow_the_current_stream(problem: Problem, calls: list[tuple[Any, ...]]) -> None:
    tensors = cuda_tensors(problem)
    output = side_of(problem).run_forward(*tensors)
    assert output.device == torch.device("cuda:1")
    assert calls[0] == ("set_stream", 2, 1, 0x5EEE)
    assert calls[1] == ("set_deterministic", False)
    assert calls[2][0] == "forward"
    calls.clear()
    gradients = side_of(problem).run_backward(*tensors, output, [True] * len(problem.operator.gradients))
    assert {gradient.device for gradient in gradients} == {torch.device("cuda:1")}
    assert [call[0] for call in calls] == ["set_stream", "set_deterministic", "backward"]


def test_deterministic_algorithms_are_respected(problem: Problem, calls: list[tuple[Any, ...]]) -> None:
    try:
        for warn_only, must in ((False, True), (True, False)):
            torch.use_deterministic_algorithms(True, warn_only=warn_only)
            calls.clear()
            side_of(problem).run_forward(*cuda_tensors(problem))
            assert ("set_deterministic", must) in calls
    finally:
        torch.use_deterministic_algorithms(False)


def test_tracing_keeps_the_device(problem: Problem) -> None:
    tensors = cuda_tensors(problem)
    output = side_of(problem).forward_op(*tensors)
    assert output.device == torch.device("cuda:1")
    gradients = side_of(problem).backward_op(*tensors, output, [True] * len(problem.operator.gradients))
    assert {gradient.device for gradient in gradients} == {torch.device("cuda:1")}


def test_one_device_for_all(problem: Problem) -> None:
    for i, name in enumerate(problem.operator.arguments):
        tensors = cuda_tensors(problem)
        tensors[i] = torch.empty(tensors[i].shape, dtype=tensors[i].dtype, device="cuda:0")
        wrong = problem.operator.arguments[1] if i == 0 else name
        with pytest.raises(ValueError, match=f"{wrong}: expected CUDA device"):
            side_of(problem).fake_forward(*tensors)


def test_autocast_promotes_to_the_widest(problem: Problem) -> None:
    tensors = cuda_tensors(problem)
    tensors[0] = torch.empty(tensors[0].shape, dtype=torch.float16, device="cuda:1")
    assert side_of(problem).autocast_forward(*tensors).dtype == torch.float32
