"""Cron schedules, as far as validation goes: whether a schedule can be parsed."""

import re

_NAMES = {
    "month": ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"),
    "day": ("sun", "mon", "tue", "wed", "thu", "fri", "sat"),
}
#: The fields in their order: the smallest and the greatest value, and the names that stand for values.
_FIELDS = ((0, 59, ""), (0, 23, ""), (1, 31, ""), (1, 12, "month"), (0, 6, "day"))
_DESCRIPTORS = ("@yearly", "@annually", "@monthly", "@weekly", "@daily", "@midnight", "@hourly")
_DURATION = re.compile(r"(\d+(\.\d*)?|\.\d+)(ns|us|µs|ms|s|m|h)")


def problem(schedule: str) -> str:
    """What is wrong with a schedule; empty for a valid one."""
    if schedule.startswith("@"):
        every = schedule.removeprefix("@every ")
        known = schedule in _DESCRIPTORS or (every != schedule and every and not _DURATION.sub("", every))
        return "" if known else f"unrecognized descriptor: {schedule}"
    parts = schedule.split()
    if len(parts) != len(_FIELDS):
        return f"expected exactly 5 fields, found {len(parts)}: {parts}"
    for part, (least, most, kind) in zip(parts, _FIELDS, strict=True):
        for item in part.split(","):
            if why := _item_problem(item, least, most, kind):
                return why
    return ""


def _item_problem(item: str, least: int, most: int, kind: str) -> str:
    """Of ``*``, ``3``, ``1-5``, or one of them with a step, ``*/15``."""
    span, slash, step = item.partition("/")
    if slash and not (step.isdecimal() and int(step) > 0):
        return f"step of range should be a positive number: {item}"
    if span in ("*", "?"):
        return ""
    first, dash, last = span.partition("-")
    bounds = [_value(one, least, kind) for one in ((first, last) if dash else (first,))]
    if None in bounds:
        return f"failed to parse int from {span}"
    if bounds[0] < least or bounds[-1] > most:  # type: ignore[operator]
        return f"{span} is outside of the range from {least} to {most}"
    return f"beginning of range beyond its end: {span}" if bounds[0] > bounds[-1] else ""  # type: ignore[operator]


def _value(text: str, least: int, kind: str) -> int | None:
    listed = _NAMES.get(kind, ())
    if text.lower() in listed:
        return listed.index(text.lower()) + least
    return int(text) if text.isdecimal() else None
