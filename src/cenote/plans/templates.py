"""Plans for all sizes of a class in plan files: their records, written and read, every field checked as in `records`.

Formulas are trusted as machine code is: they are Python that runs when a size is new.
"""

from __future__ import annotations

import binascii
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from cenote.core.errors import UnsupportedError
from cenote.core.formulas.instructions import BY_PYTHON, Instructions
from cenote.core.locks import importing
from cenote.core.types import Array
from cenote.kernels.driver import driver_abi
from cenote.plans import records
from cenote.plans.classes import Pattern, SizeClasses, SizedPlan, Tail
from cenote.plans.format import TRUSTED
from cenote.runtime.formulas import Formulas
from cenote.runtime.steps import IN_PROGRAMS, SlotKind
from cenote.runtime.template import (
    HostTemplate,
    KernelTemplate,
    PlaceTemplate,
    Sections,
    Template,
    TypeTemplate,
)

# ---- writing --------------------------------------------------------------------------------------------------------


def record_of(
    pattern: Pattern, plan: SizedPlan, constant: Callable[[Array], int], encode: Callable[[Any], Any]
) -> dict[str, Any]:
    """Return the record of a plan; `constant` adds an array to those of the file, `encode` encodes an operator."""
    template = plan.template
    formulas = template.formulas
    return {
        "pattern": pattern,
        "text": plan.text.decode(),
        "shapes": [list(shape) for shape in plan.made_with],
        "source": formulas.source,
        "code": binascii.b2a_base64(formulas.code).decode(),
        "python": formulas.python,
        "things": [thing if isinstance(thing, str) else encode(thing) for thing in formulas.things],
        "instructions": _instructions_record(formulas.instructions),
        "left": formulas.left,
        "steps": [_step_record(step, encode) for step in template.steps],
        "base": _packed(template.base),
        "positions": _packed(template.positions),
        "values": _packed(template.values),
        "sections": [getattr(template.sections, name) for name in Sections.__dataclass_fields__],
        "places": [[*memory, _packed(positions)] for memory, positions in template.places.items()],
        "inputs": [_type_record(type) for type in template.inputs],
        "outputs": [_type_record(type) for type in template.outputs],
        "constants": [constant(array) for array in template.constants],
        "names": [list(plan.inputs), list(plan.outputs)],
        "tail": tail_record(plan.tail, constant, encode),
    }


def tail_record(
    tail: Tail | None, constant: Callable[[Array], int], encode: Callable[[Any], Any]
) -> dict[str, Any] | None:
    """Return the record of the rest of a model behind a cut."""
    if tail is None:
        return None
    cut = tail.cut
    if any(node.op.apart for node in cut.host):
        raise UnsupportedError(
            "a plan file holds no loops, sequences and optionals; the model is planned when loaded"
        )
    return {
        "host": [encode(node) for node in cut.host],
        "constants": {name: constant(array) for name, array in cut.constants.items()},
        "made": list(cut.made),
        "takes": list(cut.takes),
        "contents": list(cut.contents),
        "ends": cut.ends,
        "sized": [record_of(*each, constant, encode) for each in tail.classes.plans],
    }


def _step_record(step: KernelTemplate | HostTemplate, encode: Callable[[Any], Any]) -> dict[str, Any]:
    if isinstance(step, KernelTemplate):
        symbols = [symbol for symbol, _ in step.kernels]
        return {
            "label": step.label,
            "kernels": symbols,
            "words": [step.first, step.last],
            "barrier": step.barrier,
        }
    sides = {name: list(map(_place_record, getattr(step, name))) for name in ("inputs", "outputs")}
    return {"label": step.label, "op": encode(step.operator), "where": step.where, **sides}


def _instructions_record(instructions: Instructions | None) -> dict[str, Any] | None:
    if instructions is None:
        return None
    packed = {name: _packed(getattr(instructions, name)) for name in ("constants", "code", "results")}
    return {"sizes": instructions.sizes, "tables": list(instructions.tables), **packed}


