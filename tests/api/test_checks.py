"""Each check of valid jobs, where it applies and where it must not, and the page that lists them."""

import json
import os
import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from jobcommon.api.observed import Observed
from jobcommon.api.status import JobStatus
from jobcommon.api.timestamp import format_time
from jobcommon.cli.frameworks import of_manifest
from jobcommon.cli.manifests import load
from jobcommon.cli.plan import checked, describe
from jobcommon.framework import Check, Framework, Job, ObjectKey
from jobcommon.operators.mpi import MPI
from jobcommon.operators.pytorch import PYTORCH
from jobcommon.operators.tf import TF
from jobcommon.operators.trainjob.framework import TRAINJOB
from jobcommon.operators.trainjob.snapshot import snapshot_key
from jobcommon.reconcile import plan
from jobcommon.spec import read_job
from jobcommon.spec.checks import CHECKS
from jobcommon.testutil.builders import START, job_manifest, replica_spec, template
from jobcommon.testutil.cluster_model import ClusterModel
from tests.architecture.source import ROOT
from tests.kinds import KINDS
from tests.operators.test_trainjob_spec import base, train_job

DOCUMENT = ROOT / "docs/checks.md"
PLACE = re.compile(r"(<!-- checks -->\n).*(<!-- /checks -->)", re.DOTALL)
OF_KIND: Mapping[Check, str] = {check: kind.kind for kind in (*KINDS, TRAINJOB) for check in kind.checks}
ALL = {check.name: check for check in (*CHECKS, *OF_KIND)}
JOB, TORCHRUN = {"restartScope": "Job"}, ["torchrun", "train.py"]
Parts = dict[str, Any]
# By job, the framework that it has alone.
OWN: dict[str, Framework] = {}


def job(kind: str, replicas: Mapping[str, int], policy: str | None = None, /, **parts: Any) -> Job:
    """A job of the parts that a row of checks.yaml has."""
    run, spec, pod, annotations, variables = (
        parts.pop(name, {}) for name in ("run", "spec", "pod", "annotations", "variables")
    )
    framework, env = next(one for one in KINDS if one.kind == kind), [{"name": k, "value": v} for k, v in variables.items()]
    made = template(framework, **{"image": "image:1", **({"env": env} if env else {}), **parts})
    made["spec"] |= pod
    specs = {kind: {**replica_spec(framework, count, policy), "template": made} for kind, count in replicas.items()}
    found = read_job(framework, job_manifest(framework, specs, run_policy=run, annotations=annotations, **spec))
    assert not found.errors
    return found


def trainjob(**row: Any) -> Job:
    """A TrainJob, as a row of tests/operators/trainjob.yaml has it."""
    runtime = base(row)
    runtime["metadata"]["labels"] |= row.get("labels", {})
    related: dict[ObjectKey, Any] = {ObjectKey("clustertrainingruntimes", "", "r"): runtime}
    body = train_job(row)
    if row.get("gone"):
        own = {"ownerReferences": [{"uid": body["metadata"].setdefault("uid", "u")}]}
        related = {snapshot_key(body): {"metadata": own, "data": {"runtime": json.dumps(runtime)}}}
    framework, manifest = TRAINJOB.specialized(body, related)
    manifest = {**manifest, "metadata": {**manifest["metadata"], "uid": str(len(OWN))}}
    OWN[str(len(OWN))] = framework
    return read_job(framework, manifest)


def of_row(row: Parts) -> Job:
    kind, rest = row["kind"], {key: value for key, value in row.items() if key not in ("kind", "replicas", "policy")}
    return trainjob(**rest) if kind == "TrainJob" else job(kind, row["replicas"], row.get("policy"), **rest)


ROWS = yaml.safe_load((Path(__file__).parent / "checks.yaml").read_text(encoding="utf-8"))
CASES: list[tuple[str, Job, str | None]] = [(name, of_row(row), check) for name, row, check in ROWS]


@pytest.mark.parametrize(("of", "wanted"), [row[1:] for row in CASES], ids=[row[0] for row in CASES])
def test_a_check_applies_where_it_should_and_nowhere_else(of: Job, wanted: str | None) -> None:
    framework = OWN.get(of.uid) or next(kind for kind in KINDS if kind.kind == of.kind)
    found = {check.name: text for check in (*CHECKS, *framework.checks) if (text := check.warning(framework, of))}
    assert list(found) == ([wanted] if wanted else [])
    assert of.warnings == tuple(found.values())
    events = [event.message for event in plan(framework, of, Observed(), START).events if event.reason == "SpecWarning"]
    assert events == list(found.values())


