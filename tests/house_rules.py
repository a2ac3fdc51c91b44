"""Counts of what the house rules do without: each may only fall, which `tests/test_layout.py` holds."""

from __future__ import annotations

import ast
import re
import subprocess
from collections import Counter
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "src" / "cenote"
# First words of a docstring that begins with a relative clause instead of a noun or a verb.
HEADLESS = {"What", "Of", "Those", "That", "Its", "How", "Where"}
# Modules that nothing in the package imports: it is started with them, or users import them.
ENTRIES = {"__init__", "__main__", "backend", "torch", "ray", "codegen.worker", "ort.__main__"}
# Folders of tests that follow no part of the package; at the top are those of whole models and of the package.
TESTS_OF_MANY_PARTS = {"contract", "examples", "fuzz", "golden"}
PATH = re.compile(r"(?<![\w/.*<{-])((?:[a-z_]+/)+[a-z_0-9]+\.py)\b")
# From here on a commit has one subject.
SUBJECTS_SINCE = "a74372535f77"
# Commits that others were built on before it was seen that they have two.
TWO_SUBJECTS = {"cebb100dc851"}
TORN = re.compile(r"= \(\n +[^\n(\[{]*[^\s,([{]  # [^\n]*\n *\)\n")


@cache
def sources() -> dict[str, str]:
    """The package's modules by their path in it."""
    return {
        path.relative_to(PACKAGE).as_posix(): path.read_text(encoding="utf-8")
        for path in sorted(PACKAGE.rglob("*.py"))
    }


@cache
def parsed(source: str) -> ast.Module:
    """The syntax tree of a source: several rules look at each."""
    return ast.parse(source)


@cache
def walked(source: str) -> tuple[ast.AST, ...]:
    """All nodes of the tree, found once: a walk over all modules takes 3 s."""
    return tuple(ast.walk(parsed(source)))


def nodes(
    kind: type[ast.AST] | tuple[type[ast.AST], ...], outside: tuple[str, ...] = ()
) -> Iterator[tuple[str, ast.AST]]:
    """Every node of some kinds with its module, but for the parts `outside`."""
    for path, source in sources().items():
        if path.split("/")[0] not in outside:
            yield from ((path, node) for node in walked(source) if isinstance(node, kind))


def headless_docstrings() -> list[str]:
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    texts = ((path, ast.get_docstring(node)) for path, node in nodes(documented))  # type: ignore[arg-type]
    return [
        f"{path}: {text[:60]}"
        for path, text in texts
        if text and re.split(r"\W", text, maxsplit=1)[0] in HEADLESS
    ]


def private_names_of_other_parts() -> list[str]:
    """Reads of `x._name` whose name nothing in the same part defines."""
    own: dict[str, set[str]] = {}
    for path, source in sources().items():
        found = re.findall(r"(?:def |class |self\.|cls\.|^ *)(_[a-z]\w*)(?:\(|:| =|,)", source, re.M)
        own.setdefault(path.split("/")[0], set()).update(found)
    return [
        f"{path}:{node.lineno} {node.attr}"
        for path, node in nodes(ast.Attribute)
        if isinstance(node, ast.Attribute)
        and re.match(r"_[a-z]", node.attr)
        and isinstance(node.value, ast.Name)
        and node.value.id not in ("self", "cls")
        and node.attr not in own[path.split("/")[0]]
    ]


def _parameters(outside: tuple[str, ...] = ()) -> Iterator[tuple[str, ast.arg]]:
    for path, node in nodes((ast.FunctionDef, ast.AsyncFunctionDef), outside):
        assert isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        for each in (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs):
            if isinstance(each.annotation, ast.Name) and each.annotation.id == "Any":
                yield f"{path}:{node.name}", each


def parameters_of_any_type() -> list[str]:
    return [f"{where}({each.arg})" for where, each in _parameters()]


def models_and_plans_of_any_type() -> list[str]:
    every = _parameters(outside=("frontends",))
    return [f"{where}({each.arg})" for where, each in every if each.arg in ("model", "plan", "stage")]


def class_names_that_stand_twice() -> list[str]:
    names = Counter(node.name for _, node in nodes(ast.ClassDef) if isinstance(node, ast.ClassDef))
    return sorted(name for name, count in names.items() if count > 1 and not name.startswith("_"))


