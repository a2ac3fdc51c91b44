"""From calls of kernels to steps of a program: where kernels get addresses, and arguments become words."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace

import numpy as np

from cenote.codegen import jit
from cenote.codegen.worker import Source
from cenote.core.target import Target
from cenote.core.types import PLAIN, Array, TensorType
from cenote.kernels.base import Argument, Call, View, word_of
from cenote.kernels.driver import driver_sources
from cenote.runtime.program import KernelStep, Slot


def with_constants(call: Call, constant: Callable[[Array], Slot]) -> Call:
    """The call with its arrays in the program's constants; `constant` puts one there."""

    def placed(argument: Argument) -> Argument:
        if not isinstance(argument, np.ndarray):
            return argument
        return View(TensorType(argument.dtype, argument.shape), PLAIN, (), constant(argument))

    if not [argument for argument in call.arguments if isinstance(argument, np.ndarray)]:
        return call
    return replace(call, arguments=tuple(map(placed, call.arguments)))


class Launcher:
    """The kernels of some calls, compiled and loaded at once, the driver with them."""

    def __init__(self, calls: Iterable[Call], target: Target) -> None:
        specs = dict.fromkeys(call.spec for call in calls)
        sources: list[Source] = [*specs, *driver_sources(target)]
        addresses = jit.addresses(sources, target)
        # Many steps share a kernel, and making a symbol takes 10 us.
        self._kernels = {spec: (symbol := spec.symbol, addresses[symbol]) for spec in specs}

    def step(self, call: Call, label: str = "", barrier: bool = True) -> KernelStep:
        """The step of a call whose arguments are numbers and places; labelled with the symbol if there is no label."""
        symbol, address = self._kernels[call.spec]
        words = tuple(word_of(argument) for argument in call.arguments)
        return KernelStep(
            label or symbol, symbol, address, words, call.items, call.grain, call.scratch, barrier
        )
