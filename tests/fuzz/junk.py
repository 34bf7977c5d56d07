"""Malformed inputs: good documents with parts of them spoilt, and bytes that are none."""

import json
from copy import deepcopy
from typing import Any

from hypothesis import strategies as st

DEEP: Any = [[[[[[[[{"a": [{"b": [None]}]}]]]]]]]]
WORDS = [
    "", " ", "\n", "a", "A.b", "-1", "0", "007", "1e999999999", "9" * 400, "None", "null", "true", "True", "$(reboot)",
    "`id`; rm",     "%s%n", "{0}", "{{ a }}", "../..", "a/b", "a" * 64, "a" * 300, "é", "\u202e", "\x00", "\x1b[31m", "٣",
    "0-3,7", "3-1", "0-999999999", "2024-01-01T00:00:00Z", "9999-12-31T23:59:59Z", "0001-01-01T00:00:00Z",
    "2024-13-01T00:00:00Z", "10000-01-01T00:00:00Z", "2024-01-01T00:00:00+25:00", "Never", "ExitCode", "Running", "Failed",
    "Succeeded", "Worker", "worker", "Master", "Chief", "Launcher", "PS", "64Gi", "1x", "-5m", ".", "+.", "1Ei",
    "kubeflow.org/v1", "kubeflow.org/v2beta1", "kubeflow.org/", "/", "v1beta1", "auto",
]  # fmt: skip
VALUES: list[Any] = [
    None, True, False, 0, 1, -1, 2, 3, 63, 255, 256, 10_000, 10_001, 2**31 - 1, 2**31, -(2**31), 2**53, 2**63 - 1, 2**63,
    -(2**63) - 1, 2**64, 10**30, 0.0, -0.5, 1.5, 1e308, 1e-308, [], {}, [None], [[]], [{}], [1, "a", None], {"a": None},
    {"": ""}, {"name": None}, {"name": []}, [{"name": "a"}, {"name": "a"}], DEEP,
]  # fmt: skip
JUNK = st.one_of(
    st.sampled_from(VALUES),
    st.sampled_from(WORDS),
    st.text(max_size=12),
    st.integers(),
    st.floats(allow_nan=False, allow_infinity=False),
)
KEYS = st.sampled_from([*WORDS[:12], "name", "status", "spec", "metadata", "labels", "replicas", "template", "unknown"])
TREES = st.recursive(JUNK, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(KEYS, inner, max_size=4), max_leaves=12)


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The paths of all values below `value`."""
    entries = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [found for key, child in entries for found in ((*path, key), *places(child, (*path, key)))]


def spoilt(document: Any, *, most: int = 4) -> st.SearchStrategy[Any]:
    """`document` with up to `most` of its values replaced, taken out, or joined by others."""
    where = places(document)
    change = st.tuples(st.sampled_from(where), st.sampled_from(["set", "set", "set", "drop", "add"]), KEYS, JUNK | TREES)
    return st.lists(change, min_size=1, max_size=most).map(lambda changes: changed(document, changes))


def changed(document: Any, changes: list[Any]) -> Any:
    found = deepcopy(document)
    for path, what, key, new in changes:
        node, value = found, deepcopy(new)
        try:
            for part in path[:-1]:
                node = node[part]
            if what == "set":
                node[path[-1]] = value
            elif what == "drop":
                del node[path[-1]]
            elif isinstance(node[path[-1]], dict):
                node[path[-1]][key] = value
            else:
                node[path[-1]].append(value)
        except (KeyError, IndexError, TypeError, AttributeError):
            # An earlier change has taken the place away.
            continue
    return found


def encoded(document: Any) -> bytes:
    """As the API server sends it; what JSON cannot hold is replaced."""
    return json.dumps(document, ensure_ascii=False).encode("utf-8", "replace")


def torn(strategy: st.SearchStrategy[bytes]) -> st.SearchStrategy[bytes]:
    """Some of the bytes, some others in between, or others altogether."""
    return st.one_of(
        strategy,
        st.tuples(strategy, st.integers(0, 4000), st.binary(max_size=6), st.integers(0, 4000)).map(
            lambda parts: parts[0][: parts[1]] + parts[2] + parts[0][parts[1] + parts[3] % 7 :]
        ),
        st.tuples(strategy, st.integers(0, 4000)).map(lambda parts: parts[0][: parts[1]]),
        st.binary(max_size=60),
    )
