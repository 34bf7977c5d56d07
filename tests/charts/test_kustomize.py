"""The kustomizations are what the chart of all operators renders."""

import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.charts.charts import CHARTS, Json, render
from tests.cli.commands import kubectl_path

NAME = "training-operators"
KUSTOMIZE = CHARTS / "kustomize"
HELMS_OWN = ("helm.sh/chart", "app.kubernetes.io/managed-by")
VARIANTS: dict[str, Json] = {"base": {}, "namespaced": {"watchNamespaces": [NAME]}}
HEADER = "# Written from charts/training-operators by: make golden\n"


def of_the_chart(namespace: str = NAME, **values: Any) -> list[Json]:
    """What the chart renders, without the labels that say it was Helm."""

    def clean(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: clean(item) for key, item in value.items() if key not in HELMS_OWN}
        return [clean(item) for item in value] if isinstance(value, list) else value

    return [clean(found) for found in render(NAME, name=NAME, namespace=namespace, **values)]


def without_namespaces(objects: list[Json]) -> list[Json]:
    """The objects as a kustomization has them, which says the namespace itself."""
    for found in objects:
        found["metadata"].pop("namespace", None)
        for subject in found.get("subjects", ()):
            subject.pop("namespace")
    return objects


def built(directory: Path) -> dict[tuple[str, str], Json]:
    """What ``kubectl kustomize`` makes of a directory, by kind and name."""
    done = subprocess.run([kubectl_path(), "kustomize", str(directory)], capture_output=True, text=True, timeout=180)
    assert done.returncode == 0, done.stderr
    return by_name(list(yaml.safe_load_all(done.stdout)))


def by_name(objects: list[Json]) -> dict[tuple[str, str], Json]:
    return {(found["kind"], found["metadata"]["name"]): found for found in objects}


@pytest.mark.parametrize("variant", VARIANTS)
def test_the_files_are_those_of_the_chart(variant: str) -> None:
    file = KUSTOMIZE / variant / "operator.yaml"
    objects = of_the_chart(**VARIANTS[variant])
    text = HEADER + yaml.safe_dump_all(
        objects if variant == "base" else without_namespaces(objects), sort_keys=False, width=120
    )
    if os.environ.get("GOLDEN") == "write":
        file.write_text(text, encoding="utf-8")
    assert file.read_text(encoding="utf-8") == text, "run: make golden"


def test_the_base_builds_to_what_the_chart_renders() -> None:
    found = built(KUSTOMIZE / "base")
    namespace = found.pop(("Namespace", NAME))
    assert namespace["metadata"]["labels"]["pod-security.kubernetes.io/enforce"] == "restricted"
    assert found == by_name(of_the_chart())


def test_an_overlay_says_which_namespace(tmp_path: Path) -> None:
    overlay = {"namespace": "team-a", "resources": [os.path.relpath(KUSTOMIZE / "namespaced", tmp_path)]}
    (tmp_path / "kustomization.yaml").write_text(yaml.safe_dump(overlay))
    assert built(tmp_path) == by_name(of_the_chart("team-a", watchNamespaces=["team-a"]))
