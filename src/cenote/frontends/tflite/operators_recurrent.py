"""Loops and recurrent layers of TensorFlow Lite."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from cenote.core.errors import ModelError, UnsupportedError
from cenote.frontends.builder import transposed
from cenote.frontends.pieces import unrolled
from cenote.frontends.tflite.site import Decode, OperatorSite
from cenote.ops.sequence.recurrent import LSTM

# Inputs of UNIDIRECTIONAL_SEQUENCE_LSTM: weights and biases of the gates i, f, c, o from these places on.
_OF_INPUT, _OF_STATE, _BIAS, _HIDDEN, _CELL = 1, 5, 12, 18, 19
_REFUSED = {"peepholes": range(9, 12), "a projection": range(16, 18), "layer normalisation": range(20, 24)}
_IOFC = (0, 3, 1, 2)  # gates in ONNX's order


def _while(site: OperatorSite) -> Sequence[str]:
    """Decode a loop whose condition stays a constant: it is unrolled."""
    condition, body = site.integer("cond_subgraph_index"), site.integer("body_subgraph_index")
    start: Sequence[str] = [site.stored(index) for index in range(len(site.inputs))]
    call = site.importer.call
    return unrolled(
        site.builder, start, lambda state: call(condition, state)[0], lambda state: call(body, state)
    )


def _lstm(site: OperatorSite) -> str:
    """Decode an LSTM of a whole sequence (batch, time, features), or time first; its states start as stored, or 0."""
    for what, places in _REFUSED.items():
        if any(map(site.has, places)):
            raise UnsupportedError(f"an LSTM with {what} is not supported")
    if not site.has(_OF_INPUT):
        raise UnsupportedError("an LSTM whose input gate is coupled to the forget gate is not supported")
    if site.integer("activation") != _TANH:
        raise UnsupportedError("an LSTM of another activation than tanh is not supported")
    builder = site.builder
    lead = builder.integers([0])
    weights, recurrent, bias = (
        builder.add("Unsqueeze", _joined(site, first), lead) for first in (_OF_INPUT, _OF_STATE, _BIAS)
    )
    none = builder.constant(np.zeros((1, 4 * site.shape(_OF_STATE)[1]), np.float32))
    both = builder.add("Concat", bias, none, axis=1)
    first = [_first_state(site, index) for index in (_HIDDEN, _CELL)]
    is_time_first = site.flag("time_major")
    x = site.x() if is_time_first else transposed(builder, site.x(), (1, 0, 2))
    op = LSTM(outputs=1, cell_clip=site.real("cell_clip"))
    (found,) = builder.add_op(op, (x, weights, recurrent, both, "", *first), [""])
    alone = builder.add("Squeeze", found, builder.integers([1]))
    return alone if is_time_first else transposed(builder, alone, (1, 0, 2))


_TANH = 4  # among the activations of the file format


def _joined(site: OperatorSite, first: int) -> str:
    parts = [site.x(first + gate) for gate in _IOFC]
    if not all(parts):
        raise ModelError("an LSTM without the weights of a gate")
    return site.builder.add("Concat", *parts, axis=0)


def _first_state(site: OperatorSite, index: int) -> str:
    """Return the first state: what the file stores for the variable; "" for zeros."""
    number = site.tensor_number(index)
    if number < 0 or site.importer.tensor(number).content is None:
        return ""
    return site.builder.add("Unsqueeze", site.x(index), site.builder.integers([0]))


RECURRENT: Mapping[str, Decode] = {"WHILE": _while, "UNIDIRECTIONAL_SEQUENCE_LSTM": _lstm}
