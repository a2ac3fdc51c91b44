"""A plan as a program in C99: explicit buffers, copies between them and memory, a computation for each tile.

The program has the order of the simulator (`clock.order`): with two copies of the buffers the next tile is loaded
before one is computed and stored while it is. TILE_COPY moves a run of bytes; a port to a real machine defines it, and
TILE_WAIT, by its DMA engine.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from cenote.tiling.emission.cells import WEIGHTS, average, maximum, product
from cenote.tiling.emission.tables import (
    AVERAGE,
    MAXIMUM,
    PRODUCT,
    AxisTable,
    axis_tables,
    blocks_of,
    check_emitted,
    kind_of,
)
from cenote.tiling.execution.buffer import Core
from cenote.tiling.problem import TilingPlan

_LINE = 100  # letters of a line of numbers
_TYPES = {"float32": "float", "float64": "double", "int32": "int32_t", "int64": "int64_t"}


def emit_c(plan: TilingPlan, name: str = "tiles") -> str:
    """Return the program. It declares `NAME_core(core, cores, x, [w, [bias,]] y, [indices,] buffer)`, which executes
    the tasks of one core in `buffer` (NAME_BUFFER bytes, at a multiple of 64), and `NAME_run` without the first two,
    for all cores in turn. Its results are those of `simulate`, bit for bit.

    Raises UnsupportedError for layers other than pools of maxima and averages and convolutions, float32 or float64.
    """
    return "\n".join([*_lines(plan, re.sub(r"\W", "_", name)), ""])


def _lines(plan: TilingPlan, name: str) -> Iterator[str]:
    check_emitted(plan)
    layer, kind = plan.layer, kind_of(plan.layer)
    element, place = _TYPES[layer.dtype.name], _TYPES[layer.indices.name] if layer.indices else ""
    yield from _head(plan, name)
    yield from ("#include <stddef.h>", "#include <stdint.h>", "#include <string.h>", "")
    yield from (
        "#ifndef TILE_COPY",
        "#define TILE_COPY(to, from, bytes) memcpy((to), (from), (bytes))",
        "#endif",
    )
    yield from ("#ifndef TILE_WAIT", "#define TILE_WAIT() ((void)0)", "#endif", "")
    yield f"typedef {element} element;"
    if place:
        yield f"typedef {place} place;"
    yield ""
    yield from _constants(plan, name)
    for letter, table in zip("dhw", axis_tables(plan), strict=True):
        yield from _axis(letter, table, kind)
    starts, stops = zip(*blocks_of(plan), strict=True)
    yield from _table("block_first", starts)
    yield from _table("block_last", stops)
    yield _TASK
    yield WEIGHTS if kind == PRODUCT else ""
    yield {MAXIMUM: maximum, AVERAGE: average, PRODUCT: product}[kind](plan)
    yield _driver(plan, name, kind)


def _head(plan: TilingPlan, name: str) -> Iterator[str]:
    tile, layer = plan.tile, plan.layer
    yield f"/* {layer.title}: {layer.op}"
    inputs = ", ".join(str(each) for each in layer.inputs if each is not None)
    yield f"   {inputs} -> {', '.join(map(str, layer.outputs))}"
    channels = f", {tile.channels} channels at a time" if layer.conv else ""
    yield f"   tiles of {tile.nc} planes, {tile.d} x {tile.h} x {tile.w} outputs{channels}; {plan.tasks} tasks"
    yield f"   planned for {plan.hardware.name} ({plan.hardware.cores} cores, {plan.hardware.ub_bytes:,} bytes each)"
    yield f"   by {plan.strategy}: {plan.cycles:,} cycles. C99; {name}_run needs no allocation and has no state. */"


def _constants(plan: TilingPlan, name: str) -> Iterator[str]:
    """Yield numbers of the plan: sizes, and the places in the buffer, which are the simulator's."""
    core, layer, tile, hardware = Core(0, plan), plan.layer, plan.tile, plan.hardware
    widest = layer.axes[2].span(tile.w, plan.policy.pad_space == "padded")
    item = layer.dtype.itemsize
    images = layer.images
    numbers = {
        f"{name.upper()}_BUFFER": hardware.ub_bytes,
        f"{name.upper()}_CORES": hardware.cores,
        "TASKS": plan.tasks,
        "COPIES": core.copies,
        "PARTS": layer.channel_parts(tile.channels),
        "INPUT_PITCH": hardware.aligned(widest * item),
        "OUTPUT_PITCH": hardware.aligned(tile.w * item),
        **{f"TILE_{letter}": extent for letter, extent in zip("DHW", tile.spatial, strict=True)},
        **dict(zip(("PARTS_D", "PARTS_H", "PARTS_W"), plan.parts[1:], strict=True)),
        "INPUT_AT": core.inputs[0][0].offset,
        "INPUT_BYTES": core.inputs[0][0].size,
        "OUTPUT_AT": core.outputs[0][0].offset,
        "OUTPUT_BYTES": core.outputs[0][0].size,
    }
    if layer.indices:
        numbers |= {
            "PLACE_PITCH": hardware.aligned(tile.w * layer.indices.itemsize),
            "PLACE_AT": core.outputs[1][0].offset,
            "PLACE_BYTES": core.outputs[1][0].size,
        }
    if (conv := layer.conv) is not None:
        numbers |= {
            "IMAGES": images,
            "CHANNELS": conv.channels,
            "FILTERS": conv.filters,
            "GROUP_CHANNELS": conv.group_channels,
            "GROUP_FILTERS": conv.group_filters,
            "TILE_CHANNELS": tile.channels,
            "TAPS": conv.taps,
            **dict(zip(("TAPS_H", "TAPS_W"), (1, 1, *conv.window)[-2:], strict=True)),
            "WEIGHTS_AT": core.weights[0].offset,
            "WEIGHTS_BYTES": core.weights[0].size,
            "SUMS_AT": core.sums.offset,
            "SUMS_PITCH": hardware.aligned(tile.w * _sum_type(plan).itemsize),
            "BIAS_IN": core.weights[0].size - hardware.aligned(min(tile.nc, conv.filters) * item),
        }
    yield "enum {"
    yield from (f"  {key} = {value}," for key, value in numbers.items())
    yield from ("};", "")
    if layer.conv is not None:
        yield from (f"typedef {_TYPES[_sum_type(plan).name]} sum;", "")


