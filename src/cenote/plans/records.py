"""The records of a plan file's header as the objects that they describe, every field checked before it is used.

A header decides where native code reads and writes, so a wrong one must be an error, not a crash. Checked are the
types and ranges of all numbers, that slots lie inside their memory, and that the inputs are those of the program. Two
things cannot be checked here and are trusted: machine code, and its plain arguments (sizes, strides).
"""

from __future__ import annotations

import binascii
import dataclasses
import importlib
import math
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any, NoReturn

import numpy as np

from cenote.core.errors import ArgumentError, MissingPackageError, ModelError
from cenote.core.load_options import LoadOptions
from cenote.core.locks import importing
from cenote.core.types import Array, Declared, TensorType, dtype_named
from cenote.kernels.driver import driver_abi
from cenote.plans.format import TRUSTED, StalePlanError
from cenote.runtime.program import Program
from cenote.runtime.steps import IN_PROGRAMS, HostStep, KernelStep, Slot, SlotKind, Step

# The driver counts items in 32 bits.
_MOST_ITEMS = (1 << 31) - 1
_MOST = 1 << 62
# Bytes of one address space.
_MOST_BYTES = 1 << 47
# Bytes, of constants.
_ALIGNMENT = 64

Places = Mapping[tuple[str, int], int]  # bytes of each memory that a slot may name


# ---- fields ---------------------------------------------------------------------------------------------------------


def refuse(what: str) -> NoReturn:
    """Raise an error that the file is damaged, and where."""
    raise ModelError(f"the plan file is damaged ({what}); compile it again")


def number(value: Any, what: str, least: int = 0, most: int = _MOST) -> int:
    """Return a whole number in a range."""
    if type(value) is not int or not least <= value <= most:
        refuse(f"{what} is {value!r:.40}, no whole number from {least} to {most}")
    return value


def text(value: Any, what: str) -> str:
    """Return a string."""
    if not isinstance(value, str):
        refuse(f"{what} is {value!r:.40}, no text")
    return value


def truth(value: Any, what: str) -> bool:
    """Return True or False."""
    if not isinstance(value, bool):
        refuse(f"{what} is {value!r:.40}, neither true nor false")
    return value


def texts(value: Any, what: str) -> dict[str, str]:
    """Return strings by string."""
    if not isinstance(value, dict):
        refuse(f"{what} is no mapping")
    return {text(name, what): text(item, what) for name, item in value.items()}


def items(value: Any, what: str) -> list[Any]:
    """Return a list."""
    if not isinstance(value, list):
        refuse(f"{what} is no list")
    return value


def sizes(value: Any, what: str) -> tuple[int, ...]:
    """Return a concrete shape whose elements fit in memory."""
    for extent in items(value, what):
        if type(extent) is not int or extent < 0:
            refuse(f"{what} has the shape {value!r:.40}")
    if math.prod(value) > _MOST_BYTES:
        refuse(f"{what} has the shape {value!r:.40}")
    return tuple(value)


def options(value: Any) -> LoadOptions:
    """The options of `cenote.load` that a plan was made with."""
    if not isinstance(value, dict):
        refuse("its options are no mapping")
    try:
        return LoadOptions.of_record(value)
    except ArgumentError as error:
        refuse(f"of its options, {error}")


@cache
def element_type(name: str) -> np.dtype[Any]:
    """Return a dtype of numbers or booleans, by its name."""
    try:
        dtype = dtype_named(text(name, "a dtype"))
    except (TypeError, ValueError, SyntaxError):
        refuse(f"a dtype is {name!r:.40}")
    if dtype.kind not in "biufc" and not dtype.type.__module__.startswith("ml_dtypes"):
        refuse(f"a dtype is {name!r:.40}")
    return dtype


def declared(record: Any, what: str) -> Declared:
    """Return an input or output as a model declares it."""
    name, dtype, shape = items(record, what)
    for extent in shape or ():
        if extent is not None and not isinstance(extent, str):
            number(extent, f"a dimension of {what}")
    return Declared(
        text(name, what), element_type(dtype), None if shape is None else tuple(items(shape, what))
    )


def constant(record: Any, content: Array) -> Array:
    """Return an array in the bytes of all constants."""
    dtype, shape = element_type(record["dtype"]), sizes(record["shape"], "a constant")
    at, nbytes = number(record["at"], "a constant's place"), math.prod(shape) * dtype.itemsize
    if at % _ALIGNMENT or at + nbytes > content.nbytes:
        refuse(f"a constant lies at {at}")
    array: Array = content[at : at + nbytes].view(dtype).reshape(shape)
    return array


# ---- programs -------------------------------------------------------------------------------------------------------


def program(record: Any, constants: Sequence[Array], addresses: Mapping[str, int], threads: int) -> Program:
    """Return a program whose steps stay inside its memory."""
    used = tuple(
        constants[number(index, "a constant's index", 0, len(constants) - 1)] for index in record["constants"]
    )
    inputs = tuple(_type(item, "an input") for item in record["inputs"])
    outputs = tuple(_type(item, "an output") for item in record["outputs"])
    arena = number(record["arena"], "the arena", 0, _MOST_BYTES)
    places = {("arena", 0): arena}
    places |= {("input", index): type.nbytes for index, type in enumerate(inputs)}
    places |= {("output", index): type.nbytes for index, type in enumerate(outputs)}
    places |= {("constant", index): array.nbytes for index, array in enumerate(used)}
    alone = truth(record["alone"], "alone")
    return Program(
        steps=tuple(_step(step, addresses, places) for step in items(record["steps"], "the steps")),
        inputs=inputs,
        outputs=outputs,
        constants=used,
        arena_bytes=arena,
        driver=driver_abi(),
        threads=1 if alone else threads,
        alone=alone,
    )


