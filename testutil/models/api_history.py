"""One resource of an API server as its history: a state for each version, and the events between them."""

from dataclasses import dataclass, field
from typing import Any, NamedTuple


class Entry(NamedTuple):
    """An object at a version. A poisoned one cannot be decoded."""

    uid: str
    version: int
    poisoned: bool = False


State = dict[str, Entry]


@dataclass
class ApiHistory:
    """`states[v]` is what there was at version v; `log` has (version, type, name, entry) of each change."""

    states: list[State] = field(default_factory=lambda: [{}, {}])
    log: list[tuple[int, str, str, Entry]] = field(default_factory=list)
    oldest: int = 1
    born: int = 0

    @property
    def version(self) -> int:
        return len(self.states) - 1

    def tick(self) -> None:
        self.states.append(dict(self.states[-1]))

    def put(self, name: str, *, poisoned: bool = False) -> None:
        old = self.states[-1].get(name)
        self.born += old is None
        entry = Entry(old.uid if old else f"uid-{self.born}", self.version + 1, poisoned)
        self._change("MODIFIED" if old else "ADDED", name, entry, {**self.states[-1], name: entry})

    def delete(self, name: str) -> None:
        if old := self.states[-1].get(name):
            left = {other: entry for other, entry in self.states[-1].items() if other != name}
            self._change("DELETED", name, old._replace(version=self.version + 1), left)

    def restore(self, version: int) -> None:
        """As from a backup of etcd: what came later has never been."""
        self.states = self.states[: version + 1]
        self.log = [change for change in self.log if change[0] <= version]
        self.oldest = version

    def after(self, version: int) -> tuple[int, str, str, Entry] | None:
        return next((change for change in self.log if change[0] > version), None)

    def _change(self, kind: str, name: str, entry: Entry, state: State) -> None:
        self.states.append(state)
        self.log.append((entry.version, kind, name, entry))


def document(name: str, entry: Entry) -> dict[str, Any]:
    """The object as the API writes it."""
    metadata = {"namespace": "default", "name": name, "uid": entry.uid, "resourceVersion": str(entry.version)}
    return {"metadata": metadata, "poisoned": entry.poisoned}
