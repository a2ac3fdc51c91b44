"""Makes docs/functional.md out of the functions on arrays: the first sentence of each docstring, by family."""

from __future__ import annotations

import inspect
import pydoc
import re
from collections.abc import Iterator
from pathlib import Path

import cenote.functional as F

# Title of each family, and the modules (below cenote.functional) whose functions it holds.
FAMILIES = {
    "Arithmetic, comparisons, logic": ("elementwise.arithmetic", "elementwise.unary"),
    "Activations": ("elementwise.activations",),
    "Fused chains": ("elementwise.chains", "elementwise.recorder"),
    "Reductions and running sums": ("reductions",),
    "Selection and order": ("choice.order", "choice.masks"),
    "Indexing": ("choice.indexing", "choice.scattering", "choice.bags"),
    "Movement": ("movement",),
    "Resizing, sampling, windows": ("sampling",),
    "Products and convolutions": ("products", "convolution", "attention"),
    "Recurrent layers": ("recurrent",),
    "Normalisation and softmax": ("normalization",),
    "Regularisation": ("random",),
    "Pooling": (
        "pool.max", "pool.average", "pool.adaptive", "pool.global_pools", "pool.lp", "pool.fractional", "pool.unpool",
        "pool.regions", "pool.pyramid", "pool.weighted", "shape",
    ),
    "Gradients of pools": ("pool.backward",),
    "Which algorithm a call takes": ("ways.explanation",),
}  # fmt: skip
HEAD = """# Functions on arrays

Made by `make docs` from `src/cenote/functional/`. Names, arguments and defaults are PyTorch's (torch,
torch.nn.functional, torchvision.ops); `help(cenote.functional.NAME)` explains the arguments and lists the errors.

```python
import numpy as np

import cenote
import cenote.functional as F

x = np.linspace(-1, 1, 2 * 3 * 8 * 8, dtype=np.float32).reshape(2, 3, 8, 8)
w = np.full((4, 3, 3, 3), 0.1, np.float32)

y = F.relu(F.conv2d(x, w, padding=1))
assert y.shape == (2, 4, 8, 8)

small = F.interpolate(y, scale_factor=0.5, mode="bilinear", antialias=True)
assert small.shape == (2, 4, 4, 4)

values, places = F.topk(F.softmax(F.mean(small, (2, 3)), 1), 2)
assert values.shape == places.shape == (2, 2)
```

## What all functions share

- **Arrays.** Inputs are NumPy arrays or anything that offers DLPack on the CPU; the result is of the first input's
  kind.
- **Results are new memory**, dense and row-major, never views of an input: `permute`, `transpose` and `split` too.
- **`out=`** takes the result. It must have the result's shape and type; nothing is resized or converted. It may be the
  input itself where elementwise functions, softmax and normalisations can work in place, else overlap is an error.
- **`threads=`** bounds the threads. Results have the same bits for any number of threads.
- **`algorithm=`** names [the algorithm](#which-algorithm); by default the cheapest by the cost model.
- **float16 and bfloat16** are computed in float32 and rounded once per function.
- **No gradients are recorded.** Pools have `*_backward` functions.
- **Errors** are [CenoteErrors](errors.md) that name the function and the argument; bad input never gives an answer.

```python
z = np.array([-2.0, 3.0], np.float32)
assert F.relu(z, out=z) is z
assert z.tolist() == [0.0, 3.0]

turned = F.permute(x, (0, 2, 3, 1))
assert turned.flags.c_contiguous
assert not np.shares_memory(turned, x)
```

## Which algorithm

`explain` says how a function computes a call, and why, without computing it; what it names, and each rival, is
what `algorithm=` takes. `"reference"` is the plain definition in NumPy, which every function has. An algorithm that is
not to be had is refused with those that are, and with what it is for.

```python
found = F.explain("max_pool2d", x, 3, stride=2)  # or F.explain(F.max_pool2d, x, 3, stride=2)
print(found)
y = F.max_pool2d(x, 3, stride=2, algorithm=found.algorithm)
for rival, milliseconds in (*found.rivals, ("reference", None)):
    assert np.array_equal(F.max_pool2d(x, 3, stride=2, algorithm=rival), y)
print(F.explain(F.cumsum, x, 1).reason)
```

`cenote.profile_call` makes such calls for 0.3 seconds (`seconds=`) and says what they reach: time, operations and
bytes per second, and how much of the nearest roof of this machine that is ([roofs](profile.md#the-table)). Its times
are those of whole calls from Python; the caches hold what the call before left in them. Rates count the operator's
operations, the roof those that the kernel executes, where it says how many.

```python
profile = cenote.profile_call(F.max_pool2d, x, 3, stride=2)
print(profile)
assert profile.algorithm == found.algorithm
assert cenote.CallProfile.from_dict(profile.to_dict()) == profile
```

## Where answers differ from PyTorch's

| function | difference |
|---|---|
| `div` with a rounding mode, `floor_divide`, `fmod`, `remainder` of integers by 0 | 0; PyTorch raises |
| `floor_divide` of floats | the exact quotient, rounded down, then once; PyTorch rounds in between |
| `hardtanh`, `threshold`, `pad`, `one_hot` of integers | a number that the type does not hold is a DTypeError |
| `where` | types are not promoted: a DTypeError |
| functions of indices | `invalid="raise"` (the error names the first bad place), `"clip"`, `"wrap"` or `"zero"` |
| `embedding`, `embedding_bag` | no `max_norm`, which would change the weights |
| `prod` | takes several axes |
| `repeat_interleave` | one number of repeats for all elements |
| `scatter` | of several updates of one place the last in row-major order stays |
| `normalize` | a line of zeros gives zeros with `eps=0` too; PyTorch gives NaN |
| `dropout` and its family | `seed` fixes the bits (Philox-4x32-10), not PyTorch's; a dropped NaN is 0 |
| `interpolate` of bytes | the rounded result of floats; PyTorch's bicubic filter is up to 14 off that |
| `grid_sample` | places in float64, of halves too; a place that is NaN is far outside |
| pools | `semantics=` chooses a framework's rules: [Pooling semantics](pooling_semantics.md) |

```python
whole = np.array([7, -7], np.int64)
assert F.floor_divide(whole, np.array([0, 2])).tolist() == [0, -4]

table = np.eye(3, dtype=np.float32)
assert F.embedding(np.array([2, 9]), table, invalid="zero").tolist() == [[0, 0, 1], [0, 0, 0]]

a = F.dropout(np.ones(100, np.float32), 0.5, seed=7)
assert np.array_equal(a, F.dropout(np.ones(100, np.float32), 0.5, seed=7, threads=1))
```
"""


