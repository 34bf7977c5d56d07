"""A job that is labelled for a queue and that nothing queues is told so."""

from typing import Any

import pytest

from jobcommon.api.kueue import QUEUE_LABEL
from jobcommon.framework import Framework
from jobcommon.operators.mxnet import MXNET
from jobcommon.reconcile.kueue import UNQUEUED, not_queued
from jobcommon.spec import read_job
from jobcommon.testutil.builders import job_manifest
from jobcommon.testutil.frameworks import TEST_JOB
from jobcommon.testutil.plans import conditions, decide
from tests.kinds import EVERY_KIND

RUNNING = {"Master-0": "running"}
# labels, run policy, annotations, whether it is told
CASES: dict[str, tuple[dict[str, str], dict[str, Any], dict[str, str], bool]] = {
    "no webhook has seen it": ({QUEUE_LABEL: "team"}, {}, {}, True),
    "resumed by Kueue": ({QUEUE_LABEL: "team"}, {"suspend": False}, {}, False),
    "no queue": ({}, {}, {}, False),
    "allowed": ({QUEUE_LABEL: "team"}, {}, {UNQUEUED: "allowed"}, False),
    "something else in the annotation": ({QUEUE_LABEL: "team"}, {}, {UNQUEUED: "yes"}, True),
}


@pytest.mark.parametrize(("labels", "policy", "annotations", "told"), CASES.values(), ids=CASES)
def test_a_job_outside_its_queue_is_told_so(
    labels: dict[str, str], policy: dict[str, Any], annotations: dict[str, str], told: bool
) -> None:
    manifest = job_manifest(TEST_JOB, {"Master": 1}, run_policy=policy, annotations=annotations)
    manifest["metadata"]["labels"] = labels
    decided = decide(TEST_JOB, manifest, RUNNING)
    reasons = [event.reason for event in decided.events]
    assert ("NotQueued" in reasons) == told
    running = conditions(decided)[-1]
    assert ("is running; not queued: the label kueue.x-k8s.io/queue-name names queue team" in running) == told
    assert ("run the operator with --kueue own" in running) == told


@EVERY_KIND
def test_no_integration_is_advised_that_kueue_does_not_have(framework: Framework) -> None:
    """Kueue does not start with one: it has none of MXJob."""
    manifest = job_manifest(framework, {framework.replica_types[0].name: 1})
    manifest["metadata"]["labels"] = {QUEUE_LABEL: "team"}
    _, advice = not_queued(read_job(framework, manifest))
    integration = f"add {framework.group}/{framework.singular} to integrations.frameworks"
    assert advice.startswith("run the operator with --kueue own" if framework is MXNET else integration)
