"""YAML that every reader takes for the same: PyYAML (1.1) and the libraries of kubectl and Helm (1.1 with parts of 1.2)."""

import re
from collections.abc import Mapping
from typing import Any

import yaml

# Plain are words that no version of YAML takes for anything else: not y, n, on, off, 1e3, 0o7, 12:30 or .inf.
_PLAIN = re.compile(r"[A-Za-z_$][A-Za-z0-9_$./-]+")
_NOT_TEXT = frozenset({"yes", "no", "on", "off", "true", "false", "null", "nan", "inf"})


class _Dumper(getattr(yaml, "CSafeDumper", yaml.SafeDumper)):  # type: ignore[misc]
    def ignore_aliases(self, _data: object) -> bool:
        """Write repeated parts in full: some YAML readers do not resolve aliases."""
        return True


def _text(dumper: yaml.SafeDumper, value: str) -> yaml.ScalarNode:
    plain = _PLAIN.fullmatch(value) is not None and value.lower() not in _NOT_TEXT
    return dumper.represent_scalar("tag:yaml.org,2002:str", value, style=None if plain else '"')


_Dumper.add_representer(str, _text)


def to_yaml(document: Mapping[str, Any]) -> str:
    """The document with its keys in order, one field a line. The same document gives the same text."""
    return str(yaml.dump(document, Dumper=_Dumper, sort_keys=True, allow_unicode=True, width=1_000_000))
