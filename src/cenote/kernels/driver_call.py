"""The piece of the native driver that calls one kernel on the arrays of a caller, as LLVM text."""

from __future__ import annotations

from cenote.kernels.driver_parts import SLICE

CALL_ARRAYS = 4  # array objects that cenote_call takes; absent ones are None
CALL_KERNEL, CALL_WORDS, CALL_ITEMS, CALL_SCRATCH, CALL_PATCHES = 0, 1, 2, 3, 4
CALL_FROM, CALL_STRIDE, CALL_FLUSH = 5, 6, 7  # the first item left, items of a chunk, flush denormals
CALL_HEADER = 8  # then three words a patch: where in the argument record, which array, bytes from its start

CALL = f"""
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
  %words.p = getelementptr i64, ptr %record, i64 {CALL_WORDS}
  %items.p = getelementptr i64, ptr %record, i64 {CALL_ITEMS}
  %scratch.p = getelementptr i64, ptr %record, i64 {CALL_SCRATCH}
  %count.p = getelementptr i64, ptr %record, i64 {CALL_PATCHES}
  %first = getelementptr i64, ptr %record, i64 {CALL_HEADER}
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
  %row = mul i64 %i, 3
  %place.p = getelementptr i64, ptr %first, i64 %row
  %which.p = getelementptr i64, ptr %place.p, i64 1
  %offset.p = getelementptr i64, ptr %place.p, i64 2
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
  %from.p = getelementptr i64, ptr %record, i64 {CALL_FROM}
  %stride.p = getelementptr i64, ptr %record, i64 {CALL_STRIDE}
  %flush.p = getelementptr i64, ptr %record, i64 {CALL_FLUSH}
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
