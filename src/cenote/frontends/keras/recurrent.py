"""Keras's recurrent layers, in both directions, and layers that are applied to each step of a sequence."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from cenote.core.deferred import dataclass
from cenote.core.errors import ModelError, UnsupportedError
from cenote.core.types import Array
from cenote.frontends.builder import transposed
from cenote.frontends.keras.activations import name_of_activation
from cenote.frontends.keras.layer import Decode, KerasLayer, KerasValue, LayerCall
from cenote.frontends.keras.masks import Front
from cenote.frontends.strided_slice import TO_END, sliced

_CELLS = {"LSTMCell": "LSTM", "GRUCell": "GRU", "SimpleRNNCell": "SimpleRNN"}
# Gates of ONNX's order by their places in Keras's: i f c o to i o f c, and z r h.
_GATES = {"LSTM": (0, 3, 1, 2), "GRU": (0, 1, 2), "SimpleRNN": (0,)}
_STATES = {"LSTM": 2, "GRU": 1, "SimpleRNN": 1}
# ONNX's functions, with the alpha and beta that they take.
_FUNCTIONS: Mapping[str, tuple[str, tuple[float, ...]]] = {
    "tanh": ("Tanh", ()),
    "sigmoid": ("Sigmoid", ()),
    "relu": ("Relu", ()),
    "softsign": ("Softsign", ()),
    "softplus": ("Softplus", ()),
    "linear": ("Affine", (1.0, 0.0)),
    "elu": ("Elu", (1.0,)),
    "leaky_relu": ("LeakyRelu", (0.2,)),
}


@dataclass(frozen=True)
class _Made:
    """Results of a recurrent layer: all outputs in the order of time, the last one computed, and the last states."""

    sequence: str
    last: str
    states: tuple[str, ...]


def _recurrent(call: LayerCall) -> list[KerasValue]:
    layer = _with_cell(call.layer)
    zeros = layer.flag("zero_output_for_mask", False)
    made = _run(call, layer, "cell", call.inputs[1:], layer.flag("go_backwards", False), zeros)
    mask = call.inputs[0].mask
    if not layer.flag("return_sequences", False):
        first = KerasValue(made.last, 2)
    elif layer.flag("go_backwards", False):  # in the order in which they were computed
        first = KerasValue(_reversed(call, made.sequence), 3, mask=mask)
    else:
        first = KerasValue(made.sequence, 3, mask=mask)
    return [first, *_told(layer, made.states)]


def _bidirectional(call: LayerCall) -> list[KerasValue]:
    forward = _inner(call.layer, "layer")
    back = "backward_layer" if call.layer.config.get("backward_layer") else "layer"
    forward, backward = _with_cell(forward), _with_cell(_inner(call.layer, back))
    given = call.inputs[1:]
    half = len(given) // 2
    whole, back_to_front = (forward.flag(name, False) for name in ("return_sequences", "go_backwards"))
    # Bidirectional makes outputs of steps that do not count zero where it returns sequences.
    first = _run(call, forward, "forward_layer/cell", given[:half], back_to_front, whole)
    second = _run(call, backward, "backward_layer/cell", given[half:], not back_to_front, whole)
    pair = [made.sequence if whole else made.last for made in (first, second)]
    if whole and back_to_front:
        pair = [_reversed(call, each) for each in pair]
    rank = 3 if whole else 2
    mask = call.inputs[0].mask if whole else ""
    merged = [KerasValue(each, rank, mask=mask) for each in _merged(call, pair)]
    return [*merged, *_told(forward, (*first.states, *second.states))]


def _merged(call: LayerCall, pair: Sequence[str]) -> list[str]:
    mode = call.layer.config.get("merge_mode", "concat")
    if mode is None:
        return [*pair]
    if mode == "concat":
        return [call.builder.add("Concat", *pair, name=call.name, axis=-1)]
    ops = {"sum": "Add", "mul": "Mul", "ave": "Mean"}
    if mode not in ops:
        raise ModelError(f"'merge_mode' of the configuration is {mode!r:.80}")
    return [call.builder.add(ops[mode], *pair, name=call.name)]


def _told(layer: KerasLayer, states: Sequence[str]) -> list[KerasValue]:
    """Return the last states, where the layer returns them."""
    return [KerasValue(each, 2) for each in states] if layer.flag("return_state", False) else []


def _inner(layer: KerasLayer, name: str) -> KerasLayer:
    """Return the layer within a wrapper."""
    spec = layer.get(name, dict)
    kind, config = spec.get("class_name"), spec.get("config")
    if not isinstance(kind, str) or not isinstance(config, dict):
        raise ModelError(f"'{name}' of the configuration is {spec!r:.80}")
    return replace(layer, kind=kind, config=config, weights={})


def _with_cell(layer: KerasLayer) -> KerasLayer:
    """Return a layer RNN around a known cell as the layer of that cell."""
    if layer.kind != "RNN":
        return layer
    cell = _inner(layer, "cell")
    return replace(layer, kind=_CELLS.get(cell.kind, cell.kind), config={**cell.config, **layer.config})


def _run(
    call: LayerCall,
    layer: KerasLayer,
    place: str,
    states: Sequence[KerasValue],
    backwards: bool,
    zeros: bool,
) -> _Made:
    """Add a recurrent layer whose weights are stored at a place, from these first states. `zeros`: as outputs of steps
    that do not count."""
    if layer.kind not in _GATES:
        raise UnsupportedError(f"a recurrent layer of {layer.kind} is not supported")
    for name, reason in (
        (
            "stateful",
            "states that are kept between calls are not supported; make them inputs (initial_state) and outputs "
            "(return_state=True) of a model that is not stateful",
        ),
        ("time_major", "arrays in which time leads are not supported"),
    ):
        if layer.flag(name, False):
            raise UnsupportedError(f"{name}: {reason}")
    if call.inputs[0].rank != 3:
        raise ModelError(f"it takes sequences of 3 axes, this value has {call.inputs[0].rank}")
    if len(states) not in (0, _STATES[layer.kind]):
        raise ModelError(f"it is called with {len(states)} first states, not {_STATES[layer.kind]}")
    builder = call.builder
    weights = [builder.constant(each) for each in _weights(layer, place)]
    first = [builder.add("Unsqueeze", each.name, builder.integers([0])) for each in states]
    x, mask = call.inputs[0].name, call.inputs[0].mask
    if states and layer.version >= 3 and not call.has_mask:
        mask = ""  # Keras 3 finds masks of calls with one value
    front = None
    if mask:
        both = [_reversed(call, each) for each in (x, mask)] if backwards else [x, mask]
        front = Front.of(builder, *both)
        x = front.x
    operands = [transposed(builder, x, (1, 0, 2)), *weights, front.lengths if front else "", *first]
    op = layer.kind.removeprefix("Simple")
    found = builder.add_many(
        op,
        operands,
        [f"{call.name}/{place}/{name}" for name in ("y", "h", "c")[: 1 + _STATES[layer.kind]]],
        hidden_size=layer.integer("units"),
        direction="reverse" if backwards and not front else "forward",
        **_attributes(layer),
    )
    alone = builder.add("Squeeze", found[0], builder.integers([1]))
    last = tuple(builder.add("Squeeze", each, builder.integers([0])) for each in found[1:])
    sequence = transposed(builder, alone, (1, 0, 2))
    if not front:
        return _Made(sequence, last[0], last)
    sequence = front.put_back(builder, sequence, zeros)
    final = builder.add("Squeeze", sliced(builder, sequence, [-1], [TO_END], [1], [1]), builder.integers([1]))
    return _Made(_reversed(call, sequence) if backwards else sequence, final, last)


def _weights(layer: KerasLayer, place: str) -> list[Array]:
    """Return W, R and the bias in ONNX's form: (1, gates * hidden, …)."""
    arrays = replace(layer, stored=layer.stored.part(place))
    hidden, order = layer.integer("units"), _GATES[layer.kind]
    with_bias = layer.flag("use_bias", True)
    kernel, recurrent = arrays.array(0, "kernel"), arrays.array(1, "recurrent_kernel")
    wide = len(order) * hidden
    bias = arrays.array(2, "bias") if with_bias else np.zeros(wide, np.float32)
    if kernel.ndim != 2 or kernel.shape[1] != wide or recurrent.shape != (hidden, wide):
        raise ModelError(
            f"its arrays have shapes {list(kernel.shape)} and {list(recurrent.shape)}, not [features, {wide}] and "
            f"[{hidden}, {wide}]"
        )
    if bias.shape not in ((wide,), (2, wide)):
        raise ModelError(f"its bias has shape {list(bias.shape)}")
    # Of the input, and of the state; a GRU before `reset_after` and all others have the first alone.
    both = np.stack([bias, np.zeros_like(bias)]) if bias.ndim == 1 else bias

    def ordered(columns: Array) -> Array:
        gates = columns.reshape(*columns.shape[:-1], len(order), hidden)[..., list(order), :]
        return gates.reshape(columns.shape)

    made = (ordered(kernel).T[None], ordered(recurrent).T[None], ordered(both).reshape(1, -1))
    for each in made:
        if each.dtype != np.float32:
            raise UnsupportedError(f"its arrays are {each.dtype.name}; only float32 is supported")
    return [np.ascontiguousarray(each) for each in made]


