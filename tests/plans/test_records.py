"""A header that is not what the writer writes, its digests valid, is an error and never a crash."""

from __future__ import annotations

import contextlib
import copy
import dataclasses
import hashlib
import json
import mmap
import struct
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import cenote
from cenote.plans import later, reader
from cenote.plans.format import MAGIC, PAGE, StalePlanError
from cenote.plans.records import decode
from tests.plans.models import small_model, stored_at


class Parts:
    """A plan file taken apart, to be written with another header."""

    def __init__(self, path: Path) -> None:
        self.path = path
        content = path.read_bytes()
        with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as mapped:
            self.header, start = reader.header_of(mapped)
        end = start + sum(self.header["descriptions"]) + sum(self.header["kernels"].values())
        self.code, self.constants = content[start:end], content[-(-end // PAGE) * PAGE :]

    def write(self, header: Any) -> None:
        text = json.dumps(header).encode()
        start = MAGIC + struct.pack("<Q", len(text)) + hashlib.sha256(text).digest() + text + self.code
        self.path.unlink()  # pages of the old one may be in use
        self.path.write_bytes(start + b"\0" * (-len(start) % PAGE) + self.constants)


@pytest.fixture(scope="module")
def parts(tmp_path_factory: pytest.TempPathFactory) -> Parts:
    folder = tmp_path_factory.mktemp("headers")
    cenote.load(small_model(folder / "m.onnx"), threads=1).save(folder / "m.cenote")
    return Parts(folder / "m.cenote")


def steps(header: Any, kind: str) -> Iterator[Any]:
    return (step for step in header["plans"][0]["steps"] if kind in step)


def kernel(header: Any) -> Any:
    return next(steps(header, "symbol"))


def host(header: Any) -> Any:
    return next(steps(header, "op"))


def slot(header: Any, kind: str = "constant") -> Any:
    words = [word for step in steps(header, "symbol") for word in step["words"]]
    return next(word for word in words if isinstance(word, list) and word[0] == kind)


CHANGES: list[Callable[[Any], Any]] = [
    lambda h: slot(h).__setitem__(2, 1 << 40),
    lambda h: slot(h).__setitem__(2, -64),
    lambda h: slot(h).__setitem__(1, 99),
    lambda h: slot(h).__setitem__(1, -1),
    lambda h: slot(h).__setitem__(0, "somewhere"),
    lambda h: slot(h, "arena").__setitem__(2, 1 << 40),
    lambda h: slot(h, "input").__setitem__(2, 4 * 3 * 8 * 8 + 1),
    lambda h: kernel(h)["words"].__setitem__(0, 1 << 70),
    lambda h: kernel(h)["words"].__setitem__(0, 0.5),
    lambda h: kernel(h)["words"].__setitem__(0, True),
    lambda h: kernel(h).update(items=1 << 33),
    lambda h: kernel(h).update(items=-1),
    lambda h: kernel(h).update(grain=0),
    lambda h: kernel(h).update(scratch=-1),
    lambda h: kernel(h).update(barrier=7),
    lambda h: kernel(h).update(symbol="unknown"),
    lambda h: kernel(h).pop("label"),
    lambda h: h["plans"][0].update(arena=-1),
    lambda h: h["plans"][0].update(arena=64),
    lambda h: h["plans"][0].update(arena="1"),
    lambda h: h["plans"][0].update(alone="no"),
    lambda h: h["plans"][0]["inputs"][0].__setitem__(1, [1, 3, 800, 800]),
    lambda h: h["plans"][0]["inputs"][0].__setitem__(0, "float64"),
    lambda h: h["plans"][0].update(shapes=[[1, 3, 4, 4]]),
    lambda h: h["plans"][0]["outputs"].clear(),
    lambda h: h["plans"][0]["outputs"][0].__setitem__(1, [1 << 60, 1 << 60]),
    lambda h: h["plans"][0]["constants"].__setitem__(0, 99),
    lambda h: h["plans"][0]["constants"].__setitem__(0, -1),
    lambda h: h["plans"].clear(),
    lambda h: h["constants"][0].update(at=1 << 30),
    lambda h: h["constants"][0].update(at=-64),
    lambda h: h["constants"][0].update(at=4),
    lambda h: h["constants"][0].update(dtype="object"),
    lambda h: h["constants"][0].update(dtype="f4,O"),
    lambda h: h["constants"][0].update(shape=[1 << 20]),
    lambda h: h["constants"][0].update(shape=[-1]),
    lambda h: h.update(constant_bytes=0),
    lambda h: h.update(checksums=""),
    lambda h: h.update(checksums="zz"),
    lambda h: h.update(checksums="0123456789abcd"),
    lambda h: h.update(kernels={**h["kernels"], "more": -100}),
    lambda h: h.update(descriptions=[1 << 60]),
    lambda h: h.update(metadata=3),
    lambda h: h["options"].update(precision="loose"),
    lambda h: h["options"].update(weights=None),
    lambda h: h["options"].pop("rewrites"),
    lambda h: h["options"].update(algorithms=[]),
    lambda h: h["options"].update(rewrites="float32"),
    lambda h: h.update(options=[]),
    lambda h: h.update(external={"w.bin": 3}),
    lambda h: h.update(inputs=[["x", "float32", [1, 3, -8, 8]]]),
    lambda h: h.update(world={}),
    lambda h: host(h)["outputs"][0][0].__setitem__(0, "constant"),
    lambda h: host(h)["inputs"][0][0].__setitem__(2, 1 << 40),
    lambda h: host(h)["inputs"][0][1].__setitem__(1, [1 << 20]),
    lambda h: host(h).update(op=5),
    lambda h: host(h)["op"].update({"class": ["subprocess", "Popen"]}),
    lambda h: host(h).update(where=3),
]


@pytest.mark.parametrize("number", range(len(CHANGES)))
def test_a_wrong_field_is_an_error(parts: Parts, number: int) -> None:
    header = copy.deepcopy(parts.header)
    CHANGES[number](header)
    parts.write(header)
    with pytest.raises(cenote.ModelError, match=r"damaged|cut short"):
        cenote.load(parts.path, threads=1)


def places(value: Any) -> Iterator[tuple[Any, Any]]:
    """Every container and key in the header."""
    for key, item in list(value.items()) if isinstance(value, dict) else list(enumerate(value)):
        yield value, key
        if isinstance(item, dict | list):
            yield from places(item)


def test_any_field_may_be_anything(parts: Parts) -> None:
    """Loading alone: a program whose kernels are given other numbers does something else, but only where it may."""
    rng = np.random.default_rng(3)
    odd: list[Any] = [None, True, -1, 0, 1 << 44, 1 << 63, -1 << 70, 1.5, "", "x", [], {}, [[]], float("nan")]
    for _ in range(200):
        header = copy.deepcopy(parts.header)
        found = list(places(header))
        holder, key = found[rng.integers(len(found))]
        holder[key] = odd[rng.integers(len(odd))]
        parts.write(header)
        with contextlib.suppress(cenote.CenoteError):
            cenote.load(parts.path, threads=1)


@pytest.mark.parametrize(
    "named",
    [
        ["cenote.ops.no_longer_here", "Relu"],
        ["cenote.ops.base", "NoLongerHere"],
        ["cenote.ops.base", "replace"],
    ],
)
def test_a_class_that_moved_makes_a_stale_plan(parts: Parts, named: list[str]) -> None:
    with pytest.raises(StalePlanError, match="not what it was"):
        decode({"class": named, "fields": {}})
    header = copy.deepcopy(parts.header)
    host(header)["op"]["class"] = named
    parts.write(header)
    with pytest.raises(StalePlanError, match="compile it again"):
        cenote.load(parts.path)


def test_a_class_whose_fields_changed_makes_a_stale_plan(parts: Parts) -> None:
    header = copy.deepcopy(parts.header)
    host(header)["op"]["fields"]["a_field_of_old"] = 1
    parts.write(header)
    with pytest.raises(StalePlanError, match="not what it was"):
        cenote.load(parts.path)


def test_a_cached_plan_that_names_a_class_that_moved_is_made_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CENOTE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("CENOTE_PLAN_CACHE", "100")
    source = small_model(tmp_path / "m.onnx")
    x = np.ones((1, 3, 8, 8), np.float32)
    expected = cenote.load(source)(x)
    later.finish()
    (kept,) = (tmp_path / "cache" / "plans").iterdir()
    changed = Parts(kept)
    host(changed.header)["op"]["class"][0] = "cenote.ops.no_longer_here"
    changed.write(changed.header)
    assert np.array_equal(cenote.load(source)(x), expected)
    later.finish()
    assert "no_longer_here" not in json.dumps(Parts(kept).header), "replaced"


def test_the_description_is_checked_when_it_is_read(parts: Parts) -> None:
    parts.write(parts.header)
    stored = stored_at(parts.path)
    (plan,) = stored.plans.values()
    broken = dataclasses.replace(plan, text=b"[1]")
    with pytest.raises(cenote.ModelError, match="description"):
        str(broken)
