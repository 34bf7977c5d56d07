"""CRD schemas: structural check, pruning, defaults, validation and CEL rules."""

from collections.abc import Sequence

from localcluster.apiserver.builtin_schemas import Json, crd_root
from localcluster.apiserver.errors import Cause
from localcluster.apiserver.schema import rules, values, walk

#: With one of these errors no CEL rule runs: it may rely on what failed.
_BLOCKING = ("FieldValueNotSupported", "FieldValueRequired", "FieldValueTooLong", "FieldValueTooMany", "FieldValueTypeInvalid")
_UNCHECKED = Cause(
    "FieldValueInvalid",
    "<nil>",
    "Invalid value: null: some validation rules were not checked because the object was invalid; "
    "correct the existing errors to complete validation",
)


class CompiledSchema:
    """Prunes, defaults and validates objects of one CRD version, an entry of its ``spec.versions``.

    It costs milliseconds: keep it until the CRD changes. Raises ValueError for a pattern that does not compile.
    """

    def __init__(self, version: Json) -> None:
        self.node: Json = crd_root(version)
        self._defaults = walk.trim(self.node, lambda one: "default" in one)
        self._lists = walk.trim(self.node, values.has_unique_items)
        self._rules = walk.trim(self.node, rules.has_rules)
        if self._rules is not None:
            self._rules = rules.compile_rules(self._rules, self.node)
        self._values = values.validator(self.node)

    def prune(self, value: Json) -> list[str]:
        """Drops unknown fields in place and returns their paths."""
        return walk.prune(self.node, value)

    def default(self, value: Json) -> None:
        """Sets the schema's defaults in place; prune first."""
        if self._defaults is not None:
            walk.default(self._defaults, value)

    def validate(self, new: Json, old: Json | None = None, known: Sequence[Cause] = ()) -> list[Cause]:
        """What is wrong with the object, by field. `old` is the stored object on update, for transition rules.

        CEL rules run only if no error here or in `known` concerns the structure of the object; otherwise a cause says that
        they did not run.
        """
        found = values.value_causes(self._values, new)
        if self._lists is not None:
            found += values.list_causes(self._lists, new)
        if self._rules is not None and any(cause.reason in _BLOCKING for cause in (*known, *found)):
            found.append(_UNCHECKED)
            return found
        return found if self._rules is None else [*found, *rules.rule_causes(self._rules, self.node, new, old, old is not None)]
