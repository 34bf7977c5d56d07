"""The order of admission through a gate with a number of seats, fair by key."""

from dataclasses import dataclass, field


@dataclass
class RoundRobinModel:
    """Each request waits in the queue of its key. Queues take turns: one that was served goes to the end."""

    limit: int
    inside: set[int] = field(default_factory=set)
    lines: list[tuple[str, list[int]]] = field(default_factory=list)

    def arrive(self, who: int, key: str) -> None:
        line = next((members for name, members in self.lines if name == key), None)
        if line is None:
            self.lines.append((key, line := []))
        line.append(who)
        self._let_in()

    def leave(self, who: int) -> None:
        self.inside.discard(who)
        self._let_in()

    def give_up(self, who: int) -> None:
        """A waiting request is cancelled; a queue keeps its position while requests are in it."""
        for _, members in self.lines:
            if who in members:
                members.remove(who)
        self.lines = [(key, members) for key, members in self.lines if members]

    @property
    def waiting(self) -> int:
        return sum(len(members) for _, members in self.lines)

    def _let_in(self) -> None:
        while self.lines and len(self.inside) < self.limit:
            key, members = self.lines.pop(0)
            self.inside.add(members.pop(0))
            if members:
                self.lines.append((key, members))
