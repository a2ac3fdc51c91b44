"""Output of the command line: standard output and standard error, progress bars, formats of numbers."""

from __future__ import annotations

import json
import logging
import textwrap
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

import cenote

_BIG = 1 << 20


def out() -> Console:
    """Standard output: answers."""
    return Console(highlight=False)


def err() -> Console:
    """Standard error: what is going on, and what went wrong."""
    return Console(stderr=True, highlight=False)


def say(text: str) -> None:
    """A line of plain text on standard output, never wrapped, so that it can be searched and cut."""
    typer.echo(text)


def say_json(content: Any) -> None:
    """As JSON that every reader takes: without NaN and infinities, which have no word there."""
    typer.echo(json.dumps(content, indent=2, allow_nan=False))


def terminal_width() -> int | None:
    """Columns of the terminal that standard output is; None for a file or a pipe, where lines may be long."""
    console = out()
    return console.width if console.is_terminal else None


def say_within(text: str, width: int | None) -> None:
    """Lines, wrapped where they are longer than a terminal is wide; what follows stands further right."""
    for line in text.splitlines():
        indent = " " * (len(line) - len(line.lstrip()) + 4)
        wrapped = textwrap.wrap(line, width, subsequent_indent=indent) if width is not None else []
        say("\n".join(wrapped) or line)


@contextmanager
def waiting(what: str) -> Iterator[None]:
    """A bar on the terminal while a model is loaded: it sways until kernels are compiled, then it counts them.
    Nothing where nobody looks."""
    console = err()
    columns = (SpinnerColumn(), TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress:
        task = progress.add_task(what, total=None)

        def compiled(done: int, total: int) -> None:
            progress.update(
                task, description=f"{what}: kernel {done} of {total}", completed=done, total=total
            )

        with cenote.watch_compilation(compiled):
            yield


class _Messages(logging.Handler):
    """Messages of the package as lines on standard error."""

    def emit(self, record: logging.LogRecord) -> None:
        shown = f"{record.levelname.lower()}: {record.getMessage()}"
        err().print(shown, markup=False, soft_wrap=True)


_messages = _Messages()


def show_messages(verbose: int) -> None:
    """Show warnings of the package; from 1 on what it does, from 2 on in detail."""
    package = logging.getLogger("cenote")
    package.setLevel((logging.WARNING, logging.INFO, logging.DEBUG)[min(verbose, 2)])
    package.addHandler(_messages)


def seconds(value: float) -> str:
    """A duration in the unit that fits, three digits."""
    for scale, unit in ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs")):
        if value >= scale:
            return f"{value / scale:.3g} {unit}" if value / scale < 1000 else f"{value / scale:.0f} {unit}"
    return f"{value * 1e6:.3g} µs"


def size(nbytes: int) -> str:
    """Bytes as people read them."""
    if nbytes < 1 << 10:
        return f"{nbytes} bytes"
    if nbytes < _BIG:
        return f"{nbytes / (1 << 10):.1f} KiB"
    return f"{nbytes / _BIG:.1f} MiB" if nbytes < _BIG << 10 else f"{nbytes / (_BIG << 10):.1f} GiB"