def kernels_asked_by_name() -> list[str]:
    """Comparisons of a name or an algorithm with that of a lowering, outside of kernels and operators."""
    made = re.compile(r"(?:Lowering|Algorithm|\.lowering)\(\s*\"(\w+)\"")
    known = {name for source in sources().values() for name in made.findall(source)}
    return [
        f"{path}:{node.lineno}"
        for path, node in nodes(ast.Compare, outside=("kernels", "ops"))
        if isinstance(node, ast.Compare)
        and isinstance(node.left, ast.Attribute)
        and node.left.attr in ("name", "algorithm")
        and any(isinstance(each, ast.Constant) and each.value in known for each in node.comparators)
    ]


def modules_that_nothing_imports() -> list[str]:
    """Modules that are there for tests and benchmarks alone, or are named in texts only."""
    asked: set[str] = set()
    for _, node in nodes((ast.Import, ast.ImportFrom)):
        if isinstance(node, ast.ImportFrom):
            asked |= {str(node.module), *(f"{node.module}.{alias.name}" for alias in node.names)}
        elif isinstance(node, ast.Import):
            asked |= {alias.name for alias in node.names}
    for source in sources().values():  # those that need an optional package
        asked.update(re.findall(r'import_module\("([\w.]+)"\)', source))
    named = {path: path.removesuffix(".py").replace("/", ".") for path in sources()}
    return [
        path
        for path, name in named.items()
        if not path.endswith("__init__.py")
        and name not in ENTRIES
        and f"cenote.{name}" not in asked
        # Families of functions and of operators are found by their names.
        and not path.startswith(("functional/", "ops/"))
    ]


def formatter_skips() -> list[str]:
    return [path for path, source in sources().items() for _ in range(source.count("# fmt: skip"))]


def values_torn_by_a_comment() -> list[str]:
    return [
        f"{path}: {torn.split()[2]}" for path, source in sources().items() for torn in TORN.findall(source)
    ]


def paths_that_do_not_exist() -> list[str]:
    """Paths of modules in docstrings and pages, but for files that a page says to add."""
    texts = {page.name: page.read_text(encoding="utf-8") for page in (ROOT / "docs").glob("*.md")}
    found: list[str] = []
    for name, text in {**texts, **sources()}.items():
        added = re.findall(r"<!-- new file: (\S+) -->", text)
        for path in PATH.findall(text):
            if any(f"/{each}".endswith(f"/{path}") for each in added):
                continue
            places = (
                PACKAGE,
                PACKAGE.parent,
                ROOT,
                (PACKAGE / name).parent,
                *(PACKAGE / part for part in ("kernels", "ops")),
            )
            if not any((place / path).exists() for place in places):
                found.append(f"{name}: {path}")
    return found


def parts_that_architecture_does_not_name() -> list[str]:
    page = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    parts = {path.split("/")[0] for path in sources()} - {"__init__.py", "__main__.py"}
    rooms = {path.split("/")[1] for path in sources() if path.count("/") == 2}
    return sorted(part for part in parts | rooms if not re.search(rf"`{re.escape(part)}[/`]", page))


def pages_that_are_long() -> list[str]:
    """Pages of more than 300 lines, but for those that are made from the code and tables of figures."""
    made = re.findall(
        r'^    "([\w/]+\.md)":', (ROOT / "docs" / "generate.py").read_text(encoding="utf-8"), re.M
    )
    pages = ((page, page.read_text(encoding="utf-8")) for page in sorted((ROOT / "docs").glob("*.md")))
    return [page.name for page, text in pages if page.name not in made and text.count("\n") > 300]


def modules_of_tests_used_as_libraries() -> list[str]:
    """Imports of a test module, or from one."""
    imports = re.compile(r"^ *from tests\.(?:\w+\.)*test_\w+ import|^ *from tests\S* import test_", re.M)
    files = sorted((ROOT / "tests").rglob("*.py"))
    return [path.name for path in files for _ in imports.findall(path.read_text(encoding="utf-8"))]


def tests_that_do_not_mirror_the_source() -> list[str]:
    """Test modules outside the folder of the part that they test, or with a name that begins with nothing in it."""
    found: list[str] = []
    for path in sorted((ROOT / "tests").rglob("test_*.py")):
        relative = path.relative_to(ROOT / "tests")
        first, name = relative.parts[0], relative.stem.removeprefix("test_")
        if len(relative.parts) == 1 or first in TESTS_OF_MANY_PARTS:
            continue
        folder = (ROOT if first == "bench" else PACKAGE) / relative.parent
        names = {folder.name, *(each.stem for each in folder.glob("*"))} if folder.is_dir() else set()
        if not any(f"{name}_".startswith(f"{each}_") or each.startswith(f"{name}_") for each in names):
            found.append(relative.as_posix())
    return found


