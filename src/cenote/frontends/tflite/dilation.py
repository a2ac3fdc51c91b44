"""SPACE_TO_BATCH_ND, a convolution and BATCH_TO_SPACE_ND: the form in which converters write a dilated
convolution."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from cenote.core.errors import UnsupportedError
from cenote.frontends.channels_last import pads_less_crops

if TYPE_CHECKING:
    from cenote.frontends.tflite.site import Decode, OperatorSite

_CONVOLUTIONS = ("CONV_2D", "DEPTHWISE_CONV_2D")
_ELEMENTWISE = ("ADD", "MUL", "RELU", "RELU6", "ELU", "TANH", "LOGISTIC", "LEAKY_RELU")
WAITING = (*_CONVOLUTIONS, *_ELEMENTWISE, "EXPAND_DIMS", "RESHAPE", "SQUEEZE")


@dataclass(frozen=True)
class SpaceToBatchTensor:
    """The result of SPACE_TO_BATCH_ND on a tensor, the value of its paddings, and operators on it that wait for
    BATCH_TO_SPACE_ND."""

    tensor: int
    block: tuple[int, ...]
    pads: str
    waiting: tuple[OperatorSite, ...] = ()


def spread_of(site: OperatorSite) -> SpaceToBatchTensor:
    """Decode SPACE_TO_BATCH_ND."""
    block = site.numbers(1, "the block")
    if len(block) not in (1, 2):
        raise UnsupportedError(f"a block of {len(block)} axes is not supported")
    return SpaceToBatchTensor(site.tensor_number(0), block, site.stored(2))


def waits(spread: SpaceToBatchTensor, site: OperatorSite) -> SpaceToBatchTensor:
    """Add an operator to those that wait for BATCH_TO_SPACE_ND."""
    if site.op not in WAITING:
        raise UnsupportedError(f"{site.op} between SPACE_TO_BATCH_ND and BATCH_TO_SPACE_ND is not supported")
    if site.op in ("ADD", "MUL"):
        content = site.importer.constant(site.tensor_number(1))
        if content is None or np.squeeze(content).ndim > 1:
            raise UnsupportedError(f"{site.op} of more than a number per channel after SPACE_TO_BATCH_ND")
    return replace(spread, waiting=(*spread.waiting, site))


def gathered(spread: SpaceToBatchTensor, site: OperatorSite, operators: Mapping[str, Decode]) -> str:
    """Decode BATCH_TO_SPACE_ND: the operators between, with the convolution dilated by the block."""
    if site.numbers(1, "the block") != spread.block:
        raise UnsupportedError(
            "a BATCH_TO_SPACE_ND with another block than SPACE_TO_BATCH_ND is not supported"
        )
    convolutions = [each for each in spread.waiting if each.op in _CONVOLUTIONS]
    if len(convolutions) != 1:
        raise UnsupportedError(
            f"{len(convolutions)} convolutions between SPACE_TO_BATCH_ND and BATCH_TO_SPACE_ND: one is supported"
        )
    own = convolutions[0]
    left = pads_less_crops(site.builder, spread.pads, site.stored(2), spread.block)
    window = own.windowed().dilated(spread.block, left)
    importer, value = site.importer, site.importer.real(spread.tensor)
    for each in spread.waiting:
        # The tensor of the name itself is in phases.
        name = f"{each.name}/whole"
        again = replace(each, name=name, first=value, window=window if each is own else None)
        value = _decoded(again, operators)
        importer.give(each.outputs[0], value, name)
        value = importer.real(each.outputs[0])
    return value


def _decoded(site: OperatorSite, operators: Mapping[str, Decode]) -> str:
    """Return the operator's result; a RESHAPE drops the axis that was added for the convolution."""
    if site.op == "RESHAPE":
        shape, out = site.shape(0), site.importer.tensor(site.outputs[0]).shape
        if len(shape) != 4 or shape[1] != 1 or len(out) != 3:
            raise UnsupportedError(f"a RESHAPE from {list(shape)} to {list(out)} after SPACE_TO_BATCH_ND")
        axis = site.builder.integers([1])
        return site.builder.add("Squeeze", site.x(), axis, name=site.name)
    results = operators[site.op](site)
    return results if isinstance(results, str) else results[0]
