"""Pages in Chinese beside their originals: the same parts, programs, links and figures."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PAIRS = {
    "README.md": "README.zh-CN.md",
    **{f"docs/{name}.md": f"docs/zh/{name}.md" for name in ("index", "tutorial", "faq")},
}
BLOCK = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
# Figures: with a point or a comma between digits, a per cent sign, or of two digits and more.
NUMBER = re.compile(r"(?<![\w.])\d+(?:[.,]\d+)+|(?<![\w.])\d{2,}")
pairs = pytest.mark.parametrize(("original", "translation"), PAIRS.items())


def text(path: str) -> str:
    return (ROOT / path).read_text(encoding="utf-8")


def prose(path: str) -> str:
    """Without code, links' targets, names in code and remarks."""
    plain = re.sub(r"<!--.*?-->|`[^`\n]*`|\]\([^)]*\)", " ", BLOCK.sub(" ", text(path)), flags=re.DOTALL)
    return re.sub(r"(?<=\w)-(?=\w)", "x", plain)  # AVX-512 is a name


def links(path: str) -> set[Path]:
    """Files that a page leads to; a page that has a translation and the translation count as one."""
    there = (ROOT / path).parent
    found = re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", text(path))
    targets = {Path(os.path.normpath(there / target)) for target in found}
    return {same_as.get(target, target) for target in targets}


same_as = {
    (ROOT / translation).resolve(): (ROOT / original).resolve() for original, translation in PAIRS.items()
}


@pairs
def test_headings_are_the_same_number_of_each_level(original: str, translation: str) -> None:
    levels = [
        re.findall(r"^#+(?= )", BLOCK.sub("", text(path)), re.MULTILINE) for path in (original, translation)
    ]
    assert levels[0] == levels[1]


@pairs
def test_programs_are_the_same(original: str, translation: str) -> None:
    assert BLOCK.findall(text(original)) == BLOCK.findall(text(translation))


@pairs
def test_links_lead_to_the_same_pages(original: str, translation: str) -> None:
    ends = {(ROOT / page).resolve() for page in (original, "docs/tutorial.md", "docs/faq.md")}
    assert links(original) - ends == links(translation) - ends
    for target in links(translation):
        assert target.exists()


@pairs
def test_figures_are_the_same(original: str, translation: str) -> None:
    assert set(NUMBER.findall(prose(original))) == set(NUMBER.findall(prose(translation)))


@pairs
def test_rows_of_tables_are_as_many(original: str, translation: str) -> None:
    rows = [len(re.findall(r"^\|", text(path), re.MULTILINE)) for path in (original, translation)]
    assert rows[0] == rows[1]


@pairs
def test_each_leads_to_the_other(original: str, translation: str) -> None:
    assert f"[中文]({os.path.relpath(ROOT / translation, (ROOT / original).parent)})" in text(original)
    assert f"[English]({os.path.relpath(ROOT / original, (ROOT / translation).parent)})" in text(translation)


def test_every_page_in_chinese_is_compared() -> None:
    there = {
        path.relative_to(ROOT).as_posix()
        for path in (*ROOT.glob("*.zh-CN.md"), *(ROOT / "docs/zh").rglob("*.md"))
    }
    assert there == set(PAIRS.values())
