"""What a run says of the goals, and what the baseline writes."""

from dataclasses import replace

import msgspec

from benchmarks import report
from benchmarks.goals import goals
from benchmarks.lifecycle_timings import LifecycleTimings, Spread, by_job
from benchmarks.record import Results, Small, WorkloadResult
from benchmarks.workloads import BASELINE_CONTROLLER, Workload, baseline_writes
from jobcommon.api import labels
from jobcommon.operators.tf import TF

EACH = Spread(1.0, 2.0)
TIMINGS = LifecycleTimings(
    created=1.0, created_each=EACH, running=1.0, running_each=EACH, succeeded=1.0, succeeded_each=EACH, settle=EACH
)
RUN = Results(
    "abc",
    "embedded",
    "a machine",
    "2026-11-24",
    workloads=[
        WorkloadResult("1x100", 1, 100, [TIMINGS], [replace(TIMINGS, created=1.1, cpu=0.2)]),
        WorkloadResult("1x5000", 1, 5000, [TIMINGS], [replace(TIMINGS, created=1.2, cpu=20.0, settle=Spread(1.3, 1.3))]),
    ],
    small=Small(5000, [0.01], [0.05], [0.04]),
)
WANTED: dict[str, bool] = {
    "1x100: creation over baseline": True,
    "1x5000: creation over baseline": False,
    "1x100: settle over baseline": True,
    "1x5000: settle over baseline": False,
    "1x100: CPU per 1,000 pods, whole life": True,
    "1x5000: CPU per 1,000 pods, whole life": False,
    "CPU per pod at 5,000 replicas over that at 100": False,
    "small jobs' p99 beside one of 5,000 replicas, over alone": False,
}


def test_each_goal_is_met_or_not() -> None:
    found = {goal.text: goal.met for goal in goals(RUN)}
    assert found == WANTED


def test_a_run_is_kept_whole_and_every_table_has_its_rows() -> None:
    kept = msgspec.json.decode(msgspec.json.encode(RUN), type=Results)
    assert kept == RUN
    assert ". Commit: abc. Date: 2026-11-24. " in report.tables(kept)
    assert report.tables(kept).count("\n| 1 × ") == 4
    assert report.goal_table(kept).count("met") == len(WANTED)


def test_the_baseline_writes_a_service_and_the_pods_of_each_job_under_another_name() -> None:
    bodies = [msgspec.json.decode(request.body or b"") for request in baseline_writes(Workload(3, 2), "team")]
    assert [body["kind"] for body in bodies] == ["Service", "Pod", "Pod"] * 3
    assert {body["metadata"]["labels"][labels.OPERATOR_NAME] for body in bodies} == {BASELINE_CONTROLLER}
    assert len(BASELINE_CONTROLLER) == len(TF.operator_name)


def test_the_last_pod_of_each_job_counts() -> None:
    assert by_job({"a-worker-0": 1.0, "a-worker-1": 3.0, "b-c-worker-10": 2.0}) == {"a": 3.0, "b-c": 2.0}
