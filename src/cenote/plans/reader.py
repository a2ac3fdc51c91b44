"""Reads plan files. What is in them: `format`."""

from __future__ import annotations

import base64
import hashlib
import importlib
import json
import math
import mmap
import os
import struct
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from cenote.codegen import jit
from cenote.core.errors import CenoteError, MissingFileError, ModelError
from cenote.core.types import Array, Declared, TensorType, dtype_named
from cenote.kernels.driver import driver_abi
from cenote.plans import format
from cenote.plans.format import (
    MAGIC,
    PAGE,
    TRUSTED,
    StalePlanError,
    StoredModel,
    StoredPlan,
    is_plan_file,
    sampled_pages,
)
from cenote.runtime.memory import address_of
from cenote.runtime.program import HostStep, KernelStep, Program, Slot, Step

if TYPE_CHECKING:
    from cenote.compiler.compile import Plan


def read(path: str | os.PathLike[str], threads: int) -> StoredModel:
    """Map a plan file. Raises StalePlanError when it was made for another CPU or version, ModelError when damaged."""
    try:
        with open(path, "rb") as file:
            content = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    except FileNotFoundError:
        raise MissingFileError(f"{os.fspath(path)}: there is no such file", os.fspath(path)) from None
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


def source_of(path: str | os.PathLike[str]) -> tuple[str, dict[str, Any]]:
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
    now = format.world()
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
        self.content, self.header, self.start = content, header, start
        self.texts = [self._piece(nbytes) for nbytes in header["descriptions"]]
        self.kernels = {symbol: self._piece(nbytes) for symbol, nbytes in header["kernels"].items()}
        if hashlib.sha256(content[start : self.start]).hexdigest() != header["kernels_digest"]:
            raise ModelError("the kernels in the plan file are damaged; compile it again")
        self.start = -(-self.start // PAGE) * PAGE
        self._check_constants()

    def _piece(self, nbytes: int) -> bytes:
        """The next bytes of the file."""
        begin, self.start = self.start, self.start + nbytes
        return self.content[begin : self.start]

    def _check_constants(self) -> None:
        samples = self.header["samples"]
        if len(self.content) != self.start + samples["nbytes"]:
            raise ModelError("the plan file is cut short; compile it again")
        digest = hashlib.sha256()
        for page in sampled_pages(samples["nbytes"]):
            digest.update(self.content[self.start + page : self.start + page + PAGE])
        if digest.hexdigest() != samples["digest"]:
            raise ModelError("the weights in the plan file are damaged; compile it again")

    def model(self, threads: int) -> StoredModel:
        header = self.header
        addresses = jit.adopt(self.kernels, jit.host_target())
        whole = np.frombuffer(self.content, np.uint8)
        if header["constants"] and (address_of(whole) + self.start) % 64:
            raise ModelError("the plan file's weights are not aligned")
        constants = [self._constant(whole, record) for record in header["constants"]]
        plans: dict[tuple[tuple[int, ...], ...], Plan | StoredPlan] = {}
        for record, text in zip(header["plans"], self.texts, strict=True):
            shapes = tuple(tuple(shape) for shape in record["shapes"])
            plans[shapes] = StoredPlan(_program(record, constants, addresses, threads), text)
        inputs = tuple(
            Declared(name, dtype_named(dtype), None if shape is None else tuple(shape))
            for name, dtype, shape in header["inputs"]
        )
        return StoredModel(
            inputs, tuple(header["outputs"]), header["metadata"], header["precision"], header["weights"], plans,
            header["external"],
        )  # fmt: skip

    def _constant(self, whole: Array, record: Mapping[str, Any]) -> Array:
        dtype, shape = dtype_named(record["dtype"]), tuple(record["shape"])
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
        return _host_step(record)
    words = tuple(word if isinstance(word, int) else Slot(*word) for word in record["words"])
    return KernelStep(
        record["label"], record["symbol"], addresses[record["symbol"]], words, record["items"], record["grain"],
        record["scratch"], record["barrier"],
    )  # fmt: skip


def _host_step(record: Mapping[str, Any]) -> HostStep:
    from cenote.graph.graph import Node, host_function

    inputs, outputs, label = record["node"]
    node = Node(decode(record["op"]), tuple(inputs), tuple(outputs), label)
    places = [tuple(map(_place, record[side])) for side in ("inputs", "outputs")]
    return HostStep(record["label"], host_function(node), places[0], places[1], node)


def _place(record: list[Any] | None) -> tuple[Slot, TensorType] | None:
    return None if record is None else (Slot(*record[0]), _type(record[1]))


def _type(record: Sequence[Any]) -> TensorType:
    return TensorType(dtype_named(record[0]), tuple(record[1]))


def decode(data: Any) -> Any:
    """The value that `encode` wrote down."""
    if not isinstance(data, dict):
        return data
    if "tuple" in data:
        return tuple(decode(item) for item in data["tuple"])
    if "dtype" in data:
        return dtype_named(data["dtype"])
    if "array" in data:
        name, shape, content = data["array"]
        return np.frombuffer(base64.b64decode(content), dtype_named(name)).reshape(shape)
    module, name = data["class"]
    if not module.startswith(TRUSTED):
        raise ModelError(f"the plan file names a class of {module}; it is damaged")
    found = getattr(importlib.import_module(module), name)
    return found(**{key: decode(item) for key, item in data["fields"].items()})
