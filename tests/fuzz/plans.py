"""Damaged plan files, cached plans, kernels and texts: an error of Cenote (plan files) or the right bits (always).

Each case is a process of its own, forked off one that has imported everything and loaded nothing.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import tempfile
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

import cenote
from cenote.core.errors import CenoteError
from tests.fuzz.case import Finding, generator, in_child
from tests.fuzz.damage import copied, craft, damage
from tests.fuzz.networks import network, picture, saved

# Models by name, and how many of a hundred cases are about each: copying a large one takes long.
MODELS: dict[str, tuple[dict[str, Any], int]] = {
    "small": ({}, 70), "free": ({"batch": "n"}, 17), "medium": ({"linear": 2}, 11), "large": ({"linear": 40}, 2),
}  # fmt: skip


class Plans:
    name = "plans"
    limit = 30.0

    def __init__(self) -> None:
        self.folder = Path()
        self.expected: dict[str, Any] = {}

    def prepare(self) -> None:
        import cenote.codegen.llvm
        import cenote.ops.table

        cenote.ops.table.operators()
        import cenote.compiler.compile  # what compiles is there before processes are forked off

        self.folder = Path(tempfile.mkdtemp(prefix="plans-"))
        in_child(self.make, 300)
        self.expected = {name: np.load(self.folder / f"{name}.npy") for name in MODELS}

    def make(self) -> str:
        """Models, plan files, answers, and a cache that knows them all."""
        warm = self.folder / "warm"
        os.environ.update(CENOTE_CACHE=str(warm), CENOTE_PLAN_CACHE="1000")
        for name, (more, _) in MODELS.items():
            path = saved(self.folder / f"{name}.onnx", **more)
            model = cenote.load(path, threads=1)
            np.save(self.folder / f"{name}.npy", model(picture()))
            model.save(self.folder / f"{name}.cenote")
            model.save(self.folder / f"{name}.sourced.cenote", path)
        (self.folder / "changed.onnx").write_bytes(network(seed=1).SerializeToString())
        return "made"

    def close(self) -> None:
        pass

    def run(self, seed: int) -> str:
        rng = generator(self.name, seed)
        work = {"file": self.file, "crafted": self.crafted, "cache": self.cache}[
            rng.choice(("file", "file", "crafted", "cache", "cache"))
        ]
        name = rng.choices(list(MODELS), [share for _, share in MODELS.values()])[0]
        scratch = Path(tempfile.mkdtemp(prefix="case-", dir=self.folder))
        try:
            os.environ.update(CENOTE_CACHE=str(scratch / "cache"), CENOTE_PLAN_CACHE="1000")
            return in_child(lambda: work(scratch, name, rng), self.limit - 10)
        finally:
            shutil.rmtree(scratch, ignore_errors=True)

    # ---- in the child -----------------------------------------------------------------------------------------

    def file(self, scratch: Path, name: str, rng: random.Random) -> str:
        """A damaged plan file: refused, or right. One that names its model may be made anew, from that model only."""
        os.environ["CENOTE_CACHE"] = str(self.folder / "warm")
        path = scratch / "m.cenote"
        sourced = name == "small" and rng.random() < 0.2
        if sourced:
            source = scratch / "m.onnx"
            shutil.copy(self.folder / "small.onnx", source)
            cenote.load(source, threads=1).save(path, source)
            shutil.copy(self.folder / "changed.onnx", source)
        else:
            shutil.copy(self.folder / f"{name}.cenote", path)
        other = self.folder / ("free.cenote" if name == "small" else "small.cenote")
        what = damage(path, other.read_bytes(), rng, pipes=False)  # a pipe is waited for, as by any reader
        if what == "another file":
            name = "free" if name == "small" else "small"
        return self.load(
            path, name, f"a plan file {'with a changed source ' * sourced}{what}", refusable=True
        )

    def crafted(self, scratch: Path, name: str, rng: random.Random) -> str:
        """A header with odd values under valid digests: the writer signs them itself."""
        from cenote.plans import writer

        os.environ["CENOTE_CACHE"] = str(self.folder / "warm")
        path = scratch / "m.cenote"

        def dumps(value: Any, **more: Any) -> str:
            if isinstance(value, dict) and "world" in value:
                value = json.loads(json.dumps(value))
                for _ in range(rng.choice((1, 1, 2))):
                    craft(value, rng)
            return json.dumps(value, **more)

        model = cenote.load(self.folder / f"{name}.cenote", threads=1)
        writer.json = SimpleNamespace(dumps=dumps, loads=json.loads)
        model.save(path)
        writer.json = json
        try:
            made = cenote.load(path, threads=1)
            made(picture())
            str(made.plan)
        except (CenoteError, OSError) as error:
            return checked(error, "crafted, refused")
        return "crafted, accepted"

    def cache(self, scratch: Path, name: str, rng: random.Random) -> str:
        """Damage in the cache is never an error, and never a wrong answer."""
        largest = {"large": 1 << 60, "medium": 9 << 20}.get(name, 1 << 20)
        folder = copied(self.folder / "warm", scratch / "cache", largest)
        files = sorted(path for path in folder.rglob("*") if path.is_file())
        found = []
        other = rng.choice(files).read_bytes()
        for chosen in rng.sample(files, min(len(files), rng.choices((1, 2, 30), (78, 18, 4))[0])):
            found.append(damage(chosen, other, rng))
        if rng.random() < 0.05:
            place = folder / rng.choice(("objects", "plans"))
            shutil.rmtree(place)
            rng.choice(
                (
                    lambda: place.write_text("x"),
                    lambda: place.symlink_to("/nowhere"),
                    lambda: os.mkfifo(place),
                )
            )()
            found.append("folder replaced")
        what = f"a cache ({', '.join(found[:3])})"
        for _ in range(2):
            self.load(self.folder / f"{name}.onnx", name, what, refusable=False)
        return "cache"

    def load(self, path: Path, name: str, what: str, refusable: bool) -> str:
        try:
            made = cenote.load(path, threads=1)(picture())
        except (CenoteError, OSError) as error:
            if refusable:
                return checked(error, "refused")
            raise
        except Exception as error:
            error.add_note(what)
            raise
        if not np.array_equal(made, self.expected[name]):
            raise Finding(f"{what}: a wrong answer")
        return "right"


def checked(error: BaseException, outcome: str) -> str:
    if not str(error):
        raise Finding("an error without a message") from error
    return outcome


KIND = Plans()
