"""The geometry of a timeline: bars and marks in percent of the width, so that the drawing fits any screen."""

from collections.abc import Sequence
from dataclasses import dataclass

from jobcommon.api.timestamp import human_duration
from jobcommon.cli.dashboard.timeline import Lane, Timeline

LANE_HEIGHT = 34
AXIS_HEIGHT = 22
# A bar or mark that lasts a moment is still to be seen.
MIN_PERCENT = 0.4
# Seconds between the ticks of the axis.
_STEPS = (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 21600, 43200, 86400, 172800, 604800)
MAX_TICKS = 5


@dataclass(frozen=True)
class Bar:
    """One segment: where it begins and how wide it is, in percent."""

    x: float
    width: float
    state: str
    text: str


@dataclass(frozen=True)
class Dot:
    """One mark, in percent."""

    x: float
    text: str
    failed: bool


@dataclass(frozen=True)
class Row:
    """One lane, `y` pixels from the top."""

    y: int
    label: str
    bars: Sequence[Bar]
    dots: Sequence[Dot]


@dataclass(frozen=True)
class Tick:
    """A time of the axis, in percent and in words after the begin. The last one may be anchored at its end."""

    x: float
    text: str


@dataclass(frozen=True)
class Drawing:
    """A whole timeline."""

    height: int
    rows: Sequence[Row]
    ticks: Sequence[Tick]


def drawing(timeline: Timeline) -> Drawing:
    """Where everything is."""
    span = timeline.end - timeline.begin

    def percent(at: float) -> float:
        return round(min(max((at - timeline.begin) / span, 0.0), 1.0) * 100, 3)

    def row(number: int, lane: Lane) -> Row:
        bars = []
        for segment in lane.segments:
            x = min(percent(segment.begin), 100 - MIN_PERCENT)
            width = round(max(percent(segment.end) - x, MIN_PERCENT), 3)
            lasted = f"{segment.words}, {human_duration(segment.end - segment.begin)}"
            bars.append(Bar(x, width, segment.state, f"{lane.label}: {lasted}"))
        dots = [Dot(percent(mark.at), mark.text, mark.failed) for mark in lane.marks]
        return Row(AXIS_HEIGHT + number * LANE_HEIGHT, lane.label, bars, dots)

    step = next((step for step in _STEPS if span / step <= MAX_TICKS), span / MAX_TICKS)
    after = [i * step for i in range(int(span / step) + 1)]
    ticks = [Tick(percent(timeline.begin + at), f"+{human_duration(at)}" if at else "0") for at in after]
    rows = [row(number, lane) for number, lane in enumerate(timeline.lanes)]
    return Drawing(AXIS_HEIGHT + len(rows) * LANE_HEIGHT, rows, [tick for tick in ticks if tick.x <= 92])
