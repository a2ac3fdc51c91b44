"""The documentation is true: its programs run, its messages are those that appear, its links lead somewhere."""

from __future__ import annotations

import dataclasses
import importlib.util
import inspect
import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import cenote
import cenote.functional
from cenote.core.extensions import switched

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
PROGRAM = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
RAISES = re.compile(r"^```python raises\n(.*?)^```\n```\n(.*?)\n```$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\(([^)#\s]+)")
PAGES = sorted([*DOCS.rglob("*.md"), *ROOT.glob("*.md")])


def errors_page() -> str:
    return (DOCS / "errors.md").read_text(encoding="utf-8")


def error_examples() -> list[Any]:
    """(class, program, message) of every example."""
    sections = re.split(r"^## (\w+)$", errors_page(), flags=re.MULTILINE)[1:]
    found = []
    for name, text in zip(sections[::2], sections[1::2], strict=True):
        for number, (program, message) in enumerate(RAISES.findall(text)):
            found.append(pytest.param(name, program, message, id=f"{name}-{number}"))
    return found


@pytest.mark.parametrize(("name", "program", "message"), error_examples())
def test_errors_read_as_documented(name: str, program: str, message: str) -> None:
    namespace: dict[str, Any] = {}
    exec(PROGRAM.findall(errors_page())[0], namespace)
    with pytest.raises(getattr(cenote, name)) as caught:
        exec(program, namespace)
    assert type(caught.value) is getattr(cenote, name)
    pattern = ".*".join(re.escape(part) for part in message.split("…"))
    assert re.fullmatch(pattern, str(caught.value)), str(caught.value)


def test_every_error_has_a_section() -> None:
    sections = set(re.findall(r"^## (\w+)$", errors_page(), re.MULTILINE))
    public = {name for name in cenote.__all__ if name.endswith("Error")} - {"CenoteError"}
    assert sections == public
    examples = {parameter.values[0] for parameter in error_examples()}
    assert public - examples == {"CodegenError"}, "only this one has no example, and the page says why"


def test_functional() -> None:
    """The programs of the page run, and every function is on it once."""
    text = (DOCS / "functional.md").read_text(encoding="utf-8")
    programs = PROGRAM.findall(text)
    assert len(programs) == 5
    names: dict[str, object] = {}
    for program in programs:
        exec(program, names)
    listed = re.findall(r"^\| `(\w+)` \| \S", text.split("\n## Arithmetic")[1], re.MULTILINE)
    assert sorted(listed) == sorted(cenote.functional.__all__)


PROGRAMS = {
    "any_size.md": 2,
    "extending.md": 5,
    "extending_algorithms.md": 3,
    "from_onnxruntime.md": 3,
    "from_torch.md": 1,
    "life_of_a_layer.md": 10,
    "plan_files.md": 1,
    "quantize.md": 3,
    "serving.md": 1,
    "tutorial.md": 8,
    "using_models.md": 7,
    "verify.md": 6,
}


@pytest.mark.parametrize("page", PROGRAMS)
def test_programs_of(page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The programs of a page run one after the other, in a process that has registered nothing."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(switched, "_registered", {})
    programs = PROGRAM.findall((DOCS / page).read_text(encoding="utf-8"))
    assert len(programs) >= PROGRAMS[page]
    namespace: dict[str, Any] = {}
    for program in programs:
        exec(program, namespace)


def test_every_page_has_its_place_on_the_site() -> None:
    """`make docs` fails otherwise; it needs packages that the tests do not."""
    named = set(re.findall(r"[\w/]+\.md", (ROOT / "mkdocs.yml").read_text(encoding="utf-8")))
    assert named == {page.relative_to(DOCS).as_posix() for page in DOCS.rglob("*.md")}


def test_every_option_of_load_is_described() -> None:
    """Its table is made of the record, which has what `load` takes."""
    said = {each.name: each.metadata["option"] for each in dataclasses.fields(cenote.LoadOptions)}
    page = (DOCS / "using_models.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `(\w+)` \| `--", page, re.MULTILINE)
    assert rows == [name for name, option in said.items() if option.flag]
    assert {"source", *rows} == set(inspect.signature(cenote.load).parameters)


def test_generated_pages_are_fresh() -> None:
    specification = importlib.util.spec_from_file_location("generate", DOCS / "generate.py")
    assert specification is not None
    assert specification.loader is not None
    generate = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(generate)
    for name, page in generate.PAGES.items():
        assert (DOCS / name).read_text(encoding="utf-8") == page(), "run `make docs`"


@pytest.mark.parametrize("page", [*sorted(DOCS.rglob("*.md"))], ids=lambda page: page.name)
def test_programs_are_programs_on_the_site(page: Path) -> None:
    """Words behind a fence's language are for these tests; to mkdocs such a fence is text."""
    specification = importlib.util.spec_from_file_location("hooks", DOCS / "site_hooks.py")
    assert specification is not None
    assert specification.loader is not None
    hooks = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(hooks)
    shown = SimpleNamespace(file=SimpleNamespace(src_uri=page.relative_to(DOCS).as_posix()))
    text = hooks.on_page_markdown(page.read_text(encoding="utf-8"), page=shown)
    assert not re.findall(r"^```\w+ .*$", text, re.MULTILINE)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    broken = [link for link in LINK.findall(text) if not (page.parent / link).exists()]
    assert not broken


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_no_page_holds_what_a_merge_left(page: Path) -> None:
    assert not re.search(r"^(<{7}|>{7}) ", page.read_text(encoding="utf-8"), re.MULTILINE)


@pytest.mark.parametrize("page", [*sorted(DOCS.glob("*.md"))], ids=lambda page: page.name)
def test_every_page_is_in_the_index(page: Path) -> None:
    index = (DOCS / "index.md").read_text(encoding="utf-8")
    assert page.name == "index.md" or f"({page.name})" in index


def test_make_targets_that_are_named_exist() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    targets = set(re.findall(r"^(\w+):", makefile, re.MULTILINE))
    text = "".join(page.read_text(encoding="utf-8") for page in PAGES)
    named = set(re.findall(r"^make (\w+)|`make (\w+)", text, re.MULTILINE))
    assert {"run", "test", "check"} <= targets
    assert {name for pair in named for name in pair if name} <= targets
