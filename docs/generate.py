"""Writes the pages that are made from the code: settings, operators, functions on arrays, algorithms.

`make docs` runs it; a test compares.
"""

from __future__ import annotations

import dataclasses
import importlib
import pkgutil
import re
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import cenote
from cenote.kernels.constants import DEFAULT, stored
from cenote.ops.conv import algorithms as convolutions
from cenote.ops.pool import algorithms as pools

DOCS = Path(__file__).parent
CASES = DOCS.parent / "tests" / "data" / "onnx_unsupported.txt"
SAMPLES = DOCS.parent / "tests" / "data" / "op_db_counts.txt"
POOLING = """# Pooling algorithms

Made by `make docs` from `src/cenote/ops/pool/algorithms.py`. For each problem, every algorithm that serves it gives
an estimate in seconds, and the smallest is taken; equal ones go by the order below. `cenote inspect` shows the
estimates of the rivals, `tune="full"` measures them, `python -m bench.pool_choices` says how often the first choice is
the fastest. Windows have r rows and k columns; costs are per vector of outputs.

Over the 193 cases with rivals of `python -m bench.pool_choices --grid` (AVX-512, one thread, least of three runs on a
busy machine) the first choice is the fastest, within 3 %, in 177, and costs 1 % on average and 27 % at worst. The fixed
rules that preceded the estimates: 161, 4 % and a factor of two (3x3x3 windows with AVX-512, 2x2 windows one apart). The
rates of the estimates were fitted to the same cases.
[Add a pooling algorithm](add_a_pooling_algorithm.md) is one file and one line.

| problem | algorithm | file | wins | cost |
|---|---|---|---|---|
"""
CONVOLUTIONS = """# Convolution algorithms

Made by `make docs` from `src/cenote/ops/conv/algorithms.py`. For each problem, every algorithm that serves it gives
an estimate in seconds, and the smallest is taken, with the changes of layout that it brings along; equal ones go by the
order below. `cenote inspect` shows the estimates of the rivals, `tune="full"` measures them, and
`python -m bench.convolutions` measures all of them on layers of common networks. Costs are multiply-adds per output,
for c channels and k filters a group and t taps. Names are those of lowerings, or begin them: `winograd_f4x1` computes
tiles of 4 by 1 outputs, `winograd_f4_pool` writes their maxima only.
[Add a convolution algorithm](add_a_convolution_algorithm.md) is one file and one line.

Groups of at most 4 channels that lie within vectors are left to the first two algorithms, a pool of 2x2 that a pass has
folded in to Winograd's. Weights that are known only when the model runs are multiplied as they lie (`columns`), or
packed then, for each of the algorithms for constant weights that keep an infinity where it belongs.

| problem | algorithm | file | wins | cost |
|---|---|---|---|---|
"""
CHOICES = """# How often the first choice is the fastest

Made by `make docs` from `src/cenote/kernels/constants.json`, which `python -m bench.fit` writes. The cost model
compares algorithms by operations and bytes; its constants are fitted for each kind of machine to layers of the zoo's
networks that have several algorithms, drawn evenly over their kinds. Each candidate is timed alone, on one thread, in
the state of the caches that it finds in its model: its input is fresh, and as many bytes as the model's plan has of
other weights were read since its last run. With warm weights Winograd's larger tiles seem faster than they are in a
network: where F(4x4) was faster so, naming it made one network take 5 % longer. Loss is the first choice's time over
that of the fastest, less one; "not seen" judges each half of the layers by constants fitted to the other half.
Until 2026-11-29 the same candidate began each turn, and was charged up to 40 us for it: of Zen 4's pools `separable`.
Since then strided, dilated and transposed convolutions have more candidates. On a Xeon 400 layers drawn anew on
2026-12-01 have the fastest first in 87.0 % (mean loss 2.7 %; 59 % of strided 3x3). Constants fitted to these reached
89.8 and 1.4 %, but networks took 1.01 times as long with them (GoogLeNet 1.09, ResNet-18 1.04, ResNet-50 0.96;
processes in turns), so they were not kept.
`tune="full"` measures instead: [using models](using_models.md).
"""
OPTIONS = re.compile(r"(<!-- options: .*?<!-- end -->)", re.DOTALL)
OTHER_KERNELS = ("pool.whole_map", "pool.adaptive_argmax", "pool_variants", "pool_gradient", "roi")


def settings_page() -> str:
    """The table of environment variables."""
    lines = [
        "# Settings",
        "",
        "Environment variables, read when they are needed. `cenote info` shows what is in force. This page is made by",
        "`make docs` from `src/cenote/core/settings.py`.",
        "",
        "| variable | default | meaning |",
        "|---|---|---|",
    ]
    for item in cenote.info().settings:
        lines.append(
            f"| `{item.variable}` | {f'`{item.default}`' if item.default else 'empty'} | {item.help} |"
        )
    return "\n".join(lines) + "\n"


def pooling_page() -> str:
    """The list of pooling algorithms, and what the other kernels of pools do."""
    lines = POOLING.splitlines()
    for problem, algorithms in pools.PROBLEMS.items():
        for each in algorithms:
            lines.append(
                f"| {problem} | {each.name} | `kernels/pool/{each.name}.py` | {each.wins} | {each.cost} |"
            )
    lines += ["", "Kernels of pools with one algorithm each:", *kernels_table(OTHER_KERNELS)]
    return "\n".join(lines) + "\n"


