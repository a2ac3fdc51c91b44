"""Reader of Keras models: how layers call each other, models in models. The layers themselves are in `layers`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field, replace
from typing import Any

from cenote.core.deferred import dataclass
from cenote.core.errors import CenoteError, ModelError, UnsupportedError
from cenote.core.types import Dimension, dtype_named
from cenote.frontends.builder import GraphBuilder
from cenote.frontends.imported import ImportedModel
from cenote.frontends.keras.archive import Stored, opened
from cenote.frontends.keras.layer import KerasLayer, KerasValue, LayerCall
from cenote.frontends.keras.layers import LAYERS
from cenote.frontends.keras.masks import OPERATIONS, with_mask
from cenote.frontends.wire import ByteSource

_MODELS = ("Sequential", "Functional", "Model")
# Nesting of models in models.
_DEEPEST = 32
# Calls of layers: models that call others twice double them.
_MOST_CALLS = 100_000
_MOST_OUTPUTS = 64  # of a layer that is not supported
_TYPES = ("float32", "float16", "float64", "int8", "uint8", "int16", "int32", "int64", "bool")

Place = tuple[str, int, int]
"""A value: the layer, the number of its call, the number of its output."""


def load_keras(source: ByteSource, problems: list[str] | None = None) -> ImportedModel:
    """Read a Sequential or Functional model from a .keras or .h5 file; outputs are named after their layers.

    `problems`, if given, collects unsupported parts instead of an error. Raises ModelError for a file of another
    kind, UnsupportedError for layers that Cenote does not have, and where h5py is missing.
    """
    with opened(source) as (config, version, stored):
        importer = _Importer(int(version.split(".")[0]) if version[:1].isdigit() else 3, problems)
        model = importer.model(config, stored)
        inputs = [importer.input(*each) for each in model.inputs()]
        outputs = model.run(importer, inputs, "")
        named: dict[str, str] = {}
        for name, value in outputs:
            if value is None:
                raise UnsupportedError(f"output '{name}' depends on what is not supported")
            named[name if name not in named else f"{name}.{len(named)}"] = value.name
        about = {"producer_name": "Keras", "producer_version": version}
        return ImportedModel(importer.builder.graph(named, model.name), {}, {}, about)


def _entry(config: Any, name: str, kind: type) -> Any:
    entry = config.get(name) if isinstance(config, dict) else None
    if not isinstance(entry, kind):
        raise ModelError(f"'{name}' of the configuration is {entry!r:.80}")
    return entry


def _shape(config: Mapping[str, Any]) -> tuple[Dimension, ...] | None:
    shape = config.get("batch_shape", config.get("batch_input_shape", config.get("build_input_shape")))
    if shape is None:
        return None
    if not isinstance(shape, list) or not all(
        each is None or (type(each) is int and each >= 0) for each in shape
    ):
        raise ModelError(f"the input's shape is {shape!r:.80}")
    return tuple(shape)


class _Importer:
    """The graph under construction."""

    def __init__(self, version: int, problems: list[str] | None) -> None:
        self.builder, self.version, self.problems = GraphBuilder(), version, problems
        self._count = 0

    def model(self, config: Any, stored: Stored, depth: int = 0) -> _Model:
        """Read a model and all layers in it."""
        kind, inner = config.get("class_name") if isinstance(config, dict) else None, config.get("config")
        if kind not in _MODELS:
            raise UnsupportedError(
                f"the model is a {kind!r:.80}; only Sequential and Functional ones can be read"
            )
        if depth > _DEEPEST:
            raise UnsupportedError(f"models are nested more than {_DEEPEST} deep")
        if isinstance(inner, list):  # Sequential before Keras 2.2
            inner = {"name": "sequential", "layers": inner}
        model = _Model(str(_entry(inner, "name", str)), inner, sequential=kind == "Sequential")
        for each in _entry(inner, "layers", list):
            self._add(model, each, stored, depth)
        # Until Keras 2 the construction of a model within a model counts as its first call, which the file leaves
        # out.
        model.first_call = int(self.version < 3 and model.has_inputs())
        return model

    def _add(self, model: _Model, each: Any, stored: Stored, depth: int) -> None:
        kind, config = _entry(each, "class_name", str), _entry(each, "config", dict)
        name = config.get("name", each.get("name"))
        if not isinstance(name, str) or name in model.layers:
            raise ModelError(f"a layer is named {name!r:.80}: no name, or that of another one")
        # Only layers are counted where arrays are stored.
        is_layer = "keras.src.ops" not in str(each.get("module"))
        kept = stored.child(kind, name) if is_layer else stored
        layer: KerasLayer | _Model
        if kind in _MODELS:
            layer = self.model(each, kept, depth + 1)
        else:
            known = is_layer or kind in OPERATIONS
            layer = KerasLayer(
                kind if known else f"{each['module']}.{kind}", name, config, kept, self.version
            )
        model.layers[name] = layer
        model.calls[name] = list(_calls(each.get("inbound_nodes") or [], self.version, kind in OPERATIONS))

    def input(self, name: str, config: Mapping[str, Any]) -> KerasValue:
        """Add an input of the graph."""
        shape = _shape(config)
        dtype = config.get("dtype") or "float32"
        dtype = dtype if isinstance(dtype, str) else "float32"
        if shape is None or dtype not in _TYPES:
            raise UnsupportedError(f"input '{name}' has no shape, or elements of type {dtype}")
        kind = dtype_named(dtype)
        return KerasValue(self.builder.input(name, kind, shape), len(shape), kind)

    def call(
        self, layer: KerasLayer, inputs: Sequence[KerasValue], prefix: str, called: _Call
    ) -> list[KerasValue | None]:
        """Call a layer and return its values; None for each where it is not supported and problems are collected."""
        name = prefix + layer.name
        self._count += 1
        if self._count > _MOST_CALLS:
            raise UnsupportedError(f"the model calls more than {_MOST_CALLS} layers")
        self.builder.label = name
        try:
            decode = LAYERS.get(layer.kind)
            if decode is None:
                raise UnsupportedError(f"Keras's layer {layer.kind} is not supported")
            _check_type(layer)
            call = LayerCall(layer, inputs, self.builder, name, called.numbers, called.mask is not None)
            result = decode(call)
            if isinstance(result, list):
                return [*result]
            value = result if isinstance(result, KerasValue) else KerasValue(result, inputs[0].rank)
            return [with_mask(call, value)]
        except CenoteError as error:
            located = error.located(f"layer '{name}' ({layer.kind})")
            if self.problems is None or not isinstance(error, UnsupportedError):
                raise located from error
            self.problems.append(str(located))
            return [None] * _MOST_OUTPUTS
        finally:
            self.builder.label = ""


def _check_type(layer: KerasLayer) -> None:
    policy = layer.config.get("dtype") or "float32"
    if isinstance(policy, dict):
        inner = policy.get("config")
        policy = inner.get("name") if isinstance(inner, dict) else policy
    if (isinstance(policy, str) and policy not in _TYPES) or policy in ("float16", "float64"):
        raise UnsupportedError(f"it computes in {policy}; only float32 is supported")


@dataclass
class _Model:
    """A model of the file."""

    name: str
    config: Mapping[str, Any]
    sequential: bool
    layers: dict[str, KerasLayer | _Model] = field(default_factory=dict)
    calls: dict[str, list[_Call]] = field(default_factory=dict)
    # The number of its first call in the model around it.
    first_call: int = 0

    def has_inputs(self) -> bool:
        """Return whether the model declares its inputs."""
        first = next(iter(self.layers.values()), None)
        return not self.sequential or (isinstance(first, KerasLayer) and _shape(first.config) is not None)

    def inputs(self) -> list[tuple[str, Mapping[str, Any]]]:
        """Return names and configurations of the inputs."""
        if not self.sequential:
            names = [name for name, _, _ in _places(self.config.get("input_layers"))]
            return [(name, self._layer(name).config) for name in names]
        for name, layer in self.layers.items():
            if isinstance(layer, _Model):
                return layer.inputs() if _shape(self.config) is None else [(f"{name}_input", self.config)]
            if layer.kind == "InputLayer":
                return [(name, layer.config)]
            config = layer.config if _shape(layer.config) is not None else self.config
            return [(f"{name}_input", {**config, "dtype": layer.config.get("dtype")})]
        raise ModelError(f"model '{self.name}' has no layers")

    def _layer(self, name: str) -> KerasLayer | _Model:
        if name not in self.layers:
            raise ModelError(f"no layer is named '{name}'")
        return self.layers[name]

    def run(
        self, importer: _Importer, inputs: Sequence[KerasValue], prefix: str
    ) -> list[tuple[str, KerasValue | None]]:
        """Return the outputs, by the names of the layers that make them; None for those that are not supported."""
        if self.sequential:
            return self._in_a_row(importer, inputs, prefix)
        places = _places(self.config.get("output_layers"))
        wanted = _places(self.config.get("input_layers"))
        if len(wanted) != len(inputs):
            raise ModelError(f"model '{self.name}' takes {len(wanted)} inputs, not {len(inputs)}")
        values_of: dict[tuple[str, int], list[KerasValue | None]] = {
            place[:2]: [value] for place, value in zip(wanted, inputs, strict=True)
        }
        stack = [place[:2] for place in reversed(places)]
        waiting: set[tuple[str, int]] = set()
        while stack:
            key = stack[-1]
            if key in values_of:
                stack.pop()
                continue
            called = self._call(key)
            missing = [place[:2] for place in called.sources if place[:2] not in values_of]
            if missing:
                if key in waiting:
                    raise ModelError(f"layer '{key[0]}' depends on itself")
                waiting.add(key)
                stack.extend(reversed(missing))
                continue
            values = [_output(values_of, place) for place in called.places]
            mask = None if called.mask is None else _output(values_of, called.mask)
            if mask is not None and values and values[0] is not None:
                values[0] = replace(values[0], mask=mask.name)
            values_of[key] = self._called(importer, self._layer(key[0]), values, prefix, called)
            stack.pop()
        return [(place[0], _output(values_of, place)) for place in places]

    def _call(self, key: tuple[str, int]) -> _Call:
        name, index = key
        layer, calls = self._layer(name), self.calls[name]
        first = layer.first_call if isinstance(layer, _Model) else 0
        if not first <= index < first + len(calls):
            raise ModelError(f"layer '{name}' is called {len(calls)} times; call {index - first} is read")
        return calls[index - first]

    def _in_a_row(
        self, importer: _Importer, inputs: Sequence[KerasValue], prefix: str
    ) -> list[tuple[str, KerasValue | None]]:
        values: list[KerasValue | None] = list(inputs)
        if not self.layers:
            raise ModelError(f"model '{self.name}' has no layers")
        for layer in self.layers.values():
            if isinstance(layer, KerasLayer) and layer.kind == "InputLayer":
                continue
            values = self._called(importer, layer, values, prefix)
        return [(layer.name, value) for value in values]

    def _called(
        self,
        importer: _Importer,
        layer: KerasLayer | _Model,
        values: Sequence[KerasValue | None],
        prefix: str,
        called: _Call | None = None,
    ) -> list[KerasValue | None]:
        known = [value for value in values if value is not None]
        if len(known) < len(values):
            return [None] * _MOST_OUTPUTS
        if isinstance(layer, _Model):
            return [value for _, value in layer.run(importer, known, f"{prefix}{layer.name}/")]
        if not known:
            raise ModelError(f"layer '{layer.name}' is called with nothing")
        return importer.call(layer, known, prefix, called or _Call([]))


def _output(made: Mapping[tuple[str, int], Sequence[KerasValue | None]], place: Place) -> KerasValue | None:
    outputs = made[place[:2]]
    if not 0 <= place[2] < len(outputs):
        raise ModelError(f"layer '{place[0]}' makes {len(outputs)} values; number {place[2]} is read")
    return outputs[place[2]]


def _places(found: Any) -> list[Place]:
    """Return all places in nested lists and dictionaries."""
    if isinstance(found, dict):
        return [place for key in sorted(found) for place in _places(found[key])]
    if not isinstance(found, list):
        raise ModelError(f"{found!r:.80} names no value of the model")
    if len(found) >= 3 and isinstance(found[0], str):
        name, call, output = found[:3]
        if type(call) is not int or type(output) is not int:
            raise ModelError(f"{found!r:.80} names no value of the model")
        return [(name, call, output)]
    return [place for each in found for place in _places(each)]


@dataclass(frozen=True)
class _Call:
    """Arguments of a call of a layer: values, a mask beside the first, and, where it is an operation, numbers."""

    places: list[Place]
    mask: Place | None = None
    numbers: tuple[float, ...] = ()

    @property
    def sources(self) -> list[Place]:
        return [*self.places, *([] if self.mask is None else [self.mask])]


def _calls(nodes: Any, version: int, is_operation: bool) -> Iterator[_Call]:
    """Yield the calls of a layer, or of an operation of Keras's, which may be of numbers too."""
    if not isinstance(nodes, list):
        raise ModelError(f"inbound_nodes {nodes!r:.80}")
    for node in nodes:
        if isinstance(node, dict):
            # Keras 3.
            keywords = node.get("kwargs") or {}
            read = {
                name: list(_histories(keywords.get(name))) if isinstance(keywords, dict) else []
                for name in ("initial_state", "mask")
            }
            _check_keywords({**keywords, **{name: None for name in read if read[name]}}, version)
            args = node.get("args")
            given = args if is_operation and isinstance(args, list) else []
            numbers = tuple(each for each in given if isinstance(each, int | float))
            values = [each for each in given if each not in numbers] if numbers else args
            mask = read["mask"][0] if read["mask"] else None
            yield _Call([*_histories(values), *read["initial_state"]], mask, numbers)
            continue
        places = _places(node)
        for each in node if node and isinstance(node[0], list) else [node]:
            _check_keywords(each[3] if len(each) > 3 else {}, version)
        yield _Call(places)


def _histories(found: Any) -> Iterator[Place]:
    """Yield the values among the arguments of a call in Keras 3."""
    if isinstance(found, list):
        for each in found:
            yield from _histories(each)
    elif isinstance(found, dict) and found.get("class_name") == "__keras_tensor__":
        yield from _places(_entry(found.get("config"), "keras_history", list))
    elif found is not None:
        raise UnsupportedError(f"the argument {found!r:.80} of a call is no value of the model")


def _check_keywords(keywords: Any, version: int) -> None:
    """Refuse keyword arguments that have an effect. Since Keras 3 a model's `training` replaces the call's."""
    if not isinstance(keywords, dict):
        raise ModelError(f"the arguments of a call are {keywords!r:.80}")
    for name, value in keywords.items():
        if value is not None and not (name == "training" and (version >= 3 or value is False)):
            raise UnsupportedError(f"the argument {name}={value!r:.60} of a call is not supported")