def _attributes(layer: KerasLayer) -> dict[str, Any]:
    """Return ONNX's attributes for the activations, and for the place of a GRU's reset."""
    own = _function(layer, "activation", "tanh")
    gate = _function(layer, "recurrent_activation", "sigmoid")
    functions = {"LSTM": (gate, own, own), "GRU": (gate, own), "SimpleRNN": (own,)}[layer.kind]
    reset = {"linear_before_reset": int(layer.flag("reset_after", False))} if layer.kind == "GRU" else {}
    return {
        **reset,
        "activations": [name for name, _ in functions],
        "activation_alpha": [numbers[0] for _, numbers in functions if numbers],
        "activation_beta": [numbers[1] for _, numbers in functions if len(numbers) > 1],
    }


def _function(layer: KerasLayer, entry: str, default: str) -> tuple[str, tuple[float, ...]]:
    name = name_of_activation(layer.config.get(entry, default)) or "linear"
    if name == "hard_sigmoid":  # Keras 3 changed its definition
        return "HardSigmoid", (1 / 6 if layer.version >= 3 else 0.2, 0.5)
    if name not in _FUNCTIONS:
        raise UnsupportedError(f"the activation {name!r:.80} of a recurrent layer is not supported")
    return _FUNCTIONS[name]


def _reversed(call: LayerCall, sequence: str) -> str:
    return sliced(call.builder, sequence, [TO_END], [-TO_END], [1], [-1])