def _sum_type(plan: TilingPlan) -> np.dtype[Any]:
    """Return the type of sums that are kept between parts of the channels, as the simulator has it."""
    wide = plan.layer.dtype == np.float64
    return plan.policy.sum_type or np.dtype(np.float64 if wide else np.float32)


def _axis(letter: str, table: AxisTable, kind: str) -> Iterator[str]:
    sizes = {"IN": table.size, "OUT": table.out, "STEP": table.step}
    yield f"enum {{ {', '.join(f'{key}_{letter.upper()} = {value}' for key, value in sizes.items())} }};"
    yield from _table(f"low_{letter}", table.low)
    yield from _table(f"high_{letter}", table.high)
    yield from _table(f"first_{letter}", table.first)
    yield from _table(f"count_{letter}", table.count)
    if kind == PRODUCT:
        yield from _table(f"tap_{letter}", table.tap)
    if kind == AVERAGE:
        yield from _table(f"divisor_{letter}", table.divisor)
    yield ""


def _table(name: str, numbers: Sequence[int]) -> Iterator[str]:
    yield f"static const int32_t {name}[{len(numbers)}] = {{"
    line = "  "
    for number in numbers:
        if len(line) > _LINE:
            yield line.rstrip()
            line = "  "
        line += f"{number}, "
    yield line.rstrip()
    yield "};"


