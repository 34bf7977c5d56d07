"""What the work queue must do, in lists and sets."""

from dataclasses import dataclass, field


@dataclass
class WorkQueueModel:
    """The queue of client-go with one failure counter per key; times are given in, `draw` is the jitter in [0, 1)."""

    base_delay: float
    max_delay: float
    ready: list[str] = field(default_factory=list)
    processing: set[str] = field(default_factory=set)
    again: set[str] = field(default_factory=set)
    timers: list[tuple[float, int, str]] = field(default_factory=list)
    failures: dict[str, int] = field(default_factory=dict)
    number: int = 0
    down: bool = False

    def add(self, key: str) -> None:
        if not self.down:
            if key in self.processing:
                self.again.add(key)
            elif key not in self.ready:
                self.ready.append(key)

    def add_at(self, key: str, when: float) -> None:
        earlier = any(timer[2] == key and timer[0] <= when for timer in self.timers)
        if not self.down and not earlier:
            self.number += 1
            self.timers = [*(timer for timer in self.timers if timer[2] != key), (when, self.number, key)]

    def fail(self, key: str, now: float, draw: float) -> None:
        if not self.down:
            count = self.failures[key] = self.failures.get(key, 0) + 1
            delay = min(self.max_delay, self.base_delay * 2.0 ** (count - 1)) * draw
            self.add_at(key, now + delay) if delay > 0 else self.add(key)

    def get(self, now: float) -> str | None:
        due = sorted(timer for timer in self.timers if timer[0] <= now)
        self.timers = [timer for timer in self.timers if timer[0] > now]
        for _, _, key in due:
            self.add(key)
        if self.down or not self.ready:
            return None
        self.processing.add(key := self.ready.pop(0))
        self.timers = [timer for timer in self.timers if timer[2] != key]
        return key

    def done(self, key: str) -> None:
        if key in self.processing:
            self.processing.remove(key)
            if key in self.again:
                self.again.remove(key)
                self.ready.append(key)

    def shutdown(self) -> None:
        self.down = True
        self.ready, self.timers, self.again = [], [], set()
