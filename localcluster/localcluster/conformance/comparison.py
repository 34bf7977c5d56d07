"""One case on one server or on two."""

from dataclasses import dataclass
from typing import Any

from localcluster.conformance.case import Case
from localcluster.conformance.driver import Driver
from localcluster.conformance.record import difference


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of a case: expectations not met, by server, and the first step at which two servers differ."""

    case: Case
    problems: tuple[str, ...]
    step: int | None = None
    differences: tuple[str, ...] = ()

    @property
    def agrees(self) -> bool:
        """Whether everything was as it must be."""
        return not self.problems and not self.differences

    def report(self) -> str:
        """For a person: what differs, with the steps before it about the same object."""
        lines = [f"== {self.case.name}", *self.problems]
        if self.step is not None:
            step = self.case.steps[self.step]
            for number, before in enumerate(self.case.steps[: self.step]):
                if (
                    before.kind == step.kind
                    and (not step.name or before.name in ("", step.name))
                    and before.method not in ("GET", "WATCH")
                ):
                    lines.append(f"   {number}: {before}")
            lines.append(f"-> {self.step}: {step}")
            lines += [f"   embedded / real  {text}" for text in self.differences[:12]]
        return "\n".join(lines)


async def compare(case: Case, ours: Driver, theirs: Driver | None) -> Outcome:
    """Run `case` on the embedded server and, when there is one, on a real one."""
    record, unmet = await ours.run(case)
    problems = [f"embedded: {problem}" for problem in unmet]
    if theirs is None:
        return Outcome(case, tuple(problems))
    other, unmet = await theirs.run(case)
    problems += [f"real: {problem}" for problem in unmet]
    if not case.comparable:
        return Outcome(case, tuple(problems))
    pairs: list[tuple[Any, Any]] = list(zip(record.normalised(), other.normalised(), strict=True))
    for number, (one, two) in enumerate(pairs):
        if found := difference(one, two):
            return Outcome(case, tuple(problems), number, tuple(found))
    return Outcome(case, tuple(problems))