_TASK = """
/* One tile: half-open ranges of output planes and of D, H, W; the inputs that these read. */
typedef struct {
  ptrdiff_t first, last, d0, d1, h0, h1, w0, w1;
  ptrdiff_t low_d, low_h, low_w, in_d, in_h, in_w;
} task;

static task task_of(ptrdiff_t number) {
  task t;
  const ptrdiff_t w = number % PARTS_W, h = number / PARTS_W % PARTS_H;
  const ptrdiff_t d = number / (PARTS_W * PARTS_H) % PARTS_D, block = number / (PARTS_W * PARTS_H * PARTS_D);
  t.first = block_first[block];
  t.last = block_last[block];
  t.d0 = d * TILE_D;
  t.h0 = h * TILE_H;
  t.w0 = w * TILE_W;
  t.d1 = t.d0 + TILE_D < OUT_D ? t.d0 + TILE_D : OUT_D;
  t.h1 = t.h0 + TILE_H < OUT_H ? t.h0 + TILE_H : OUT_H;
  t.w1 = t.w0 + TILE_W < OUT_W ? t.w0 + TILE_W : OUT_W;
  t.low_d = low_d[t.d0];
  t.low_h = low_h[t.h0];
  t.low_w = low_w[t.w0];
  t.in_d = high_d[t.d1 - 1] - t.low_d;
  t.in_h = high_h[t.h1 - 1] - t.low_h;
  t.in_w = high_w[t.w1 - 1] - t.low_w;
  return t;
}

/* Planes of x that the tile reads, row by row into the buffer. */
static void load(unsigned char *to, const element *x, const task *t, ptrdiff_t first, ptrdiff_t last) {
  const size_t bytes = (size_t)t->in_w * sizeof(element);
  if (!bytes) return;
  for (ptrdiff_t p = first; p < last; p++)
    for (ptrdiff_t d = 0; d < t->in_d; d++)
      for (ptrdiff_t h = 0; h < t->in_h; h++) {
        const ptrdiff_t row = (p * IN_D + t->low_d + d) * IN_H + t->low_h + h;
        TILE_COPY(to, x + row * IN_W + t->low_w, bytes);
        to += INPUT_PITCH;
      }
}

/* The tile's outputs (or places), row by row out of the buffer. */
static void store(unsigned char *y, size_t item, const unsigned char *from, ptrdiff_t pitch, const task *t) {
  for (ptrdiff_t p = t->first; p < t->last; p++)
    for (ptrdiff_t d = t->d0; d < t->d1; d++)
      for (ptrdiff_t h = t->h0; h < t->h1; h++) {
        const ptrdiff_t at = ((p * OUT_D + d) * OUT_H + h) * OUT_W + t->w0;
        TILE_COPY(y + (size_t)at * item, from, (size_t)(t->w1 - t->w0) * item);
        from += pitch;
      }
}
"""


_SLOT = "(step % COPIES)"


def _arguments(plan: TilingPlan, kind: str) -> list[str]:
    """Return the arrays that the program takes, and its buffer."""
    weights = ["const element *w", *(["const element *bias"] if plan.layer.has_bias else [])]
    places = ["place *indices"] if plan.layer.indices else []
    return [
        "const element *x",
        *(weights if kind == PRODUCT else []),
        "element *y",
        *places,
        "unsigned char *buffer",
    ]


def _loading(plan: TilingPlan, kind: str) -> str:
    """Return the statements that load what a step computes with."""
    if kind != PRODUCT:
        return f"    load(buffer + INPUT_AT + {_SLOT} * INPUT_BYTES, x, &t, t.first, t.last);"
    bias = f"""
    TILE_COPY(buffer + WEIGHTS_AT + {_SLOT} * WEIGHTS_BYTES + BIAS_IN, bias + t.first % FILTERS,
              (size_t)(t.last - t.first) * sizeof(element));"""
    return f"""    ptrdiff_t first, last;
    channels_of(&t, step % PARTS, &first, &last);
    load(buffer + INPUT_AT + {_SLOT} * INPUT_BYTES, x + t.first / FILTERS * CHANNELS * IN_D * IN_H * IN_W, &t,
         first, last);
    count[{_SLOT}] = load_weights(buffer + WEIGHTS_AT + {_SLOT} * WEIGHTS_BYTES, w, &t, step % PARTS);{
        bias if plan.layer.has_bias else ""
    }"""


