"""Plan files: a compiled model on disk, loaded without parsing, packing or compiling.

    magic, version │ length and digest of the header │ header (JSON) │ kernels │ constants, each at a page's start

The header holds the program (steps, argument records, arena size), what `print(model.plan)` shows, the inputs and
outputs, and what the file was made for: Cenote's version and generator, the CPU. Constants are mapped, not read: pages
come in when they are first used, and all processes that load one file share them.

A plan file is executable content, like a shared library: load only files that you trust.
"""

from __future__ import annotations

import base64
import dataclasses
import hashlib
import importlib
import json
import math
import mmap
import os
import struct
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from cenote.codegen import cache, jit
from cenote.compile import Plan, host_function
from cenote.core.errors import CenoteError, ModelError, UnsupportedError
from cenote.core.types import Array, TensorType
from cenote.core.version import __version__
from cenote.graph.graph import Declared, Node
from cenote.kernels.driver import driver_abi
from cenote.ops.base import Op
from cenote.passes.describe import PlanDescription
from cenote.runtime.memory import address_of
from cenote.runtime.program import HostStep, KernelStep, Program, Slot, Step

MAGIC = b"cenote-plan\x00\x00\x00\x00\x01"
_PAGE = 4096
_SAMPLES = 64  # pages of the constants whose digest is checked when loading (all of them in small files)
_TRUSTED = ("cenote.ops.", "cenote.kernels.")  # where classes named in a file may come from


class StalePlanError(UnsupportedError):
    """A sound plan file that was made for another CPU or another version of Cenote."""


@dataclass(frozen=True)
class StoredPlan:
    """A plan out of a file: the program and its description."""

    program: Program
    description: PlanDescription

    def describe(self) -> PlanDescription:
        """Steps, kernels, host steps, memory, as they were when the file was written."""
        return self.description

    def __str__(self) -> str:
        return str(self.description)


@dataclass(frozen=True)
class StoredModel:
    """What a plan file holds: one plan per set of input shapes."""

    inputs: tuple[Declared, ...]
    outputs: tuple[str, ...]
    metadata: Mapping[str, str]
    precision: str
    plans: Mapping[tuple[tuple[int, ...], ...], StoredPlan]


def is_plan_file(start: bytes) -> bool:
    """Do these first bytes of a file say that it is a plan file (of any version)?"""
    return start[:11] == MAGIC[:11]


# ---- writing --------------------------------------------------------------------------------------------------------


def save(
    path: str | os.PathLike[str], plans: Mapping[tuple[tuple[int, ...], ...], Plan], *,
    inputs: Sequence[Declared], outputs: Sequence[str], metadata: Mapping[str, str], precision: str, source: str = "",
    weights: str = "float32",
) -> None:  # fmt: skip
    """Write a plan file, whole or not at all. Raises UnsupportedError for a host step that cannot be written down."""
    target = Path(path)
    constants = _Constants()
    stored = [_plan_record(shapes, plan, constants) for shapes, plan in plans.items()]
    symbols = sorted({s.symbol for p in plans.values() for s in p.program.steps if isinstance(s, KernelStep)})
    objects = jit.objects(symbols, jit.host_target())
    header = {
        "world": world(), "inputs": [_declared_record(d) for d in inputs], "outputs": list(outputs),
        "metadata": dict(metadata), "precision": precision, "weights": weights, "source": source,
        "plans": stored,
        "kernels": {symbol: len(code) for symbol, code in objects.items()},
        "kernels_digest": hashlib.sha256(b"".join(objects.values())).hexdigest(),
        "constants": constants.records, "samples": constants.samples(),
    }  # fmt: skip
    text = json.dumps(header).encode()
    handle, temporary = tempfile.mkstemp(dir=target.parent, prefix=target.name)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(MAGIC + struct.pack("<Q", len(text)) + hashlib.sha256(text).digest() + text)
            file.write(b"".join(objects.values()))
            file.write(b"\0" * (-file.tell() % _PAGE))
            constants.write(file)
        os.chmod(temporary, 0o644)
        os.replace(temporary, target)
    except BaseException:
        os.unlink(temporary)
        raise


