"""Failures injected into every operation: after each the error is Cenote's, nothing leaks, the next answer is right.

A case is an operation and a point. The first time that Cenote asks for something there fails, then, in a fresh process,
the second, and so on until the operation ends without having asked so often.
"""

from __future__ import annotations

import gc
import itertools
import os
import shutil
import tempfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

import cenote
import cenote.functional as F
from cenote.core.errors import CenoteError
from cenote.plans import later
from tests.fuzz.case import Belongings, Finding, in_child, told
from tests.fuzz.damage import copied
from tests.fuzz.inject import POINTS, failing
from tests.fuzz.kills import Kills
from tests.fuzz.networks import network, picture

_AGAIN = 6  # times that a failure is repeated, to see what leaks each time
_MOST = 400
Operation = Callable[[], Any]  # gives an answer to be compared


class Failures(Kills):
    name = "failures"
    limit = 300.0

    def make(self) -> str:
        """Models, caches in several states, answers."""
        os.environ.update(CENOTE_CACHE=str(self.folder / "warm"), CENOTE_PLAN_CACHE="1000")
        path, free = self.folder / "m.onnx", self.folder / "free.onnx"
        path.write_bytes(network(linear=3).SerializeToString())
        free.write_bytes(network(batch="n").SerializeToString())
        model = cenote.load(path, threads=3)
        model.save(self.folder / "m.cenote")
        np.save(self.folder / "expected.npy", model(picture()))
        other = cenote.load(free, threads=3)
        np.save(self.folder / "free.npy", np.concatenate([other(picture(2)), other(picture(5))]))
        F.max_pool2d(picture(), 2, threads=2)
        (self.folder / "cold").mkdir(mode=0o700)
        copied(self.folder / "warm", self.folder / "kernels")
        shutil.rmtree(self.folder / "kernels" / "plans")
        return "made"

    def run(self, seed: int) -> str:
        operation = list(OPERATIONS)[seed % len(OPERATIONS)]
        point = list(POINTS)[seed // len(OPERATIONS) % len(POINTS)]
        lasting = bool(seed // len(OPERATIONS) // len(POINTS) % 2)
        for k in range(1, _MOST):
            if self.in_fresh_process(operation, point, k, lasting) == "not reached":
                return f"{operation}: survived"
        raise Finding(f"{operation}: no end of {point}")

    def in_fresh_process(self, operation: str, point: str, k: int, lasting: bool) -> str:
        scratch = Path(tempfile.mkdtemp(prefix="case-", dir=self.folder))
        try:
            return in_child(lambda: self.once(operation, point, k, lasting, scratch), 60)
        except Finding as finding:
            raise Finding(f"{operation}, {point} {k}{' and on' * lasting}: {finding}") from None
        finally:
            shutil.rmtree(scratch, ignore_errors=True)

    def once(self, name: str, point: str, k: int, lasting: bool, scratch: Path) -> str:
        """In the case's own process."""
        make, cache, plans = OPERATIONS[name]
        os.environ.update(
            CENOTE_CACHE=str(copied(self.folder / cache, scratch / "cache")), CENOTE_PLAN_CACHE=plans
        )
        operation = make(self, scratch)
        expected = np.load(self.folder / ("free.npy" if name in FREE else "expected.npy"))
        wanted = {"first run": expected[:2], "new shape": expected[2:]}.get(name, expected)
        before = Belongings.now()
        made = None
        with failing(point, k, lasting) as counter:
            try:
                made = operation()
            except (CenoteError, KeyboardInterrupt):
                pass  # not kept: it would hold what its frames hold
            except OSError as error:
                if name != "save" or not str(error.filename).endswith("m.cenote"):
                    raise Finding(f"not an error of Cenote: {told(error)}") from None
            except BaseException as foreign:
                raise Finding(f"not an error of Cenote: {told(foreign)}") from None
        if not counter.reached:
            return "not reached"
        if made is None:
            before.check("a failure")
        elif not same(made, wanted, name):
            raise Finding("a wrong answer in spite of the failure")
        self.repeat(operation, point, k, lasting)
        for _ in range(2):
            if not same(operation(), wanted, name):
                raise Finding("a wrong answer after the failure")
        later.finish()
        left = [path.name for path in scratch.rglob(".new-*")]
        if left:
            raise Finding(f"files are left: {left}")
        return "failed, then right"

    def repeat(self, operation: Operation, point: str, k: int, lasting: bool) -> None:
        """The same failure some times: mappings must not grow with every one."""
        if k > 8 or point not in ("allocation", "mapping", "thread", "open", "interrupt"):
            return
        counts = []
        for _ in range(_AGAIN):
            with failing(point, k, lasting), suppress(CenoteError, OSError, KeyboardInterrupt):
                operation()
            gc.collect()
            counts.append((mappings(), len(Belongings.now().descriptors)))
        for kind in (0, 1):
            series = [count[kind] for count in counts]
            if all(a < b for a, b in itertools.pairwise(series)):
                raise Finding(f"every failure leaks a {('mapping', 'descriptor')[kind]}: {series}")


def mappings() -> int:
    return len(Path("/proc/self/maps").read_text().splitlines())


def same(made: Any, wanted: Any, name: str) -> bool:
    if name == "pool":
        wanted = picture().reshape(2, 3, 4, 2, 4, 2).max((3, 5))
    return bool(np.array_equal(made, wanted))


def _load(file: str, threads: int = 3) -> Callable[[Failures, Path], Operation]:
    return lambda self, scratch: lambda: cenote.load(self.folder / file, threads=threads)(picture())


def _first_run(self: Failures, scratch: Path) -> Operation:
    models = [cenote.load(self.folder / "free.onnx", threads=3)]
    return lambda: models[0](picture())


def _new_shape(self: Failures, scratch: Path) -> Operation:
    model = cenote.load(self.folder / "free.onnx", threads=3)
    model(picture())
    return lambda: model(picture(5))


def _steady(self: Failures, scratch: Path) -> Operation:
    model = cenote.load(self.folder / "m.onnx", threads=3)
    model(picture())
    return lambda: model(picture())


def _save(self: Failures, scratch: Path) -> Operation:
    """Whatever happens, the file holds a model whole, the old or the new, or is not there."""
    model, path = cenote.load(self.folder / "m.onnx", threads=1), scratch / "m.cenote"

    def operation() -> Any:
        try:
            model.save(path)
        finally:
            if path.exists():
                cenote.load(path, threads=1)
        return model(picture())

    return operation


def _pool(self: Failures, scratch: Path) -> Operation:
    return lambda: F.max_pool2d(picture(), 2, threads=2)


# Operations by name: what makes them, the cache they start with, megabytes of plans that it may hold.
OPERATIONS: dict[str, tuple[Callable[[Failures, Path], Operation], str, str]] = {
    "cold load": (_load("m.onnx"), "cold", "1000"),
    "load with kernels": (_load("m.onnx"), "kernels", "1000"),
    "load with no plans": (_load("m.onnx"), "kernels", "0"),
    "warm load": (_load("m.onnx"), "warm", "1000"),
    "plan file": (_load("m.cenote"), "warm", "0"),
    "first run": (_first_run, "kernels", "1000"),
    "new shape": (_new_shape, "kernels", "1000"),
    "steady run": (_steady, "warm", "1000"),
    "save": (_save, "kernels", "0"),
    "pool": (_pool, "warm", "0"),
}
FREE = ("first run", "new shape")
KIND = Failures()
