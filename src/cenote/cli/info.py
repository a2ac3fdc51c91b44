"""`cenote info`: facts of this installation and its machine."""

from __future__ import annotations

import json

from rich.table import Table

import cenote
from cenote.cli.console import out, say, size
from cenote.cli.options import Json


def info(
    as_json: Json = False,
) -> None:
    """Show the machine, the instruction set that kernels are generated for, the kernel cache, versions, settings."""
    facts = cenote.info()
    if as_json:
        say(json.dumps(facts.as_dict(), indent=2))
        return
    machine, target, cache = facts.machine, facts.target, facts.cache
    table = Table(box=None, show_header=False, pad_edge=False)
    table.add_row("cenote", facts.version)
    if facts.problem:
        table.add_row("", facts.problem)
    table.add_row("system", machine.system)
    table.add_row("processor", machine.processor)
    table.add_row(
        "cores", f"{machine.physical_cores} physical, {machine.logical_cores} logical, for this process"
    )
    levels = ", ".join(size(level) for level in (machine.l1_bytes, machine.l2_bytes, machine.l3_bytes))
    table.add_row("caches", f"{levels} (levels 1, 2, 3)")
    table.add_row("memory", size(machine.memory) if machine.memory else "unknown")
    table.add_row(
        "target", f"{target.name} ({target.cpu}): {target.lanes} lanes, {target.registers} registers"
    )
    tiles = " ".join(dict.fromkeys(filter(None, target.tiles))) or "none"
    ways = f"bytes {target.dots}", f"bfloat16 {target.bfloat or 'as float32'}", f"tiles {tiles}"
    table.add_row("products of", ", ".join(ways))
    kernels, models = (
        f"{cache.files} kernels, {size(cache.nbytes)}",
        f"{cache.plans} models, {size(cache.plan_bytes)}",
    )
    table.add_row("cache", f"{cache.folder}: {kernels}; {models}" if cache.folder else "off")
    if cache.problem:
        table.add_row("", f"not used: {cache.problem}")
    if cache.bundled:
        table.add_row("package", f"{cache.bundled} compiled kernels, {size(cache.bundled_bytes)}")
    table.add_row("versions", ", ".join(f"{name} {version}" for name, version in facts.versions.items()))
    out().print(table)
    settings = Table(box=None, pad_edge=False, title="settings (environment variables)", title_justify="left")
    for column in ("variable", "value", "meaning"):
        settings.add_column(column)
    for item in facts.settings:
        settings.add_row(item.variable, item.value or "(empty)", item.problem or item.help)
    out().print()
    out().print(settings)