def lines_of_the_changelog_that_stand_twice() -> list[str]:
    lines = Counter((ROOT / "CHANGELOG.md").read_text(encoding="utf-8").splitlines())
    return [line for line, count in lines.items() if count > 1 and line.startswith("-")]


def options_that_are_not_said_everywhere() -> list[str]:
    """Fields of LoadOptions with a flag that are no keyword of `load`, or have no row with their flag on the page."""
    (record,) = (
        node
        for _, node in nodes(ast.ClassDef)
        if isinstance(node, ast.ClassDef) and node.name == "LoadOptions"
    )
    flags = {
        each.target.id: str(keyword.value.value)
        for each in record.body
        if isinstance(each, ast.AnnAssign)
        and isinstance(each.target, ast.Name)
        and isinstance(each.value, ast.Call)
        for keyword in each.value.keywords
        if keyword.arg == "flag" and isinstance(keyword.value, ast.Constant)
    }
    (load,) = (
        node
        for path, node in nodes(ast.FunctionDef)
        if isinstance(node, ast.FunctionDef) and (path, node.name) == ("models/loading.py", "load")
    )
    keywords = {each.arg for each in load.args.kwonlyargs}
    page = (ROOT / "docs" / "using_models.md").read_text(encoding="utf-8")
    rows = dict(re.findall(r"^\| `(\w+)` \| `(--\w+)` \|", page, re.MULTILINE))
    said = {name for name, flag in flags.items() if name in keywords and rows.get(name) == flag}
    return sorted({*flags, *keywords, *rows} - said)


def subjects_of_several_changes() -> list[str] | None:
    """Subjects of commits with a ";", since `SUBJECTS_SINCE`; None where that commit is not known, as in an archive."""
    command = ["git", "log", "--no-merges", "--abbrev=12", "--format=%h %s", f"{SUBJECTS_SINCE}..HEAD"]
    try:
        logged = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return None
    lines = (line.split(" ", 1) for line in logged.stdout.splitlines())
    return [subject for commit, subject in lines if ";" in subject and commit not in TWO_SUBJECTS]


def catchers_of_everything() -> set[str]:
    """Functions with `except Exception`, as path:function."""
    found: set[str] = set()

    def look(node: ast.AST, where: str, path: str) -> None:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            where = node.name
        if (
            isinstance(node, ast.ExceptHandler)
            and isinstance(node.type, ast.Name)
            and node.type.id == "Exception"
        ):
            found.add(f"{path}:{where}")
        for child in ast.iter_child_nodes(node):
            look(child, where, path)

    for path, source in sources().items():
        look(parsed(source), "", path)
    return found


def words_of_records_without_a_name() -> list[str]:
    """Words of `runtime.layouts` that are told by their number: columns of tables, and addresses in native code."""
    shared = {path for path in sources() if path.startswith(("runtime/", "kernels/driver", "kernels/launch"))}
    columns = [
        f"{path}:{node.lineno}"
        for path, node in nodes(ast.Subscript)
        if path in shared
        and isinstance(node, ast.Subscript)
        and isinstance(node.value, ast.Name)
        and isinstance(node.slice, ast.Tuple)
        and isinstance(node.slice.elts[-1], ast.Constant)
        and isinstance(node.slice.elts[0], ast.Slice)
    ]
    # Native code: an address so many words from one that is called after a record.
    fields = re.compile(
        r"\b(?:control|record|steps?|log|logs|run|team|call)(?: \+ \d|\.load\(\d|\.store\([^()]*, \d)"
    )
    return columns + [
        f"{path}: {found}" for path in sorted(shared) for found in fields.findall(sources()[path])
    ]


RULES: tuple[Callable[[], list[str]], ...] = (
    headless_docstrings,
    private_names_of_other_parts,
    models_and_plans_of_any_type,
    parameters_of_any_type,
    class_names_that_stand_twice,
    kernels_asked_by_name,
    modules_that_nothing_imports,
    formatter_skips,
    values_torn_by_a_comment,
    paths_that_do_not_exist,
    parts_that_architecture_does_not_name,
    pages_that_are_long,
    modules_of_tests_used_as_libraries,
    tests_that_do_not_mirror_the_source,
    lines_of_the_changelog_that_stand_twice,
    options_that_are_not_said_everywhere,
    words_of_records_without_a_name,
)
