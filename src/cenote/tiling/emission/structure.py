"""A plan as text in the manner of MLIR: loops over cores and tasks, views of the buffer, copies, the computation of a
tile. It is to be read, and to start a port to a compiler from; no tool is promised to take it."""

from __future__ import annotations

import re
from collections.abc import Iterator

from cenote.core.types import TensorType
from cenote.tiling.emission.tables import check_emitted
from cenote.tiling.execution.buffer import Core
from cenote.tiling.problem import TilingPlan

_TYPES = {"float32": "f32", "float64": "f64", "float16": "f16", "bfloat16": "bf16"}


def emit_text(plan: TilingPlan, name: str = "tiles") -> str:
    """Return the text. Tiles at the ends of axes are smaller than the tile that it names."""
    return "\n".join([*_lines(plan, re.sub(r"\W", "_", name)), ""])


def _lines(plan: TilingPlan, name: str) -> Iterator[str]:
    layer, tile, inputs = plan.layer, plan.tile, plan.layer.inputs
    check_emitted(plan)
    names = ["%x", "%w", "%b"][: len(inputs)]
    results = list(zip(("%y", "%i"), layer.outputs, strict=False))
    given = [f"{each}: {_memory(kind)}" for each, kind in (*zip(names, inputs, strict=True), *results)]
    cores = min(plan.hardware.cores, plan.tasks)
    yield f"// {layer.title}: {layer.op}; {plan.strategy}, {plan.cycles:,} cycles on {plan.hardware.name}"
    yield f"func.func @{name}({', '.join(given)}) {{"
    yield f"  scf.forall (%core) in ({cores}) {{"
    yield f"    %buffer = memref.alloc() {{alignment = 64}} : memref<{plan.hardware.ub_bytes}xi8, 1>"
    yield from _views(plan)
    yield f"    scf.for %task = %core to {plan.tasks} step {cores} {{"
    blocks, deep, high, wide = plan.parts
    sizes = f"{tile.nc} x {tile.d} x {tile.h} x {tile.w}"
    yield f"      // blocks x D x H x W: {blocks} x {deep} x {high} x {wide}; tiles of {sizes}"
    yield f"      %at:4 = affine.delinearize_index %task into ({blocks}, {deep}, {high}, {wide})"
    parts = layer.channel_parts(tile.channels)
    inner = "      "
    if parts > 1:
        yield f"      scf.for %part = 0 to {parts} step 1 {{ // {tile.channels} input channels of a group at a time"
        inner += "  "
    copies = Core(0, plan).copies
    said = "the next tile's while this one is computed" if copies == 2 else "then computed, then stored"
    yield f"{inner}memref.dma_start %x[%at], %input[%slot] // {said}"
    if layer.conv is not None:
        yield f"{inner}memref.dma_start %w[%at], %weights[%slot]"
    yield f"{inner}memref.dma_wait"
    sources = "%input" + (", %weights" if layer.conv is not None else "")
    target = "%sums" if parts > 1 else "%output"
    yield f'{inner}"cenote.{layer.op.name}"({sources}, {target}) {{attributes = "{layer.op}"}}'
    if parts > 1:
        yield f"      }} // and from %sums to %output, {'with the bias' if layer.has_bias else 'rounded once'}"
    for op in layer.fused:
        yield f'      "cenote.{op.name}"(%output)'
    yield "      memref.dma_start %output[%slot], %y[%at]"
    if layer.indices:
        yield "      memref.dma_start %indices[%slot], %i[%at]"
    yield from ("    }", "    memref.dma_wait", "  }", "  return", "}")


def _views(plan: TilingPlan) -> Iterator[str]:
    """Yield the spaces of the buffer, with their places."""
    core = Core(0, plan)
    for spaces in (*core.inputs, core.weights, *core.outputs):
        first = spaces[0]
        if first.size:
            whole = f"memref<{len(spaces)}x{first.size}xi8, 1>"
            yield f"    %{first.name} = memref.view %buffer[{first.offset}][] : {whole}"
    if core.sums.size:
        yield f"    %sums = memref.view %buffer[{core.sums.offset}][] : memref<{core.sums.size}xi8, 1>"


def _memory(kind: TensorType) -> str:
    element = _TYPES.get(kind.dtype.name, kind.dtype.name.replace("uint", "ui").replace("int", "i"))
    return f"memref<{'x'.join(map(str, (*kind.shape, element)))}>"