def _spaces(plan: TilingPlan, kind: str) -> str:
    """Return the arguments of `compute` beside the output, the input and the task."""
    if kind == PRODUCT:
        parts = plan.layer.channel_parts(plan.tile.channels)
        sums = ", buffer + SUMS_AT, step % PARTS" if parts > 1 else ""
        return f"buffer + WEIGHTS_AT + {_SLOT} * WEIGHTS_BYTES, count[{_SLOT}]{sums}, "
    return "buffer + PLACE_AT + place_of * PLACE_BYTES, " if plan.layer.indices else ""


def _driver(plan: TilingPlan, name: str, kind: str) -> str:
    """Return the functions that execute tasks, in the order of the simulator."""
    given = _arguments(plan, kind)
    passed = ", ".join(each.split("*")[-1] for each in given)
    storing = _stored("y", "element", "OUTPUT")
    if plan.layer.indices:
        storing += f"\n{_stored('indices', 'place', 'PLACE')}"
    counted = "  ptrdiff_t count[COPIES];\n" if kind == PRODUCT else ""
    arguments = ", ".join(given)
    return f"""
#define LOAD(s) do {{ \\
    const ptrdiff_t step = (s); \\
    const task t = task_of(core + step / PARTS * cores); \\
{_continued(_loading(plan, kind))}
  }} while (0)
#define STORE(s) do {{ \\
    const ptrdiff_t step = (s), place_of = step / PARTS % COPIES; \\
    const task t = task_of(core + step / PARTS * cores); \\
{_continued(storing)}
  }} while (0)

void {name}_core(ptrdiff_t core, ptrdiff_t cores, {arguments});
void {name}_core(ptrdiff_t core, ptrdiff_t cores, {arguments}) {{
  const ptrdiff_t steps = core < TASKS ? ((TASKS - core - 1) / cores + 1) * PARTS : 0;
{counted}  for (ptrdiff_t now = 0; now < steps; now++) {{
    if (COPIES == 1 || now == 0) LOAD(now);
    TILE_WAIT(); /* this step is loaded, and what its output's space held is stored */
    if (COPIES == 2 && now && now % PARTS == 0) STORE(now - 1);
    if (COPIES == 2 && now + 1 < steps) LOAD(now + 1);
    {{
      const ptrdiff_t step = now, place_of = step / PARTS % COPIES;
      const task t = task_of(core + step / PARTS * cores);
      compute(buffer + OUTPUT_AT + place_of * OUTPUT_BYTES, buffer + INPUT_AT + {_SLOT} * INPUT_BYTES,
              {_spaces(plan, kind)}&t);
    }}
    if (COPIES == 1 && (now + 1) % PARTS == 0) STORE(now);
  }}
  if (COPIES == 2 && steps) STORE(steps - 1);
  TILE_WAIT();
}}

void {name}_run({arguments});
void {name}_run({arguments}) {{
  const ptrdiff_t cores = TASKS < {name.upper()}_CORES ? TASKS : {name.upper()}_CORES;
  for (ptrdiff_t core = 0; core < cores; core++) {name}_core(core, cores, {passed});
}}"""


def _stored(array: str, kind: str, space: str) -> str:
    """Return the statement that stores what a space of the buffer holds."""
    source = f"buffer + {space}_AT + place_of * {space}_BYTES"
    return f"    store((unsigned char *){array}, sizeof({kind}), {source}, {space}_PITCH, &t);"


def _continued(text: str) -> str:
    return "\n".join(f"{line} \\" for line in text.splitlines())
