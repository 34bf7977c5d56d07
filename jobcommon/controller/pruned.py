"""Status fields that the API server does not store (`jobcommon.client.pruning`), as a controller has observed them."""

from dataclasses import dataclass

from jobcommon.client.pruning import PrunedError, fields_of, in_short
from jobcommon.controller.result import Result, Work


@dataclass(slots=True)
class Pruned:
    """The fields that one kind loses: `undeclared` in the schema that is served, `dropped` by the last writes."""

    definition: str
    undeclared: frozenset[str] = frozenset()
    dropped: frozenset[str] = frozenset()

    @property
    def fields(self) -> frozenset[str]:
        """All of them."""
        return self.undeclared | self.dropped

    @property
    def text(self) -> str:
        """The problem and its remedy; "" if every field is stored."""
        if not self.fields:
            return ""
        return (
            f"the CustomResourceDefinition {self.definition} is outdated: {in_short(self.fields)} cannot be stored. "
            "Update it: jobcommon crds | kubectl apply --server-side -f -"
        )

    def served(self, undeclared: frozenset[str]) -> bool:
        """Record the fields that the served schema lacks. Returns whether the set of lost fields changes."""
        before, changed = self.fields, undeclared != self.undeclared
        self.undeclared = undeclared
        if changed and not undeclared:
            # The definition was repaired; the next write shows whether any field is still dropped.
            self.dropped = frozenset()
        return self.fields != before

    def record(self, work: Work, result: Result) -> bool:
        """Record the fields missing from the response to a status write. Returns whether the set of lost fields changes."""
        before, status = self.fields, work.plan.status
        if isinstance(result.status_error, PrunedError):
            self.dropped |= result.status_error.fields
        elif self.dropped and status is not None and result.status_version and self.dropped & fields_of(status.to_json()):
            # All fields are stored now.
            self.dropped = frozenset()
        return self.fields != before
