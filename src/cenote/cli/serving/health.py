"""`cenote health`: whether a server of models is ready."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from typing import Annotated

import typer

from cenote.cli.console import err, say, say_json
from cenote.cli.options import Json


def health(
    url: Annotated[str, typer.Argument(help="The address of its HTTP port.")] = "http://127.0.0.1:8080",
    model: Annotated[
        str | None,
        typer.Option("--model", help="Ask for this model instead of the server.", show_default=False),
    ] = None,
    timeout: Annotated[
        float, typer.Option("--timeout", min=0.001, help="Seconds to wait for the answer.")
    ] = 5.0,
    as_json: Json = False,
) -> None:
    """Ask a server whether it is ready (`cenote serve`, or another one of the Open Inference Protocol).

    The exit code is 0 if it is, else 1: for a container's HEALTHCHECK, and for scripts that wait.
    """
    path = f"v2/models/{model}/ready" if model else "v2/health/ready"
    problem = _problem(f"{url.rstrip('/')}/{path}", timeout)
    if as_json:
        say_json({"url": url, "ready": not problem, "problem": problem})
    elif problem:
        err().print(f"not ready: {problem}", markup=False, soft_wrap=True)
    else:
        say("ready")
    if problem:
        raise typer.Exit(1)


def _problem(address: str, timeout: float) -> str:
    """Return why the server is not ready; "" where it is."""
    try:
        with urllib.request.urlopen(address, timeout=timeout) as answer:
            words = json.loads(answer.read() or b"{}")
    except urllib.error.HTTPError as error:
        return f"{address} answers {error.code}"
    except (OSError, ValueError) as error:
        return f"{address}: {getattr(error, 'reason', error)}"
    is_ready = words.get("ready", True) if isinstance(words, dict) else True
    return "" if is_ready is True else f"{address} answers {words}"
