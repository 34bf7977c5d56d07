"""What a pod is in a pass is decided once: by the classifier in `slots`, with the table of ends in `ending`."""

import ast

from tests.architecture.source import modules, tree

CLASSIFIER = ("slots.py", "ending.py")
ATTRIBUTES = ("phase", "deletion_time", "deletion_grace_seconds", "counted_pods", "stopped_pods")
FUNCTIONS = (
    "is_over", "life_of", "failed_runs", "runs_undisturbed", "main_failed", "ending_of", "ending_in_slot", "counted_ending",
)  # fmt: skip
# The phase of a job, not of a pod.
OF_JOBS = ("time_spent.py",)
# Where the lists of recorded pods are read or written as a whole.
WRITING = ("accounting.py", "decision.py", "situation.py")


def test_no_other_module_of_the_decision_tests_what_a_pod_is() -> None:
    found: dict[str, set[str]] = {}
    for module in modules():
        if module.parts[:2] == ("jobcommon", "reconcile") and module.name not in CLASSIFIER:
            nodes = list(ast.walk(tree(module)))
            used = {node.attr for node in nodes if isinstance(node, ast.Attribute) and node.attr in ATTRIBUTES}
            used |= {node.id for node in nodes if isinstance(node, ast.Name) and node.id in FUNCTIONS}
            lists = {"counted_pods", "stopped_pods"} if module.name in WRITING else set()
            lists |= {"phase"} if module.name in OF_JOBS else set()
            if used - lists:
                found[module.name] = used - lists
    assert found == {}, "match on Slot.state, or let the classifier in slots.py say it"
