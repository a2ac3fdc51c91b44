"""The house rules of the source, read from the source: who may import whom, and how large things may get."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import cenote
from tests import house_rules
from tests.house_rules import parsed, walked

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "src" / "cenote"
LONGEST_FILE = 400  # of the package; tests and tools may run on a little
LONGEST_TEST = 450
LONGEST_FUNCTION = 60
MOST_MODULES = 20  # in a folder
# What may be longer, each with its reason; five at most.
EXCEPTIONS: dict[str, str] = {
    "src/cenote/tiling/arguments.py:plan": "a layer's arguments are its parameters, each described",
}

# A module imports from its own part and from parts of the rows above; parts of one row do not see each other.
ROWS = (
    ("core",),
    ("codegen", "runtime"),
    ("kernels",),
    ("ops",),
    ("graph",),
    ("frontends", "passes"),
    ("compiler", "tiling"),
    ("plans", "export"),
    ("stages",),
    ("profile", "about"),
    ("diagnosis",),
    ("algorithms", "models", "functional"),
    ("verification", "quantization", "serving"),
    ("compression",),
    ("__init__", "backend", "ray", "torch", "ort"),
    ("cli",),
    ("__main__",),
)
RANK = {part: row for row, parts in enumerate(ROWS) for part in parts}
# Loaded by anybody on demand: few processes need them, and all would wait for them (12 ms).
RARE = ("cenote.core.extensions", "cenote.core.options.deprecated")
# Who may import which third-party package when its module is imported. Others load on demand, in functions.
THIRD_PARTY = {
    "numpy": set(RANK),
    "ml_dtypes": {"core", "kernels", "ops", "frontends"},
    "llvmlite": {"codegen"},
    "onnx": {"frontends", "quantization", "compression"},
    "google": {"frontends", "quantization", "serving"},  # protobuf, which onnx and gRPC are made of
    "torch": {"torch"},  # cenote.torch: for those who have it
    "typer": {"cli"},
    "rich": {"cli"},
}
# What a plan that is at hand does not need (front ends, what compiles) is imported by these when it is needed.
WARM_START = {
    "plans",
    "stages",
    "models",
    "functional",
    "__init__",
}
APPLICATIONS = {"cli"}


def files() -> list[Path]:
    return sorted(PACKAGE.rglob("*.py"))


def part_of(path: Path) -> str:
    """The folder, or the module at the top: `ops`, `compile`, `__init__`."""
    relative = path.relative_to(PACKAGE)
    return relative.parts[0] if len(relative.parts) > 1 else relative.stem


def imported_part(name: str) -> str:
    """Part of a dotted name: `cenote.ops.base` is `ops`, `cenote` is `__init__`."""
    words = name.split(".")
    return words[1] if len(words) > 1 else "__init__"


def imports(tree: ast.AST, inside: bool = False) -> Iterator[tuple[str, int, bool]]:
    """Every import as (dotted name, line, is it in a function). What only type checkers read counts too."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.Import):
            yield from ((alias.name, node.lineno, inside) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"line {node.lineno}: relative import"
            module = node.module or ""
            if module == "cenote":
                yield from ((f"cenote.{alias.name}", node.lineno, inside) for alias in node.names)
            else:
                yield module, node.lineno, inside
        else:
            function = isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
            yield from imports(node, inside or function)


def faults_of(path: Path, source: str) -> list[str]:
    """What is wrong with a module's imports."""
    here, faults = part_of(path), []
    if here not in RANK:
        return [f"part '{here}' has no place in the order of imports"]
    checks = typing_lines(source)
    for name, line, inside in imports(parsed(source)):
        top = name.split(".")[0]
        if top == "cenote":
            faults += [f"line {line}: {text}" for text in internal_faults(here, name, inside)]
        elif top in THIRD_PARTY and not inside and line not in checks and here not in THIRD_PARTY[top]:
            faults.append(f"line {line}: {here} must not import {top} when it is imported")
        elif top in {"PIL", "jax", "onnxruntime", "matplotlib"} and not inside and line not in checks:
            faults.append(f"line {line}: {top} is optional or slow; import it in the function that needs it")
    return faults


def typing_lines(source: str) -> set[int]:
    """Lines under `if TYPE_CHECKING:`, which never run."""
    lines: set[int] = set()
    if "TYPE_CHECKING" not in source:
        return lines
    for node in walked(source):
        if isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING":
            lines.update(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    return lines


def internal_faults(here: str, name: str, inside: bool) -> Iterator[str]:
    there = imported_part(name)
    if here in APPLICATIONS and there not in {here, "__init__"}:
        yield f"{here} may use the public package only, not {name}"
    elif there not in RANK:
        if here not in APPLICATIONS:  # `from cenote import load`: only applications may
            yield f"{name} is unknown, or public: {here} imports from the part itself"
    elif there != here and RANK[there] >= RANK[here]:
        yield f"{here} must not import {there} ({name})"
    elif inside and here not in WARM_START and there != "frontends" and not name.startswith(RARE):
        yield f"{name} is imported in a function; only front ends and what compiles load on demand"


def test_the_order_names_what_is_there() -> None:
    assert sorted(part for parts in ROWS for part in parts) == sorted({part_of(path) for path in files()})


@pytest.mark.parametrize("path", files(), ids=lambda path: str(path.relative_to(PACKAGE)))
def test_imports_run_one_way(path: Path) -> None:
    assert not faults_of(path, path.read_text(encoding="utf-8"))


@pytest.mark.parametrize(
    ("module", "source"),
    [
        ("kernels/x.py", "from cenote.ops.base import Op"),
        ("codegen/x.py", "import cenote.runtime.program"),
        ("passes/x.py", "from cenote.frontends.onnx import load_onnx"),
        ("cli/x.py", "from cenote.models.model import Model"),
        ("ops/x.py", "import onnx"),
        ("ops/x.py", "import torch"),
        ("profile/x.py", "from llvmlite import binding"),
        ("ops/x.py", "def f():\n    from cenote.core.types import Array"),
        ("ops/x.py", "from cenote import load"),
        ("plans/x.py", "def f():\n    from cenote.models.model import Model"),
        ("compiler/x.py", "def f():\n    from cenote.passes import fuse"),
        ("elsewhere/x.py", ""),
    ],
)
def test_the_rule_sees_a_wrong_import(module: str, source: str) -> None:
    assert faults_of(PACKAGE / module, source)


@pytest.mark.parametrize(
    ("module", "source"),
    [
        ("compiler/x.py", "from cenote.ops.base import Op\nfrom cenote.runtime import threads"),
        ("cli/x.py", "import cenote\nfrom cenote.cli.run import run\nimport typer"),
        ("backend.py", "def f():\n    from cenote.frontends.onnx import load_onnx"),
        ("runtime/x.py", "def f():\n    import torch"),
        ("models/model.py", "def f():\n    from cenote.compiler.compile import compile_graph"),
    ],
)
def test_the_rule_lets_a_right_import_pass(module: str, source: str) -> None:
    assert not faults_of(PACKAGE / module, source)


def test_applications_use_public_names_only() -> None:
    public = {*cenote.__all__}
    used = {
        (path.name, node.attr)
        for path in files()
        if part_of(path) in APPLICATIONS
        for node in walked(path.read_text(encoding="utf-8"))
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "cenote"
    }
    assert not {(file, name) for file, name in used if name not in public}
    assert used, "the rule looks at nothing"


@pytest.mark.parametrize("folder", ["src", "tests", "bench", "examples", "docs"])
def test_files_stay_short(folder: str) -> None:
    limit = LONGEST_FILE if folder == "src" else LONGEST_TEST
    lengths = {
        path.relative_to(ROOT).as_posix(): len(path.read_text(encoding="utf-8").splitlines())
        for path in (ROOT / folder).rglob("*.py")
    }
    assert not {path: n for path, n in lengths.items() if n > limit and path not in EXCEPTIONS}


def long_functions(path: Path) -> Iterator[tuple[str, int]]:
    """Functions over the limit as (path:name, lines)."""
    for node in walked(path.read_text(encoding="utf-8")):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            length = (node.end_lineno or node.lineno) - node.lineno + 1
            if length > LONGEST_FUNCTION:
                yield f"{path.relative_to(ROOT).as_posix()}:{node.name}", length


def test_functions_stay_short() -> None:
    found = dict(item for path in files() for item in long_functions(path))
    assert not {name: length for name, length in found.items() if name not in EXCEPTIONS}


def test_folders_stay_small() -> None:
    folders = {path.parent for path in files()}
    sizes = {
        folder.relative_to(PACKAGE).as_posix(): sum(p.name != "__init__.py" for p in folder.glob("*.py"))
        for folder in folders
    }
    assert not {folder: size for folder, size in sizes.items() if size > MOST_MODULES}


def test_exceptions_are_few_and_needed() -> None:
    assert len(EXCEPTIONS) <= 5
    for name in EXCEPTIONS:
        path, _, function = name.partition(":")
        source = (ROOT / path).read_text(encoding="utf-8")
        if function:
            assert name in dict(long_functions(ROOT / path)), f"{name} is short by now"
        else:
            assert len(source.splitlines()) > LONGEST_FILE, f"{name} is short by now"


def module_name(path: Path) -> str:
    words = path.relative_to(PACKAGE.parent).with_suffix("").parts
    return ".".join(words[:-1] if words[-1] == "__init__" else words)


def file_graph(sources: dict[str, str]) -> dict[str, set[str]]:
    """Which module imports which: at the top, for type checkers, or in a function."""
    graph: dict[str, set[str]] = {}
    for name, source in sources.items():
        graph[name] = set()
        for node in walked(source):
            if isinstance(node, ast.Import):
                found = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom):
                module = node.module or ""
                found = [f"{module}.{alias.name}" for alias in node.names]
                found = [inner if inner in sources else module for inner in found]
            else:
                continue
            graph[name].update(other for other in found if other in sources and other != name)
    return graph


def circles(graph: dict[str, set[str]]) -> list[list[str]]:
    """Groups of modules that reach each other."""

    def reached(start: str) -> set[str]:
        seen: set[str] = set()
        waiting = [start]
        while waiting:
            for other in graph[waiting.pop()] - seen:
                seen.add(other)
                waiting.append(other)
        return seen

    reach = {name: reached(name) for name in graph}
    groups = {frozenset(other for other in reach[name] if name in reach[other]) for name in graph}
    return sorted(sorted(group) for group in groups if group)


def test_no_circle_of_files() -> None:
    sources = {module_name(path): path.read_text(encoding="utf-8") for path in files()}
    assert not circles(file_graph(sources))


def test_the_rule_sees_a_circle() -> None:
    sources = {
        "a.x": "from a import y",
        "a.y": "if T:\n    from a.z import f",
        "a.z": "import a.x",
        "a.w": "import a.x",
    }
    assert circles(file_graph(sources)) == [["a.x", "a.y", "a.z"]]


def test_modules_say_what_they_are_for() -> None:
    silent = [
        str(path.relative_to(PACKAGE))
        for path in files()
        if (source := path.read_text(encoding="utf-8")).strip() and not ast.get_docstring(parsed(source))
    ]
    assert not silent


def test_nothing_is_left_to_do() -> None:
    marks = ("TO" + "DO", "FIX" + "ME", "X" + "XX")
    found = [str(path) for path in files() if any(mark in path.read_text(encoding="utf-8") for mark in marks)]
    assert not found


# ---- what may only become less -------------------------------------------------------------------------------------

# How often each of `house_rules` is broken: a number rises never, and is written down here when it has fallen.
BROKEN = {
    "headless_docstrings": 0,
    "private_names_of_other_parts": 4,
    "models_and_plans_of_any_type": 0,
    "parameters_of_any_type": 375,
    "class_names_that_stand_twice": 0,
    "kernels_asked_by_name": 0,
    "modules_that_nothing_imports": 0,
    "formatter_skips": 28,
    "values_torn_by_a_comment": 0,
    "paths_that_do_not_exist": 0,
    "parts_that_architecture_does_not_name": 0,
    "pages_that_are_long": 0,
    "modules_of_tests_used_as_libraries": 0,
    "tests_that_do_not_mirror_the_source": 0,
    "lines_of_the_changelog_that_stand_twice": 0,
    "options_that_are_not_said_everywhere": 0,
    "words_of_records_without_a_name": 0,
}
# Who may catch every exception, and why.
CATCHERS = {
    "cli/extensions.py:import_operators": "a module of the user's: what it raises is reported with its name",
    "verification/contract/algorithms.py:_row": "an algorithm of the user's: what it raises is the result of the check",
    "verification/contract/check.py:row": "an operator of the user's: what it raises is the result of the check",
    "core/extensions/classes.py:_called": "a class of the user's: what its methods raise is reported with their lines",
    "core/extensions/installed.py:_import_all": "an installed extension: what it raises is reported with its name",
    "codegen/emission.py:emitted": "code of a user's kernel: reported with its name, file and line",
    "codegen/emission.py:portable": "as above",
    "codegen/jit.py:work": "a thread: what it fails at is raised, or compiled again, where the kernel is asked for",
    "codegen/worker.py:serve_forever": "another process: the caller raises it",
    "core/errors.py:shown": "the repr of a caller's object raises what it likes",
    "core/extensions/switched.py:errors": "an algorithm or a rewrite of the user's: reported with its name and line",
    "core/formulas/checks.py:_outcome": "outcomes are compared, errors among them",
    "frontends/onnx_outputs.py:_inferred": "onnx raises errors of C++; declared types stay",
    "kernels/custom.py:values": "a formula of the user's: reported with its name, file and line",
    "ops/user_function.py:_called": "a function of the user's: reported with its name and the node's",
    "ort/session.py:work": "a thread: the callback is told",
    "plans/later.py:_do": "a thread without a caller: a warning",
    "quantization/reading.py:_converted": "onnx raises errors of C++; the model is refused",
    "runtime/batches.py:batches": "raised after the batches before it",
    "runtime/pieces.py:help_along": "a thread: raised by the one that waits for it",
    "serving/batcher.py:_answer": "each request is then run alone, which shows the one at fault",
    "stages/sized.py:compile_class": "a fault that a plan for each size gets around: a warning; an error under tests",
    "verification/engines.py:__init__": "onnxruntime and protobuf have errors of their own",
    "verification/engines.py:values": "as above",
    "verification/peers.py:open_peer": "each engine has errors of its own",
    "verification/sizes.py:outputs_of_the_peer": "as above",
    "verification/tensorflow.py:values": "as above",
}


@pytest.mark.parametrize("rule", house_rules.RULES, ids=lambda rule: rule.__name__)
def test_rules_are_broken_less_and_less(rule: Callable[[], list[str]]) -> None:
    found, known = rule(), BROKEN[rule.__name__]
    assert len(found) <= known, f"{len(found)} instead of {known}: mend what is new of {found}"
    assert len(found) == known, f"{len(found)} instead of {known}: write the new number into BROKEN"


def test_exceptions_of_all_kinds_are_caught_with_a_reason() -> None:
    assert house_rules.catchers_of_everything() == set(CATCHERS)


def test_a_commit_has_one_subject() -> None:
    found = house_rules.subjects_of_several_changes()
    if found is None:
        pytest.skip("no git, or no history")
    assert not found


def test_tests_do_without_pytorch_where_it_is_not_installed() -> None:
    """`make pythons` and `make arm` have none: a module that imports it fails there, instead of being skipped."""
    importing = [
        path.relative_to(ROOT).as_posix()
        for path in sorted((ROOT / "tests").rglob("test_*.py"))
        for name, _, inside in imports(parsed(path.read_text(encoding="utf-8")))
        if name.partition(".")[0] == "torch" and not inside
    ]
    assert not importing, 'write torch = pytest.importorskip("torch")'
