"""Kubernetes' published definitions, which the committed schemas are derived from. For build and tests only."""

import importlib.util
import json
from pathlib import Path
from typing import Any

VERSION = "1.36.0"


def definitions() -> dict[str, dict[str, Any]]:
    """The definitions as kubernetes-validate ships them, by full name. Raises ModuleNotFoundError without that package."""
    found = importlib.util.find_spec("kubernetes_validate")
    if found is None or found.origin is None:
        raise ModuleNotFoundError("kubernetes-validate is needed to generate schemas: pip install kubernetes-validate")
    folder = Path(found.origin).parent / "kubernetes-json-schema" / f"v{VERSION}-local"
    shipped: dict[str, dict[str, Any]] = json.loads((folder / "_definitions.json").read_text())["$defs"]
    return shipped
