"""A function on arrays, in whichever engine a case has one for: a class per engine, for the worker's sake."""

from typing import Any

import numpy as np

from bench.engines.base import Arrays, Engine, UnavailableError
from bench.operator_cases import case_named
from bench.worker import sample


class Operator(Engine[Any]):
    """One case in one engine. `load` makes the case's inputs too: they do not go through the pipe."""

    def load(self, work: tuple[str, str], threads: int) -> None:
        """`work`: family and name of the case."""
        case = case_named(*work)
        if self.distribution not in case.engines:
            raise UnavailableError("has no such function")
        self.function = case.engines[self.distribution](case.inputs(), threads)

    def adopt(self, x: Any) -> None:
        """The inputs lie ready."""

    def run(self, x: None) -> Any:
        return self.function()

    def outputs(self, y: Any) -> Arrays:
        return as_arrays(y)


def as_arrays(y: Any) -> Arrays:
    """What a case's function gave, as arrays of numbers that are cut down to what can be compared quickly."""
    many = y if isinstance(y, tuple | list) else (y,)
    return tuple(sample(as_numbers(each)) for each in many)


def as_numbers(y: Any) -> np.ndarray:
    """An array that pickles anywhere: bfloat16 tensors become float32."""
    if str(getattr(y, "dtype", "")) == "torch.bfloat16":
        y = y.float()
    array = np.asarray(y)
    return array.astype(np.float32) if array.dtype.name == "bfloat16" else array


class Cenote(Operator):
    distribution = "cenote"

    def version(self) -> str:
        from cenote import __version__

        return __version__


class Numpy(Operator):
    distribution = "numpy"


class Torch(Operator):
    distribution = "torch"


class Onnxruntime(Operator):
    distribution = "onnxruntime"