def test_no_example_is_warned() -> None:
    manifests = load(sorted(str(path) for path in ROOT.glob("examples/**/*.y*ml")))
    kinds = [(manifest, kind) for manifest in manifests if (kind := of_manifest(manifest.body)) is not None]
    jobs = [checked(manifest, kind, others=manifests) for manifest, kind in kinds]
    assert len(jobs) > 15
    assert [warning for found in jobs for warning in found.warnings] == []


def test_the_page_has_every_check_with_an_example() -> None:
    examples: dict[str, str] = {}
    for _, of, wanted in CASES:
        if wanted is not None:
            examples.setdefault(wanted, of.warnings[0])
    rows = ["| check | of | applies where | says, for example |", "|---|---|---|---|"]
    rows += [f"| {name} | {OF_KIND.get(check, 'any kind')} | {check.about} | {examples[name]} |" for name, check in ALL.items()]
    text = DOCUMENT.read_text(encoding="utf-8")
    wanted = PLACE.sub(lambda place: "\n".join([place[1][:-1], *rows, place[2]]), text)
    if os.environ.get("GOLDEN") == "write":
        DOCUMENT.write_text(wanted, encoding="utf-8")
    assert text == wanted, "see `make golden`"


def test_plan_prints_what_a_suspended_job_is_warned_of(tmp_path: Path) -> None:
    """Its operator writes no event before the job is resumed."""
    manifest = job_manifest(PYTORCH, {"Master": 1}, policy="Always", run_policy={"suspend": True})
    (file := tmp_path / "job.json").write_text(json.dumps(manifest))
    printed = describe(load([str(file)]), with_manifests=False)
    assert printed.endswith(
        "\nwarning: restartPolicy Always restarts Master after exit 0, so the job never succeeds: set OnFailure\n"
    )


def test_one_event_has_all_that_the_checks_find() -> None:
    of = job("PyTorchJob", {"Master": 1, "Worker": 1}, "ExitCode", command=TORCHRUN)
    events = [event for event in plan(PYTORCH, of, Observed(), START).events if event.reason == "SpecWarning"]
    assert [event.message for event in events] == ["; ".join(of.warnings)]
    assert len(of.warnings) == 2
    started = replace(of, status=JobStatus(start_time=format_time(START)))
    assert "SpecWarning" not in [event.reason for event in plan(PYTORCH, started, Observed(), START).events]


DISCOVERS = {"command": ["horovodrun", "--host-discovery-script", "/etc/mpi/discover_hosts.sh", "python", "x.py"]}


@pytest.mark.parametrize("count", [1, 3])
@pytest.mark.parametrize(
    ("framework", "leader", "container", "run", "spec", "warned"),
    [
        (PYTORCH, "Master", {}, {}, {}, True),
        (PYTORCH, "Master", {}, JOB, {}, False),
        (PYTORCH, "", {}, {}, {"elasticPolicy": {"minReplicas": 1, "maxReplicas": 3}}, False),
        (TF, "PS", {}, {}, {}, True),
        (TF, "PS", {}, {}, {"enableDynamicWorker": True}, False),
        (MPI, "Launcher", {}, {}, {}, True),
        (MPI, "Launcher", DISCOVERS, {}, {}, False),
    ],
)
def test_a_job_is_warned_when_it_is_scaled_and_its_replicas_do_not_learn_of_it(
    framework: Framework, leader: str, container: Parts, run: Parts, spec: Parts, warned: bool, count: int
) -> None:
    made = {"template": template(framework, image="image:1", **container)}
    counts = {**({leader: 1} if leader else {}), "Worker": 2}
    replicas = {kind: {**replica_spec(framework, n, "OnFailure"), **made} for kind, n in counts.items()}
    world = ClusterModel.of(framework, replicas, run_policy=run, **spec).start().edit(backoffLimit=9)
    # A pod that is lost is missing as well.
    world.delete_pod("demo-worker-1").stop_terminating().start()
    assert scaled(world) == set()
    world = ClusterModel.of(framework, replicas, run_policy=run, **spec).start().scale("Worker", count)
    world.settle()
    text = "Scaling Worker does not affect running replicas"
    assert scaled(world) == ({text} if warned else set())


def scaled(world: ClusterModel) -> set[str]:
    events = (event for decided in world.plans for event in decided.events)
    return {event.message.partition(";")[0] for event in events if event.reason == "SpecWarning"}


@pytest.mark.parametrize("broken", [True, {"spec": True}, {"spec": {"containers": True}}])
def test_a_spec_with_errors_is_not_checked(broken: object) -> None:
    """A job that has begun is planned in spite of them, and its templates may be of any shape."""
    manifest = job_manifest(PYTORCH, {"Master": 1, "Worker": 2}, policy="Always")
    manifest["spec"]["pytorchReplicaSpecs"]["Worker"]["template"] = broken
    assert read_job(PYTORCH, manifest).warnings == ()
