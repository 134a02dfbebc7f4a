"""Finds multi-scale deformable attention in a model that was exported without it, and puts the node in its place.

Exporters write it as a GridSample for each level, between nodes that only move elements: reshapes, transposes, slices. There are
many ways to write these, so they are not matched one by one. The model runs once, for the shapes; then numbers that count the
elements of a tensor go the way that its elements go, and it shows where they come out.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Optional

import numpy as np
import onnx
import onnxruntime

from . import DOMAIN, NODES, runtime_library

_RESHAPES = {"Reshape", "Squeeze", "Unsqueeze", "Flatten", "Identity", "Cast"}
_MOVES = {*_RESHAPES, "Transpose", "Slice", "Split", "Gather"}
_SCALES = {"Mul", "Add", "Sub", "Div"}
_SCALE = {"Mul": np.multiply, "Add": np.add, "Sub": np.subtract, "Div": np.divide}


class NotFound(Exception):
    """Why a GridSample was left alone."""


class Fusion:
    """What fuse() made of a model.

    model: with nodes of deformkit's; save(path) writes it.
    replaced: name of the node that took the place of a chain -> what it took.
    left_alone: name of a GridSample that is still there -> why.
    largest_difference: between the outputs before and after, by their names.
    """

    def __init__(self, model: Any) -> None:
        self.model = model
        self.replaced: dict[str, str] = {}
        self.left_alone: dict[str, str] = {}
        self.largest_difference: dict[str, float] = {}

    def save(self, path: str | Path) -> None:
        onnx.save(self.model, path)

    def __str__(self) -> str:
        lines = [f"replaced {len(self.replaced)} chains of GridSample, left {len(self.left_alone)} nodes alone"]
        lines += [f"  {name}: {what}" for name, what in self.replaced.items()]
        lines += [f"  {name} left alone: {why}" for name, why in self.left_alone.items()]
        lines += [f"  largest difference in {name}: {difference:.3g}" for name, difference in self.largest_difference.items()]
        return "\n".join(lines)

    __repr__ = __str__


class _Graph:
    """A model that has run once."""

    def __init__(self, model: Any, inputs: dict[str, Any]) -> None:
        self.model, self.inputs = model, inputs
        self.producer = {output: node for node in model.graph.node for output in node.output}
        self.consumers: dict[str, list[Any]] = {}
        for node in model.graph.node:
            for name in node.input:
                self.consumers.setdefault(name, []).append(node)
        self.kept = {output.name for output in model.graph.output}
        self.values: dict[str, Any] = {i.name: onnx.numpy_helper.to_array(i) for i in model.graph.initializer}
        for node in model.graph.node:
            if node.op_type == "Constant" and node.attribute[0].name == "value":
                self.values[node.output[0]] = onnx.numpy_helper.to_array(node.attribute[0].t)

    def run(self, names: set[str]) -> None:
        """Learns the values of these tensors, and of the model's outputs."""
        probe = onnx.ModelProto()
        probe.CopyFrom(self.model)
        wanted = sorted(names - self.kept - set(self.values) - set(self.inputs) - {""})
        probe.graph.output.extend(onnx.ValueInfoProto(name=name) for name in wanted)
        results = session_of(probe).run([*self.kept, *wanted], self.inputs)
        self.values.update(self.inputs)
        self.values.update(zip([*self.kept, *wanted], results))

    def shape(self, name: str) -> tuple[int, ...]:
        return tuple(np.shape(self.values[name]))

    def scalar(self, node: Any) -> Optional[int]:
        """Which input of an arithmetic node is one constant number."""
        for i, name in enumerate(node.input):
            if name in self.values and np.size(self.values[name]) == 1 and not self._is_computed(name):
                return i
        return None

    def users(self, name: str) -> list[Any]:
        """Those of a tensor's elements; the model itself counts as two."""
        nodes = [node for node in self.consumers.get(name, []) if node.op_type != "Shape"]
        return nodes + [None, None] if name in self.kept else nodes

    def _is_computed(self, name: str) -> bool:
        return name in self.inputs or (name in self.producer and self.producer[name].op_type != "Constant")

    def source(self, name: str) -> Optional[tuple[str, Any]]:
        """The tensor that this one has its elements from, and the node between."""
        node = self.producer.get(name)
        if node is None:
            return None
        if node.op_type in _MOVES:
            return node.input[0], node
        if node.op_type in _SCALES and len(node.input) == 2:
            scalar = self.scalar(node)
            if scalar is not None:
                return node.input[1 - scalar], node
        return None

    def sources(self, name: str) -> Iterator[tuple[str, list[Any]]]:
        """This tensor and those before it, with the nodes between, the first one first."""
        way: list[Any] = []
        yield name, way
        step = self.source(name)
        while step:
            name, way = step[0], [(step[1], name), *way]
            yield name, way
            step = self.source(name)

    def move(self, node: Any, output: str, elements: Any) -> Any:
        """What a node makes of its elements."""
        attributes = {a.name: onnx.helper.get_attribute_value(a) for a in node.attribute}
        if node.op_type in _RESHAPES:
            return elements.reshape(self.shape(output))
        if node.op_type == "Transpose":
            return elements.transpose(attributes.get("perm"))
        if node.op_type == "Gather":
            return np.take(elements, self.values[node.input[1]], axis=attributes.get("axis", 0))
        if node.op_type == "Slice":
            starts, ends = (np.ravel(self.values[name]) for name in node.input[1:3])
            axes = np.ravel(self.values[node.input[3]]) if len(node.input) > 3 and node.input[3] else range(len(starts))
            steps = np.ravel(self.values[node.input[4]]) if len(node.input) > 4 and node.input[4] else [1] * len(starts)
            index = [slice(None)] * elements.ndim
            for start, end, axis, step in zip(starts, ends, axes, steps):
                index[axis] = slice(int(start), None if step < 0 and end < -elements.shape[axis] else int(end), int(step))
            return elements[tuple(index)]
        if node.op_type == "Split":
            axis = attributes.get("axis", 0)
            sizes = [self.shape(name)[axis] for name in node.output]
            return np.split(elements, np.cumsum(sizes)[:-1], axis=axis)[list(node.output).index(output)]
        if node.op_type in _SCALES:
            scalar = self.scalar(node)
            assert scalar is not None
            number = np.float64(self.values[node.input[scalar]].reshape(()))
            pair = (number, elements) if scalar == 0 else (elements, number)
            return _SCALE[node.op_type](*pair)
        raise NotFound(f"{node.op_type} {node.name} does more than move elements")

    def follow(self, way: list[Any], elements: Any) -> Any:
        for node, output in way:
            elements = self.move(node, output, elements)
        return elements


