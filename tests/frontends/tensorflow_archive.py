"""The archive of models that TensorFlow and Keras wrote."""

from __future__ import annotations

import importlib.util
import zipfile
from collections.abc import Sequence
from pathlib import Path

import pytest

ARCHIVE = Path(__file__).with_name("tensorflow_models.zip")


def contents(names: Sequence[str]) -> dict[str, bytes]:
    """Files of the archive by name."""
    with zipfile.ZipFile(ARCHIVE) as archive:
        return {name: archive.read(name) for name in names}


NEEDS_H5PY = pytest.mark.skipif(importlib.util.find_spec("h5py") is None, reason="h5py is not installed")
