"""Kernel steps as native code takes them: argument records one behind the other, and the columns of the step table."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from cenote.core.deferred import dataclass
from cenote.core.types import Array
from cenote.runtime.memory import address_of
from cenote.runtime.steps import HostStep, Slot, SlotKind, Step

_SIGN = 1 << 63
Memory = tuple[SlotKind, int]  # kind and index of a slot


@dataclass(frozen=True)
class Records:
    """Steps of a program without addresses of memory that changes.

    `words`: makes all argument records, `length` words. Constants have their addresses; other words in memory are
    offsets, to which the address of the memory that `places` names is added later (positions of words, by memory).
    Per kernel step: the place where its record `starts`, its `addresses`, `items`, `grains` and `barriers`.
    `segments`: kernel steps that run one after another (first, behind the last), and host steps.
    """

    words: Callable[[], Array]
    length: int
    places: Mapping[Memory, Array]
    starts: Array
    addresses: Array
    items: Array
    grains: Array
    barriers: Array
    segments: tuple[tuple[int, int] | HostStep, ...]

    @staticmethod
    def of(steps: Sequence[Step], constants: Sequence[Array]) -> Records:
        """Return the records of the steps of a program."""
        words: list[Any] = []
        known: dict[int, int] = {}  # addresses of constants, by number
        places: dict[Memory, list[int]] = {}
        heads: list[tuple[int, int, int, int, bool]] = []
        for step in steps:
            if isinstance(step, HostStep):
                continue
            heads.append((len(words), step.address, step.items, step.grain, step.barrier))
            first = len(words)
            words += step.words
            for position, word in enumerate(step.words, first):
                if type(word) is int and word < _SIGN:
                    continue
                if not isinstance(word, Slot):
                    words[position] = word - (1 << 64) if word >= _SIGN else word
                elif word.kind is SlotKind.CONSTANT:
                    if word.index not in known:
                        known[word.index] = address_of(constants[word.index])
                    words[position] = known[word.index] + word.offset
                else:
                    places.setdefault((word.kind, word.index), []).append(position)
                    words[position] = word.offset
        table = np.array(heads, np.int64).reshape(len(heads), 5)
        starts, addresses, items, grains, barriers = table.T
        positions_of = {memory: np.array(positions) for memory, positions in places.items()}
        all_words = np.array(words, np.int64)
        return Records(
            all_words.copy,
            len(words),
            positions_of,
            starts,
            addresses,
            items,
            grains,
            barriers,
            segments_of(steps),
        )


def segments_of(steps: Sequence[Step]) -> tuple[tuple[int, int] | HostStep, ...]:
    """Return native stretches, by the numbers of their kernel steps, and the host steps between them."""
    segments: list[tuple[int, int] | HostStep] = []
    row = 0
    for step in steps:
        if isinstance(step, HostStep):
            segments.append(step)
            continue
        last = segments[-1] if segments else None
        if isinstance(last, tuple):
            segments[-1] = (last[0], row + 1)
        else:
            segments.append((row, row + 1))
        row += 1
    return tuple(segments)
