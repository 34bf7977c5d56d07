"""The documents of the golden files, and the frameworks that read what becomes of them."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from jobcommon.api.job import ReplicaSpec, template_for
from jobcommon.cli.convert import convert_text
from jobcommon.framework import Framework, Job
from jobcommon.operators.mpi import MPI
from jobcommon.operators.mxnet import MXNET
from jobcommon.operators.pytorch import PYTORCH
from jobcommon.operators.tf import TF
from jobcommon.spec import read_job

DIRECTORY = Path(__file__).parent.parent / "golden" / "polyaxon"
FRAMEWORKS: dict[str, Framework] = {framework.kind: framework for framework in (TF, PYTORCH, MPI, MXNET)}
# A document that nothing is wrong with, to be changed by the cases.
PLAIN = {"version": 1, "build": {"image": "img"}, "run": {"cmd": "go"}}


def text_of(name: str) -> str:
    """A document of the golden files."""
    return (DIRECTORY / f"{name}.polyaxon.yml").read_text(encoding="utf-8")


def converted(document: str | Mapping[str, Any], **options: Any) -> tuple[dict[str, Any], list[str]]:
    """Manifest and warnings."""
    text = document if isinstance(document, str) else yaml.safe_dump(document)
    conversion = convert_text(text, **options)
    return dict(conversion.manifest), [str(warning) for warning in conversion.warnings]


def job_of(manifest: Mapping[str, Any]) -> Job:
    """The manifest as the operator reads it; nothing is wrong with it."""
    job = read_job(FRAMEWORKS[manifest["kind"]], manifest)
    assert job.errors == (), [str(error) for error in job.errors]
    return job


def pod_spec(spec: ReplicaSpec, index: int = 0) -> dict[str, Any]:
    """The pod spec of one replica, its overrides applied."""
    found: dict[str, Any] = template_for(spec, index)["spec"]
    return found


def main_container(spec: ReplicaSpec, index: int = 0) -> dict[str, Any]:
    """The main container of one replica."""
    container: dict[str, Any] = pod_spec(spec, index)["containers"][0]
    return container


def resources(spec: ReplicaSpec, index: int = 0) -> dict[str, Any]:
    """The resources of one replica's main container."""
    found: dict[str, Any] = main_container(spec, index).get("resources", {})
    return found


def env(spec: ReplicaSpec, index: int = 0) -> dict[str, Any]:
    """The variables of one replica's main container: name -> value, or where it comes from."""
    return {entry["name"]: entry.get("value", entry.get("valueFrom")) for entry in main_container(spec, index).get("env", ())}
