"""Functions of the native driver that Python calls, by their symbols."""

from __future__ import annotations

from cenote.codegen.native import NativeModule
from cenote.core.target import Target
from cenote.kernels.driver.call import cenote_call
from cenote.kernels.driver.formulas import cenote_formulas
from cenote.kernels.driver.known import cenote_function
from cenote.kernels.driver.rounds import cenote_rounds
from cenote.kernels.driver.run import cenote_run
from cenote.kernels.driver.work import cenote_halt, cenote_work

_FUNCTIONS = (
    cenote_run,
    cenote_work,
    cenote_halt,
    cenote_rounds,
    cenote_formulas,
    cenote_call,
    cenote_function,
)


def module_of(symbol: str, target: Target) -> NativeModule:
    """Return the module of a function."""
    return NativeModule(next(each for each in _FUNCTIONS if each.name == symbol), target)
