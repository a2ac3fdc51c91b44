"""Forks while other threads compile, load and run: child and parent must both go on and answer rightly."""

from __future__ import annotations

import os
import random
import shutil
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np

import cenote
from tests.fuzz.case import Finding, generator, in_child, told
from tests.fuzz.kills import Kills
from tests.fuzz.networks import network, picture


class Forks(Kills):
    name = "forks"
    limit = 90.0

    def run(self, seed: int) -> str:
        rng = generator(self.name, seed)
        scratch = Path(tempfile.mkdtemp(prefix="case-", dir=self.folder))
        try:
            os.environ.update(
                CENOTE_CACHE=str(scratch / "cache"), CENOTE_PLAN_CACHE=rng.choice(("0", "1000"))
            )
            self.cool(scratch, rng)
            return in_child(lambda: self.fork_often(rng), self.limit / 2)
        finally:
            shutil.rmtree(scratch, ignore_errors=True)

    def fork_often(self, rng: random.Random) -> str:
        """In the case's own process: threads at work, forks in between."""
        shared = cenote.load(network(width=4), threads=2)
        wanted = shared(picture())
        stop, troubles = threading.Event(), list[str]()
        works = rng.sample((self.compiling, self.loading, self.calling, self.dropping), rng.randint(1, 3))
        threads = [
            threading.Thread(target=guarded, args=(work, shared, random.Random(rng.random()), stop, troubles))
            for work in works
        ]
        for thread in threads:
            thread.start()
        try:
            for _ in range(rng.randint(1, 3)):
                time.sleep(rng.uniform(0, 0.12))
                in_child(lambda: self.in_fork(shared, wanted, rng), self.limit / 4)
        finally:
            stop.set()
        for thread in threads:
            thread.join(self.limit / 4)
            if thread.is_alive():
                raise Finding(f"a thread of the parent hangs: {works}")
        if troubles:
            raise Finding(troubles[0])
        if not np.array_equal(shared(picture()), wanted):
            raise Finding("the parent's answer is wrong after forks")
        return "forked"

    def in_fork(self, shared: cenote.Model, wanted: Any, rng: random.Random) -> str:
        """In the fork: a model of the parent, one of its own, and a new shape."""
        if not np.array_equal(shared(picture()), wanted):
            raise Finding("a model of the parent gives a wrong answer in the fork")
        if not np.array_equal(cenote.load(self.folder / "m.onnx", threads=2)(picture()), self.expected):
            raise Finding("a model that the fork loads gives a wrong answer")
        cenote.load(network(width=rng.choice((3, 5, 12))), threads=1)(picture())
        return "right"

    def compiling(self, shared: cenote.Model, rng: random.Random) -> None:
        """A width that the cache does not know."""
        cenote.load(network(width=rng.randint(1, 40), batch=rng.randint(1, 9)).SerializeToString(), threads=1)

    def loading(self, shared: cenote.Model, rng: random.Random) -> None:
        if not np.array_equal(cenote.load(self.folder / "m.onnx", threads=2)(picture()), self.expected):
            raise Finding("a model loaded beside forks gives a wrong answer")

    def calling(self, shared: cenote.Model, rng: random.Random) -> None:
        shared(picture())

    def dropping(self, shared: cenote.Model, rng: random.Random) -> None:
        model = cenote.load(network(batch="n", width=4), threads=rng.choice((1, 2, 3)))
        model(picture(rng.randint(1, 20)))


def guarded(work: Any, shared: Any, rng: random.Random, stop: threading.Event, troubles: list[str]) -> None:
    """One thread's life. What it raises is told, not printed."""
    try:
        while not stop.is_set():
            work(shared, rng)
    except BaseException as error:
        troubles.append(told(error))


KIND = Forks()
