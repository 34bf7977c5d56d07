"""No test sleeps: it awaits an event, a watch or the job's status, and polls what has none of them."""

import re

from tests.architecture.source import ROOT

TEST_CODE = ("tests", "testutil", "localcluster/tests")
#: Where sleep is called, and why.
EXCEPTIONS = {
    "testutil/polling.py": "between two looks at what has no watch",
    "localcluster/tests/polling.py": "the same, in the other distribution",
    "tests/cli/test_why.py": "a node renews its lease",
    "tests/real/played.py": "a kubelet looks again and again at its pods",
    "tests/sim/test_simulation.py": "the time is simulated",
    "testutil/real/disturbances.py": "a node renews its condition",
    "localcluster/tests/kubelet/test_kubelet_pods.py": "the programs of pods",
}
#: To sleep for 0 only lets others run.
SLEEP = re.compile(r"\b(?:time|asyncio)\.sleep\((?!0\))|^ *sleep\(", re.MULTILINE)


def test_only_the_listed_modules_sleep() -> None:
    paths = [path for package in TEST_CODE for path in (ROOT / package).rglob("*.py")]
    found = {path.relative_to(ROOT).as_posix() for path in paths if SLEEP.search(path.read_text(encoding="utf-8"))}
    assert found - EXCEPTIONS.keys() == set(), "await what is to come, or use polled of testutil/polling.py"
    assert EXCEPTIONS.keys() - found == set(), "not needed any more"
