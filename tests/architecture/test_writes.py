"""Plans are written by the executor; leases, events, one dry run and Workloads that change hands are the only other writes."""

import ast

from tests.architecture.source import modules, tree

FACTORIES = {"create", "replace", "modify", "merge", "delete"}
"""The functions of `jobcommon.client.objects` that make the request of a write."""
OF_A_PLAN = {"request_for", "status_write"}
"""Those of `jobcommon.runtime.writes`, which make the requests of a plan."""


def callers(names: set[str], of: str | None) -> dict[str, set[str]]:
    """The modules of the runtime that call one of `names`, as a function or as an attribute of `of`."""
    found: dict[str, set[str]] = {}
    for module in modules():
        if module.parts[:2] != ("jobcommon", "runtime"):
            continue
        for node in ast.walk(tree(module)):
            match node:
                case ast.Call(func=ast.Attribute(value=ast.Name(id=owner), attr=name)) if owner == of and name in names:
                    found.setdefault(module.stem, set()).add(name)
                case ast.Call(func=ast.Name(id=name)) if of is None and name in names:
                    found.setdefault(module.stem, set()).add(name)
    return found


def test_only_these_modules_make_the_request_of_a_write() -> None:
    assert callers(FACTORIES, "objects") == {
        "writes": FACTORIES,
        "leader": {"create", "replace"},
        "recorder": {"create", "merge"},
        "term": {"create"},  # a dry run
        "handover": {"merge", "delete"},  # of Workloads, before the first decision of a term
    }


def test_the_requests_of_a_plan_are_made_by_the_executor_alone() -> None:
    assert callers(OF_A_PLAN, None) == {"executor": OF_A_PLAN}
