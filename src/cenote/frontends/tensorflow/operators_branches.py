"""Operations that choose: Switch and Merge of TensorFlow 1, If. A constant condition decides at once; one that is
computed when the model runs makes branches (`branches.py`)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from cenote.core.errors import ModelError, UnsupportedError
from cenote.core.types import Array
from cenote.frontends.tensorflow.nodes import DEAD, Dead, Decode, NodeSite, Value


def _is_taken(decided: Array) -> bool:
    if decided.size != 1:
        raise ModelError(f"its condition has shape {list(decided.shape)}, not one number")
    return bool(decided.reshape(()))


def _switch(site: NodeSite) -> tuple[Value, Value]:
    value, condition = site.inputs[0], site.x(1)
    decided, known = site.known(1), dict(site.sides)
    if decided is not None or condition in known:
        taken = known[condition] if decided is None else _is_taken(decided)
        return (DEAD, value) if taken else (value, DEAD)
    for index, side in enumerate((False, True)):
        site.scope.sides[site.node, index] = (*site.sides, (condition, side))
    return value, value


def _merge(site: NodeSite) -> tuple[Value, Value]:
    alive = [index for index, value in enumerate(site.inputs) if not isinstance(value, Dead)]
    if len(alive) > 2:
        raise UnsupportedError(f"chooses among {len(alive)} branches; those of tf.cond are two")
    if not alive:
        return DEAD, DEAD
    if len(alive) == 1:
        site.sides = site.ways[alive[0]]
        return site.inputs[alive[0]], site.builder.constant(np.int32(alive[0]))
    first, second = alive
    condition, site.sides, holds = site.importer.branches.condition_of((site.ways[first], site.ways[second]))
    then, otherwise = (first, second) if holds else (second, first)
    made = _merged(site, condition, site.inputs[then], site.inputs[otherwise])
    return made, site.importer.branches.index(condition, holds)


def _if(site: NodeSite) -> Sequence[Value]:
    decided = site.known(0)
    functions = [site.attributes[f"{each}_branch"].func.name for each in ("else", "then")]
    if decided is not None:
        return site.importer.call(site, functions[_is_taken(decided)], site.inputs[1:])
    condition = site.x(0)
    if site.dtype("Tcond", _BOOL) != np.bool_:
        condition = site.builder.cast(condition, np.dtype(np.bool_))
    otherwise, then = (
        site.importer.call(site, name, site.inputs[1:], ((condition, side),))
        for name, side in zip(functions, (False, True), strict=True)
    )
    return [_merged(site, condition, *each) for each in zip(then, otherwise, strict=True)]


_BOOL = 10


def _merged(site: NodeSite, condition: str, then: Value, otherwise: Value) -> Value:
    """Return the value of one branch or of the other."""
    if not isinstance(then, str) or not isinstance(otherwise, str):
        if then != otherwise:
            raise UnsupportedError("chooses between values that are no tensors yet")
        return then
    return site.importer.branches.merged(condition, site.sides, (otherwise, then), site.name)


BRANCHES: Mapping[str, Decode] = {
    **dict.fromkeys(("Switch", "RefSwitch"), _switch),
    **dict.fromkeys(("Merge", "RefMerge"), _merge),
    **dict.fromkeys(("If", "StatelessIf"), _if),
}
