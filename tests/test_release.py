"""`make release`: what is refused, and what it writes beside the distributions."""

from __future__ import annotations

import io
import json
import tarfile
import tomllib
import zipfile
from pathlib import Path

import pytest

import cenote
from release import checked, papers
from release.built import Files
from release.commands import ROOT, Fault, run

GOOD = {
    "cenote/data/kernels.bundle": "machine code",
    "cenote-0.dist-info/METADATA": f"Metadata-Version: 2.4\nName: cenote\nVersion: {cenote.__version__}\n\n",
    "cenote-0.dist-info/licenses/LICENSE": "Apache-2.0",
    "cenote-0.dist-info/licenses/src/cenote/data/LICENSE-fashion-mnist.txt": "MIT",
}


def wheel(folder: Path, members: dict[str, str], tag: str = checked.TAG) -> Path:
    path = folder / f"cenote-{cenote.__version__}-{tag}.whl"
    with zipfile.ZipFile(path, "w") as archive:
        for name, text in members.items():
            archive.writestr(name, text)
    return path


def source(folder: Path, names: tuple[str, ...]) -> Path:
    path = folder / f"cenote-{cenote.__version__}.tar.gz"
    with tarfile.open(path, "w:gz") as archive:
        for name in ("PKG-INFO", *names):
            text = f"Name: cenote\nVersion: {cenote.__version__}\n\n".encode()
            member = tarfile.TarInfo(f"cenote-{cenote.__version__}/{name}")
            member.size = len(text)
            archive.addfile(member, io.BytesIO(text))
    return path


def test_a_sound_wheel_passes(tmp_path: Path) -> None:
    checked.wheel(wheel(tmp_path, GOOD), "cenote", checked.LICENSES, kernels=True)


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"cenote/data/kernels.bundle": None}, "has no compiled kernels"),
        ({"cenote-0.dist-info/licenses/LICENSE": None}, "lacks LICENSE"),
        ({"cenote-0.dist-info/METADATA": "Name: cenote\nVersion: 9\n\n"}, "calls itself cenote 9"),
        ({"cenote-0.dist-info/METADATA": f"Name: cenot\nVersion: {cenote.__version__}\n\n"}, "calls itself cenot "),
        ({"cenote/_native.so": ""}, "holds cenote/_native.so"),
    ],
)  # fmt: skip
def test_what_is_wrong_with_a_wheel_is_named(
    tmp_path: Path, changed: dict[str, str | None], said: str
) -> None:
    members = {name: text for name, text in (GOOD | changed).items() if text is not None}
    with pytest.raises(Fault, match=said):
        checked.wheel(wheel(tmp_path, members), "cenote", checked.LICENSES, kernels=True)


def test_a_wheel_of_one_platform_is_refused(tmp_path: Path) -> None:
    with pytest.raises(Fault, match="is not for any platform"):
        checked.wheel(wheel(tmp_path, GOOD, "cp311-cp311-linux_x86_64"), "cenote", (), kernels=True)


def test_a_source_distribution_holds_what_its_pages_speak_of(tmp_path: Path) -> None:
    names = tuple(f"{each}/x" for each in checked.SOURCES)
    checked.source(source(tmp_path, names))
    with pytest.raises(Fault, match=r"lacks mkdocs\.yml"):
        checked.source(source(tmp_path, tuple(name for name in names if not name.startswith("mkdocs"))))
    with pytest.raises(Fault, match=r"holds .*kernels\.bundle"):
        checked.source(source(tmp_path, (*names, "src/cenote/data/kernels.bundle")))
    with pytest.raises(Fault, match=r"holds .*examples/\.models/turn\.onnx"):
        checked.source(source(tmp_path, (*names, ".ci/run", "examples/.models/turn.onnx")))


def test_large_files_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = Files(*(wheel(tmp_path, GOOD) for _ in Files._fields))
    checked.sizes(files)
    monkeypatch.setattr(checked, "LARGEST", {"wheel": 100})
    with pytest.raises(Fault, match="at most 100 are meant"):
        checked.sizes(files)


def test_every_part_that_is_published_is_in_the_source_distribution() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    included = project["tool"]["hatch"]["build"]["targets"]["sdist"]["include"]
    assert set(checked.SOURCES) <= set(included)
    assert all((ROOT / name).exists() for name in included)


def test_a_command_that_fails_is_a_fault_with_what_it_printed(tmp_path: Path) -> None:
    with pytest.raises(Fault, match=r"ended with 3:\n.*why"):
        run("sh", "-c", "echo why >&2; exit 3", folder=tmp_path)


def test_commands_alone_see_neither_the_checkout_nor_its_settings(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", "checkout")
    monkeypatch.setenv("CENOTE_TARGET", "sse")
    code = "echo ${PYTHONPATH-none} ${CENOTE_TARGET-none} $HOME"
    assert run("sh", "-c", code, folder=tmp_path, alone=True).split() == ["none", "none", str(tmp_path)]


def test_this_version_has_notes_of_a_page(monkeypatch: pytest.MonkeyPatch) -> None:
    assert 20 < len(papers.notes().splitlines()) <= 40
    monkeypatch.setattr(papers, "__version__", "0.0.9")
    with pytest.raises(Fault, match=r"no section 0\.0\.9"):
        papers.notes()


def test_checksums_and_materials_are_of_the_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def described(program: Path, *arguments: str | Path) -> str:
        Path(arguments[-1]).write_text(json.dumps({"metadata": {"component": {"name": "cenote"}}}))
        return ""

    monkeypatch.setattr(papers, "packages", lambda file, folder: folder)
    monkeypatch.setattr(papers, "run", described)
    path = wheel(tmp_path, GOOD)
    papers.write(tmp_path, Files(path, path, path))
    sums = dict(reversed(line.split()) for line in (tmp_path / "SHA256SUMS").read_text().splitlines())
    bill = json.loads((tmp_path / f"cenote-{cenote.__version__}.cdx.json").read_text())
    assert bill["metadata"]["component"]["version"] == cenote.__version__
    assert bill["metadata"]["component"]["hashes"][0]["content"] == sums[path.name]
    assert {"NOTES.md", f"cenote-{cenote.__version__}.cdx.json"} <= set(sums)
