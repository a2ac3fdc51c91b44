"""Keras's activations: those that layers name, and layers that consist of one."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from cenote.core.errors import ModelError, UnsupportedError
from cenote.frontends.builder import GraphBuilder
from cenote.frontends.keras.layer import Decode, KerasValue, LayerCall
from cenote.frontends.pieces import clipped

Apply = Callable[[GraphBuilder, str, str], str]


def _plain(op: str, **attributes: Any) -> Apply:
    return lambda builder, x, name: builder.add(op, x, name=name, **attributes)


def _clip(low: float, high: float) -> Apply:
    return lambda builder, x, name: clipped(builder, x, low, high, name)


def _silu(builder: GraphBuilder, x: str, name: str) -> str:
    return builder.add("Mul", x, builder.add("Sigmoid", x), name=name)


_SAME_NAME = "Relu Elu Selu Celu Softplus Softsign Tanh Sigmoid Mish"
ACTIVATIONS: Mapping[str, Apply] = {
    **{op.lower(): _plain(op) for op in _SAME_NAME.split()},
    "exponential": _plain("Exp"),
    "hard_silu": _plain("HardSwish"),
    "hard_swish": _plain("HardSwish"),
    "relu6": _clip(0.0, 6.0),
    "hard_tanh": _clip(-1.0, 1.0),
    "leaky_relu": _plain("LeakyRelu", alpha=0.2),
    "gelu": _plain("Gelu", approximate="none"),
    "silu": _silu,
    "swish": _silu,
    "softmax": _plain("Softmax", axis=-1),
    "log_softmax": _plain("LogSoftmax", axis=-1),
    "log_sigmoid": lambda builder, x, name: builder.add(
        "Neg", builder.add("Softplus", builder.add("Neg", x)), name=name
    ),
    "tanh_shrink": lambda builder, x, name: builder.add("Sub", x, builder.add("Tanh", x), name=name),
}


def name_of_activation(spec: object) -> Any:
    """Return the name in a configuration's activation: that of a function, or of a layer, which is registered."""
    if not isinstance(spec, dict):
        return spec
    inner = spec.get("config")
    return inner if isinstance(inner, str) else inner.get("name") if isinstance(inner, dict) else spec


def activation_of(spec: Any, version: int) -> Apply | None:
    """Return the function of a configuration's activation; None for the identity.

    Raises UnsupportedError for an unknown one.
    """
    if isinstance(spec, dict):
        spec = name_of_activation(spec)
        if spec not in ACTIVATIONS and spec not in ("linear", "hard_sigmoid"):
            raise UnsupportedError(f"the activation {spec!r:.80} is not supported")
    if spec in (None, "linear"):
        return None
    if spec == "hard_sigmoid":
        # Keras 3 changed its definition.
        return _plain("HardSigmoid", alpha=1 / 6 if version >= 3 else 0.2, beta=0.5)
    if not isinstance(spec, str) or spec not in ACTIVATIONS:
        raise UnsupportedError(f"the activation {spec!r:.80} is not supported")
    return ACTIVATIONS[spec]


def activated(call: LayerCall, make: Callable[[str], str]) -> str:
    """Return the result of `make`, with the layer's activation applied. `make` is called with the name of its
    value."""
    spec = call.layer.config.get("activation")
    if isinstance(spec, dict) and spec.get("class_name") in LAYERS and isinstance(spec.get("config"), dict):
        layer = replace(call.layer, kind=spec["class_name"], config=spec["config"], weights={})
        if layer.kind == "PReLU":
            raise UnsupportedError("a layer PReLU as an activation is not supported; call it as a layer")
        value = KerasValue(make(f"{call.name}/linear"), call.rank)
        return str(LAYERS[layer.kind](replace(call, layer=layer, inputs=[value])))
    apply = activation_of(spec, call.layer.version)
    if apply is None:
        return make(call.name)
    return apply(call.builder, make(f"{call.name}/linear"), call.name)


def _activation(call: LayerCall) -> str:
    apply = activation_of(call.layer.config.get("activation"), call.layer.version)
    return call.x if apply is None else apply(call.builder, call.x, call.name)


def _first_of(call: LayerCall, names: tuple[str, ...], default: float) -> float:
    """Return a number that versions of Keras name differently, and may store as an array."""
    for name in names:
        number = call.layer.config.get(name)
        if isinstance(number, dict):
            # {"type": "ndarray", "value": ...}
            number = number.get("value")
        if isinstance(number, int | float):
            return float(number)
        if number is not None:
            raise ModelError(f"'{name}' of the configuration is {number!r:.80}")
    return default


def _relu(call: LayerCall) -> str:
    slope = _first_of(call, ("negative_slope", "alpha"), 0.0)
    threshold, most = _first_of(call, ("threshold", "theta"), 0.0), call.layer.config.get("max_value")
    if slope and threshold:
        raise UnsupportedError(
            f"a ReLU with the slope {slope} and the threshold {threshold} is not supported"
        )
    if most is not None and not slope and not threshold:
        return clipped(call.builder, call.x, 0.0, _first_of(call, ("max_value",), 0.0), call.name)
    op, attributes = ("LeakyRelu", {"alpha": slope}) if slope else ("Relu", {})
    if threshold:
        op, attributes = "ThresholdedRelu", {"alpha": threshold}
    y = call.builder.add(op, call.x, name=call.name, **attributes)
    if most is None:
        return y
    return call.builder.add("Min", y, call.builder.constant(np.float32(_first_of(call, ("max_value",), 0.0))))


def _sloped(op: str, names: str, default: float) -> Decode:
    """Return a decoder of an operator whose alpha the configuration has under one of these names."""
    return lambda call: call.builder.add(
        op, call.x, name=call.name, alpha=_first_of(call, tuple(names.split()), default)
    )


LAYERS: Mapping[str, Decode] = {
    "Activation": _activation,
    "ReLU": _relu,
    "LeakyReLU": _sloped("LeakyRelu", "negative_slope alpha", 0.3),
    "ELU": _sloped("Elu", "alpha", 1.0),
    "ThresholdedReLU": _sloped("ThresholdedRelu", "theta", 1.0),
    "PReLU": lambda call: call.builder.add(
        "PRelu", call.x, call.weight(0, "alpha", call.rank - 1), name=call.name
    ),
    "Softmax": lambda call: call.builder.add("Softmax", call.x, name=call.name, axis=call.axis()),
}
