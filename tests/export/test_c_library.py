"""Static libraries with a header: the same bits as Cenote on the same level, from memory between guard pages."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import onnx
import onnx.parser
import pytest
from hypothesis import HealthCheck, given, settings

import cenote
from tests.export.libraries import CC, Library, as_on, assert_same_bits, exported, needs_cc, noise
from tests.random_graphs import networks
from tests.small_network import X, small
from tests.targets import runnable

EMBEDDED = Path(cenote.__file__).parent / "data" / "fashion.onnx"
LEVELS = {"x86-64": "generic", "x86-64-v3": "avx2", "x86-64-v4": "avx512"}


def text_model(text: str) -> onnx.ModelProto:
    return onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["" : 17]> {text}')


def ready(
    source: object, folder: Path, level: str, monkeypatch: pytest.MonkeyPatch
) -> tuple[Library, cenote.Model]:
    if runnable(LEVELS[level]) is None:
        pytest.skip(f"this CPU does not run {level}")
    as_on(LEVELS[level], monkeypatch)
    # Plans for open sizes may take other algorithms.
    shapes = {"picture": (1, 1, 28, 28)} if source == EMBEDDED else None
    model = cenote.load(source, threads=1, tune="off", shapes=shapes)  # type: ignore[arg-type]
    return exported(source, folder, level, model), model


@needs_cc
@pytest.mark.parametrize("level", LEVELS)
def test_a_library_has_the_bits_of_the_model(
    level: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    library, model = ready(EMBEDDED, tmp_path, level, monkeypatch)
    inputs = noise(model)
    assert_same_bits(library.run(*inputs), model(*inputs))


@needs_cc
def test_random_networks_have_the_bits_of_the_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    as_on("generic", monkeypatch)
    number = iter(range(1000))

    @settings(max_examples=6, derandomize=True, suppress_health_check=list(HealthCheck))
    @given(networks())
    def check(graph: onnx.ModelProto) -> None:
        model = cenote.load(graph, threads=1, tune="off")
        library = exported(graph, tmp_path / str(next(number)), "x86-64", model)
        inputs = noise(model)
        expected = model(*inputs)
        assert_same_bits(library.run(*inputs), expected)
        assert_same_bits(library.run_on(backwards, 1, *inputs), expected)

    check()


def backwards(piece: object, job: int, items: int, grain: int) -> None:
    """All parts of a step, the last one first, on one thread."""
    for begin in reversed(range(0, items, grain)):
        piece(job, begin, min(begin + grain, items), 0)  # type: ignore[operator]


@needs_cc
def test_threads_of_the_caller_share_each_step(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    library, model = ready(EMBEDDED, tmp_path, "x86-64", monkeypatch)
    inputs, used = noise(model), set()

    with ThreadPoolExecutor(3) as pool:

        def parallel(piece: object, job: int, items: int, grain: int) -> None:
            def work(thread: int) -> None:
                for begin in range(thread * grain, items, 3 * grain):
                    used.add(thread)
                    piece(job, begin, min(begin + grain, items), thread)  # type: ignore[operator]

            list(pool.map(work, range(3)))

        assert_same_bits(library.run_on(parallel, 3, *inputs), model(*inputs))
    assert len(used) > 1


@needs_cc
def test_eight_threads_run_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    library, model = ready(small(tmp_path / "m.onnx"), tmp_path / "out", "x86-64", monkeypatch)
    inputs = [X + np.float32(i) for i in range(8)]
    expected = [model(x) for x in inputs]
    found: dict[int, list[np.ndarray]] = {}
    start = threading.Barrier(8)

    def work(number: int) -> None:
        start.wait()
        for _ in range(20):
            found[number] = library.run(inputs[number])

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for number, y in enumerate(expected):
        assert_same_bits(found[number], y)


@needs_cc
def test_entries_share_the_library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    as_on("generic", monkeypatch)
    source = small(tmp_path / "m.onnx", batch="n")
    model = cenote.load(source, threads=1, tune="off")
    shapes = [{"x": (1, 8, 9, 9)}, {"x": (3, 8, 9, 9)}]
    for each in shapes:
        inputs = noise(model, each)
        expected = model(*inputs)
        library = exported(source, tmp_path / "out", "x86-64", model, shapes=shapes)
        sized = Library(library.folder, "net", library.outputs, prefix=f"net_{'x'.join(map(str, each['x']))}")
        assert_same_bits(sized.run(*inputs), expected)


@needs_cc
def test_angles_and_remainders_need_no_c_library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    as_on("generic", monkeypatch)
    source = text_model(
        "g (float[4096] x, float[4096] z) => (float[4096] y, float[4096] r)"
        "{ a = Sin(x) b = Cos(x) c = Tan(x) d = Add(a, b) y = Add(c, d) r = Mod<fmod=1>(x, z) }"
    )
    model = cenote.load(source, threads=1, tune="off")
    library = exported(source, tmp_path / "out", "x86-64", model)
    x = np.random.default_rng(0).integers(0, 1 << 32, (2, 4096), np.uint32).view(np.float32)
    x[~np.isfinite(x)] = 3e9
    assert_same_bits(library.run(*x), model(*x))


@needs_cc
def test_weights_lie_beside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    as_on("generic", monkeypatch)
    source = small(tmp_path / "m.onnx")
    model = cenote.load(source, threads=1, tune="off")
    library = exported(source, tmp_path / "out", "x86-64", model, weights="beside")
    assert library.weights
    assert_same_bits(library.run(X), model(X))
    assert library._weights is not None
    library._weights = library._weights[1:]
    with pytest.raises(AssertionError, match="status 2"):
        library.run(X)


@needs_cc
def test_null_pointers_are_errors(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    library, _ = ready(small(tmp_path / "m.onnx"), tmp_path / "out", "x86-64", monkeypatch)
    given = [np.zeros(1 << 16, np.uint8) for _ in range(3)]
    for absent in range(3):
        pointers = [None if i == absent else ctypes.c_void_p(x.ctypes.data) for i, x in enumerate(given)]
        assert library.native.net_run(*pointers) == 1
        assert library.native.net_run_on(*pointers, ctypes.c_void_p(1), None) == 1
    assert not any(x.any() for x in given), "something was written"


@needs_cc
@pytest.mark.parametrize(
    "compiler",
    [["cc", "-std=c99", "-xc"], ["c++", "-std=c++11", "-xc++"]],
    ids=["c", "cxx"],
)
def test_the_header_compiles_without_a_warning(compiler: list[str], tmp_path: Path) -> None:
    if shutil.which(compiler[0]) is None:
        pytest.skip(f"no {compiler[0]}")
    source = small(tmp_path / "odd name-1.onnx", batch="n")
    shapes = [{"x": (1, 8, 9, 9)}, {"x": (2, 8, 9, 9)}]
    files = cenote.export_model(source, tmp_path / "out", target="x86-64", shapes=shapes, weights="beside")
    assert files[0].name == "odd_name_1.h"
    flags = ["-Wall", "-Wextra", "-Werror", "-pedantic", "-fsyntax-only"]
    subprocess.run([*compiler, *flags, str(files[0])], check=True)


MAIN = r"""
#include <stdio.h>
#include <stdlib.h>
#include "net.h"
int main(void) {
    static float x[NET_INPUT0_ELEMENTS], y[NET_OUTPUT0_ELEMENTS];
    static const size_t shape[NET_INPUT0_RANK] = NET_INPUT0_SHAPE;
    void *workspace = malloc(net_workspace());
    if (shape[1] != 8 || fread(x, 1, sizeof x, stdin) != NET_INPUT0_BYTES) return 2;
    if (net_run(x, y, workspace) != NET_OK) return 3;
    free(workspace);
    return fwrite(y, 1, sizeof y, stdout) == NET_OUTPUT0_BYTES ? 0 : 4;
}
"""
_MACHINES = {
    "x86-64": ("cc", ()),
    "aarch64": ("aarch64-linux-gnu-gcc", ("qemu-aarch64-static",)),
    "riscv64": ("riscv64-linux-gnu-gcc", ("qemu-riscv64-static", "-cpu", "rv64,v=true,vlen=128")),
}


@needs_cc
@pytest.mark.parametrize("target", _MACHINES)
def test_a_program_of_c_runs_the_library(target: str, tmp_path: Path) -> None:
    compiler, emulator = _MACHINES[target]
    for tool in (compiler, *emulator[:1]):
        if shutil.which(tool) is None:
            pytest.skip(f"no {tool}")
    source = small(tmp_path / "m.onnx")
    cenote.export_model(source, tmp_path, target=target, name="net")
    (tmp_path / "main.c").write_text(MAIN)
    flags = ["-std=c99", "-O1", "-Wall", "-Wextra", "-Werror", "-pedantic", "-static"]
    sanitizers = ["-fsanitize=address,undefined"] if target == "x86-64" else []
    if sanitizers:
        flags.remove("-static")
    files = [str(tmp_path / name) for name in ("main.c", "libnet.a")]
    subprocess.run([compiler, *flags, *sanitizers, *files, "-o", str(tmp_path / "main")], check=True)
    done = subprocess.run(
        [*emulator, str(tmp_path / "main")], input=X.tobytes(), stdout=subprocess.PIPE, check=True
    )
    expected = cenote.load(source)(X)
    np.testing.assert_allclose(
        np.frombuffer(done.stdout, np.float32).reshape(expected.shape), expected, rtol=1e-5, atol=1e-5
    )


@needs_cc
def test_cmake_and_pkg_config_find_the_library(tmp_path: Path) -> None:
    source = small(tmp_path / "m.onnx")
    cenote.export_model(source, tmp_path / "net", target="x86-64", name="net")
    (tmp_path / "main.c").write_text(MAIN)
    if shutil.which("pkg-config"):
        command = ["pkg-config", "--cflags", "--libs", str(tmp_path / "net" / "net.pc")]
        flags = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
        assert CC is not None
        subprocess.run(
            [CC, str(tmp_path / "main.c"), *flags, "-o", str(tmp_path / "by_pkg_config")], check=True
        )
    if shutil.which("cmake") is None:
        pytest.skip("no cmake")
    (tmp_path / "CMakeLists.txt").write_text(
        "cmake_minimum_required(VERSION 3.10)\nproject(p C)\nadd_subdirectory(net)\n"
        "add_executable(main main.c)\ntarget_link_libraries(main net)\n"
    )
    subprocess.run(["cmake", "-S", ".", "-B", "build"], cwd=tmp_path, check=True, capture_output=True)
    subprocess.run(["cmake", "--build", "build"], cwd=tmp_path, check=True, capture_output=True)
    done = subprocess.run([tmp_path / "build" / "main"], input=X.tobytes(), capture_output=True, check=True)
    assert len(done.stdout) == 4 * 16 * 4 * 4


def test_the_same_files_come_out_twice(tmp_path: Path) -> None:
    source = small(tmp_path / "m.onnx")
    first, second = (
        [path.read_bytes() for path in cenote.export_model(source, tmp_path / name, target="aarch64")]
        for name in "ab"
    )
    assert first == second


@pytest.mark.parametrize("target", ["x86-64-v3", "x86-64-v4", "aarch64", "riscv64"])
def test_every_target_needs_nothing_from_elsewhere(target: str, tmp_path: Path) -> None:
    files = cenote.load(EMBEDDED).export(tmp_path, target)
    assert {path.suffix for path in files} >= {".h", ".a"}  # the export itself refuses undefined symbols


# ---- refusals ---------------------------------------------------------------------------------------------


def test_host_steps_are_named(tmp_path: Path) -> None:
    source = text_model("g (float[3, 3] x) => (float y) { a = Relu(x) y = Det(a) }")
    with pytest.raises(cenote.UnsupportedError, match=r"1 steps run as NumPy.*[Dd]et.*outputs="):
        cenote.export_model(source, tmp_path, target="x86-64")
    assert not [*tmp_path.iterdir()]


def test_open_sizes_are_asked_for(tmp_path: Path) -> None:
    source = text_model("g (float[n, 3, h, 8] x) => (float[n, 3, h, 8] y) { y = Relu(x) }")
    with pytest.raises(cenote.InputError, match=r"--shape x=1,3,SIZE,8"):
        cenote.export_model(source, tmp_path, target="x86-64")
    cenote.export_model(source, tmp_path, target="x86-64", shapes=[{"x": (2, 3, 4, 8)}])


def test_sizes_that_depend_on_content_are_refused(tmp_path: Path) -> None:
    source = text_model("g (float[8] x) => (int64[1, m] y) { y = NonZero(x) }")
    with pytest.raises(cenote.UnsupportedError, match="depend on the content"):
        cenote.export_model(source, tmp_path, target="x86-64")


def test_wrong_arguments_say_what_is_possible(tmp_path: Path) -> None:
    source = small(tmp_path / "m.onnx")
    with pytest.raises(cenote.ArgumentError, match="'mips' is none of x86-64, "):
        cenote.export_model(source, tmp_path, target="mips")
    with pytest.raises(cenote.ArgumentError, match="'outside' is none of inside, beside"):
        cenote.export_model(source, tmp_path, target="x86-64", weights="outside")  # type: ignore[arg-type]
    with pytest.raises(cenote.InputError, match="'z' is no input"):
        cenote.export_model(source, tmp_path, target="x86-64", shapes=[{"z": (1,)}])
    model = cenote.load(source)
    model.save(tmp_path / "m.cenote")
    with pytest.raises(cenote.ArgumentError, match="is a plan file"):
        cenote.export_model(tmp_path / "m.cenote", tmp_path, target="x86-64")
    with pytest.raises(cenote.InputError, match="graph is not at hand"):
        cenote.load(tmp_path / "m.cenote").export(tmp_path, "x86-64")
