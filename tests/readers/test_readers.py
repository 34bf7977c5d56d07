"""Who reads our jobs and pods finds what its code asks for; docs/readers.md has the table that these tests find.

``GOLDEN=write pytest tests/readers`` writes the table anew.
"""

import os
import re
from collections.abc import Iterator
from copy import deepcopy
from functools import cache

import pytest

from jobcommon.api.observed import Observed
from jobcommon.reconcile import plan, read_job
from jobcommon.reconcile.children import pod_manifest
from jobcommon.testutil.builders import START
from tests.architecture.source import ROOT
from tests.readers import clients, kai, kueue
from tests.readers.lives import FRAMEWORKS, Life, Obj, lives, manifests
from tests.readers.need import KINDS, Need

NEEDS = (*kueue.NEEDS, *kai.NEEDS, *clients.NEEDS)
DOCUMENT = ROOT / "docs/readers.md"
# Where the answer is no: the number of the note in the document that says why and what to do.
NOES: dict[tuple[str, str, str], int] = {
    ("Kueue", "labels, annotations, node selector, tolerations and gates of the template in each pod", "MPIJob v1"): 1,
    ("KAI", "as many pods as its quorum, before one of them is placed", "MPIJob v1"): 1,
    ("Kueue", "every field of the job in the copy that MultiKueue makes", "PyTorchJob"): 2,
    ("Kueue", "every field of the job in the copy that MultiKueue makes", "MPIJob v1"): 2,
    ("Katib", "one primary pod, by the label `job-role=master`", "MPIJob v2beta1"): 3,
    ("SDK", "logs of the master, by `job-role=master`", "MPIJob v2beta1"): 3,
    ("Flyte", "the pods' names, for links to their logs", "TFJob"): 4,
    **{("SDK", "pods by labels, 1.5", kind): 5 for kind in KINDS},
}
# The kinds that a reader does not know at all, by the same notes.
UNKNOWN = {
    ("Kueue", "MXJob"): 6,
    ("KAI", "MXJob"): 6,
    ("KAI", "PaddleJob"): 6,
    **{("Flyte", kind): 7 for kind in ("MPIJob v2beta1", "MXJob", "JAXJob", "XGBoostJob", "PaddleJob")},
}
# A manifest that fails for the reason of its note alone; every other one of the kind must do.
ONLY = {
    1: {"examples/seeds/slides-mpijob/distributed-training.yaml"},
}


def _id(need: Need) -> str:
    return f"{need.reader}: {need.text}"


@cache
def complaints(need: Need, kind: str) -> tuple[tuple[str, str], ...]:
    """What the reader misses: the manifest's name, and what it is."""
    read = [life for life in lives() if life.kind == kind and life.course in need.courses]
    assert read, kind
    return tuple((life.name, f"{life.course}: {text}") for life in read for text in need.complaints(life))


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("need", NEEDS, ids=_id)
def test_the_reader_finds_what_it_needs(need: Need, kind: str) -> None:
    if kind not in need.kinds:
        return
    found, note = complaints(need, kind), NOES.get((need.reader, need.text, kind))
    if note is None:
        assert found == ()
    else:
        assert found, f"it does now: take it out of NOES and note {note}"
        assert {name for name, _ in found} <= ONLY.get(note, {name for name, _ in found})


def test_the_notes_are_about_needs() -> None:
    named = {(need.reader, need.text) for need in NEEDS}
    assert {(reader, text) for reader, text, _ in NOES} <= named
    unknown = {(need.reader, kind) for need in NEEDS for kind in KINDS if kind not in need.kinds and len(need.kinds) > 1}
    assert unknown == UNKNOWN.keys()


def rows() -> Iterator[str]:
    """The table."""
    yield "| reader | what it reads | " + " | ".join(KINDS) + " |"
    yield "|---" * (2 + len(KINDS)) + "|"
    for need in NEEDS:
        cells = []
        for kind in KINDS:
            note = NOES.get((need.reader, need.text, kind)) or UNKNOWN.get((need.reader, kind))
            cells.append(f"no ({note})" if note else "yes" if kind in need.kinds else "–")
        yield f"| {need.reader} | {need.text} | " + " | ".join(cells) + " |"


def test_the_table_in_the_document() -> None:
    text, table = DOCUMENT.read_text(encoding="utf-8"), "\n".join(rows())
    found = re.search(r"^\| reader \|.*?(?=\n\n)", text, re.MULTILINE | re.DOTALL)
    assert found is not None
    if os.environ.get("GOLDEN") == "write":
        DOCUMENT.write_text(text.replace(found[0], table), encoding="utf-8")
        return
    assert found[0] == table, "if this is meant: GOLDEN=write pytest tests/readers"
    notes = {int(number) for number in re.findall(r"^(\d+)\. ", text, re.MULTILINE)}
    assert notes == {*NOES.values(), *UNKNOWN.values()}


# -- what is not in a life -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("name", "manifest"), [pytest.param(*one, id=one[0]) for one in manifests()])
def test_a_job_that_multikueue_manages_is_left_alone(name: str, manifest: Obj) -> None:
    framework, job = FRAMEWORKS[manifest["kind"]], deepcopy(manifest)
    job["spec"].setdefault("runPolicy", {})["managedBy"] = "kueue.x-k8s.io/multikueue"
    decision = plan(framework, read_job(framework, job), Observed(), START)
    assert (decision.actions, decision.status, decision.events) == ((), None, ()), name


@pytest.mark.slow
def test_the_workaround_for_sdk_1_5() -> None:
    """A label of the templates is a label of the pods."""
    (check,) = (need.complaints for need in clients.NEEDS if need.text == "pods by labels, 1.5")
    for framework in FRAMEWORKS.values():
        life = next(life for life in lives() if life.framework is framework and life.course == "run")
        manifest = deepcopy(life.jobs[0])
        for spec in manifest["spec"][framework.replica_specs].values():
            spec["template"].setdefault("metadata", {}).setdefault("labels", {})["group-name"] = "kubeflow.org"
        job = read_job(framework, manifest)
        pods = [pod_manifest(framework, job, replica) for replica in job.replicas]
        for pod in pods:
            pod["metadata"]["uid"] = pod["metadata"]["name"]
        moments = [("job", manifest), *(("pod", pod) for pod in pods)]
        assert list(check(Life(framework, life.name, manifest, moments, "run"))) == []
