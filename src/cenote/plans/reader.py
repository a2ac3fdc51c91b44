"""Reader of plan files. `format` describes the files, `records` the meaning of their records."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import mmap
import os
import struct
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from cenote.codegen import jit
from cenote.core.deferred import dataclass
from cenote.core.errors import CapacityError, CenoteError, ModelError
from cenote.core.files import open_regular
from cenote.core.load_options import LoadOptions
from cenote.core.locks import importing
from cenote.plans import fingerprint, format, records, templates
from cenote.plans.classes import StoredPlan, Tail
from cenote.plans.format import MAGIC, PAGE, StalePlanError, StoredModel, is_plan_file
from cenote.plans.source import Source
from cenote.runtime.memory import address_of

if TYPE_CHECKING:
    from cenote.compiler.compile import Plan

# Exceptions that reading a malformed header can raise.
MALFORMED = (
    LookupError,
    ValueError,
    TypeError,
    AttributeError,
    ArithmeticError,
    RecursionError,
    struct.error,
)
# Error numbers of a system that has no room for a file now; the file may be sound.
_NO_ROOM = (errno.ENOMEM, errno.EAGAIN, errno.EMFILE, errno.ENFILE)


class PlanFile:
    """A plan file that has been opened once: what it is, what it was made from, and the model in it."""

    def __init__(self, handle: int, path: str | os.PathLike[str]) -> None:
        self.handle, self.path = handle, path

    @staticmethod
    def at(path: str | os.PathLike[str]) -> PlanFile | None:
        """Open the plan file (of any version) at a path; None where there is none."""
        try:
            file = PlanFile(open_regular(path), path)
        except (OSError, ValueError):  # ValueError: a path with a null byte
            return None
        with contextlib.suppress(OSError):
            if is_plan_file(os.pread(file.handle, 16, 0)):
                return file
        file.close()
        return None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the file; what has been mapped of it stays."""
        os.close(self.handle)

    def model(self, threads: int) -> StoredModel:
        """Map the model.

        Raises StalePlanError when it was made for another CPU or version, ModelError when it is damaged, CapacityError
        when there is no room for it now.
        """
        where = os.fspath(self.path)
        try:
            content = _mapped(self.handle)
            header, start = header_of(content)
            _check_world(header["world"])
            return _Reader(content, header, start, self.handle).model(threads)
        except CenoteError as error:
            raise error.located(where) from error
        except MemoryError as error:
            raise CapacityError(f"{where}: there is no memory to load the plan file ({error})") from error
        except OSError as error:
            kind = CapacityError if error.errno in _NO_ROOM else ModelError
            raise kind(f"{where}: the plan file cannot be read ({error})") from error
        except MALFORMED as error:
            raise ModelError(
                f"{where}: the plan file is damaged ({error!r:.100}); compile it again"
            ) from error

    def named(self) -> str:
        """Return the path of the model that it was made from, or its graph's name; "" where there is none."""
        try:
            header, _ = header_of(_mapped(self.handle))
            return str(header["source"] or header["about"].get("graph_name", ""))
        except (OSError, MemoryError, CenoteError, *MALFORMED):
            return ""

    def recipe(self) -> Recipe | None:
        """Return what it was made from, and how; None where that is unknown or unreadable."""
        try:
            header, _ = header_of(_mapped(self.handle))
            source = _source(header)
            shapes = tuple(shapes_of(record) for record in (*header["plans"], *header["sized"]))
            return Recipe(source, records.options(header["options"]), shapes) if source is not None else None
        except (OSError, MemoryError, CenoteError, *MALFORMED):
            return None


@dataclass(frozen=True)
class Recipe:
    """Source, options and shapes of inputs that a plan file was made with, to make it anew."""

    source: Source
    options: LoadOptions
    shapes: tuple[tuple[tuple[int, ...], ...], ...]


def is_plan_at(path: str | os.PathLike[str]) -> bool:
    """Return whether there is a plan file (of any version) at this path."""
    with PlanFile.at(path) or contextlib.nullcontext() as file:
        return file is not None


def _mapped(handle: int) -> mmap.mmap:
    """Map the content of an open plan file."""
    if os.fstat(handle).st_size < len(MAGIC) + 40:
        raise ModelError("the plan file is cut short; compile it again")
    return mmap.mmap(handle, 0, access=mmap.ACCESS_READ)


