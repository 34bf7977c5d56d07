"""The programmes in the manner of Sieve and Acto, thin: they find plans and edits, run them, and notice what is wrong."""

import io
import json

import pytest

from jobcommon.framework import Framework
from jobcommon.testutil.sim import acto, sieve
from jobcommon.testutil.sim.campaign import judge
from jobcommon.testutil.sim.faults import KINDS
from jobcommon.testutil.sim.sieve import Event
from jobcommon.testutil.sim.spec_edits import Edit, edits, leaves


def test_plans_of_all_patterns_come_of_a_recorded_run() -> None:
    found = sieve.plans(("pytorch/L2-retryable-exit", 0))
    assert all(found.kept[pattern] >= 10 for pattern in ("intermediate", "stale", "unobserved"))
    assert sum(found.candidates.values()) > sum(found.kept.values()) == len(found.cases) == len(set(found.cases))
    assert {fault.kind for case in found.cases for fault in case.faults} == {
        "crash-after", "watch-lag", "missed-deletes", "two-operators",
    }  # fmt: skip


@pytest.mark.slow
def test_a_sample_of_the_plans() -> None:
    found = sieve.plans(("mpi/L2-retryable-exit", 0)).cases[::9]
    verdicts = [judge(case) for case in found]
    assert [problem for verdict in verdicts for problem in verdict.problems] == []
    assert all(verdict.fired for verdict in verdicts)


def test_frozen_views_cover_the_time_from_the_cause_to_after_the_effect() -> None:
    cause = Event(10.0, "pods", "demo-worker-0", "MODIFIED", ours=False, effect=False)
    unrelated = Event(1.0, "pods", "demo-worker-1", "MODIFIED", ours=False, effect=False)
    effect = Event(10.5, "pods", "demo-worker-0", "MODIFIED", ours=True, effect=True)
    found = list(sieve._stale([unrelated, cause, effect]))
    (alone,), (second, view) = found
    assert alone.at is not None
    assert alone.at < cause.at < effect.at < alone.at + alone.seconds
    assert (alone.value, view.value, second.kind) == ("frozen:pods", "frozen:operator-1", "two-operators")
    assert alone.kind in KINDS


SPEC = {"replicas": 1, "runPolicy": {"suspend": True}}


@pytest.mark.parametrize(
    ("edit", "after"),
    [
        (Edit("", ("replicas",), 2), {"replicas": 2, "runPolicy": {"suspend": True}}),
        (Edit("", ("runPolicy", "suspend"), None), {"replicas": 1, "runPolicy": {}}),
        (Edit("", ("elasticPolicy", "minReplicas"), 1), {**SPEC, "elasticPolicy": {"minReplicas": 1}}),
        (Edit("", ("elasticPolicy", "minReplicas"), None), SPEC),
    ],
)
def test_an_edit_changes_one_field(edit: Edit, after: object) -> None:
    before = json.dumps(SPEC)
    assert edit.apply(json.loads(before)) == after
    assert json.dumps(SPEC) == before


@pytest.mark.parametrize("template", acto.JOB_TEMPLATES, ids=lambda template: template.name)
def test_two_hundred_sequences_change_every_leaf(template: acto.JobTemplate) -> None:
    framework: Framework = template.framework
    changed = {edit.leaf for number in range(200) for edit in acto.sequence(template, number)[1]}
    assert changed == set(leaves(framework))
    assert len(edits(framework, acto.base(template))) > 100


@pytest.mark.slow
def test_a_sample_of_the_sequences() -> None:
    out = io.StringIO()
    assert acto.conduct([1, 2], workers=1, out=out), out.getvalue()
    assert "8 sequences" in out.getvalue()


def test_a_job_that_did_not_follow_its_spec_is_noticed() -> None:
    template = acto.JOB_TEMPLATES[0]
    spec = acto.base(template)
    one = json.dumps(spec, sort_keys=True).encode()
    other = json.dumps(Edit("", ("tfReplicaSpecs", "Worker", "replicas"), 3).apply(spec), sort_keys=True).encode()
    first, second = acto._from_scratch(template.name, False, one), acto._from_scratch(template.name, False, other)
    assert first is not None
    assert second is not None
    assert acto.differences(template.framework, first, first, live=True) == []
    assert any("demo-worker-2" in line for line in acto.differences(template.framework, first, second, live=True))