def families() -> Iterator[tuple[str, list[str]]]:
    """Titles with the names of their functions. ValueError for a function that no family holds."""
    left = set(F.__all__)
    for title, modules in FAMILIES.items():
        homes = {f"cenote.functional.{module}" for module in modules}
        names = [name for name in F.__all__ if getattr(F, name).__module__ in homes]
        left -= set(names)
        if names:
            yield title, names
    if left:
        raise ValueError(f"functions of no family in docs/function_table.py: {', '.join(sorted(left))}")


def sentence(name: str) -> str:
    """The first sentence of a function's docstring."""
    text = " ".join((inspect.getdoc(getattr(F, name)) or "").split("\n\n")[0].split())
    return re.split(r"(?<=[^.][a-z0-9)\]²|])\. ", text)[0].rstrip(".:").replace("|", "\\|")


def samples(listing: Path) -> list[str]:
    """How many of PyTorch's own samples pass; `listing` is what tests/functional/op_db_table.py wrote."""
    head, *rows = listing.read_text(encoding="utf-8").splitlines()
    lines = ["", "## PyTorch's own samples", "", f"{head.lstrip('# ')} (all types that both have)."]
    lines += ["`python -m tests.functional.op_db_table` runs and counts them; what is left out, and why:"]
    lines += ["", "| reason | samples and error inputs | functions |", "|---|---:|---|"]
    left: dict[str, list[tuple[int, str]]] = {}
    for row in rows:
        name, _, told = row.partition(": ")
        _, _, reasons = told.partition(", without ")
        for reason in filter(None, reasons.split("; ")):
            count, _, text = reason.partition(" ")
            left.setdefault(text, []).append((int(count), name))
    for text, found in sorted(left.items()):
        lines.append(
            f"| {text} | {sum(n for n, _ in found)} | {', '.join(f'`{name}`' for _, name in found)} |"
        )
    return lines


def page(listing: Path) -> str:
    """The page; `listing` has the counts of PyTorch's samples."""
    lines = [*HEAD.splitlines(), *samples(listing)]
    for title, names in families():
        lines += ["", f"## {title}", "", "| function | |", "|---|---|"]
        lines += [f"| `{name}` | {sentence(name)} |" for name in names]
    return "\n".join(lines) + "\n"


def signatures() -> str:
    """The page of signatures and whole docstrings: what `help()` says."""
    lines = [
        "# Signatures",
        "",
        "Made by `make docs`. What each function of `cenote.functional` takes and says: its `help()`. A list with a",
        "sentence for each is in [functions on arrays](../functional.md).",
    ]
    for title, names in families():
        lines += ["", f"## {title}"]
        for name in names:
            text = pydoc.plain(pydoc.render_doc(getattr(F, name), title="%s")).split("\n", 2)[2]
            lines += [
                "",
                f"### {name}",
                "",
                "```text",
                *(line.rstrip() for line in text.rstrip().splitlines()),
                "```",
            ]
    return "\n".join(lines) + "\n"
