"""SPACE_TO_BATCH_ND, a convolution and BATCH_TO_SPACE_ND: the form in which converters write a dilated
convolution."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from cenote.core.deferred import dataclass
from cenote.core.errors import UnsupportedError
from cenote.frontends.channels_last import pads_less_crops
from cenote.frontends.pieces import batch_to_blocks, blocks_to_batch

if TYPE_CHECKING:
    from cenote.frontends.tflite.importer import TfliteImporter
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
    return SpaceToBatchTensor(site.tensor_number(0), site.numbers(1, "the block"), site.stored(2))


def waits(site: OperatorSite) -> bool:
    """Return whether an operator on what SPACE_TO_BATCH_ND makes may be part of a dilated convolution."""
    if site.op in ("ADD", "MUL"):
        content = site.importer.constant(site.tensor_number(1))
        return content is not None and np.squeeze(content).ndim <= 1
    return site.op in WAITING


def in_batch(spread: SpaceToBatchTensor, importer: TfliteImporter, operators: Mapping[str, Decode]) -> str:
    """Return the pictures of a block's positions, with the operators on them that have waited for a BATCH_TO_SPACE_ND
    which is not there, or not around a convolution."""
    value = blocks_to_batch(importer.builder, importer.real(spread.tensor), spread.block, spread.pads)
    for each in spread.waiting:
        again = replace(each, first=value)
        results = operators[each.op](again)
        made = results if isinstance(results, str) else results[0]
        if each is not spread.waiting[-1]:
            made = importer.passed(each.outputs[0], made, f"{each.name}/stored")
        value = made
    return value


def gathered(spread: SpaceToBatchTensor | None, site: OperatorSite, operators: Mapping[str, Decode]) -> str:
    """Decode BATCH_TO_SPACE_ND: the end of a dilated convolution, where one stands between SPACE_TO_BATCH_ND and this;
    else as it is."""
    block = site.numbers(1, "the block")
    if spread is not None and len(block) in (1, 2) and block == spread.block:
        with suppress(UnsupportedError):
            return _dilated(spread, site, operators)
    return batch_to_blocks(site.builder, site.x(), block, site.stored(2), site.name)


def _dilated(spread: SpaceToBatchTensor, site: OperatorSite, operators: Mapping[str, Decode]) -> str:
    """Return the operators between, on the whole picture, with the convolution dilated by the block. UnsupportedError
    where they are no dilated convolution."""
    convolutions = [each for each in spread.waiting if each.op in _CONVOLUTIONS]
    if len(convolutions) != 1:
        raise UnsupportedError(
            f"{len(convolutions)} convolutions between SPACE_TO_BATCH_ND and BATCH_TO_SPACE_ND: one is supported"
        )
    own = convolutions[0]
    left = pads_less_crops(site.builder, spread.pads, site.stored(2), spread.block)
    window = own.windowed().dilated(spread.block, left)
    # The tensors between are in phases, and are not set: anything else may read them.
    importer, value = site.importer, site.importer.real(spread.tensor)
    for each in spread.waiting:
        # The tensor of the name itself is in phases.
        name = f"{each.name}/whole"
        again = replace(each, name=name, first=value, window=window if each is own else None)
        value = importer.passed(each.outputs[0], _decoded(again, operators), name)
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