def distributed(call: LayerCall, layers: Mapping[str, Decode]) -> KerasValue:
    """Decode TimeDistributed: the layer within takes batch and time as one axis. `layers` are all decoders."""
    layer, x, builder = _inner(call.layer, "layer"), call.value, call.builder
    decode = layers.get(layer.kind)
    if decode is None or layer.kind in RECURRENT or x.rank < 3:
        raise UnsupportedError(f"{layer.kind} at each step of a value of {x.rank} axes is not supported")
    size = builder.add("Shape", x.name)
    ends = [sliced(builder, size, [begin], [end], [0], [1]) for begin, end in ((0, 2), (2, TO_END))]
    rows = builder.add("Reshape", x.name, builder.add("Concat", builder.integers([-1]), ends[1], axis=0))
    inner = replace(layer, stored=layer.stored.part("layer"))
    made = decode(LayerCall(inner, [KerasValue(rows, x.rank - 1, x.dtype)], builder, f"{call.name}/rows"))
    value = made if isinstance(made, KerasValue) else KerasValue(str(made), x.rank - 1)
    rest = sliced(builder, builder.add("Shape", value.name), [1], [TO_END], [0], [1])
    whole = builder.add("Concat", ends[0], rest, axis=0)
    return KerasValue(builder.add("Reshape", value.name, whole, name=call.name), value.rank + 1, value.dtype)


RECURRENT: Mapping[str, Decode] = {
    **dict.fromkeys(("LSTM", "GRU", "SimpleRNN", "RNN"), _recurrent),
    "Bidirectional": _bidirectional,
}
