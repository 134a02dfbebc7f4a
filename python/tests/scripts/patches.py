"""As a training script applies mx_driving's patches: its own, and those that come along."""

import logging
import sys
import types

from mx_driving.patcher import AtomicPatch, Patch, Patcher, PatcherBuilder, batch_matmul, default_patcher_builder, index
from mx_driving.patcher.mmcv_patch import dc, mdc
from mx_driving.patcher.numpy_patch import numpy_type

logged = []
logging.getLogger("mx_driving.patcher").addHandler(types.SimpleNamespace(level=0, handle=lambda r: logged.append(r.getMessage())))
logging.getLogger("mx_driving.patcher").propagate = False

model = sys.modules["model"] = types.ModuleType("model")


class Head:
    def forward(self, x):
        return x

    @staticmethod
    def scale():
        return 1


model.Head, model.TABLE = Head, {"lr": 1}


def own_patch(module, options):
    module.MARK = options["mark"]


def failing_patch(module, options):
    module.nothing.at.all = 1


builder = (
    PatcherBuilder()
    .add_module_patch("model", Patch(own_patch, {"mark": 7}), Patch(failing_patch))
    .add_module_patch("torch", Patch(index), Patch(batch_matmul))
    .add_module_patch("mmcv", Patch(dc), Patch(mdc))
    .add_module_patch("numpy", Patch(numpy_type))
    .add_module_patch("a_module_that_is_not_there", Patch(own_patch))
    .disable_patches("mdc")
)
with builder.brake_at(500).build() as patcher:
    assert patcher.is_applied and model.MARK == 7
assert sum("without effect" in line for line in logged) == 1 and logged[-1].endswith("index, batch_matmul, dc, numpy_type, brake")
assert any("failing_patch skipped" in line for line in logged) and any("a_module_that_is_not_there" in line for line in logged)


class Heads(Patch):
    @classmethod
    def patches(cls, options=None):
        return [
            AtomicPatch("model.Head.forward", lambda self, x: x + 1, runtime_check=lambda self, x: x > 0),
            AtomicPatch("model.Head.scale", target_wrapper=lambda original: lambda: original() + 1),
            AtomicPatch("model.TABLE.lr", 2),
            AtomicPatch("model.Tail", 2),
        ]


logged.clear()
Patcher().add(Heads).replace_import("model_ops.aggregation", "json", aggregate=len).skip_import("model_ops.cuda").apply()
assert [Head().forward(x) for x in (-1, 1)] == [-1, 2] and Head.scale() == Head().scale() == 2 and model.TABLE == {"lr": 2}
assert logged == ["mx_driving.patcher: model.Tail skipped: there is no model.Tail"], logged

import model_ops.cuda.kernels  # noqa: E402, F401
from model_ops.aggregation import aggregate, dumps  # noqa: E402

assert aggregate(dumps([])) == 2

with default_patcher_builder.build():
    pass
print("patches agrees")