def _place_record(place: PlaceTemplate | None) -> list[Any] | None:
    return None if place is None else [*place[:3], _type_record(place[3])]


def _type_record(type: TypeTemplate) -> list[Any]:
    return [type.dtype.name, list(type.extents)]


def _packed(numbers: Array) -> str:
    return binascii.b2a_base64(np.ascontiguousarray(numbers, "<i8").tobytes()).decode()


# ---- reading --------------------------------------------------------------------------------------------------------


def sized_plan(
    record: Any, constants: Sequence[Array], addresses: Mapping[str, int], threads: int
) -> tuple[Pattern, SizedPlan]:
    """Return the plan of a record, and the pattern of shapes that it is for."""
    base, positions, values = (_numbers(record[name]) for name in ("base", "positions", "values"))
    if len(positions) != len(values) or _outside(positions, len(base)) or _outside(values, len(positions)):
        records.refuse("formulas have no places")
    sections = Sections(*(records.number(item, "a section", 0, len(base)) for item in record["sections"]))
    used = tuple(
        constants[records.number(i, "a constant's index", 0, len(constants) - 1)] for i in record["constants"]
    )
    steps = tuple(
        _step(step, addresses, sections, base) for step in records.items(record["steps"], "the steps")
    )
    kernels = sum(isinstance(step, KernelTemplate) for step in steps)
    if max(sections.items, sections.grains, sections.scratch, sections.chosen) + kernels > len(base):
        records.refuse("a section is cut short")
    places = {}
    for kind, index, packed in records.items(record["places"], "places"):
        offsets = _numbers(packed)
        if not isinstance(kind, str) or kind not in IN_PROGRAMS or _outside(offsets, sections.items):
            records.refuse(f"there is no {kind!r:.40}")
        places[IN_PROGRAMS[kind], records.number(index, "a memory")] = offsets
    formulas = Formulas(
        records.text(record["source"], "formulas"),
        binascii.a2b_base64(record["code"]),
        records.text(record["python"], "a version"),
        tuple(map(_thing, records.items(record["things"], "formulas"))),
        _instructions(record["instructions"], values),
        records.text(record["left"], "formulas"),
    )
    template = Template(
        formulas,
        steps,
        base,
        positions,
        values,
        sections,
        places,
        tuple(_type(item, base) for item in record["inputs"]),
        tuple(_type(item, base) for item in record["outputs"]),
        used,
        driver_abi(),
        threads,
    )
    shapes = tuple(records.sizes(shape, "an input") for shape in records.items(record["shapes"], "shapes"))
    inputs, outputs = (_names(names) for names in record["names"])
    if len(inputs) != len(template.inputs) or len(outputs) != len(template.outputs):
        records.refuse("names are missing")
    tail = tail_of(record["tail"], constants, addresses, threads)
    text = records.text(record["text"], "a description").encode()
    return _pattern(record["pattern"]), SizedPlan(template, text, shapes, inputs, outputs, tail)


def tail_of(
    record: Any, constants: Sequence[Array], addresses: Mapping[str, int], threads: int
) -> Tail | None:
    """Return the rest of a model behind a cut."""
    if record is None:
        return None
    with importing():
        from cenote.graph.cut import Cut
        from cenote.graph.graph import Node

    host = tuple(records.decode(node) for node in records.items(record["host"], "nodes"))
    if not all(isinstance(node, Node) for node in host):
        records.refuse("what runs on the host is no node")
    used = {
        records.text(name, "a constant"): constants[records.number(at, "a constant", 0, len(constants) - 1)]
        for name, at in record["constants"].items()
    }
    made, takes, contents = (_names(record[names]) for names in ("made", "takes", "contents"))
    sized = [
        sized_plan(each, constants, addresses, threads) for each in records.items(record["sized"], "plans")
    ]
    ends = records.truth(record["ends"], "an end")
    return Tail(Cut(host, used, made, takes, contents, ends), SizeClasses(sized))