def session_of(model: Any) -> onnxruntime.InferenceSession:
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    options.register_custom_ops_library(runtime_library())
    return onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])


class _Chain:
    """The GridSamples of one attention, from the levels' maps to the sum over their samples."""

    def __init__(self, graph: _Graph, node: Any) -> None:
        self.graph = graph
        product = self._product(node)
        sampled = [self._levels(name) for name in product.input]
        if bool(sampled[0]) == bool(sampled[1]):
            raise NotFound(f"{product.name} multiplies no samples by weights")
        side = 0 if sampled[0] else 1
        self.samples, self.weights, self.levels = product.input[side], product.input[1 - side], sampled[side]
        self.reduction = self._only_consumer(product)
        if self.reduction.op_type != "ReduceSum":
            raise NotFound(f"{product.name} is followed by {self.reduction.op_type}, no ReduceSum")

    def _only_consumer(self, node: Any) -> Any:
        consumers = self.graph.users(node.output[0])
        if len(consumers) != 1:
            raise NotFound(f"the output of {node.op_type} {node.name} has {len(consumers)} uses")
        return consumers[0]

    def _product(self, node: Any) -> Any:
        while True:
            node = self._only_consumer(node)
            if node.op_type == "Mul":
                return node
            if node.op_type not in (*_MOVES, "Concat"):
                raise NotFound(f"samples go to {node.op_type} {node.name}, no Concat")

    def _levels(self, name: str) -> list[Any]:
        """The GridSamples whose outputs a tensor consists of, in their order."""
        node = self.graph.producer.get(name)
        if node is None:
            return []
        if node.op_type == "GridSample":
            return [node]
        if node.op_type == "Concat":
            return [level for part in node.input for level in self._levels(part)]
        return self._levels(node.input[0]) if node.op_type in _MOVES else []

    def names(self) -> set[str]:
        """Of the tensors whose shapes or values matter."""
        found = {self.samples, self.weights, *self.reduction.output}
        ends = [name for level in self.levels for name in [*level.input, *level.output]] + [self.weights]
        for end in ends:
            for name, way in self.graph.sources(end):
                found |= {name} | {n for node, _ in way for n in [*node.input, *node.output]}
        pending = [self.samples]
        while pending:
            node = self.graph.producer.get(pending.pop())
            if node is not None and node.op_type in (*_MOVES, "Concat"):
                found |= {*node.input, *node.output}
                pending += node.input if node.op_type == "Concat" else node.input[:1]
        for _, _, node in self._results():
            found |= {*node.input, *node.output}
        return found

    def _results(self) -> Iterator[tuple[str, list[Any], Any]]:
        """The tensors that the sum becomes, with the nodes between."""
        name: str = self.reduction.output[0]
        way: list[Any] = []
        while True:
            consumers = self.graph.users(name)
            if len(consumers) != 1 or consumers[0].op_type not in _MOVES:
                return
            node = consumers[0]
            name = node.output[0]
            way = [*way, (node, name)]
            yield name, way, node

    def check(self) -> None:
        """After the run."""
        graph = self.graph
        maps = [graph.shape(level.input[0]) for level in self.levels]
        grids = [graph.shape(level.input[1]) for level in self.levels]
        if any(len(shape) != 4 for shape in maps):
            raise NotFound("maps are not of two dimensions")
        self.heads, self.channels = maps[0][:2]  # of all examples
        self.queries = grids[0][1]
        self.points = [grid[2] for grid in grids]
        self.extents = [shape[2:] for shape in maps]
        expected = (self.heads, self.channels, self.queries, sum(self.points))
        if graph.shape(self.samples) != expected or graph.shape(self.weights) != (expected[0], 1, *expected[2:]):
            raise NotFound(f"samples {graph.shape(self.samples)} and weights {graph.shape(self.weights)} are not {expected}")
        if graph.shape(self.reduction.output[0]) != expected[:3]:
            raise NotFound(f"{self.reduction.name} does not sum over the samples alone")
        ids, count = [], 0
        for level in self.levels:
            shape = graph.shape(level.output[0])
            ids.append(np.arange(count, count + math.prod(shape)).reshape(shape))
            count += math.prod(shape)
        at_levels = {level.output[0]: elements for level, elements in zip(self.levels, ids)}
        if not np.array_equal(self._gathered(self.samples, at_levels), np.concatenate(ids, -1)):
            raise NotFound("samples are not in the order of levels and points")

    def _gathered(self, name: str, elements: dict[str, Any]) -> Any:
        if name in elements:
            return elements[name]
        node = self.graph.producer[name]
        if node.op_type == "Concat":
            axis = onnx.helper.get_attribute_value(node.attribute[0])
            return np.concatenate([self._gathered(part, elements) for part in node.input], axis)
        return self.graph.move(node, name, self._gathered(node.input[0], elements))

    def _origin(self, what: str, ends: list[str], shape: tuple[int, ...], expected: list[Any]) -> str:
        """The tensor of `shape`, or of other axes, whose elements come out at `ends` as `expected`, made of their numbers."""
        ways = [dict(self.graph.sources(end)) for end in ends]
        for name, _ in self.graph.sources(ends[0]):
            if math.prod(self.graph.shape(name)) == math.prod(shape) and all(name in way for way in ways):
                numbers = np.arange(math.prod(shape), dtype=np.float64).reshape(self.graph.shape(name))
                if all(np.array_equal(self.graph.follow(way[name], numbers), e) for way, e in zip(ways, expected)):
                    return name
        raise NotFound(f"{what}: no tensor of {shape} in this order")

    def find(self, batches: set[int]) -> None:
        """What the operator takes, and what it gives."""
        for batch in sorted(batches):
            try:
                return self._find(batch)
            except NotFound:
                if batch == max(batches):
                    raise

    def _find(self, batch: int) -> None:
        heads = self.heads // batch
        if batch * heads != self.heads:
            raise NotFound(f"{self.heads} maps are not those of {batch} examples")
        keys, samples = sum(h * w for h, w in self.extents), sum(self.points)

        shape: tuple[int, ...] = (batch, keys, heads, self.channels)
        numbers = np.arange(math.prod(shape), dtype=np.float64).reshape(shape).transpose(0, 2, 3, 1)
        ends = np.cumsum([h * w for h, w in self.extents])
        maps = [part.reshape(self.heads, self.channels, *e) for part, e in zip(np.split(numbers, ends[:-1], -1), self.extents)]
        self.value = self._origin("value", [level.input[0] for level in self.levels], shape, maps)
        self.value_shape = shape

        shape = (batch, self.queries, heads, samples, 2)
        numbers = np.arange(math.prod(shape), dtype=np.float64).reshape(shape).transpose(0, 2, 1, 3, 4)
        parts = np.split(2 * numbers - 1, np.cumsum(self.points)[:-1], 3)
        grids = [part.reshape(self.heads, self.queries, -1, 2) for part in parts]
        self.locations = self._origin("sampling_locations", [level.input[1] for level in self.levels], shape, grids)

        shape = (batch, self.queries, heads, samples)
        numbers = np.arange(math.prod(shape), dtype=np.float64).reshape(shape).transpose(0, 2, 1, 3)
        expected = [numbers.reshape(self.heads, 1, self.queries, samples)]
        self.attention = self._origin("attention_weights", [self.weights], shape, expected)

        before = np.arange(self.heads * self.channels * self.queries).reshape(batch, heads, self.channels, self.queries)
        result = before.transpose(0, 3, 1, 2).reshape(batch, self.queries, -1)
        for name, way, node in self._results():
            moved = self.graph.follow(way, before.reshape(self.heads, self.channels, self.queries))
            if np.array_equal(moved, result):
                self.output, self.last = name, node
                return
        raise NotFound("the result is nowhere [batch, queries, channels]")

    def replace(self, model: Any, name: str) -> None:
        step = math.gcd(*self.points)
        shapes, starts, first = [], [], 0
        for (height, width), points in zip(self.extents, self.points):
            # A level with twice as many points counts as two levels over the same cells.
            shapes += [(height, width)] * (points // step)
            starts += [first] * (points // step)
            first += height * width
        nodes: list[Any] = []

        def constant(suffix: str, value: Any) -> str:
            model.graph.initializer.append(onnx.numpy_helper.from_array(np.array(value, np.int64), f"{name}_{suffix}"))
            return f"{name}_{suffix}"

        def shaped(source: str, suffix: str, shape: list[int]) -> str:
            if self.graph.shape(source)[1:] == tuple(shape[1:]):
                return source
            target = constant(f"{suffix}_shape", shape)
            nodes.append(onnx.helper.make_node("Reshape", [source, target], [f"{name}_{suffix}"], f"{name}_{suffix}_reshape"))
            return f"{name}_{suffix}"

        keys, heads, channels = self.value_shape[1:]
        samples = [-1, self.queries, heads, len(shapes), step]
        inputs = [
            shaped(self.value, "value", [-1, keys, heads, channels]),
            constant("spatial_shapes", shapes),
            constant("level_start_index", starts),
            shaped(self.locations, "sampling_locations", [*samples, 2]),
            shaped(self.attention, "attention_weights", samples),
        ]
        kind = NODES["multi_scale_deformable_attn"]
        nodes.append(onnx.helper.make_node(kind, inputs, [self.output], name, domain=DOMAIN))
        place = list(model.graph.node).index(self.last)
        model.graph.node.remove(self.last)
        for node in reversed(nodes):
            model.graph.node.insert(place, node)

    def __str__(self) -> str:
        levels = ", ".join(f"{h} x {w}" for h, w in self.extents)
        return f"{len(self.levels)} GridSample over {levels}, {self.queries} queries, {'/'.join(map(str, self.points))} points"


def _remove_unused(model: Any) -> None:
    used = {output.name for output in model.graph.output}
    kept = []
    for node in reversed(model.graph.node):
        nested = [name for a in node.attribute if a.HasField("g") for n in a.g.node for name in n.input]
        if used & set(node.output):
            used |= {*node.input, *nested}
            kept.append(node)
    del model.graph.node[:]
    model.graph.node.extend(reversed(kept))
    initializers = [i for i in model.graph.initializer if i.name in used]
    del model.graph.initializer[:]
    model.graph.initializer.extend(initializers)


def _example(model: Any, batch: int) -> dict[str, Any]:
    rng = np.random.default_rng(0)
    constants = {i.name for i in model.graph.initializer}
    inputs = {}
    for value in model.graph.input:
        if value.name in constants:
            continue
        kind = value.type.tensor_type
        shape = [axis.dim_value for axis in kind.shape.dim]
        if any(extent == 0 for extent in shape[1:]):
            raise ValueError(f"{value.name}: expected a model with fixed extents but for the batch, got {shape}")
        if shape and shape[0] == 0:
            shape[0] = batch
        dtype = onnx.helper.tensor_dtype_to_np_dtype(kind.elem_type)
        inputs[value.name] = (rng.random(shape) if dtype.kind == "f" else np.ones(shape)).astype(dtype)
    return inputs


def _is_bilinear(node: Any) -> bool:
    attributes = {a.name: onnx.helper.get_attribute_value(a) for a in node.attribute}
    mode, padding = attributes.get("mode", b"linear"), attributes.get("padding_mode", b"zeros")
    return mode in (b"bilinear", b"linear") and padding == b"zeros" and attributes.get("align_corners", 0) == 0


def fuse(model: Any, inputs: Optional[dict[str, Any]], compare: bool) -> Fusion:
    source = model if isinstance(model, onnx.ModelProto) else onnx.load(model)
    dynamic = any(v.type.tensor_type.shape.dim and not v.type.tensor_type.shape.dim[0].dim_value for v in source.graph.input)
    batches = [2, 1] if dynamic and inputs is None else [1]
    for batch in batches:
        graph = _Graph(source, inputs if inputs is not None else _example(source, batch))
        chains: list[_Chain] = []
        done: dict[int, str] = {}  # by id of a GridSample: why it was left alone
        for node in source.graph.node:
            if node.op_type != "GridSample" or any(node in chain.levels for chain in chains):
                continue
            try:
                if not _is_bilinear(node):
                    raise NotFound("it is not bilinear with zero padding and align_corners=0")
                chains.append(_Chain(graph, node))
            except NotFound as why:
                done[id(node)] = str(why)
        try:
            graph.run(set().union(*(chain.names() for chain in chains)))
            break
        except Exception:
            if batch == batches[-1]:
                raise
    result = onnx.ModelProto()
    result.CopyFrom(source)
    fusion = Fusion(result)
    sizes = {np.shape(array)[0] for array in graph.inputs.values() if np.ndim(array)}
    for chain in chains:
        name = f"deformkit_{len(fusion.replaced)}"
        try:
            chain.check()
            chain.find(sizes)
            chain.replace(result, name)
            fusion.replaced[name] = str(chain)
        except NotFound as why:
            done.update({id(level): str(why) for level in chain.levels})
    fusion.left_alone = {
        node.name or node.output[0]: done[id(node)]
        for node in source.graph.node
        if node.op_type == "GridSample" and id(node) in done
    }
    if fusion.replaced:
        if not any(opset.domain == DOMAIN for opset in result.opset_import):
            result.opset_import.append(onnx.helper.make_opsetid(DOMAIN, 1))
        _remove_unused(result)
        if compare:
            names = [output.name for output in result.graph.output]
            for name, after in zip(names, session_of(result).run(names, graph.inputs)):
                difference = np.abs(after.astype(np.float64) - graph.values[name].astype(np.float64))
                fusion.largest_difference[name] = float(difference.max(initial=0))
    return fusion
