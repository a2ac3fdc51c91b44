"""`cenote cache`: show and remove the files of the cache."""

from __future__ import annotations

import time
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape
from rich.table import Table

import cenote
from cenote.cli.console import out, say, say_json, size
from cenote.cli.options import Json

cache = typer.Typer(help="Show what the cache holds, or clear it.", invoke_without_command=True)

_DAY = 86400
_LISTED = 10  # models, those used last


@cache.callback()
def show(context: typer.Context, as_json: Json = False) -> None:
    """Show what the cache holds: compiled kernels, compiled models (the last ten of them), when they were last used."""
    if context.invoked_subcommand is not None:
        return
    state, found = cenote.info().cache, cenote.cache_contents()
    if as_json:
        say_json(
            {
                "folder": state.folder,
                "problem": state.problem,
                "files": [
                    {
                        "kind": each.kind,
                        "name": each.name,
                        "bytes": each.nbytes,
                        "used": each.used,
                        "model": each.model,
                    }
                    for each in found
                ],
            }
        )
        return
    say(state.folder or "the cache is off (CENOTE_CACHE)")
    if state.problem:
        say(f"not used: {state.problem}")
    kernels, models, notes = (
        [each for each in found if each.kind == kind] for kind in ("kernel", "model", "note")
    )
    table = Table(box=None, pad_edge=False)
    for column, justify in (("", "left"), ("files", "right"), ("size", "right"), ("last used", "left")):
        table.add_column(column, justify=justify)  # type: ignore[arg-type]  # a literal
    for title, files in (("kernels", kernels), ("models", models), ("notes", notes)):
        table.add_row(title, str(len(files)), size(sum(each.nbytes for each in files)), _span(files))
    for each in models[:_LISTED]:
        name = "/".join(Path(each.model).parts[-2:])  # with its folder: many models are model.onnx
        table.add_row(f"  {escape(name) or each.name[:12]}", "", size(each.nbytes), _ago(each.used))
    if len(models) > _LISTED:
        table.add_row(f"  and {len(models) - _LISTED} more (--json lists all)")
    out().print(table)
    if state.bundled:
        say(f"in the package: {state.bundled} kernels, {size(state.bundled_bytes)}")


@cache.command()
def clear(
    kernels: Annotated[bool, typer.Option("--kernels", help="Compiled kernels only.")] = False,
    models: Annotated[bool, typer.Option("--models", help="Compiled models only.")] = False,
    as_json: Json = False,
) -> None:
    """Remove everything from the cache, or one kind of file. Running processes keep what they have loaded."""
    both = kernels == models
    removed = cenote.clear_cache(kernels=kernels or both, models=models or both)
    if as_json:
        say_json({"removed": removed})
    else:
        say(f"removed {removed} files")


def _span(files: Sequence[cenote.CachedFile]) -> str:
    """Time since the first and the last use of the files; "" for none."""
    if not files:
        return ""
    first, last = (_ago(pick(each.used for each in files)) for pick in (min, max))
    return first if first == last else f"{first} to {last}"


def _ago(moment: float) -> str:
    days = int((time.time() - moment) // _DAY)
    if days < 1:
        return "today" if datetime.fromtimestamp(moment).date() == datetime.now().date() else "yesterday"
    return "yesterday" if days == 1 else f"{days} days ago"
