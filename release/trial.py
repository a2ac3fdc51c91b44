"""What a new user does first, with what is installed alone: `python trial.py cenote|runtime` prints a line."""

import subprocess
import sys
from pathlib import Path

import numpy as np

PLAN, INPUT, OUTPUT = Path("trial.cenote"), Path("trial.npy"), Path("trial.npz")


def command(*arguments):
    done = subprocess.run(
        [str(Path(sys.executable).with_name("cenote")), *arguments],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def cenote_itself():
    """Names the pictures of the package, calls a function, leaves a plan file, an input and the answer."""
    from importlib.resources import files

    import cenote
    import cenote.functional as F

    answers = command("run")
    assert "12 of 12 right" in answers, answers
    pooled = F.max_pool2d(np.arange(16, dtype=np.float32).reshape(1, 1, 4, 4), 2)
    assert pooled.tolist() == [[[[5, 7], [13, 15]]]], pooled
    command("info")
    model = cenote.load((files("cenote") / "data" / "fashion.onnx").read_bytes())
    x = np.random.default_rng(0).random((1, 1, 28, 28), dtype=np.float32)
    model.save(PLAN)
    np.save(INPUT, x)
    np.savez(OUTPUT, y=model(x))
    return f"runs, {cenote.info().cache.bundled} kernels inside"


def runtime():
    """Runs the plan file that the whole package left."""
    import importlib.util

    import cenote

    for absent in ("onnx", "llvmlite", "typer"):
        assert importlib.util.find_spec(absent) is None, f"{absent} is installed"
    answer = cenote.load(PLAN)(np.load(INPUT))
    np.testing.assert_array_equal(answer, np.load(OUTPUT)["y"])
    command("run", str(PLAN), str(INPUT))
    command("info")
    return "runs the plan file of the whole package, same bits"


if __name__ == "__main__":
    print(runtime() if sys.argv[1] == "runtime" else cenote_itself())
