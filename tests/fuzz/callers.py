"""Threads that call, load, compile, save, stream and drop models at once, signals in between: answers stay right."""

from __future__ import annotations

import gc
import os
import random
import shutil
import signal
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import cenote
import cenote.functional as F
from cenote.core.errors import CenoteError
from tests.fuzz.case import Belongings, Finding, generator, in_child, told
from tests.fuzz.kills import Kills
from tests.fuzz.networks import network, picture

_BATCHES = 6


class Callers(Kills):
    name = "callers"
    limit = 60.0

    def make(self) -> str:
        """The answers for all batches, by one thread, in a process of its own."""
        os.environ.update(CENOTE_CACHE=str(self.folder / "warm"), CENOTE_PLAN_CACHE="1000")
        path = self.folder / "m.onnx"
        path.write_bytes(network(batch="n").SerializeToString())
        model = cenote.load(path, threads=1)
        answers = [model(picture(batch)) for batch in range(1, _BATCHES + 1)]
        np.save(self.folder / "expected.npy", np.concatenate(answers))
        for width in (4, 12):
            cenote.load(network(width=width), threads=1)
        return "made"

    def run(self, seed: int) -> str:
        rng = generator(self.name, seed)
        scratch = Path(tempfile.mkdtemp(prefix="case-", dir=self.folder))
        try:
            folder = self.folder / "warm" if rng.random() < 0.7 else scratch / "cold"
            os.environ.update(CENOTE_CACHE=str(folder), CENOTE_PLAN_CACHE=rng.choice(("0", "1000")))
            os.environ["CENOTE_SPIN"] = rng.choice(("0", "1", "50", "2000"))
            return in_child(lambda: self.together(scratch, rng), self.limit / 2)
        finally:
            shutil.rmtree(scratch, ignore_errors=True)

    def answer(self, batch: int) -> Any:
        start = batch * (batch - 1) // 2
        return self.expected[start : start + batch]

    def together(self, scratch: Path, rng: random.Random) -> str:
        """In the case's own process."""
        before = Belongings.now()
        models = [cenote.load(self.folder / "m.onnx", threads=rng.choice((1, 2, 2, 3, 5))) for _ in range(2)]
        signal.signal(signal.SIGALRM, lambda *_: None)
        if rng.random() < 0.4:
            signal.setitimer(signal.ITIMER_REAL, 0.001, rng.uniform(0.0005, 0.01))
        if rng.random() < 0.2:
            gc.set_threshold(rng.choice((5, 50)))
        troubles: list[str] = []
        threads = [
            threading.Thread(target=self.live, args=(models, scratch, random.Random(rng.random()), troubles))
            for _ in range(rng.randint(2, 8))
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        signal.setitimer(signal.ITIMER_REAL, 0)
        if troubles:
            raise Finding(troubles[0])
        for model in models:
            self.call(model, rng)
        models.clear()
        del model
        before.check("threads at once")
        return "right"

    def live(self, models: list[Any], scratch: Path, rng: random.Random, troubles: list[str]) -> None:
        """One thread: some actions, one after the other."""
        actions: tuple[Callable[..., None], ...] = (
            self.call, self.call, self.call, self.load, self.save, self.stream, self.pool, self.wrong, self.describe,
        )  # fmt: skip
        try:
            for _ in range(rng.randint(3, 25)):
                action = rng.choice(actions)
                if action == self.save:
                    self.save(rng.choice(models), rng, scratch)
                else:
                    action(rng.choice(models), rng)
        except BaseException as error:
            troubles.append(told(error))

    def call(self, model: Any, rng: random.Random) -> None:
        batch = rng.randint(1, _BATCHES)
        if not np.array_equal(model(picture(batch)), self.answer(batch)):
            raise Finding(f"a wrong answer for a batch of {batch}, {model.threads} threads")

    def load(self, model: Any, rng: random.Random) -> None:
        self.call(cenote.load(self.folder / "m.onnx", threads=rng.choice((1, 2, 4))), rng)

    def save(self, model: Any, rng: random.Random, scratch: Path) -> None:
        self.call(model, rng)
        path = scratch / f"{rng.randint(0, 2)}.cenote"
        batch = rng.randint(1, _BATCHES)
        made = cenote.load(network(batch=batch).SerializeToString(), threads=rng.choice((1, 2)))
        made.save(path)
        if not np.array_equal(made(picture(batch)), self.answer(batch)):
            raise Finding("a model saved beside others gives a wrong answer")

    def stream(self, model: Any, rng: random.Random) -> None:
        batches = [rng.randint(1, _BATCHES) for _ in range(4)]
        stream = model.map(picture(batch) for batch in batches)
        for batch, made in zip(batches[: rng.randint(1, 4)], stream, strict=False):
            if not np.array_equal(made, self.answer(batch)):
                raise Finding("a stream gives a wrong answer")
        stream.close()

    def pool(self, model: Any, rng: random.Random) -> None:
        x = picture(3)
        wanted = x.reshape(3, 3, 4, 2, 4, 2).max((3, 5))
        if not np.array_equal(F.max_pool2d(x, 2, threads=rng.choice((1, 2))), wanted):
            raise Finding("a pool gives a wrong answer")

    def wrong(self, model: Any, rng: random.Random) -> None:
        """What is refused does no harm."""
        try:
            model(
                rng.choice(
                    (
                        np.zeros((1, 2)),
                        np.zeros((1, 3, 8, 8), np.int32),
                        [1],
                        np.zeros((1, 3, 8, 9), np.float32),
                    )
                )
            )
        except CenoteError:
            return

    def describe(self, model: Any, rng: random.Random) -> None:
        assert str(model)
        if model._stages:
            assert str(model.plan)


KIND = Callers()
