"""The piece of the native driver that runs a job again and again, as a loop's body, as LLVM text.

Before a round the words of its argument records that change are set: word = (even or odd) + round * step, which serves
states that go from one buffer to another and back, parts of arrays that are walked, and the number of the round.
"""

from __future__ import annotations

from cenote.kernels.driver_parts import SLICE, field
from cenote.runtime.layouts import MOVE

ROUNDS = f"""
; Rounds from that at %at up to %upto, each a run of the steps to %last. 0: done, or the round before %at has said that
; there is no next (where %going points to, first that of even rounds, then that of odd ones); 1: the time was up within
; the round at %at, whose run is to be gone on with; 2: it was up after a round.
define i32 @cenote_rounds(ptr %run, ptr %control, ptr %steps, i64 %last, ptr %moves, i64 %count, ptr %going, ptr %at,
                          i64 %upto) nounwind {{
entry:
  %start = call i64 @now()
  %deadline = add i64 %start, {SLICE}
  %asks = icmp ne ptr %going, null
  br label %round
round:
  %r = load i64, ptr %at
  %over = icmp sge i64 %r, %upto
  br i1 %over, label %done, label %prepare
prepare:
  %parity = and i64 %r, 1
  %odd = icmp ne i64 %parity, 0
  br label %move
move:
  %i = phi i64 [ 0, %prepare ], [ %i.next, %set ]
  %all = icmp sge i64 %i, %count
  br i1 %all, label %compute, label %set
set:
  %row = mul i64 %i, {MOVE.size}
  %record = getelementptr i64, ptr %moves, i64 %row
{field("even.p", "%record", MOVE.even)}
{field("odd.p", "%record", MOVE.odd)}
{field("step.p", "%record", MOVE.step)}
  %word = load ptr, ptr %record
  %even.value = load i64, ptr %even.p
  %odd.value = load i64, ptr %odd.p
  %step = load i64, ptr %step.p
  %base = select i1 %odd, i64 %odd.value, i64 %even.value
  %along = mul i64 %step, %r
  %value = add i64 %base, %along
  store i64 %value, ptr %word
  %i.next = add i64 %i, 1
  br label %move
compute:
  %left = call i32 %run(ptr %control, ptr %steps, i64 0, i64 %last)
  %within = icmp ne i32 %left, 0
  br i1 %within, label %halfway, label %counted
counted:
  %r.next = add i64 %r, 1
  store i64 %r.next, ptr %at
  br i1 %asks, label %ask, label %time
ask:
  %which = getelementptr ptr, ptr %going, i64 %parity
  %flag.p = load ptr, ptr %which
  %flag = load i8, ptr %flag.p
  %goes = icmp ne i8 %flag, 0
  br i1 %goes, label %time, label %done
time:
  %now = call i64 @now()
  %late = icmp sgt i64 %now, %deadline
  br i1 %late, label %away, label %round
done:
  ret i32 0
halfway:
  ret i32 1
away:
  ret i32 2
}}
"""