def _instructions(record: dict[str, Any] | None, used: Array) -> Instructions | None:
    """Return instructions, whose operands native code checks; `used`: which of the results."""
    if record is None:
        return None
    constants, code, results = (_numbers(record[name]) for name in ("constants", "code", "results"))
    sizes = records.number(record["sizes"], "a number of sizes")
    tables = tuple(
        records.number(each, "a table", BY_PYTHON) for each in records.items(record["tables"], "tables")
    )
    slots = sizes + len(constants) + len(code) // 3
    if len(code) % 3 or _outside(results, slots) or _outside(used, len(results)):
        records.refuse("instructions have no results")
    return Instructions(sizes, constants, code.reshape(-1, 3), results, tables)


def _names(record: Any) -> tuple[str, ...]:
    return tuple(records.text(name, "a name") for name in records.items(record, "names"))


def _pattern(record: Any) -> Pattern:
    """Return numbers, strings and lists of them, as tuples."""
    if isinstance(record, list):
        return tuple(_pattern(item) for item in record)
    if not isinstance(record, int | str):
        records.refuse("a pattern holds no numbers")
    return record  # type: ignore[return-value]  # of an item


def _step(
    record: Any, addresses: Mapping[str, int], sections: Sections, base: Array
) -> KernelTemplate | HostTemplate:
    label = records.text(record["label"], "a step's label")
    if "op" not in record:
        first, last = (records.number(at, "a word", 0, sections.items) for at in record["words"])
        symbols = [records.text(symbol, "a kernel's name") for symbol in record["kernels"]]
        missing = [symbol for symbol in symbols if symbol not in addresses]
        if missing or not symbols or first > last:
            records.refuse(f"it holds no kernel {missing or label}")
        kernels = tuple((symbol, addresses[symbol]) for symbol in symbols)
        return KernelTemplate(label, kernels, first, last, records.truth(record["barrier"], "barrier"))
    with importing():
        from cenote.ops.base import Op

    op = records.decode(record["op"])
    if not isinstance(op, Op):
        records.refuse(f"the step {label} has no operator")
    inputs, outputs = (tuple(_place(place, base) for place in record[side]) for side in ("inputs", "outputs"))
    if any(place is not None and place[0] not in (SlotKind.ARENA, SlotKind.OUTPUT) for place in outputs):
        records.refuse(f"the step {label} writes to what is only read")
    return HostTemplate(label, op, inputs, outputs, records.text(record["where"], "a node's place"))


def _place(record: Any, base: Array) -> PlaceTemplate | None:
    if record is None:
        return None
    kind, index, offset, type = record
    if not isinstance(kind, str) or kind not in IN_PROGRAMS:
        records.refuse(f"there is no {kind!r:.40}")
    at = records.number(offset, "a place", 0, len(base) - 1)
    return IN_PROGRAMS[kind], records.number(index, "a memory"), at, _type(type, base)


def _type(record: Any, base: Array) -> TypeTemplate:
    dtype, extents = records.items(record, "a type")
    at = tuple(records.number(extent, "an extent", 0, len(base) - 1) for extent in extents)
    return TypeTemplate(records.element_type(dtype), at)


def _thing(record: Any) -> Any:
    if not isinstance(record, str):
        return records.decode(record)
    if not record.startswith(TRUSTED):
        records.refuse(f"it names a function of {record:.80}")
    return record


def _numbers(packed: Any) -> Array:
    content = binascii.a2b_base64(records.text(packed, "numbers"))
    if len(content) % 8:
        records.refuse("numbers are cut short")
    return np.frombuffer(content, "<i8").astype(np.int64)


def _outside(indices: Array, count: int) -> bool:
    return bool(indices.size) and not 0 <= int(indices.min()) <= int(indices.max()) < count