def _source(header: Mapping[str, Any]) -> Source | None:
    """Return the files that the model of a plan was made from; None where they are not known."""
    source = Source(
        records.text(header["content"], "the source's digest"),
        records.text(header["source"], "the source"),
        records.texts(header["external"], "files with weights"),
        records.texts(header["operators"], "operators"),
    )
    return source if source.content else None


def header_of(content: mmap.mmap) -> tuple[dict[str, Any], int]:
    """Return the header, and the position of its end. Raises ModelError and StalePlanError."""
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
    now = format.world(jit.host_target())
    for what, shown in (
        ("target", "CPU"),
        ("version", "version of Cenote"),
        ("generator", "build of Cenote"),
    ):
        if made[what] != now[what]:
            detail = f" (it was {made[what]}, this is {now[what]})" if what == "version" else ""
            raise StalePlanError(f"the plan file was made for another {shown}{detail}; compile it again here")


def shapes_of(record: Any) -> tuple[tuple[int, ...], ...]:
    """Return the shapes of the inputs that a plan is for."""
    return tuple(
        records.sizes(shape, "a plan's input") for shape in records.items(record["shapes"], "shapes")
    )


class _Reader:
    def __init__(self, content: mmap.mmap, header: dict[str, Any], start: int, handle: int) -> None:
        self.content, self.header, self.start = content, header, start
        self.texts = [self._piece(nbytes) for nbytes in header["descriptions"]]
        self.kernels = {symbol: self._piece(nbytes) for symbol, nbytes in header["kernels"].items()}
        if hashlib.sha256(content[start : self.start]).hexdigest() != header["kernels_digest"]:
            raise ModelError("the kernels in the plan file are damaged; compile it again")
        self.start = -(-self.start // PAGE) * PAGE
        self._check_constants(handle)

    def _piece(self, nbytes: Any) -> bytes:
        """Return the next bytes of the file."""
        begin, self.start = self.start, self.start + records.number(nbytes, "a length", 0, len(self.content))
        return self.content[begin : self.start]

    def _check_constants(self, handle: int) -> None:
        if len(self.content) != self.start + records.number(self.header["constant_bytes"], "a length"):
            raise ModelError("the plan file is cut short; compile it again")
        with memoryview(self.content) as whole, whole[self.start :] as constants:
            sums = bytes.fromhex(self.header["checksums"])
            if not fingerprint.is_sound(constants, sums, handle):
                raise ModelError("the weights in the plan file are damaged; compile it again")

    def model(self, threads: int) -> StoredModel:
        header = self.header
        if operators := records.texts(header["operators"], "operators"):
            with importing():
                from cenote.core.extensions.registry import check_unchanged

            check_unchanged(operators)
        addresses = jit.adopt(self.kernels, jit.host_target())
        whole = np.frombuffer(self.content, np.uint8)
        if header["constants"] and (address_of(whole) + self.start) % 64:
            raise ModelError("the plan file's weights are not aligned")
        constants = [records.constant(record, whole[self.start :]) for record in header["constants"]]
        inputs = tuple(records.declared(record, "an input") for record in header["inputs"])
        outputs = tuple(records.declared(record, "an output") for record in header["outputs"])
        plans: dict[tuple[tuple[int, ...], ...], Plan | StoredPlan] = {}
        tails: dict[tuple[tuple[int, ...], ...], Tail] = {}
        for record, text in zip(header["plans"], self.texts, strict=True):
            program, shapes = records.program(record, constants, addresses, threads), shapes_of(record)
            tail = templates.tail_of(record["tail"], constants, addresses, threads)
            if tail is not None:
                tails[shapes] = tail
            records.check_inputs(shapes, program, inputs, outputs if tail is None else tail.cut.made)
            plans[shapes] = StoredPlan(program, text)
        sized = [
            templates.sized_plan(record, constants, addresses, threads)
            for record in records.items(header["sized"], "plans for sizes")
        ]
        metadata = records.texts(header["metadata"], "metadata")
        about = records.texts(header["about"], "what it says about itself")
        return StoredModel(
            inputs,
            outputs,
            metadata,
            records.options(header["options"]),
            plans,
            sized,
            tails,
            about,
            _source(header),
        )
