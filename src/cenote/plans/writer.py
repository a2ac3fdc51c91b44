"""Writer of plan files. `format` describes them."""

from __future__ import annotations

import base64
import dataclasses
import hashlib
import json
import os
import struct
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, BinaryIO

import numpy as np

from cenote.codegen import jit
from cenote.core.errors import UnsupportedError
from cenote.core.files import replacing
from cenote.core.locks import importing
from cenote.core.target import Target
from cenote.core.types import Array, Declared, TensorType
from cenote.kernels.driver import DRIVER
from cenote.plans import format, templates
from cenote.plans.classes import StoredPlan, Tail
from cenote.plans.fingerprint import checksums
from cenote.plans.format import MAGIC, PAGE, TRUSTED, StoredModel
from cenote.plans.source import Source
from cenote.runtime.steps import KernelStep, Slot, Step
from cenote.runtime.template import KernelTemplate

if TYPE_CHECKING:
    from cenote.compiler.compile import Plan

# Bytes that are written at a time.
_PIECE = 4 << 20


def write_at(path: str | os.PathLike[str], model: StoredModel) -> None:
    """Write a plan file, whole or not at all. Raises as `write`, OSError naming `path`."""
    try:
        with replacing(path, 0o644) as file:
            write(file, model, jit.host_target())
    except OSError as error:
        # It names the temporary file that was to be renamed.
        raise OSError(error.errno, error.strerror, os.fspath(path)) from error


def write(
    file: BinaryIO, model: StoredModel, target: Target, check: Callable[[], object] = lambda: None
) -> None:
    """Write a plan file's content. `check` is called now and then, and may raise.

    Raises UnsupportedError for a host step or a text that cannot be encoded.
    """
    constants, source = _Constants(), model.source or Source("")
    stored = [
        _plan_record(shapes, plan, constants, model.tails.get(shapes)) for shapes, plan in model.plans.items()
    ]
    sized = [templates.record_of(*each, constants.add, encode) for each in model.sized]
    texts = [_text(plan) for plan in model.plans.values()]
    objects = _objects(model, target)
    code = b"".join([*texts, *objects.values()])
    header = {
        "world": format.world(target),
        "inputs": [_declared_record(d) for d in model.inputs],
        "outputs": [_declared_record(d) for d in model.outputs],
        "metadata": dict(model.metadata),
        "about": dict(model.about),
        "options": model.options.record(),
        "source": source.path,
        "content": source.content,
        "external": dict(source.external or {}),
        "operators": dict(source.operators),
        "plans": stored,
        "sized": sized,
        "descriptions": [len(text) for text in texts],
        "kernels": {symbol: len(code) for symbol, code in objects.items()},
        "kernels_digest": hashlib.sha256(code).hexdigest(),
        "constants": constants.records,
        "constant_bytes": constants.nbytes,
        "checksums": checksums(constants.pieces(check)).hex(),
    }
    try:
        text = json.dumps(header, separators=(",", ":")).encode()
    except (TypeError, ValueError) as error:
        # Names or metadata that are no strings.
        raise UnsupportedError(f"a plan file cannot hold this model ({error})") from error
    file.write(MAGIC + struct.pack("<Q", len(text)) + hashlib.sha256(text).digest() + text)
    file.write(code)
    file.write(b"\0" * (-file.tell() % PAGE))
    for piece in constants.pieces(check):
        file.write(piece)


def _text(plan: Plan | StoredPlan) -> bytes:
    return plan.text if isinstance(plan, StoredPlan) else json.dumps(plan.describe().as_dict()).encode()


def _objects(model: StoredModel, target: Target) -> dict[str, bytes]:
    """Return the kernels of all plans, of their steps on the host, and the driver's, so that a process that reads the
    file needs no other cache."""
    steps = [step for plan in model.plans.values() for step in plan.program.steps]
    used = {step.symbol for step in steps if isinstance(step, KernelStep)}
    tails = list(model.tails.values())
    sized = [*model.sized, *(each for tail in tails for each in list(tail.classes.plans))]
    while sized:
        _, plan = sized.pop()
        if plan.tail is not None:
            tails.append(plan.tail)
            sized += list(plan.tail.classes.plans)
        plan.template.finish()
        kernels = [step for step in plan.template.steps if isinstance(step, KernelTemplate)]
        used |= {symbol for step in kernels for symbol, _ in step.kernels}
    if tails:
        used |= jit.of_host_steps(target)
    symbols = sorted(used)
    # A model without a plan has not requested them yet.
    jit.addresses(DRIVER, target)
    return jit.objects([*symbols, *(source.symbol for source in DRIVER)], target)


class _Constants:
    """Arrays for a file: each is stored once, at a page's start."""

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
            self._end += -(-array.nbytes // PAGE) * PAGE
        return self._index[id(array)]

    @property
    def nbytes(self) -> int:
        return self._end

    def pieces(self, check: Callable[[], object]) -> Iterator[memoryview]:
        """Yield the bytes of all arrays, in order."""
        for array in self._arrays:
            content = np.ascontiguousarray(array).reshape(-1).view(np.uint8).data
            for at in range(0, array.nbytes, _PIECE):
                check()
                yield content[at : at + _PIECE]
            yield memoryview(b"\0" * (-array.nbytes % PAGE))


def _plan_record(
    shapes: tuple[tuple[int, ...], ...], plan: Plan | StoredPlan, constants: _Constants, tail: Tail | None
) -> dict[str, Any]:
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
        "tail": templates.tail_record(tail, constants.add, encode),
    }


def _step_record(step: Step) -> dict[str, Any]:
    if isinstance(step, KernelStep):
        words = [w if isinstance(w, int) else [w.kind, w.index, w.offset] for w in step.words]
        return {
            "label": step.label,
            "symbol": step.symbol,
            "words": words,
            "items": step.items,
            "grain": step.grain,
            "scratch": step.scratch,
            "barrier": step.barrier,
        }
    return {
        "label": step.label,
        "op": encode(step.operator),
        "where": step.where,
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
    if declared.form:
        raise UnsupportedError(f"a plan file takes tensors, but {declared} is none")
    return [
        declared.name,
        _dtype_name(declared.dtype),
        None if declared.shape is None else list(declared.shape),
    ]


def _dtype_name(dtype: np.dtype[Any]) -> str:
    return dtype.name


def encode(value: Any) -> Any:
    """Return an operator or an attribute of one as data for JSON."""
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, tuple):
        return {"tuple": [encode(item) for item in value]}
    if isinstance(value, np.dtype):
        return {"dtype": value.name}
    if isinstance(value, np.ndarray) and value.dtype.kind != "O":
        content = base64.b64encode(np.ascontiguousarray(value).tobytes()).decode()
        return {"array": [value.dtype.name, list(value.shape), content]}
    if reason := getattr(value, "unstored", ""):
        raise UnsupportedError(f"a plan file cannot hold the operator {value}: {reason}")
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        with importing():
            from cenote.core.extensions.classes import key_of
            from cenote.core.extensions.registry import class_of

        made = class_of(type(value))
        if made is not None and made.untold:
            raise UnsupportedError(
                f"a plan file cannot hold the operator {value}: another process could not tell whether its class is "
                f"the same ({made.untold})"
            )
        if made is not None or type(value).__module__.startswith(TRUSTED):
            fields = {field.name: encode(getattr(value, field.name)) for field in dataclasses.fields(value)}
            return {"class": [*key_of(type(value)), *([made.digest] if made else [])], "fields": fields}
    raise UnsupportedError(f"a plan file cannot hold the attribute {value!r} of a host step")
