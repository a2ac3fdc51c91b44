"""The timeline as events of the trace format of Perfetto and chrome://tracing."""

from __future__ import annotations

from typing import Any

from cenote.profile.fields import ProfileFields


def trace_events(profile: ProfileFields) -> dict[str, Any]:
    """Return a complete event per span of the timeline, whose number is limited; times in microseconds."""
    threads = {span.thread for span in profile.timeline}
    names: list[dict[str, Any]] = [
        {"ph": "M", "name": "process_name", "pid": 1, "args": {"name": f"cenote {profile.model}"}}
    ]
    for thread in sorted(threads):
        title = "calling thread" if thread == 0 else f"worker {thread}"
        names.append({"ph": "M", "name": "thread_name", "pid": 1, "tid": thread, "args": {"name": title}})
    events = []
    for span in profile.timeline:
        step = profile.steps[span.step]
        title = "wait" if span.what == "wait" else step.title
        arguments: dict[str, Any] = {"step": step.index, "algorithm": step.algorithm, "op": step.op}
        if span.cpu >= 0:
            arguments["cpu"] = span.cpu
        events.append(
            {
                "ph": "X",
                "name": title,
                "cat": span.what,
                "pid": 1,
                "tid": span.thread,
                "ts": round(span.begin_us, 3),
                "dur": round(span.end_us - span.begin_us, 3),
                "args": arguments,
            }
        )
    return {"traceEvents": [*names, *events], "displayTimeUnit": "ms"}
