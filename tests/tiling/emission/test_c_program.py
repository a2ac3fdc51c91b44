"""Plans as programs: the C compiles without a warning, runs under sanitizers, and gives the simulator's bits."""

from __future__ import annotations

import random
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import cenote
from bench.tiling import MACHINES, data
from bench.tiling_layers import random_layer
from cenote.core.types import Array
from cenote.tiling import TilingPlan
from cenote.tiling.execution.simulator import weights_of

COMPILER = next(filter(None, map(shutil.which, ("gcc", "clang", "cc"))), None)
STRICT = ["-std=c99", "-O1", "-Wall", "-Wextra", "-Werror", "-pedantic"]
SANITIZED = ["-g", "-fsanitize=address,undefined", "-fno-sanitize-recover=all"]
SMALL = {"base": "npu", "ub_bytes": 4096, "cores": 3}

# The caller: each array lies alone on the heap, so that an access outside of it is found; outputs begin as junk.
MAIN = """
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
{declared}
static void *taken(FILE *from, size_t bytes) {{
  void *made = malloc(bytes ? bytes : 1);
  if (!made || (from && fread(made, 1, bytes, from) != bytes)) exit(3);
  if (!from) memset(made, 0xA5, bytes);
  return made;
}}
int main(int count, char **names) {{
  FILE *in = fopen(names[1], "rb"), *out = fopen(names[2], "wb");
  if (count != 3 || !in || !out) return 2;
{calls}
  return fclose(in) || fclose(out);
}}
"""
CALL = """  {{
    void *arrays[] = {{ {arrays} }};
    unsigned char *buffer = aligned_alloc(64, {buffer});
    if (!buffer) return 4;
    memset(buffer, 0xFF, {buffer});
    {name}_run({passed}, buffer);
{written}
    free(buffer);
    for (size_t i = 0; i < sizeof arrays / sizeof *arrays; i++) free(arrays[i]);
  }}"""


def plans(count: int) -> list[TilingPlan]:
    """Random layers of the kinds that programs are emitted for, on all machines."""
    found: list[TilingPlan] = []
    seed = 0
    while len(found) < count:
        chance = random.Random(seed)
        kind, given = random_layer(chance, most=300)
        given["dtype"] = chance.choice(("float32", "float32", "float32", "float64"))
        machine: Any = chance.choice((*MACHINES, SMALL, SMALL))
        strategy: Any = chance.choice(("three-stage", "search"))
        seed += 1
        try:
            plan = cenote.tiling.plan(kind, **given, hardware=machine, strategy=strategy)
            cenote.tiling.emit_c(plan)
        except cenote.CenoteError:
            continue
        if plan.tasks <= 600:
            found.append(plan)
    return found


def outputs_of(plan: TilingPlan) -> list[Array]:
    places = [plan.layer.indices] if plan.layer.indices else []
    return [
        np.empty(kind.shape, dtype)
        for kind, dtype in zip(plan.layer.outputs, (plan.layer.dtype, *places), strict=False)
    ]


