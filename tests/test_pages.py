"""Pages keep their word: shell blocks are commands that there are, files that are named are there, values are right."""

from __future__ import annotations

import ast
import importlib.util
import re
import shlex
import tomllib
from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command

import cenote.functional
from cenote.cli.app import app

ROOT = Path(__file__).resolve().parents[1]
PAGES = sorted([*(ROOT / "docs").rglob("*.md"), *ROOT.glob("*.md"), *(ROOT / "bench").glob("*.md")])
FENCE = re.compile(r"^ *```(.*)\n((?:.*\n)*?) *```$", re.MULTILINE)
COMMANDS = {".", "cc", "cenote", "git", "make", "pip", "python", "python3"}
# A call in words, and the value that the words give it.
VALUE = re.compile(r"`([a-z_]\w*\([^`]*\))` is `?(\([^`)]*\)|-?\d[\d.]*)")
NAMED_FILE = re.compile(r"(?<![\w/.<-])((?:[a-z_0-9]+/)+[a-z_0-9]+\.(?:py|md|txt))\b")
ELSEWHERE = {"doc/table_format.md"}  # of another project
ADDED = re.compile(r"<!-- new file: (\S+) -->")


def blocks(language: str | None = None) -> list[Any]:
    """Fenced blocks of all pages, of one language or of all: (language, text)."""
    found = []
    for page in PAGES:
        for number, (words, text) in enumerate(FENCE.findall(page.read_text(encoding="utf-8"))):
            if language in (None, words):
                name = f"{page.relative_to(ROOT).as_posix()}-{number}"
                found.append(pytest.param(words, text, id=name))
    return found


def lines(text: str) -> list[list[str]]:
    """The commands of a shell block as words, without remarks."""
    text = text.replace("\\\n", " ")
    parsed = [shlex.split(line, comments=True) for line in re.split(r"\n|&& ", text)]
    return [words for words in parsed if words]


@pytest.mark.parametrize(("language", "text"), blocks())
def test_commands_stand_in_shell_blocks(language: str, text: str) -> None:
    """A block that a reader copies into a shell says so, and its remarks stand behind `#`: one without them told pip to
    install packages named "in", "a" and "checkout"."""
    first = [line.split()[0] for line in text.splitlines() if line.split()]
    assert language or not COMMANDS & set(first), "call it sh; what is no command but a form of one, text"


@pytest.mark.parametrize(("language", "text"), blocks("sh"))
def test_shell_blocks_are_commands_that_there_are(language: str, text: str) -> None:
    found = lines(text)
    assert found
    for words in found:
        while re.fullmatch(r"[A-Z_]+=.*", words[0]):
            del words[0]
        assert words[0] in COMMANDS, words
        check = CHECKS.get(words[0])
        if check is not None:
            check(words[1:])


def _cenote(words: list[str]) -> None:
    """Let the command line's own parser read the words, without running anything."""
    for mark in (">", "|", "2>&1"):
        if mark in words:
            del words[words.index(mark) :]
    if words[0] == "--install-completion":
        return
    command: Any = get_command(app)
    while hasattr(command, "commands") and words and words[0] in command.commands:
        command, words = command.commands[words[0]], words[1:]
    command.make_context("cenote", list(words), resilient_parsing=True)


def _python(words: list[str]) -> None:
    if words[0] == "-m" and words[1].split(".")[0] in ("bench", "cenote", "docs", "examples", "tests"):
        assert importlib.util.find_spec(words[1]) is not None, words


def _make(words: list[str]) -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    for word in words:
        assert "=" in word or re.search(rf"^{word}:", makefile, re.MULTILINE), words


def _pip(words: list[str]) -> None:
    """What is installed is this folder, or packages that are named for it: those of extras, and those allowed here."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    known = {
        re.split(r"[<>=\[]", each)[0] for extra in project["optional-dependencies"].values() for each in extra
    }
    known |= {
        "torchvision",
        "timm",
        "segmentation-models-pytorch",
        "pytorchcv",
        "monai",
        "spandrel",
        "transformers",
    }
    known |= {
        "diffusers",
        "litert-torch",
    }  # projects that define the networks of bench/zoo, and its converter
    assert words[0] == "install"
    for word in words[1:]:
        name, _, extra = word.rstrip("]").partition("[")
        assert word.startswith("-") or name in {
            ".",
            "./packaging/runtime",
            "cenote",
            "litert-torch",
            *known,
        }, words
        assert (
            not extra
            or name not in (".", "cenote")
            or {*extra.split(",")} <= {*project["optional-dependencies"]}
        )


CHECKS = {"cenote": _cenote, "python": _python, "make": _make, "pip": _pip}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_values_in_words_are_right(page: Path) -> None:
    names = {name: getattr(cenote.functional, name) for name in cenote.functional.__all__}
    for call, value in VALUE.findall(page.read_text(encoding="utf-8")):
        assert eval(call, names) == ast.literal_eval(value), call


def test_there_are_values_in_words() -> None:
    assert sum(len(VALUE.findall(page.read_text(encoding="utf-8"))) for page in PAGES) >= 1


def test_files_that_are_named_are_there() -> None:
    """Each path in a page or in the source: of this folder, or the end of one (kernels/conv/direct.py)."""
    there = [
        f"/{path.relative_to(ROOT).as_posix()}"
        for part in ("src", "tests", "bench", "docs", "bundle", "examples", "packaging")
        for path in (ROOT / part).rglob("*.*")
    ]
    there += [f"/{name}" for page in PAGES for name in ADDED.findall(page.read_text(encoding="utf-8"))]
    sources = [*PAGES, *(ROOT / "src").rglob("*.py")]
    missing = {
        f"{source.relative_to(ROOT).as_posix()}: {name}"
        for source in sources
        for name in NAMED_FILE.findall(source.read_text(encoding="utf-8"))
        if name not in ELSEWHERE and not any(path.endswith(f"/{name}") for path in there)
    }
    assert not missing


def test_no_line_of_the_changelog_stands_twice() -> None:
    entries = re.split(r"\n(?=- |## )", (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"))
    assert sorted({*entries}) == sorted(entries)


def test_programs_that_no_test_runs_are_few() -> None:
    """Pages whose programs need what the tests do not have, by name."""
    found = [each.id for each in blocks() if re.fullmatch(r"python no.run", each.values[0])]
    pages = sorted({str(name).rsplit("-", 1)[0] for name in found})
    assert pages == [
        "docs/from_onnxruntime.md",
        "docs/from_tensorflow.md",
        "docs/from_torch.md",
        "docs/index.md",
        "docs/zh/index.md",
    ]