def check_inputs(
    shapes: Any, takes: Program, inputs: Sequence[Declared], outputs: Sequence[Declared | str]
) -> None:
    """Check a program's inputs against the model's. Native code trusts their sizes; the model checks arrays against
    `inputs` and `shapes`."""
    if [type.shape for type in takes.inputs] != list(shapes):
        refuse("a program's inputs have other shapes than its plan")
    if [type.dtype for type in takes.inputs] != [each.dtype for each in inputs]:
        refuse("a program's inputs have other dtypes than the model")
    if len(takes.outputs) != len(outputs):
        refuse("a program has another number of outputs than the model")


def _step(record: Any, addresses: Mapping[str, int], places: Places) -> Step:
    label = text(record["label"], "a step's label")
    if "op" in record:
        return _host_step(record, label, places)
    symbol = text(record["symbol"], "a kernel's name")
    if symbol not in addresses:
        refuse(f"it holds no kernel {symbol}")
    words = tuple(
        word if type(word) is int else _slot(word, places)
        for word in items(record["words"], "a kernel's arguments")
    )
    plain = [word for word in words if type(word) is int]
    if plain and not -1 << 63 <= min(plain) <= max(plain) < 1 << 64:
        refuse("a kernel's argument has more than 64 bits")
    return KernelStep(
        label,
        symbol,
        addresses[symbol],
        words,
        number(record["items"], "items", 0, _MOST_ITEMS),
        number(record["grain"], "grain", 1),
        number(record["scratch"], "scratch", 0, _MOST_BYTES),
        truth(record["barrier"], "barrier"),
    )


def _slot(record: Any, places: Places, nbytes: int = 0) -> Slot:
    """Return a slot with so many bytes inside its memory."""
    kind, index, offset = record
    room = places.get((kind, index))
    if room is None or type(index) is not int:
        refuse(f"there is no {kind} {index}")
    if type(offset) is not int or not 0 <= offset <= room - nbytes:
        refuse(f"a place in {kind} {index} is {offset!r:.40}")
    return Slot(IN_PROGRAMS[kind], index, offset)


def _type(record: Any, what: str) -> TensorType:
    dtype, shape = items(record, what)
    return TensorType(element_type(dtype), sizes(shape, what))


def _host_step(record: Any, label: str, places: Places) -> HostStep:
    with importing():
        from cenote.ops.base import Op

    op = decode(record["op"])
    if not isinstance(op, Op):
        refuse(f"the step {label} has no operator")
    sides = [
        tuple(_place(place, places) for place in items(record[side], side)) for side in ("inputs", "outputs")
    ]
    if any(
        place is not None and place[0].kind not in (SlotKind.ARENA, SlotKind.OUTPUT) for place in sides[1]
    ):
        refuse(f"the step {label} writes to what is only read")
    return HostStep(label, op, sides[0], sides[1], text(record["where"], "a node's place"))


def _place(record: Any, places: Places) -> tuple[Slot, TensorType] | None:
    if record is None:
        return None
    slot, type = items(record, "a value")
    kind = _type(type, "a value")
    return _slot(slot, places, kind.nbytes), kind


# ---- operators ------------------------------------------------------------------------------------------------------


def decode(data: Any) -> Any:
    """Return the value that `writer.encode` encoded. Raises StalePlanError for a class that has changed since."""
    if not isinstance(data, dict):
        return data
    if "tuple" in data:
        return tuple(decode(item) for item in data["tuple"])
    if "dtype" in data:
        return element_type(data["dtype"])
    if "array" in data:
        name, shape, content = data["array"]
        dtype = element_type(name)
        return np.frombuffer(binascii.a2b_base64(content), dtype).reshape(sizes(shape, "an attribute"))
    module, name, *digest = (text(item, "a class") for item in data["class"])
    fields = {key: decode(item) for key, item in data["fields"].items()}
    cls = _known_class(module, name, *digest) if digest else _class(module, name)
    try:
        return cls(**fields)
    except TypeError as error:
        raise _stale(f"{module}.{name}") from error


def _known_class(module: str, name: str, digest: str) -> Any:
    with importing():
        from cenote.core.extensions.registry import known_class

    return known_class(module, name, digest)


def _class(module: str, name: str) -> Any:
    if not module.startswith(TRUSTED):
        refuse(f"it names a class of {module:.80}")
    try:
        with importing():
            cls = getattr(importlib.import_module(module), name)
    except MissingPackageError:
        raise
    except (ImportError, AttributeError) as error:
        raise _stale(f"{module}.{name}") from error
    if not (isinstance(cls, type) and dataclasses.is_dataclass(cls) and cls.__module__ == module):
        raise _stale(f"{module}.{name}")
    return cls


def _stale(name: str) -> StalePlanError:
    return StalePlanError(
        f"the plan file was made for another build of Cenote ({name} is not what it was); compile it again"
    )
