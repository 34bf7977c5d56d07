"""From a document to a manifest."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from jobcommon.cli.convert.draft import BATCH_JOB, Draft, manifest
from jobcommon.cli.convert.finding import ConvertError, Finding, Notes
from jobcommon.cli.convert.generations import read_experiment
from jobcommon.cli.convert.mpi_v1alpha1 import is_flat_mpijob, read_flat_mpijob
from jobcommon.cli.convert.naming import MAX_NAME
from jobcommon.cli.convert.targets import draft

_COMPONENT = "belongs to Polyaxon 1.0 or later, which creates jobs of kubeflow.org itself: submit it there, or write such a job"
_MARKS = ("version", "run", "environment", "hptuning", "component")


@dataclass(frozen=True, slots=True)
class Conversion:
    """A manifest, and what it does not honour of the document it comes from."""

    manifest: Mapping[str, Any]
    warnings: tuple[Finding, ...] = ()


def is_convertible(body: object) -> bool:
    """Whether the document looks like a polyaxonfile of any generation, or is a flat MPIJob (v1alpha1)."""
    if not isinstance(body, Mapping):
        return False
    return is_flat_mpijob(body) or ("apiVersion" not in body and any(mark in body for mark in _MARKS))


def convert(body: object, *, name: str | None = None, image: str | None = None, fallback: str = "experiment") -> Conversion:
    """The manifest for a document.

    `name` and `image` take the place of the document's own; `fallback` is the name of a job that has none. Raises
    ConvertError, which lists what must be changed, for what is not a polyaxonfile and for what cannot be honoured.
    """
    if not isinstance(body, Mapping) or not is_convertible(body):
        raise ConvertError((Finding("", f"is not a polyaxonfile, which is a mapping with one of {', '.join(_MARKS)}"),))
    notes = Notes()
    job = _read(body, notes, name, image, fallback)
    _check_pod_names(job, notes)
    notes.check()
    return Conversion(manifest(job), tuple(dict.fromkeys(notes.warnings)))


def _read(body: Mapping[str, Any], notes: Notes, name: str | None, image: str | None, fallback: str) -> Draft:
    if is_flat_mpijob(body):
        return read_flat_mpijob(body, notes, name=name, image=image)
    run = body.get("run")
    if body.get("kind") in ("component", "operation") or (isinstance(run, Mapping) and isinstance(run.get("kind"), str)):
        raise ConvertError((Finding("kind", _COMPONENT),))
    experiment = read_experiment(body, notes, name=name, image=image, fallback=fallback)
    # A job of what could not be read would only add errors that the first ones explain.
    notes.check()
    return draft(experiment, notes)


def _check_pod_names(job: Draft, notes: Notes) -> None:
    """A pod's name is its hostname, too, so it has 63 characters at most."""
    if job.kind is BATCH_JOB:
        return
    last = {role: "" if role == "Launcher" else f"-{max(replicas.count - 1, 0)}" for role, replicas in job.replicas.items()}
    longest = max((f"{job.name}-{role}{index}" for role, index in last.items()), key=len, default="")
    if len(longest) > MAX_NAME:
        allowed = len(job.name) - (len(longest) - MAX_NAME)
        notes.error("name", f"{job.name} is too long for its pods' names: give a name of at most {allowed} characters (--name)")
