"""The core does no I/O: a simulator with a virtual clock drives it in process."""

import ast
import importlib.util
from pathlib import Path

#: `env` is where time and chance come in, `journal` where writes go to disk; both are handed to the core. The package itself is
#: the facade, which names the shell too.
BOUNDARY = {
    "localcluster.apiserver",
    "localcluster.apiserver.env",
    "localcluster.apiserver.journal",
}
IMPURE = {"aiohttp", "asyncio", "os", "random", "secrets", "select", "socket", "subprocess", "threading", "time"}
CORE = ["localcluster.apiserver.server", "localcluster.apiserver.watch", *(
    f"localcluster.controllers.{name}"
    for name in ("definitions", "endpoints", "event_ttl", "garbage_collector", "namespaces", "taint_eviction")
)]  # fmt: skip


def imports(module: str) -> set[str]:
    spec = importlib.util.find_spec(module)
    assert spec is not None
    assert spec.origin is not None
    found: set[str] = set()
    for node in ast.walk(ast.parse(Path(spec.origin).read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found.add(node.module)
            found |= {f"{node.module}.{alias.name}" for alias in node.names}
    return found


def is_module(name: str) -> bool:
    try:
        return importlib.util.find_spec(name) is not None
    except ModuleNotFoundError:
        return False


def test_nothing_the_core_imports_does_io() -> None:
    seen: set[str] = set()
    waiting = list(CORE)
    while waiting:
        module = waiting.pop()
        if module in seen or module in BOUNDARY:
            continue
        seen.add(module)
        found = imports(module)
        assert not {name.partition(".")[0] for name in found} & IMPURE, module
        waiting += [name for name in found if name.startswith("localcluster.") and name not in seen and is_module(name)]
    assert {
        "localcluster.apiserver.storage",
        "localcluster.apiserver.rest.delete",
        "localcluster.apiserver.kinds.pods",
    } <= seen
    assert "localcluster.apiserver.http" not in seen
