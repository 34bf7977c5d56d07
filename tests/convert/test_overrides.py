"""One template with overrides says the same as a template for each replica."""

from collections.abc import Mapping
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from jobcommon.api.job import ReplicaOverride, ReplicaSpec, template_for
from jobcommon.cli.convert.overrides import split

NAMES = st.sampled_from(["a", "b", "c"])
VALUES = st.one_of(
    st.integers(0, 2), st.lists(st.integers(0, 2), max_size=2), st.dictionaries(NAMES, st.integers(0, 2), max_size=2)
)
NAMED = st.lists(NAMES, unique=True, min_size=1, max_size=3).flatmap(
    lambda names: st.tuples(*(st.fixed_dictionaries({"name": st.just(n)}, optional={"value": VALUES}) for n in names)).map(list)
)
TEMPLATES = st.dictionaries(NAMES, st.one_of(VALUES, NAMED, st.dictionaries(NAMES, NAMED, max_size=2)), max_size=3)


def normal(value: Any) -> Any:
    """Named lists in the order of their names: a merge keeps the common template's order."""
    if isinstance(value, Mapping):
        return {key: normal(child) for key, child in value.items()}
    if isinstance(value, list) and value and all(isinstance(entry, Mapping) for entry in value):
        return sorted((normal(entry) for entry in value), key=lambda entry: entry["name"])
    return value


@settings(max_examples=100, derandomize=True, deadline=None)
@given(TEMPLATES, st.dictionaries(st.integers(0, 3), TEMPLATES, max_size=4))
def test_every_replica_gets_its_template(default: dict[str, Any], own: dict[int, dict[str, Any]]) -> None:
    common, overrides = split(default, own, 4)
    spec = ReplicaSpec(replicas=4, template=common, overrides=[ReplicaOverride.model_validate(entry) for entry in overrides])
    for index in range(4):
        assert normal(template_for(spec, index)) == normal(own.get(index, default))


def test_fields_that_differ_become_overrides() -> None:
    common, overrides = split({"r": {"cpu": 1, "memory": 2}}, {1: {"r": {"memory": 3}}}, 3)
    assert common == {"r": {"memory": 2}}
    assert overrides == [{"indices": [0, 2], "template": {"r": {"cpu": 1}}}, {"indices": [1], "template": {"r": {"memory": 3}}}]