def world() -> dict[str, str]:
    """What a plan depends on besides the model."""
    return {
        "version": __version__,
        "generator": cache.generator_digest(),
        "target": repr(jit.host_target()),
    }


class _Constants:
    """Arrays on their way into a file: each once, at a page's start."""

    def __init__(self) -> None:
        self.records: list[dict[str, Any]] = []
        self._arrays: list[Array] = []
        self._index: dict[int, int] = {}
        self._end = 0

    def add(self, array: Array) -> int:
        if id(array) not in self._index:
            self._index[id(array)] = len(self.records)
            self._arrays.append(array)
            self.records.append(
                {"at": self._end, "dtype": _dtype_name(array.dtype), "shape": list(array.shape)}
            )
            self._end += -(-array.nbytes // _PAGE) * _PAGE
        return self._index[id(array)]

    def write(self, file: BinaryIO) -> None:
        for array in self._arrays:
            file.write(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data)
            file.write(b"\0" * (-array.nbytes % _PAGE))

    def samples(self) -> dict[str, Any]:
        """Digest of evenly spread pages, cheap enough to check at every load."""
        pages = _sampled_pages(self._end)
        digest, ends = hashlib.sha256(), [record["at"] for record in self.records]
        for page in pages:
            index = max(i for i, at in enumerate(ends) if at <= page)
            body = np.ascontiguousarray(self._arrays[index]).reshape(-1).view(np.uint8)
            start = page - ends[index]
            digest.update(body[start : start + _PAGE].tobytes().ljust(_PAGE, b"\0"))
        return {"nbytes": self._end, "digest": digest.hexdigest()}


def _sampled_pages(nbytes: int) -> list[int]:
    count = nbytes // _PAGE
    step = max(1, count // _SAMPLES)
    return [page * _PAGE for page in sorted({*range(0, count, step), *([count - 1] if count else [])})]


def _plan_record(shapes: tuple[tuple[int, ...], ...], plan: Plan, constants: _Constants) -> dict[str, Any]:
    program = plan.program
    indices = [constants.add(array) for array in program.constants]
    return {
        "shapes": [list(shape) for shape in shapes],
        "steps": [_step_record(step) for step in program.steps],
        "inputs": [_type_record(type) for type in program.inputs],
        "outputs": [_type_record(type) for type in program.outputs],
        "constants": indices,
        "arena": program.arena_bytes,
        "alone": program.alone,
        "description": plan.describe().as_dict(),
    }


def _step_record(step: Step) -> dict[str, Any]:
    if isinstance(step, KernelStep):
        words = [w if isinstance(w, int) else [w.kind, w.index, w.offset] for w in step.words]
        return {
            "label": step.label, "symbol": step.symbol, "words": words, "items": step.items, "grain": step.grain,
            "scratch": step.scratch, "barrier": step.barrier,
        }  # fmt: skip
    assert step.node is not None
    return {
        "label": step.label,
        "op": encode(step.node.op),
        "node": [list(step.node.inputs), list(step.node.outputs), step.node.label],
        "inputs": [_place_record(place) for place in step.inputs],
        "outputs": [_place_record(place) for place in step.outputs],
    }


def _place_record(place: tuple[Slot, TensorType] | None) -> list[Any] | None:
    if place is None:
        return None
    slot, type = place
    return [[slot.kind, slot.index, slot.offset], _type_record(type)]


def _type_record(type: TensorType) -> list[Any]:
    return [_dtype_name(type.dtype), list(type.shape)]


def _declared_record(declared: Declared) -> list[Any]:
    return [
        declared.name,
        _dtype_name(declared.dtype),
        None if declared.shape is None else list(declared.shape),
    ]


def _dtype_name(dtype: np.dtype[Any]) -> str:
    return dtype.name


def encode(value: Any) -> Any:
    """An operator or an attribute of one as JSON-able data."""
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, tuple):
        return {"tuple": [encode(item) for item in value]}
    if isinstance(value, np.dtype):
        return {"dtype": value.name}
    if isinstance(value, np.ndarray):
        content = base64.b64encode(np.ascontiguousarray(value).tobytes()).decode()
        return {"array": [value.dtype.name, list(value.shape), content]}
    if dataclasses.is_dataclass(value) and type(value).__module__.startswith(_TRUSTED):
        fields = {field.name: encode(getattr(value, field.name)) for field in dataclasses.fields(value)}
        return {"class": [type(value).__module__, type(value).__qualname__], "fields": fields}
    raise UnsupportedError(f"a plan file cannot hold the attribute {value!r} of a host step")


def decode(data: Any) -> Any:
    """The value that `encode` wrote down."""
    if not isinstance(data, dict):
        return data
    if "tuple" in data:
        return tuple(decode(item) for item in data["tuple"])
    if "dtype" in data:
        return np.dtype(data["dtype"])
    if "array" in data:
        name, shape, content = data["array"]
        return np.frombuffer(base64.b64decode(content), np.dtype(name)).reshape(shape)
    module, name = data["class"]
    if not module.startswith(_TRUSTED):
        raise ModelError(f"the plan file names a class of {module}; it is damaged")
    found = getattr(importlib.import_module(module), name)
    return found(**{key: decode(item) for key, item in data["fields"].items()})


# ---- reading --------------------------------------------------------------------------------------------------------


def read(path: str | os.PathLike[str], threads: int) -> StoredModel:
    """Map a plan file. Raises StalePlanError when it was made for another CPU or version, ModelError when damaged."""
    try:
        with open(path, "rb") as file:
            content = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    except (OSError, ValueError) as error:
        raise ModelError(f"{os.fspath(path)}: the plan file cannot be read ({error})") from error
    try:
        header, start = _header(content)
        _check_world(header["world"])
        return _Reader(content, header, start).model(threads)
    except CenoteError as error:
        raise error.located(os.fspath(path)) from error
    except (KeyError, ValueError, TypeError, IndexError, AttributeError, struct.error) as error:
        raise ModelError(
            f"{os.fspath(path)}: the plan file is damaged ({error}); compile it again"
        ) from error


def source_of(path: str | os.PathLike[str]) -> tuple[str, dict[str, str]]:
    """The path of the model that a plan file was made from ("" where unknown or unreadable), and how it was loaded."""
    try:
        with open(path, "rb") as file:
            header, _ = _header(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
    except (OSError, ValueError, CenoteError, struct.error):
        return "", {}
    options = {name: str(header[name]) for name in ("precision", "weights") if header.get(name)}
    return str(header.get("source", "")), options


def _header(content: mmap.mmap) -> tuple[dict[str, Any], int]:
    if content[: len(MAGIC)] != MAGIC:
        if is_plan_file(content[:16]):
            raise StalePlanError("the plan file has another format version; compile it again")
        raise ModelError("not a plan file")
    at = len(MAGIC)
    (length,) = struct.unpack_from("<Q", content, at)
    digest, text = content[at + 8 : at + 40], content[at + 40 : at + 40 + length]
    if hashlib.sha256(text).digest() != digest:
        raise ModelError("the plan file is damaged or cut short; compile it again")
    header: dict[str, Any] = json.loads(text)
    return header, at + 40 + length


def _check_world(made: Mapping[str, str]) -> None:
    now = world()
    for what, shown in (
        ("target", "CPU"),
        ("version", "version of Cenote"),
        ("generator", "build of Cenote"),
    ):
        if made[what] != now[what]:
            detail = f" (it was {made[what]}, this is {now[what]})" if what == "version" else ""
            raise StalePlanError(f"the plan file was made for another {shown}{detail}; compile it again here")


class _Reader:
    def __init__(self, content: mmap.mmap, header: dict[str, Any], start: int) -> None:
        self.content, self.header = content, header
        sizes = header["kernels"]
        self.kernels: dict[str, bytes] = {}
        for symbol, nbytes in sizes.items():
            self.kernels[symbol] = content[start : start + nbytes]
            start += nbytes
        if hashlib.sha256(b"".join(self.kernels.values())).hexdigest() != header["kernels_digest"]:
            raise ModelError("the kernels in the plan file are damaged; compile it again")
        self.start = -(-start // _PAGE) * _PAGE
        self._check_constants()

    def _check_constants(self) -> None:
        samples = self.header["samples"]
        if len(self.content) != self.start + samples["nbytes"]:
            raise ModelError("the plan file is cut short; compile it again")
        digest = hashlib.sha256()
        for page in _sampled_pages(samples["nbytes"]):
            digest.update(self.content[self.start + page : self.start + page + _PAGE])
        if digest.hexdigest() != samples["digest"]:
            raise ModelError("the weights in the plan file are damaged; compile it again")

    def model(self, threads: int) -> StoredModel:
        header = self.header
        addresses = jit.adopt(self.kernels, jit.host_target())
        whole = np.frombuffer(self.content, np.uint8)
        if header["constants"] and (address_of(whole) + self.start) % 64:
            raise ModelError("the plan file's weights are not aligned")
        constants = [self._constant(whole, record) for record in header["constants"]]
        plans = {}
        for record in header["plans"]:
            shapes = tuple(tuple(shape) for shape in record["shapes"])
            program = _program(record, constants, addresses, threads)
            plans[shapes] = StoredPlan(program, PlanDescription.from_dict(record["description"]))
        inputs = tuple(
            Declared(name, np.dtype(dtype), None if shape is None else tuple(shape))
            for name, dtype, shape in header["inputs"]
        )
        return StoredModel(inputs, tuple(header["outputs"]), header["metadata"], header["precision"], plans)

    def _constant(self, whole: Array, record: Mapping[str, Any]) -> Array:
        dtype, shape = np.dtype(record["dtype"]), tuple(record["shape"])
        start = self.start + record["at"]
        array: Array = whole[start : start + math.prod(shape) * dtype.itemsize].view(dtype).reshape(shape)
        return array


def _program(
    record: Mapping[str, Any], constants: Sequence[Array], addresses: Mapping[str, int], threads: int
) -> Program:
    return Program(
        steps=tuple(_step(step, addresses) for step in record["steps"]),
        inputs=tuple(_type(item) for item in record["inputs"]),
        outputs=tuple(_type(item) for item in record["outputs"]),
        constants=tuple(constants[index] for index in record["constants"]),
        arena_bytes=record["arena"],
        driver=driver_abi(),
        threads=1 if record["alone"] else threads,
        alone=record["alone"],
    )


def _step(record: Mapping[str, Any], addresses: Mapping[str, int]) -> Step:
    if "op" in record:
        op: Op = decode(record["op"])
        inputs, outputs, label = record["node"]
        node = Node(op, tuple(inputs), tuple(outputs), label)
        return HostStep(
            record["label"], host_function(node), tuple(map(_place, record["inputs"])),
            tuple(map(_place, record["outputs"])), node,
        )  # fmt: skip
    words = tuple(word if isinstance(word, int) else Slot(*word) for word in record["words"])
    return KernelStep(
        record["label"], record["symbol"], addresses[record["symbol"]], words, record["items"], record["grain"],
        record["scratch"], record["barrier"],
    )  # fmt: skip


def _place(record: list[Any] | None) -> tuple[Slot, TensorType] | None:
    return None if record is None else (Slot(*record[0]), _type(record[1]))


def _type(record: Sequence[Any]) -> TensorType:
    return TensorType(np.dtype(record[0]), tuple(record[1]))
