"""The piece of the native driver that calls one kernel on the arrays of a caller, as LLVM text."""

from __future__ import annotations

from cenote.kernels.driver_parts import SLICE, field
from cenote.runtime.layouts import CALL, PATCH

CALL_ON_ARRAYS = f"""
define i32 @cenote_call(ptr %record, ptr %o0, ptr %o1, ptr %o2, ptr %o3) nounwind {{
entry:
  %clock = alloca i64
  %objects = alloca [4 x ptr]
  store ptr %o0, ptr %objects
  %s1 = getelementptr ptr, ptr %objects, i64 1
  store ptr %o1, ptr %s1
  %s2 = getelementptr ptr, ptr %objects, i64 2
  store ptr %o2, ptr %s2
  %s3 = getelementptr ptr, ptr %objects, i64 3
  store ptr %o3, ptr %s3
{field("words.p", "%record", CALL.words)}
{field("items.p", "%record", CALL.items)}
{field("scratch.p", "%record", CALL.scratch)}
{field("count.p", "%record", CALL.patches)}
{field("first", "%record", CALL.size)}
  %kernel = load ptr, ptr %record
  %words = load ptr, ptr %words.p
  %items = load i64, ptr %items.p
  %scratch = load ptr, ptr %scratch.p
  %count = load i64, ptr %count.p
  br label %next
next:
  %i = phi i64 [ 0, %entry ], [ %i.next, %patch ]
  %over = icmp sge i64 %i, %count
  br i1 %over, label %go, label %patch
patch:
  %row = mul i64 %i, {PATCH.size}
  %place.p = getelementptr i64, ptr %first, i64 %row
{field("which.p", "%place.p", PATCH.array)}
{field("offset.p", "%place.p", PATCH.offset)}
  %place = load i64, ptr %place.p
  %which = load i64, ptr %which.p
  %offset = load i64, ptr %offset.p
  %slot = getelementptr ptr, ptr %objects, i64 %which
  %object = load ptr, ptr %slot
  %field = getelementptr i8, ptr %object, i64 DATA_FIELD
  %data = load ptr, ptr %field
  %moved = getelementptr i8, ptr %data, i64 %offset
  %word = getelementptr i64, ptr %words, i64 %place
  store ptr %moved, ptr %word
  %i.next = add i64 %i, 1
  br label %next
go:
{field("from.p", "%record", CALL.begin)}
{field("stride.p", "%record", CALL.stride)}
{field("flush.p", "%record", CALL.flush)}
  %flush = load i64, ptr %flush.p
  %mode = call i64 @enter_mode(i64 %flush)
  %from = load i64, ptr %from.p
  %start = call i64 @now()
  store i64 %start, ptr %clock
  %deadline = add i64 %start, {SLICE}
  %to = call i64 @stretch(ptr %kernel, ptr %words, i64 %from, i64 %items, ptr %scratch, ptr %stride.p, ptr %clock,
                          i64 %deadline)
  call void @leave_mode(i64 %mode)
  %some = icmp slt i64 %to, %items
  %left = select i1 %some, i64 %to, i64 0
  store i64 %left, ptr %from.p
  %answer = zext i1 %some to i32
  ret i32 %answer
}}
"""
