"""docs/where_to_change.md, done: each row names the files that its blocks touch, which work in a copy of the source."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.executed_pages import ROOT, apply, blocks, copied, python, section, touched

PAGE = "where_to_change.md"
ROW = re.compile(r"^\| (.+?) \| (`.+`.*) \| \[.+\]\((\w+\.md)?(?:#([\w-]+))?\) \|$", re.MULTILINE)
ROWS = ROW.findall((ROOT / "docs" / PAGE).read_text(encoding="utf-8"))
PROGRAMS = [code for order, code in blocks(PAGE) if order == "run"]


@pytest.fixture(scope="module")
def changed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the source in which all of the page is done."""
    folder = copied(tmp_path_factory.mktemp("where_to_change"))
    for order, code in blocks(PAGE):
        if order != "run":
            apply(folder, order, code)
    return folder


def pattern(path: str) -> str:
    """A path of the table, whose words in capitals stand for names, as a regular expression."""
    whole = path if path.startswith(("tests/", "docs/")) else f"src/cenote/{path}"
    return re.sub("[A-Z]+", r"\\w+", re.escape(whole))


@pytest.mark.parametrize(("what", "paths", "page", "anchor"), ROWS, ids=[row[0] for row in ROWS])
def test_rows_name_the_files_that_are_touched(what: str, paths: str, page: str, anchor: str) -> None:
    patterns = [pattern(path) for path in re.findall(r"`(.+?)`", paths)]
    places = touched(section(page or PAGE, anchor))
    assert all(any(re.fullmatch(each, place) for each in patterns) for place in places), places
    assert all(any(re.fullmatch(each, place) for place in places) for each in patterns), patterns
    assert not page or (ROOT / "tests" / f"test_{page.removesuffix('.md')}.py").exists(), (
        "nobody follows the page"
    )


def test_there_is_a_row_for_each_section() -> None:
    text = (ROOT / "docs" / PAGE).read_text(encoding="utf-8")
    table = text.partition("\n## ")[0]
    assert len(ROWS) == table.count("\n| ") - 1
    assert sum(not page for _, _, page, _ in ROWS) == text.count("\n## ")


@pytest.mark.parametrize("program", PROGRAMS)
def test_programs_print_their_comments(changed: Path, program: str) -> None:
    printed = python(changed, "-c", program).splitlines()
    assert printed == re.findall(r"(?:^|  )# (.+)$", program, re.MULTILINE)


def test_the_tests_of_what_is_added_pass(changed: Path) -> None:
    files = ("tests/passes/test_negations.py", "tests/diagnosis/test_causes.py")
    assert {place for place in touched(blocks(PAGE)) if "/test_" in place} == {*files}
    assert "passed" in python(changed, "-m", "pytest", "-n", "0", *files)
