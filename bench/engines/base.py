"""The protocol that every engine follows, and what an engine says when it cannot do something."""

from abc import ABC, abstractmethod
from importlib import metadata
from typing import Any, ClassVar, Generic, TypeAlias, TypeVar

import numpy as np

from bench.cases import PoolCase
from bench.files import ModelFiles

Work = TypeVar("Work", ModelFiles, PoolCase)
Arrays: TypeAlias = tuple[np.ndarray, ...]


class UnavailableError(Exception):
    """The engine has no way to do this piece of work; the message says why."""


class Engine(ABC, Generic[Work]):
    """One engine with one piece of work loaded. Lives in a worker process; only `run` is timed.

    A model engine takes and gives NumPy arrays in `run`, because that is what its user does. A pooling
    engine takes its input in its own form, from `adopt`, and gives its own form, so that no copy is timed.
    """

    distribution: ClassVar[str]

    def version(self) -> str:
        """Version of the installed package."""
        return metadata.version(self.distribution)

    def prepare(self, work: Work) -> None:
        """Converts the model to the engine's own format; runs in a process that is not measured."""

    @abstractmethod
    def load(self, work: Work, threads: int) -> None:
        """Makes the work ready to run on so many threads."""

    def adopt(self, x: np.ndarray) -> Any:
        """The input in the form that `run` takes."""
        return x

    @abstractmethod
    def run(self, x: Any) -> Any:
        """One inference or one operator call."""

    def settle(self) -> None:
        """Returns when what the engine does behind its first answer is done."""

    def compiled(self) -> int:
        """Kernels that a compiler has made since this was first asked; 0 for an engine that has none."""
        return 0

    def outputs(self, y: Any) -> Arrays:
        """What `run` gave, as NumPy arrays in the order of the reference."""
        return (np.asarray(y),)


class ModelEngine(Engine[ModelFiles]):
    """An engine that runs whole models."""


class PoolEngine(Engine[PoolCase]):
    """An engine that runs one pooling operator."""
