"""No test sleeps: it awaits an event, a watch or the job's status, and polls what has none of them."""

import ast

from tests.architecture.source import ROOT, tree

TEST_CODE = ("tests", "testutil", "localcluster/tests")
#: Where a call of sleep stands, and why.
EXCEPTIONS = {
    "testutil/polling.py": "between two looks at what has no watch",
    "localcluster/tests/polling.py": "the same, in the other distribution",
    "tests/cli/test_why.py": "a node renews its lease",
    "tests/real/played.py": "a kubelet looks again and again at its pods",
    "tests/sim/test_simulation.py": "the time is simulated",
    "testutil/real/disturbances.py": "a node renews its condition",
}


def sleeps(module: ast.Module) -> list[int]:
    """The lines that sleep: to sleep for 0 only lets others run."""
    calls = (node for node in ast.walk(module) if isinstance(node, ast.Call))
    named = (call for call in calls if ast.unparse(call.func) in ("time.sleep", "asyncio.sleep", "sleep"))
    return sorted(call.lineno for call in named if not (call.args and ast.unparse(call.args[0]) in ("0", "0.0")))


def test_only_the_listed_modules_sleep() -> None:
    paths = [path.relative_to(ROOT) for package in TEST_CODE for path in sorted((ROOT / package).rglob("*.py"))]
    found = {path.as_posix(): lines for path in paths if (lines := sleeps(tree(path)))}
    assert found.keys() - EXCEPTIONS.keys() == set(), "await what is to come, or use polled of testutil/polling.py"
    assert EXCEPTIONS.keys() - found.keys() == set(), "not needed any more"


def test_a_sleep_is_found() -> None:
    text = "time.sleep(1)\nasyncio.sleep(0)\nawait asyncio.sleep(delay)\nfrom time import sleep\nsleep(0.1)\nclock.sleep(1)\n"
    assert sleeps(ast.parse(text)) == [1, 3, 5]
