"""A model that a command has loaded, and planned for inputs that are given or made."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

import cenote
from cenote.cli.console import waiting
from cenote.cli.inputs import Inputs, read_inputs
from cenote.cli.options import Input, Shape
from cenote.cli.preprocess import Preprocess
from cenote.cli.shapes import Shapes, complete_shapes, parse_shapes, shapes_of

SEED = 0


@dataclass(frozen=True)
class InputGroup:
    """Options that say something of a model's inputs."""

    shape: Shape = None
    input: Input = None


@dataclass(frozen=True)
class Loaded:
    """A model, the inputs that are given, and the shapes of all."""

    model: cenote.Model
    given: Inputs
    shapes: Shapes

    def inputs(self) -> Inputs:
        """Return the inputs given; for the others standard normal numbers where they are floats, and zeros for
        everything else, since an integer is often an index."""
        generator = np.random.default_rng(SEED)
        inputs: Inputs = dict(self.given)
        for declared in self.model.inputs:
            if declared.name in inputs:
                continue
            shape = self.shapes[declared.name]
            floats = declared.dtype.kind in "fV"  # V: bfloat16
            content = generator.standard_normal(shape) if floats else np.zeros(shape)
            inputs[declared.name] = content.astype(declared.dtype)
        return inputs


def load(model: Path, options: cenote.LoadOptions, given: InputGroup, doing: str = "loading") -> Loaded:
    """Load a model and plan it for these inputs."""
    shapes = parse_shapes(given.shape or ())
    with waiting(f"{doing} {model.name}"):
        loaded = completed(cenote.load_with(model, options), shapes, given.input or ())
        loaded.model.plan_for(loaded.shapes)
    return loaded


def completed(model: cenote.Model, shapes: Shapes, inputs: Sequence[str]) -> Loaded:
    """A loaded model with a shape for every input."""
    real = read_inputs(model, inputs, Preprocess())
    return Loaded(model, real, complete_shapes(model, shapes, shapes_of(real)))
