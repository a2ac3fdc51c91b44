"""Output of the command line: standard output and standard error, progress bars, formats of numbers."""

from __future__ import annotations

import json
import logging
import textwrap
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

import cenote

_BIG = 1 << 20


def out() -> Console:
    """Return the console of standard output, for results."""
    return Console(highlight=False)


def err() -> Console:
    """Return the console of standard error, for progress and errors."""
    return Console(stderr=True, highlight=False)


def say(text: str) -> None:
    """Print a line of plain text on standard output, never wrapped, so that it can be searched and cut."""
    typer.echo(text)


def say_json(content: Any) -> None:
    """Print JSON on standard output. Raises ValueError for NaN and infinities, which JSON does not have."""
    typer.echo(json.dumps(content, indent=2, allow_nan=False))


def terminal_width() -> int | None:
    """Return the columns of standard output where it is a terminal; None for a file or a pipe, where lines may be
    long."""
    console = out()
    return console.width if console.is_terminal else None


def say_within(text: str, width: int | None) -> None:
    """Print lines, wrapped at the width of a terminal, with continuations indented."""
    for line in text.splitlines():
        indent = " " * (len(line) - len(line.lstrip()) + 4)
        wrapped = textwrap.wrap(line, width, subsequent_indent=indent) if width is not None else []
        say("\n".join(wrapped) or line)


@contextmanager
def waiting(what: str) -> Iterator[None]:
    """Show a bar on the terminal while a model is loaded: it pulses until kernels are compiled, then it counts them.
    Print nothing where standard error is no terminal."""
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


@contextmanager
def progressing(what: str) -> Iterator[Callable[[str, int, int], None]]:
    """Show a bar on the terminal that the function given tells what is being done, how much of it is done, and how much
    there is. Print nothing where standard error is no terminal."""
    console = err()
    columns = (SpinnerColumn(), TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress:
        task = progress.add_task(what, total=None)

        def tell(doing: str, done: int, total: int) -> None:
            shown = f"{what}: {doing}, {done} of {total}"
            progress.update(task, description=shown, completed=done, total=total)

        yield tell


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


def write(path: Path, content: str | Callable[[BinaryIO], object]) -> None:
    """Write a file, whole or not at all: text, or what a function writes. Raises OSError, which names the file."""
    part = path.with_name(f".{path.name}.part") if path.is_file() or not path.exists() else path
    try:
        with part.open("wb") as file:
            file.write(content.encode()) if isinstance(content, str) else content(file)
        if part != path:
            part.replace(path)
    except OSError as error:
        if part != path:
            part.unlink(missing_ok=True)
        raise OSError(error.errno, error.strerror, str(path)) from error


def seconds(value: float) -> str:
    """Return a duration as text with three digits, in the unit that fits."""
    for scale, unit in ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs")):
        if value >= 0.9995 * scale:  # what three digits round up to the unit
            shown = value / scale
            return f"{shown:.3g} {unit}" if shown < 999.5 else f"{shown:.0f} {unit}"
    return f"{value * 1e6:.3g} µs"


def size(nbytes: int) -> str:
    """Return a number of bytes as text, in the unit that fits."""
    if nbytes < 1 << 10:
        return f"{nbytes} bytes"
    if nbytes < _BIG:
        return f"{nbytes / (1 << 10):.1f} KiB"
    return f"{nbytes / _BIG:.1f} MiB" if nbytes < _BIG << 10 else f"{nbytes / (_BIG << 10):.1f} GiB"
