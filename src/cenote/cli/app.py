"""The commands, and the exit codes: 0 for success, 1 for a fault of the model or the input, 2 for one of the command
line."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import NoReturn

import typer

import cenote
from cenote.cli.bench import bench
from cenote.cli.cache import cache
from cenote.cli.check_operator import check_operator
from cenote.cli.console import err, show_messages
from cenote.cli.conversion.compile import compile_model
from cenote.cli.conversion.compress import compress
from cenote.cli.conversion.export import export
from cenote.cli.conversion.extract import extract
from cenote.cli.conversion.quantize import quantize
from cenote.cli.info import info
from cenote.cli.insight.compare import compare
from cenote.cli.insight.diagnose import diagnose
from cenote.cli.insight.profile import profile
from cenote.cli.inspect import inspect
from cenote.cli.options import grouped
from cenote.cli.run import run
from cenote.cli.serving.health import health
from cenote.cli.serving.serve import serve
from cenote.cli.tile import tile
from cenote.cli.verify import verify
from cenote.cli.warm import warm

app = typer.Typer(
    name="cenote",
    help="Run convolutional networks on the CPU, fast, and see what happens inside.",
    epilog="Start with `cenote run`: the model inside the package looks at pictures inside the package.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
for command in (
    run,
    inspect,
    bench,
    profile,
    diagnose,
    compare,
    tile,
    verify,
    quantize,
    compress,
    export,
    extract,
    warm,
    serve,
):
    app.command()(grouped(command))
app.command("compile")(grouped(compile_model))
app.command("check-operator")(check_operator)
app.add_typer(cache, name="cache")
app.command()(health)
app.command()(info)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"cenote {cenote.__version__}")
        raise typer.Exit


@app.callback()
def common(
    version: bool = typer.Option(
        False, "--version", help="Print the version and stop.", callback=_version, is_eager=True
    ),
    verbose: int = typer.Option(
        0,
        "--verbose",
        "-v",
        count=True,
        help="Say what is compiled and found in the cache; -vv: each kernel.",
    ),
) -> None:
    """Options before the command."""
    show_messages(verbose)


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Run the command line and end the process. Errors that the user can mend print as one line, without traceback.

    A reader that closes the pipe early (`cenote run | head`) ends the program without an error.
    """
    try:
        app(args=list(arguments) if arguments is not None else None, prog_name="cenote")
        sys.stdout.flush()
    except SystemExit as ended:
        if not isinstance(ended.__context__, BrokenPipeError):  # typer and rich turn that into exit code 1
            raise
        _leave_pipe()
    except BrokenPipeError:
        _leave_pipe()
    except cenote.CenoteError as error:
        _fail(str(error))
    except OSError as error:
        _fail(f"{error.filename}: {error.strerror}" if error.filename and error.strerror else str(error))
    except MemoryError as error:
        _fail(f"out of memory{f' ({error})' if str(error) else ''}")
    sys.exit(0)


def _leave_pipe() -> NoReturn:
    """Exit silently; output that is not flushed yet is dropped."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.__stdout__.fileno() if sys.__stdout__ else 1)
    sys.exit(0)


def _fail(message: str) -> NoReturn:
    console = err()
    console.print("error:", style="bold red", end=" ")
    console.print(message, markup=False, soft_wrap=True)
    sys.exit(1)
