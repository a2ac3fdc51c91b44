"""onnxruntime's descriptions of memory and of arenas. They have no effect: models plan their own memory."""

from __future__ import annotations

from enum import IntEnum
from inspect import get_annotations
from typing import Any


class OrtAllocatorType(IntEnum):
    INVALID = -1
    ORT_DEVICE_ALLOCATOR = 0
    ORT_ARENA_ALLOCATOR = 1


class OrtMemType(IntEnum):
    CPU_INPUT = -2
    CPU_OUTPUT = -1
    CPU = -1
    DEFAULT = 0


class OrtDeviceMemoryType(IntEnum):
    DEFAULT = 0
    HOST_ACCESSIBLE = 5


class OrtMemoryInfo:
    """A kind of memory."""

    def __init__(
        self, name: str, allocator_type: OrtAllocatorType, device_id: int, mem_type: OrtMemType
    ) -> None:
        self.name, self.allocator_type = name, allocator_type
        self.device_id, self.mem_type = device_id, mem_type


class OrtArenaCfg:
    """Growth of an arena: four numbers in order, or all by name in a dict."""

    max_mem: int
    arena_extend_strategy: int
    initial_chunk_size_bytes: int
    max_dead_bytes_per_chunk: int
    initial_growth_chunk_size_bytes: int
    max_power_of_two_extend_bytes: int

    def __init__(self, *given: Any) -> None:
        names = tuple(get_annotations(OrtArenaCfg))
        by_name = given[0] if len(given) == 1 and isinstance(given[0], dict) else {}
        if not by_name and len(given) not in (0, 4):
            raise TypeError(
                "OrtArenaCfg takes max_mem, arena_extend_strategy, initial_chunk_size_bytes and "
                "max_dead_bytes_per_chunk, or a dict"
            )
        for name in by_name:
            if name not in names:
                raise ValueError(f"Invalid OrtArenaCfg option: {name}")
        values = by_name or dict(zip(names, given, strict=False))
        for name in names:
            setattr(self, name, values.get(name, -1))


def create_and_register_allocator(memory: OrtMemoryInfo, arena: OrtArenaCfg | None = None) -> None:
    """Do nothing: models plan their own memory."""


def create_and_register_allocator_v2(
    provider: str, memory: OrtMemoryInfo, options: dict[str, str], arena: OrtArenaCfg | None = None
) -> None:
    """Do nothing: models plan their own memory."""
