"""Damage to files: bits, pieces, lengths, and things that are no files."""

from __future__ import annotations

import os
import random
import shutil
import socket
from pathlib import Path
from typing import Any

PAGE = 4096


def damage(path: Path, other: bytes, rng: random.Random, pipes: bool = True) -> str:
    """Do something to a file; what it was. `other` is the content of another of its kind."""
    kind = rng.random()
    if kind < 0.55:
        return flip(path, rng)
    if kind < 0.7:
        return cut(path, rng)
    if kind < 0.88:
        return splice(path, other, rng)
    return replace(path, rng, pipes)


def rewritten(path: Path, content: bytes) -> None:
    """Another file of that name: who has the old one mapped keeps it."""
    path.unlink()
    path.write_bytes(content)


def flip(path: Path, rng: random.Random) -> str:
    """Change bits, anywhere, or near the start, where headers are."""
    content = bytearray(path.read_bytes())
    count = rng.choice((1, 1, 1, 2, 8))
    near = min(len(content), 3000) if rng.random() < 0.3 else len(content)
    for _ in range(count if content else 0):
        content[rng.randrange(near)] ^= 1 << rng.randrange(8)
    rewritten(path, bytes(content))
    return "flipped"


def cut(path: Path, rng: random.Random) -> str:
    content = path.read_bytes()
    if rng.random() < 0.7:
        rewritten(path, content[: rng.choice((0, 1, 15, 16, 17, 24, 47, 56, rng.randint(0, len(content))))])
    else:
        rewritten(path, content + bytes(rng.choice((1, 8, PAGE, 3 * PAGE))))
    return "cut or grown"


def splice(path: Path, other: bytes, rng: random.Random) -> str:
    """Put in a piece of another file, of this one, or of zeros; or swap two pages."""
    content = bytearray(path.read_bytes())
    length = rng.choice((1, 8, 64, PAGE))
    at = rng.randint(0, max(0, len(content) - length))
    source = rng.choice((other, bytes(content), b"\0" * length, b"\xff" * length))
    begin = at if rng.random() < 0.5 else rng.randint(0, max(0, len(source) - length))
    piece = source[begin : begin + length]
    if rng.random() < 0.3:
        rewritten(path, other)
        return "another file"
    content[at : at + len(piece)] = piece
    rewritten(path, bytes(content))
    return "spliced"


def replace(path: Path, rng: random.Random, pipes: bool) -> str:
    """Something that is no such file."""
    content = path.read_bytes()
    path.unlink()
    kind = rng.choice(
        ("folder", "fifo", "socket", "loop", "null", "zero", "nowhere", "sparse", "link", "text")
    )
    if kind == "fifo" and not pipes:
        kind = "folder"
    if kind == "folder":
        path.mkdir()
    elif kind == "fifo":
        os.mkfifo(path)
    elif kind == "socket":
        with socket.socket(socket.AF_UNIX) as made:
            here = os.getcwd()
            os.chdir(path.parent)  # names of sockets are short
            made.bind(path.name)
            os.chdir(here)
    elif kind in ("loop", "null", "zero", "nowhere"):
        path.symlink_to(
            {"loop": path.name, "null": "/dev/null", "zero": "/dev/zero", "nowhere": "missing"}[kind]
        )
    elif kind == "sparse":
        path.write_bytes(content[:64])
        os.truncate(path, 1 << rng.choice((20, 33, 42)))
    elif kind == "link":
        elsewhere = path.with_name("elsewhere")
        elsewhere.write_bytes(content)
        path.symlink_to(elsewhere)
    else:
        path.write_text(rng.choice(("{}", "[]", "null", '["a"]', "\n", "é" * 50, "1e999", "[1, 2, 3]")))
    return f"now a {kind}"


ODD: tuple[Any, ...] = (
    None, True, False, "", "x", "float32", [], {}, [None], ["a", "b"], {"tuple": []}, {"class": ["os", "system"]}, -1,
    -(1 << 63), 1 << 62, 1 << 64, 10**30, 1.5, -0.5, "9" * 30, [[]], [-1], [1 << 40, 1 << 40],
    {"class": ["cenote.ops.base", "Op"], "fields": {}},
    {"class": ["cenote.ops.nothing", "Op"], "fields": {}}, {"dtype": "float33"}, {"array": ["float32", [2], "!"]},
    {"array": ["object", [1], "AAAA"]},
)  # fmt: skip
# What kernels do is in them, as in the kernels: trusted, not checked.
NUMBERS = (
    "words",
    "items",
    "grain",
    "scratch",
)


def craft(header: Any, rng: random.Random) -> None:
    """Make one part of a header, at any depth, something of another type, out of range, absent, or doubled."""
    places: list[tuple[Any, Any]] = []

    def collect(value: Any) -> None:
        pairs = list(value.items()) if isinstance(value, dict) else list(enumerate(value))
        for key, inner in pairs:
            if key in NUMBERS:
                continue
            places.append((value, key))
            if isinstance(inner, dict | list):
                collect(inner)

    collect(header)
    by_depth = places[:24] if rng.random() < 0.4 else places
    owner, key = rng.choice(by_depth)
    old, kind = owner[key], rng.random()
    number = type(old) is int  # another plausible size or shape is as trusted as the words are
    if kind < 0.15 and not number:
        del owner[key]
    elif kind < 0.25 and isinstance(owner, list) and not number:
        owner.append(old)
    else:
        shape = isinstance(old, list) and all(type(item) is int for item in old)
        owner[key] = rng.choice([value for value in ODD if not (shape and value == [])])


def copied(folder: Path, to: Path, largest: int = 1 << 60) -> Path:
    """A copy of a folder, without files of more bytes than that: copying them takes long."""

    def too_large(where: str, names: list[str]) -> list[str]:
        return [name for name in names if (Path(where) / name).lstat().st_size > largest]

    shutil.copytree(folder, to, symlinks=True, ignore=too_large)
    for path in (to, *to.iterdir()):
        if path.is_dir():
            path.chmod(0o700)
    return to
