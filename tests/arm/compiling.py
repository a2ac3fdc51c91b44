"""Processes of this machine that compile for the emulated one, in place of `python -m cenote.codegen.worker` there."""

from __future__ import annotations

import runpy

from llvmlite import binding as llvm

if __name__ == "__main__":
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    runpy.run_module("cenote.codegen.worker", run_name="__main__", alter_sys=True)
