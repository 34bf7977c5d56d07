"""Rules of the source code: sizes, errors, the reasons of events, sleeps in tests, and who writes."""

import ast
import re

from jobcommon.api import reasons
from tests.architecture.source import ROOT, modules, tree

# -- Modules stay small enough to be read at once; ruff holds the limit of functions (PLR0915)

MAX_MODULE = 350
"""Statements. Lines would reward long ones, and comments left out."""


def statements(code: ast.AST) -> int:
    """The statements of a module, with those of functions and the docstrings."""
    return sum(isinstance(node, ast.stmt) for node in ast.walk(code))


def test_modules_are_short() -> None:
    sizes = {str(module): statements(tree(module)) for module in modules()}
    assert {module: size for module, size in sizes.items() if size > MAX_MODULE} == {}


# -- No error is lost: what catches every exception uses it, raises, or logs it with its traceback


def _is_broad(caught: ast.expr | None) -> bool:
    names = caught.elts if isinstance(caught, ast.Tuple) else [caught]
    return any(name is None or ast.unparse(name) in ("Exception", "BaseException") for name in names)


def _keeps(node: ast.AST, error: str | None) -> bool:
    match node:
        case ast.Raise() | ast.Call(func=ast.Attribute(attr="exception")) | ast.keyword(arg="exc_info"):
            return True
        case ast.Name(id=name):
            return name == error
    return False


def losses(module: ast.Module) -> list[int]:
    """The lines at which any exception is caught and lost."""
    found = []
    for node in ast.walk(module):
        match node:
            case ast.ExceptHandler(type=caught, name=error, body=body) if _is_broad(caught):
                if not any(_keeps(inner, error) for statement in body for inner in ast.walk(statement)):
                    found.append(node.lineno)
            case ast.Call(func=called, args=args) if ast.unparse(called) in ("suppress", "contextlib.suppress"):
                found += [node.lineno for caught in args if _is_broad(caught)]
    return sorted(found)


def test_no_error_is_lost() -> None:
    found = {str(module): lines for module in modules() if (lines := losses(tree(module)))}
    assert found == {}, "name the exceptions that are expected; log any other with its traceback"


# -- Every reason of an event is a constant that something uses, and docs/events.md explains it

#: Suffixes of a kind, as the table writes them.
_OF_KIND = ("CREATED", "RUNNING", "RESTARTING", "SUCCEEDED", "FAILED", "SUSPENDED", "RESUMED")
CONSTANTS = {name: value for name, value in vars(reasons).items() if name.isupper()}


def test_every_reason_is_documented() -> None:
    text = (ROOT / "docs/events.md").read_text(encoding="utf-8")
    documented = {
        name for row in re.findall(r"^\| (`.*?) \|", text, flags=re.MULTILINE) for name in re.findall("`([^`]+)`", row)
    }
    assert documented == {f"<Kind>{value}" if name in _OF_KIND else value for name, value in CONSTANTS.items()}


def test_every_reason_is_used() -> None:
    texts = [(ROOT / module).read_text(encoding="utf-8") for module in modules()]
    assert CONSTANTS.keys() <= {name for text in texts for name in re.findall(r"\breasons\.(\w+)", text)}


# -- No test sleeps: it awaits an event, a watch or the job's status, and polls what has none of them

TEST_CODE = ("tests", "testutil", "localcluster/tests")
#: Where sleep is called, and why.
EXCEPTIONS = {
    "testutil/polling.py": "between two looks at what has no watch",
    "localcluster/tests/polling.py": "the same, in the other distribution",
    "tests/cli/test_why.py": "a node renews its lease",
    "tests/real/played.py": "a kubelet looks again and again at its pods",
    "testutil/real/steps.py": "a node renews its condition",
    "localcluster/tests/kubelet/test_kubelet_pods.py": "the programs of pods",
}
#: To sleep for 0 only lets others run.
SLEEP = re.compile(r"\b(?:time|asyncio)\.sleep\((?!0\))|^ *sleep\(", re.MULTILINE)


def test_only_the_listed_modules_sleep() -> None:
    paths = [path for package in TEST_CODE for path in (ROOT / package).rglob("*.py")]
    found = {path.relative_to(ROOT).as_posix() for path in paths if SLEEP.search(path.read_text(encoding="utf-8"))}
    assert found - EXCEPTIONS.keys() == set(), "await what is to come, or use polled of testutil/polling.py"
    assert EXCEPTIONS.keys() - found == set(), "not needed any more"


# -- Plans are written by the executor; leases, events, one dry run and Workloads that change hands are the only other writes

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
    }


def test_the_requests_of_a_plan_are_made_by_the_executor_alone() -> None:
    assert callers(OF_A_PLAN, None) == {"executor": OF_A_PLAN}
