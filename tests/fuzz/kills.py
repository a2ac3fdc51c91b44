"""Processes killed while they load, compile and write the cache: the next one must answer rightly."""

from __future__ import annotations

import os
import random
import shutil
import signal
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

import cenote
from tests.fuzz.case import Finding, die_with_parent, generator, in_child
from tests.fuzz.damage import copied
from tests.fuzz.networks import picture, saved


class Kills:
    name = "kills"
    limit = 90.0

    def __init__(self) -> None:
        self.folder = Path()
        self.expected: Any = None

    def prepare(self) -> None:
        import cenote.codegen.llvm
        import cenote.compiler.compile
        import cenote.models.loading
        import cenote.ops.table

        cenote.ops.table.operators()
        self.folder = Path(tempfile.mkdtemp(prefix="kills-"))
        in_child(self.make, 300)
        self.expected = np.load(self.folder / "expected.npy")

    def make(self) -> str:
        os.environ.update(CENOTE_CACHE=str(self.folder / "warm"), CENOTE_PLAN_CACHE="1000")
        model = cenote.load(saved(self.folder / "m.onnx", linear=2), threads=1)
        np.save(self.folder / "expected.npy", model(picture()))
        return "made"

    def close(self) -> None:
        pass

    def run(self, seed: int) -> str:
        rng = generator(self.name, seed)
        scratch = Path(tempfile.mkdtemp(prefix="case-", dir=self.folder))
        try:
            cold = self.cool(scratch, rng)
            os.environ.update(CENOTE_CACHE=str(scratch / "cache"), CENOTE_PLAN_CACHE="1000")
            latest = 0.25 if cold else 0.05  # seconds: when it is done, on an idle machine
            ended = sum(self.killed(scratch, rng.uniform(0, latest)) for _ in range(rng.choice((1, 1, 2, 3))))
            in_child(lambda: self.check(scratch), self.limit / 3)
            return "killed" if not ended else "done before the kill"
        finally:
            shutil.rmtree(scratch, ignore_errors=True)

    def cool(self, scratch: Path, rng: random.Random) -> bool:
        """A cache that has all but the plans, or lacks some kernels too."""
        folder = copied(self.folder / "warm", scratch / "cache")
        for path in (folder / "plans").iterdir():
            path.unlink()
        objects = sorted((folder / "objects").iterdir())
        lacking = rng.choice((0, 1, 2, len(objects)))
        for path in rng.sample(objects, lacking):
            path.unlink()
        return lacking > 0

    def killed(self, scratch: Path, seconds: float) -> bool:
        """Start a load, kill it after so many seconds; True when it had ended by itself."""
        child = os.fork()
        if child == 0:
            status = 1
            try:
                die_with_parent()
                self.work(scratch)
                status = 0
            finally:
                os._exit(status)
        time.sleep(seconds)
        os.kill(child, signal.SIGKILL)
        return os.WIFEXITED(os.waitpid(child, 0)[1])

    def work(self, scratch: Path) -> None:
        model = cenote.load(self.folder / "m.onnx", threads=2)
        model(picture())
        model.save(scratch / "m.cenote")

    def check(self, scratch: Path) -> str:
        """The next process."""
        for source in (self.folder / "m.onnx", scratch / "m.cenote"):
            if source.exists() and not np.array_equal(
                cenote.load(source, threads=1)(picture()), self.expected
            ):
                raise Finding(f"after a kill {source.name} gives a wrong answer")
        model = cenote.load(self.folder / "m.onnx", threads=1)
        if type(model.plan).__name__ != "StoredPlan":
            raise Finding("after a kill the plan is not kept any more")
        return "right"


KIND = Kills()
