"""Custom operators of TensorFlow Lite: those that Cenote knows, and those that a function of the user's computes.

The function gets quantised tensors as the numbers that they represent, in float32, and what it returns for one is
rounded; all others as they are, in the file's order of axes (channels last). Options that are a map of FlexBuffers are
attributes by name; any others are the attribute `custom_options`, an array of bytes.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from cenote.core.errors import ModelError, UnsupportedError
from cenote.core.types import Array
from cenote.frontends.tflite.flexbuffer import flex_map
from cenote.frontends.tflite.operators import OPERATORS
from cenote.frontends.tflite.site import Decode, OperatorSite
from cenote.frontends.user_nodes import add_user_node, decoder_of_user, key_of_user, ways_to_add
from cenote.ops.base import Decoder

DOMAIN = "tflite"
_CUSTOM = "custom "


def decode_of(site: OperatorSite) -> Decode:
    """Return the decoder of an operator. The user's custom operators win over Cenote's.

    Raises UnsupportedError where there is none.
    """
    decode = OPERATORS.get(site.op)
    if site.op.startswith(_CUSTOM):
        key = key_of_user(DOMAIN, site.op.removeprefix(_CUSTOM))
        decoder = decoder_of_user(site.importer.operators, key, decode is not None)
        if decoder is not None:
            return functools.partial(_of_user, decoder, key)
    if decode is None:
        ways = ways_to_add(key) if site.op.startswith(_CUSTOM) else ""
        raise UnsupportedError(f"TensorFlow Lite's operator {site.op} is not supported{ways}")
    return decode


def _of_user(decoder: Decoder, key: str, site: OperatorSite) -> Sequence[str]:
    inputs = [site.x(index) for index in range(len(site.inputs))]
    attributes = _attributes(site.operator["custom_options"])
    return add_user_node(site.builder, decoder, key, inputs, site.names(len(site.outputs)), attributes)


def _attributes(options: Array | None) -> Mapping[str, Any]:
    if options is None or not len(options):
        return {}
    content = np.asarray(options, np.uint8)
    try:
        return flex_map(content.tobytes())
    except ModelError:  # another form
        return {"custom_options": content}
