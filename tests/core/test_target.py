"""What the system says of the processor and its caches, on Arm and elsewhere."""

from __future__ import annotations

from pathlib import Path

import pytest

from cenote.core import target
from cenote.core.target import cache_sizes, choose_target, processor

GRAVITON = """processor\t: 0
BogoMIPS\t: 243.75
Features\t: fp asimd evtstrm aes pmull sha1 sha2 crc32 atomics fphp asimdhp cpuid asimdrdm lrcpc dcpop asimddp
CPU implementer\t: 0x41
CPU architecture: 8
CPU variant\t: 0x3
CPU part\t: 0xd0c
CPU revision\t: 1
"""
XEON = "processor\t: 0\nvendor_id\t: GenuineIntel\nmodel name\t: Intel(R) Xeon(R)\n\nmodel name\t: another\n"


@pytest.fixture(autouse=True)
def _asked_anew() -> None:
    processor.cache_clear()
    cache_sizes.cache_clear()


@pytest.mark.parametrize(
    ("facts", "name"),
    [
        (GRAVITON, "Neoverse N1"),
        (GRAVITON.replace("0xd0c", "0xd08"), "Cortex-A72"),
        (XEON, "Intel(R) Xeon(R)"),
    ],
    ids=["graviton", "raspberry", "xeon"],
)
def test_a_processor_has_a_name(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, facts: str, name: str
) -> None:
    (tmp_path / "cpuinfo").write_text(facts)
    monkeypatch.setattr(target, "_CPU_FACTS", tmp_path / "cpuinfo")
    assert processor() == name
    processor.cache_clear()


def test_unknown_cores_are_told_apart(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    names = set()
    for facts in (GRAVITON.replace("0x41", "0x61"), GRAVITON.replace("0xd0c", "0xfff"), "Features\t: fp\n"):
        processor.cache_clear()
        (tmp_path / "cpuinfo").write_text(facts)
        monkeypatch.setattr(target, "_CPU_FACTS", tmp_path / "cpuinfo")
        names.add(processor())
    processor.cache_clear()
    assert len(names) == 3
    assert any("0x61:0xd0c" in name for name in names)


def test_caches_without_a_size_are_usual_ones(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    said = {
        0: ("1", "Data", "64K"),
        1: ("1", "Instruction", "128K"),
        2: ("2", "Unified", None),
        3: ("3", "Unified", "32M"),
    }
    for number, (level, kind, size) in said.items():
        folder = tmp_path / f"index{number}"
        folder.mkdir()
        (folder / "level").write_text(level)
        (folder / "type").write_text(kind)
        if size:
            (folder / "size").write_text(f"{size}\n")
    monkeypatch.setattr(target, "_CACHE_FOLDER", tmp_path)
    assert cache_sizes() == (64 << 10, 512 << 10, 32 << 20)
    (tmp_path / "index2" / "size").write_text("\n")
    cache_sizes.cache_clear()
    assert cache_sizes() == (64 << 10, 512 << 10, 32 << 20)
    cache_sizes.cache_clear()


def test_arm_has_one_target_for_all_cpus() -> None:
    chosen = choose_target((), "aarch64-unknown-linux-gnu")
    assert (chosen.name, chosen.features, chosen.vector_bytes, chosen.registers) == ("generic", "", 16, 32)
    assert chosen == choose_target({"dotprod", "sve", "avx2"}, "aarch64-unknown-linux-gnu")
