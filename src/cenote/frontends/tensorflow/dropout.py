"""Removal of dropout, in the forms of TensorFlow's versions, from graphs that were saved for training.

    x / keep * floor(keep + random)                    TensorFlow 1
    x * scale * cast(random >= rate)                   from 1.13 on
    where(random >= rate, x * scale, 0)                TensorFlow 2

Random numbers, and the results of arithmetic on them with numbers, are Noise, until they meet a tensor in a product
or a choice: that becomes x.
"""

from __future__ import annotations

from collections.abc import Mapping

from cenote.core.errors import UnsupportedError
from cenote.frontends.tensorflow.nodes import MET_NOISE, Decode, NodeSite, Noise, Value
from cenote.frontends.tensorflow_common import each, words

_RANDOM = "RandomUniform RandomStandardNormal TruncatedNormal StatelessRandomUniformV2 StatelessRandomUniform"
_STILL_NOISE = words("Add AddV2 Sub Floor Greater GreaterEqual Less LessEqual Cast Reshape")


def met_noise(site: NodeSite) -> Value:
    """Return the result of an operation on noise."""
    others = [index for index, value in enumerate(site.inputs) if not isinstance(value, Noise)]
    if site.op in _STILL_NOISE:
        return Noise()
    if site.op in ("Mul", "Select", "SelectV2") and others:
        if site.op == "Mul" and site.known(others[0]) is not None:
            return Noise()
        return _unscaled(site, others[0])
    raise UnsupportedError(
        f"{site.op} of random numbers: only dropout is left out; save the model for inference (training=False)"
    )


def _unscaled(site: NodeSite, index: int) -> Value:
    """Return the tensor that dropout scales, unscaled."""
    references = [each for each in site.scope.nodes[site.node].input if not each.startswith("^")]
    name, _ = site.scope.place(references[index])
    node = site.scope.nodes.get(name)
    if node is None or node.op not in ("RealDiv", "Div", "Mul"):
        return site.inputs[index]
    sources = [each for each in node.input if not each.startswith("^")]
    values = [site.importer.value(site.scope, each) for each in sources]
    if node.op == "Mul" and isinstance(values[0], str) and site.builder.known(values[0]) is not None:
        return values[1]
    return values[0]


DROPOUT: Mapping[str, Decode] = {**each(_RANDOM, lambda name: lambda site: Noise()), MET_NOISE: met_noise}
