"""Engines for the tests of the harness: they double their input, or misbehave."""

import os
import time

import numpy as np

from bench.engines.base import ModelEngine, UnavailableError


class Doubler(ModelEngine):
    """Right, and quick."""

    delay = 0.0

    def version(self) -> str:
        return "1.0"

    def load(self, work, threads: int) -> None:
        self.threads = threads

    def run(self, x: np.ndarray) -> np.ndarray:
        time.sleep(self.delay)
        return 2 * x


class SlowDoubler(Doubler):
    """Right, and slow."""

    delay = 0.02


class Wrong(Doubler):
    """Quick, but wrong."""

    def run(self, x: np.ndarray) -> np.ndarray:
        return 3 * x


class Refuses(Doubler):
    """Says that it cannot."""

    def load(self, work, threads: int) -> None:
        raise UnavailableError("not today")


class Crashes(Doubler):
    """Takes its process down."""

    def run(self, x: np.ndarray) -> np.ndarray:
        os._exit(7)
