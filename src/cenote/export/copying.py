"""Copying of bytes without a C library: what kernels that call memcpy call instead."""

from __future__ import annotations

from collections.abc import Iterator

_CHUNK, _VECTOR = 64, 16  # bytes of an iteration, and of a load


def without_memcpy(text: str, copy: str) -> str:
    """Return a kernel's module that calls the function `copy` in the place of memcpy."""
    return text.replace("@memcpy(", f'@"{copy}"(')


def copy_module(copy: str) -> str:
    """Return the module of the function `copy`: target, source, number of bytes; it returns the target."""
    return "\n".join(
        [
            f'define hidden ptr @"{copy}"(ptr noalias %y, ptr noalias %x, i64 %n) nounwind {{',
            "entry:",
            f"  %whole = and i64 %n, -{_CHUNK}",
            "  br label %chunks",
            "chunks:",
            "  %i = phi i64 [0, %entry], [%i.next, %chunk]",
            "  %more = icmp ult i64 %i, %whole",
            "  br i1 %more, label %chunk, label %rest",
            "chunk:",
            *_vectors(),
            f"  %i.next = add i64 %i, {_CHUNK}",
            "  br label %chunks",
            "rest:",
            "  %j = phi i64 [%whole, %chunks], [%j.next, %byte]",
            "  %last = icmp ult i64 %j, %n",
            "  br i1 %last, label %byte, label %end",
            "byte:",
            "  %from = getelementptr i8, ptr %x, i64 %j",
            "  %to = getelementptr i8, ptr %y, i64 %j",
            "  %b = load i8, ptr %from, align 1",
            "  store i8 %b, ptr %to, align 1",
            "  %j.next = add i64 %j, 1",
            "  br label %rest",
            "end:",
            "  ret ptr %y",
            "}",
            "",
        ]
    )


def _vectors() -> Iterator[str]:
    for place in range(0, _CHUNK, _VECTOR):
        yield f"  %p{place} = add i64 %i, {place}"
        yield f"  %x{place} = getelementptr i8, ptr %x, i64 %p{place}"
        yield f"  %v{place} = load <{_VECTOR} x i8>, ptr %x{place}, align 1"
        yield f"  %y{place} = getelementptr i8, ptr %y, i64 %p{place}"
        yield f"  store <{_VECTOR} x i8> %v{place}, ptr %y{place}, align 1"
