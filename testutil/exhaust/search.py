"""Breadth-first search of all states: the shortest trace to what is wrong, and whether each state has a way to rest."""

import gc
import time
from array import array
from dataclasses import dataclass, field
from itertools import pairwise

from jobcommon.testutil.exhaust.model import Model, State
from jobcommon.testutil.exhaust.verdict import at_the_end

_COLLECTED_AFTER = 5000
"""States."""


@dataclass
class Search:
    """A search and its results. `problem` is the first violation, "" if there is none, and `trace` are the steps to it.

    It is given up after `most` states; 0: never. `complete`: it was not, and nothing was found.
    """

    model: Model
    most: int = 0
    states: int = 0
    transitions: int = 0
    depth: int = 0
    at_rest: int = 0
    """States in which nothing is left to do unless there is another fault."""
    seconds: float = 0.0
    """CPU time."""
    problem: str = ""
    trace: list[str] = field(default_factory=list)
    complete: bool = False

    def run(self) -> "Search":
        """Search everything, once."""
        started = time.process_time()
        # Nearly everything is kept, so the garbage collector would search it often; it is asked now and then (`_collect`).
        gc.disable()
        try:
            self._search()
        finally:
            gc.unfreeze()
            gc.enable()
            self.model.close()
        self.seconds = time.process_time() - started
        return self

    def _search(self) -> None:
        self._states = [self.model.first()]
        self._numbers = {self._states[0]: 0}
        self._parents = array("q", [-1])
        graph, level_end = _Graph(), 1
        while self.states < len(self._states):
            number = self.states
            if self.most and number >= self.most:
                return
            if number == level_end:
                self.depth, level_end = self.depth + 1, len(self._states)
            if number % _COLLECTED_AFTER == 0:
                _collect()
            if not self._expand(number, graph):
                return
            self.states += 1
        stuck = graph.without_rest()
        if stuck:
            self._found(stuck[0], f"no-rest: {len(stuck)} states from which the job never comes to rest")
        self.complete = not self.problem

    def _expand(self, number: int, graph: "_Graph") -> bool:
        """Take up the states that follow one; whether nothing is wrong."""
        state = self._states[number]
        try:
            steps = self.model.steps(state)
        except Exception as error:  # a defect of the code that is checked, which the driver would log
            return self._found(number, f"raised: {type(error).__name__}: {error}")
        for step in steps:
            if step.wrong:
                self._found(number, step.wrong[0])
                self.trace.append(self.model.text(step))
                return False
        graph.add([self._number(step.state, number) for step in steps if not step.fault])
        for step in steps:
            self._number(step.state, number)
        self.transitions += len(steps)
        if all(step.fault for step in steps):
            self.at_rest += 1
            if wrong := at_the_end(self.model, state):
                return self._found(number, wrong)
        return True

    def _number(self, state: State, parent: int) -> int:
        found = self._numbers.setdefault(state, len(self._states))
        if found == len(self._states):
            self._states.append(state)
            self._parents.append(parent)
        return found

    def _found(self, number: int, problem: str) -> bool:
        self.problem = problem
        path = [number]
        while self._parents[path[-1]] >= 0:
            path.append(self._parents[path[-1]])
        for here, there in pairwise(reversed(path)):
            step = next(step for step in self.model.steps(self._states[here]) if step.state == self._states[there])
            self.trace.append(self.model.text(step))
        return False


def _collect() -> None:
    """Free the controllers of past steps, which refer to themselves. What is left is not searched again."""
    gc.collect()
    gc.freeze()


class _Graph:
    """The transitions without faults, by state in the order in which they are added."""

    def __init__(self) -> None:
        self._ends, self._targets = array("q", [0]), array("q")

    def add(self, targets: list[int]) -> None:
        """Those of the next state."""
        self._targets.extend(targets)
        self._ends.append(len(self._targets))

    def without_rest(self) -> list[int]:
        """The states from which none without transitions can be reached."""
        count = len(self._ends) - 1
        # The sources of the transitions to each state, as a linked list in two arrays.
        first, further, sources = array("q", [-1]) * count, array("q"), array("q")
        for source in range(count):
            for position in range(self._ends[source], self._ends[source + 1]):
                target = self._targets[position]
                sources.append(source)
                further.append(first[target])
                first[target] = position
        rests = bytearray(self._ends[number] == self._ends[number + 1] for number in range(count))
        open_ = [number for number in range(count) if rests[number]]
        while open_:
            position = first[open_.pop()]
            while position >= 0:
                if not rests[sources[position]]:
                    rests[sources[position]] = 1
                    open_.append(sources[position])
                position = further[position]
        return [number for number in range(count) if not rests[number]]