def convolutions_page() -> str:
    """The list of convolution algorithms, and what the kernels of convolutions do."""
    lines = CONVOLUTIONS.splitlines()
    for problem, algorithms in convolutions.PROBLEMS.items():
        for each in algorithms:
            file = each.offer.__module__.removeprefix("cenote.").replace(".", "/")
            lines.append(f"| {problem} | {each.name} | `{file}.py` | {each.wins} | {each.cost} |")
    lines += [
        "",
        "Kernels of convolutions, and what makes their calls:",
        *kernels_table(("conv", "quantized", "winograd")),
    ]
    return "\n".join(lines) + "\n"


def choices_page() -> str:
    """How often the first choice of an algorithm is the fastest, by kind of machine."""
    lines = CHOICES.splitlines()
    for kind, record in stored().items():
        figures = record["figures"]
        if kind == DEFAULT:
            lines += ["", f"Constants of other machines come from single figures ({figures['machine']})."]
            continue
        lines += ["", f"## {kind}", "", f"{figures['machine']}, {figures['date']}.", ""]
        lines += ["| layers | number | within 3 % | mean loss | worst loss |", "|---|---:|---:|---:|---:|"]
        rows = {
            "all": figures,
            "all, not seen": figures["unseen"],
            "all, before fitting": figures["unfitted"],
        }
        for word, each in {**rows, **figures["kinds"]}.items():
            numbers = (f"{each[name]:.1%}" for name in ("share", "mean_loss", "worst_loss"))
            lines.append(f"| {word} | {each['layers']} | {' | '.join(numbers)} |")
        lines += ["", "| chosen | fastest | layers | worst loss |", "|---|---|---:|---:|"]
        lines += [
            f"| {first} | {fastest} | {count} | {worst:.0%} |"
            for first, fastest, count, worst in figures["missed"]
        ]
    return "\n".join(lines) + "\n"


def kernels_table(parts: Sequence[str]) -> Iterator[str]:
    """A row per module of these parts of kernels/: its file, and the first sentence of its docstring."""
    yield from ("", "| file | what it does |", "|---|---|")
    for part in parts:
        module = importlib.import_module(f"cenote.kernels.{part}")
        inner = [f"{part}.{item.name}" for item in pkgutil.iter_modules(getattr(module, "__path__", []))]
        for each in inner or [part]:
            text = (importlib.import_module(f"cenote.kernels.{each}").__doc__ or "").split("\n\n")[0]
            yield f"| `kernels/{each.replace('.', '/')}.py` | {' '.join(text.split()).rstrip(':')} |"


def _page_of(module: str, *arguments: Path, function: str = "page") -> str:
    """What a function of a module beside this one makes."""
    sys.path.insert(0, str(DOCS))
    try:
        made: str = getattr(importlib.import_module(module), function)(*arguments)
    finally:
        sys.path.remove(str(DOCS))
    return made


def operators_page() -> str:
    """The list of operators."""
    return _page_of("operator_table", CASES)


def functions_page() -> str:
    """The list of functions on arrays."""
    return _page_of("function_table", SAMPLES)


def signatures_page() -> str:
    """The list of functions on arrays from which the site makes their reference."""
    return _page_of("function_table", function="signatures")


def options_page() -> str:
    """The page about models, with the table of the options of `cenote.load`."""
    lines = ["| option | on the command line | values | meaning |", "|---|---|---|---|"]
    for each in dataclasses.fields(cenote.LoadOptions):
        said = each.metadata["option"]
        if said.flag:
            words = [f'`"{word}"`' for word in getattr(said.check, "words", ())]
            values = ", ".join(words) or (said.values if said.values[0].isdigit() else f"`{said.values}`")
            lines.append(f"| `{each.name}` | `{said.flag}` | {values} | {said.help} |")
    before, table, after = OPTIONS.split((DOCS / "using_models.md").read_text(encoding="utf-8"))
    start = table.splitlines()[0]
    return "\n".join([before + start, *lines, "<!-- end -->"]) + after


def formats_page() -> str:
    """The page about TensorFlow and Keras, with the table of what is read of each format."""
    from cenote.frontends.keras.layers import LAYERS
    from cenote.frontends.tensorflow.operators import OPERATORS
    from cenote.frontends.tflite.operators import OPERATORS as LITE

    read = {
        "Keras (.keras, .h5), layers": LAYERS,
        "TensorFlow (graphs, SavedModel), operators": OPERATORS,
        "TensorFlow Lite, operators": LITE,
    }
    lines = ["| format | number | names |", "|---|---:|---|"]
    for name, table in read.items():
        lines.append(
            f"| {name} | {len(table)} | {' '.join(f'`{each}`' for each in sorted(map(str, table)))} |"
        )
    before, table, after = OPTIONS.split((DOCS / "from_tensorflow.md").read_text(encoding="utf-8"))
    return "\n".join([before + table.splitlines()[0], *lines, "<!-- end -->"]) + after


def stability_page() -> str:
    """The promise, and the list of public names."""
    return _page_of("public_names")


def public_names() -> str:
    """Every public name with its parameters."""
    return _page_of("public_names", function="checked_text")


PAGES = {
    "operators.md": operators_page,
    "functional.md": functions_page,
    "reference/functional.md": signatures_page,
    "settings.md": settings_page,
    "pooling_algorithms.md": pooling_page,
    "convolution_algorithms.md": convolutions_page,
    "choices.md": choices_page,
    "using_models.md": options_page,
    "from_tensorflow.md": formats_page,
    "public_names.txt": public_names,
    "stability.md": stability_page,
}

if __name__ == "__main__":
    for name, page in PAGES.items():
        (DOCS / name).write_text(page(), encoding="utf-8")
