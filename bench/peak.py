"""Peak multiply-add rate of one core, from a loop of nothing else, generated with llvmlite."""

import ctypes
import time

from llvmlite import binding

CHAINS = 12  # independent sums: more than latency times throughput on any current core
ROUNDS = 20_000_000


def loop_text(lanes: int) -> str:
    """LLVM IR: `CHAINS` vectors, each multiplied and added to once per round."""
    vector = f"<{lanes} x float>"
    chains = range(CHAINS)
    phis = "\n".join(f"  %a{i} = phi {vector} [ %start, %entry ], [ %b{i}, %loop ]" for i in chains)
    steps = "\n".join(
        f"  %b{i} = call {vector} @llvm.fma.v{lanes}f32({vector} %a{i}, {vector} %start, {vector} %start)"
        for i in chains
    )
    # Every chain must be used, or the optimiser removes it.
    sums = "\n".join(f"  %s{i} = fadd {vector} %b{i}, {'%start' if i == 0 else f'%s{i - 1}'}" for i in chains)
    return f"""
declare {vector} @llvm.fma.v{lanes}f32({vector}, {vector}, {vector})
define float @work(i64 %rounds, float %value) {{
entry:
  %one = insertelement {vector} poison, float %value, i32 0
  %start = shufflevector {vector} %one, {vector} poison, <{lanes} x i32> zeroinitializer
  br label %loop
loop:
  %n = phi i64 [ 0, %entry ], [ %next, %loop ]
{phis}
{steps}
  %next = add i64 %n, 1
  %again = icmp ult i64 %next, %rounds
  br i1 %again, label %loop, label %exit
exit:
{sums}
  %result = extractelement {vector} %s{CHAINS - 1}, i32 0
  ret float %result
}}
"""


def lanes_of(features: dict[str, bool]) -> int:
    """Floats per vector register."""
    if features.get("avx512f"):
        return 16
    return 8 if features.get("avx2") and features.get("fma") else 4


def multiply_add_peak() -> float:
    """GFLOP/s of one core, the best of five tries."""
    binding.initialize_native_target()
    binding.initialize_native_asmprinter()
    features = binding.get_host_cpu_features()
    lanes = lanes_of(features)
    machine = binding.Target.from_default_triple().create_target_machine(
        cpu=binding.get_host_cpu_name(), features=features.flatten(), opt=2
    )
    engine = binding.create_mcjit_compiler(binding.parse_assembly(loop_text(lanes)), machine)
    engine.finalize_object()
    signature = ctypes.CFUNCTYPE(ctypes.c_float, ctypes.c_int64, ctypes.c_float)
    work = signature(engine.get_function_address("work"))
    best = float("inf")
    for _ in range(5):
        begin = time.perf_counter()
        work(ROUNDS, 0.5)
        best = min(best, time.perf_counter() - begin)
    return 2.0 * lanes * CHAINS * ROUNDS / best / 1e9