def call(plan: TilingPlan, name: str) -> str:
    inputs = [kind for kind in plan.layer.inputs if kind is not None]
    made = outputs_of(plan)
    arrays = [f"taken(in, {kind.nbytes})" for kind in inputs] + [f"taken(NULL, {y.nbytes})" for y in made]
    written = [
        f"    if (fwrite(arrays[{len(inputs) + i}], 1, {y.nbytes}, out) != {y.nbytes}) return 5;"
        for i, y in enumerate(made)
    ]
    passed = ", ".join(f"arrays[{i}]" for i in range(len(arrays)))
    return CALL.format(
        arrays=", ".join(arrays),
        buffer=-(-plan.hardware.ub_bytes // 64) * 64,
        name=name,
        passed=passed,
        written="\n".join(written),
    )


def run(made: list[TilingPlan], inputs: list[Array], folder: Path) -> list[list[Array]]:
    """Compile the plans into one program with sanitizers, run it, and return what each plan computes."""
    assert COMPILER is not None
    declared, calls, files = [], [], []
    for number, (plan, x) in enumerate(zip(made, inputs, strict=True)):
        name = f"plan{number}"
        text = cenote.tiling.emit_c(plan, name)
        files.append(folder / f"{name}.c")
        files[-1].write_text(text)
        arguments = len([kind for kind in plan.layer.inputs if kind is not None]) + len(outputs_of(plan)) + 1
        declared.append(f"void {name}_run({', '.join(['void *'] * arguments)});")
        calls.append(call(plan, name))
        with (folder / "in").open("ab" if number else "wb") as out:
            for array in (x, *weights_of(plan)):
                out.write(np.ascontiguousarray(array).tobytes())
    main = folder / "main.c"
    main.write_text(MAIN.format(declared="\n".join(declared), calls="\n".join(calls)))
    objects = []
    for file in files:
        objects.append(file.with_suffix(".o"))
        command = [COMPILER, *STRICT, *SANITIZED, "-c", str(file), "-o", str(objects[-1])]
        subprocess.run(command, check=True, capture_output=True, text=True)
    program = folder / "program"
    linked = [COMPILER, "-std=c11", *SANITIZED, str(main), *map(str, objects), "-o", str(program)]
    subprocess.run(linked, check=True, capture_output=True, text=True)
    done = subprocess.run(
        [program, folder / "in", folder / "out"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-2000:]
    content = (folder / "out").read_bytes()
    results, at = [], 0
    for plan in made:
        results.append([])
        for y in outputs_of(plan):
            results[-1].append(np.frombuffer(content, y.dtype, y.size, at).reshape(y.shape))
            at += y.nbytes
    return results


@pytest.mark.skipif(COMPILER is None, reason="no C compiler (gcc)")
def test_fifty_plans_run_under_sanitizers(tmp_path: Path) -> None:
    made = plans(50)
    assert {plan.layer.op.name for plan in made} >= {"max_pool", "average_pool", "conv"}
    assert any(plan.layer.indices for plan in made)
    assert any(plan.layer.channel_parts(plan.tile.channels) > 1 for plan in made)
    inputs = [data(plan, number) for number, plan in enumerate(made)]
    for x, plan in zip(inputs, made, strict=True):
        if plan.layer.conv is None and x.size > 9:
            x.reshape(-1)[::7] = np.nan
            x.reshape(-1)[3::11] = np.inf
    for plan, x, found in zip(made, inputs, run(made, inputs, tmp_path), strict=True):
        simulated, _ = cenote.tiling.simulate(plan, x)
        wanted = simulated if isinstance(simulated, tuple) else (simulated,)
        for got, want in zip(found, wanted, strict=True):
            if plan.layer.dtype == np.float64 and plan.layer.op.name not in ("max_pool", "min_pool"):
                np.testing.assert_allclose(got, want, rtol=1e-12, atol=1e-12)  # sums in another order
            else:
                np.testing.assert_array_equal(got, want)


def pooled(kind: str = "maxpool", **more: Any) -> TilingPlan:
    return cenote.tiling.plan(kind, **{"input": (1, 4, 16, 16), "kernel": 3, "hardware": SMALL, **more})


@pytest.mark.parametrize(
    ("kind", "given", "said"),
    [
        ("maxpool", {"dtype": "int8"}, "no program is emitted for max_pool of int8"),
        ("lppool", {}, "no program is emitted for lp_pool; pools of maxima"),
        ("maxpool", {"fused": ["sigmoid"]}, "no program is emitted for max_pool with sigmoid; relu"),
    ],
)
def test_what_no_program_is_emitted_for(kind: str, given: dict[str, Any], said: str) -> None:
    with pytest.raises(cenote.UnsupportedError, match=said):
        cenote.tiling.emit_c(pooled(kind, **given))


def test_names_are_identifiers() -> None:
    text = cenote.tiling.emit_c(pooled(), "a-b.c")
    assert "void a_b_c_run(" in text
    assert "A_B_C_BUFFER = 4096" in text


def test_the_text_names_buffers_copies_and_loops() -> None:
    plan = cenote.tiling.plan(
        "conv", input=(1, 512, 20, 20), filters=32, kernel=3, hardware="npu-small", bias=True, fused=["relu"]
    )
    text = cenote.tiling.emit_text(plan, "layer 1")
    for words in (
        "func.func @layer_1(%x: memref<1x512x20x20xf32>, %w: memref<32x512x3x3xf32>, %b: memref<32xf32>",
        f"step {min(plan.hardware.cores, plan.tasks)} {{",
        "%weights = memref.view %buffer[",
        "memref.dma_start %x[%at], %input[%slot]",
        '"cenote.conv"(%input, %weights, ',
        '"cenote.relu"(%output)',
    ):
        assert words in text, words
    assert text.count("{") == text.count("}")
    places = [int(each) for each in re.findall(r"%buffer\[(\d+)\]", text)]
    assert places == sorted(places)
    assert "%i: memref<1x4x5x5xi64>" in cenote.tiling.emit_text(pooled(indices="int64"))
