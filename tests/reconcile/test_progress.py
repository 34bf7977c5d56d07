"""What the reports of a program lead to: stalls, their actions, restarts that bring nothing; and pods that no node takes."""

from dataclasses import replace
from typing import Any

import pytest

from jobcommon.api.status import ConditionType, JobStatus, Metric, TrainerStatus
from jobcommon.api.timestamp import format_moment, format_time, parse_time
from jobcommon.framework import Job, Options, ProgressServer
from jobcommon.reconcile import Plan, plan
from jobcommon.reconcile.plan import deletes_pod
from jobcommon.reconcile.progress import CONFIRM_SECONDS
from jobcommon.reconcile.reports import after_reports, plan_report, step_of
from jobcommon.spec import read_job
from jobcommon.testutil.builders import START, Manifest, condition, job_manifest, observe
from jobcommon.testutil.frameworks import TEST_JOB as PLAIN
from jobcommon.testutil.plans import conditions, creates, decide, deletes, holding, next_pass, status_of

SERVER = ProgressServer("https://jobcommon-progress.kubeflow.svc:8443", "-----BEGIN CERTIFICATE-----")
TEST_JOB = replace(PLAIN, options=Options(progress=SERVER))
SPEC = {"Master": 1, "Worker": 2}
RUNNING = {"Master-0": "running", "Worker-0": "running", "Worker-1": "running"}
WATCHED: dict[str, Any] = {"reportProgress": True, "progressDeadlineSeconds": 60}
TOGETHER: dict[str, Any] = {**WATCHED, "restartScope": "Job"}
RUNS: Manifest = {"phase": "Running", "since": "2023-11-14T22:13:20.000Z"}
BEGAN: Manifest = {"conditions": [condition("Created"), condition("Running")], "startTime": format_time(START)}


def a_job(policy: str = "OnFailure", status: Manifest = BEGAN, **run_policy: Any) -> Manifest:
    return job_manifest(TEST_JOB, SPEC, policy=policy, run_policy=run_policy, status=status)


def job_of(manifest: Manifest) -> Job:
    return read_job(TEST_JOB, manifest)


def reported(
    manifest: Manifest, at: float, step: int | None = None, percentage: int | None = None, pod: str = "uid", **metrics: Any
) -> Manifest:
    """The job once a report that arrived `at` seconds after the start is recorded."""
    named = {**({} if step is None else {"current_step": step}), **metrics}
    report = TrainerStatus(
        progress_percentage=percentage,
        metrics=[Metric(name=name, value=str(value)) for name, value in named.items()],
        last_updated_time="2023-11-14T22:13:20.000001+00:00",
    )
    status, step = job_of(manifest).status, step_of(report)
    steps = [] if step is None else [(step, START + at, pod)]
    after = after_reports(status, steps, START + at, START + at).model_copy(update={"trainer_status": report})
    return {**manifest, "status": after.to_json()}


def decided(manifest: Manifest, at: float, pods: dict[str, str] = RUNNING) -> Plan:
    return plan(TEST_JOB, job_of(manifest), observe(TEST_JOB, manifest, pods), START + at)


def passed(manifest: Manifest, at: float, pods: dict[str, str] = RUNNING) -> Manifest:
    return next_pass(manifest, decided(manifest, at, pods))


def on_record(manifest: Manifest) -> JobStatus:
    return job_of(manifest).status


def stalled(manifest: Manifest) -> bool:
    return any(c.type == "Stalled" and c.is_true for c in on_record(manifest).conditions)


def training(manifest: Manifest, *reports: tuple[float, int], percentage: int | None = None) -> Manifest:
    """The job after reports of these times and steps."""
    for at, step in reports:
        manifest = reported(manifest, at, step, percentage)
    return manifest


# What the pods a and b report, second by second -> whether the run has made two steps, its step, and when it was alive last
PODS: dict[str, tuple[str, bool, int, int]] = {
    "one is behind": ("a5 a7 b6", True, 7, 2), "both go on": ("a5 a7 b6 a8 b7", True, 8, 5),
    "the one ahead falls silent": ("a5 a7 b5 b6", True, 7, 4), "both hang and still report": ("a5 a7 b6 a7 b6", True, 7, 2),
    "three hang and still report": ("a5 a7 b6 c5 a7 b6 c5", True, 7, 2),
    "the one behind gets ahead": ("a5 a7 b6 b9 a7", True, 9, 4), "the one that was ahead goes on": ("a5 a7 b9 a8", True, 9, 4),
    "the one ahead begins again": ("a5 a7 b6 a5", False, 5, 4), "and goes on": ("a5 a7 b6 a5 b4 a6", True, 6, 6),
}  # fmt: skip


@pytest.mark.parametrize(("told", "armed", "step", "alive"), PODS.values(), ids=PODS)
def test_a_run_belongs_to_its_pod(told: str, armed: bool, step: int, alive: int) -> None:
    """Ranks may be some steps apart; a lower one of another pod is no other run."""
    manifest = a_job(**WATCHED)
    for at, (pod, *digits) in enumerate(told.split(), 1):
        manifest = reported(manifest, at, int("".join(digits)), pod=pod)
    found = on_record(manifest).progress
    assert found is not None
    assert (bool(found.armed), found.step) == (armed, step)
    assert parse_time(found.last_progress_time) == START + alive


# -- when a report is recorded -------------------------------------------------------------------------------------------------

LONG_AGO = [condition("Created"), {**condition("Running"), "lastTransitionTime": format_time(START - 600)}]
#: the seconds from the last record to the report's arrival and to now; what is changed of the job; whether it is recorded, and
#: when the plan wakes instead (seconds from the last record)
RECORDED: dict[str, tuple[float, float, Manifest, bool, float | None]] = {
    "ten seconds later": (10, 10, {}, True, None),
    "one that has waited": (3, 10, {}, True, None),
    "too early": (3, 3, {"conditions": LONG_AGO}, False, 10),
    "a second later, of a job that has just begun": (1, 1, {}, True, None),
    "too early, of a job that has just begun": (0.5, 0.5, {}, False, 1),
    "the last record is of a clock that was ahead": (-600, -600, {}, True, None),
    "the clock has been set back since the report arrived": (3, -600, {}, True, None),
    "another replica has recorded a later one": (-1, 10, {}, False, None),
    "without reportProgress": (10, 10, {"reportProgress": False}, False, None),
    "of a job that others manage": (10, 10, {"managedBy": "kueue.x-k8s.io/multikueue"}, False, None),
    "of a finished job": (10, 10, {"conditions": [condition("Created"), condition("Succeeded")]}, True, None),
}


@pytest.mark.parametrize(("arrived", "now", "changed", "recorded", "due"), RECORDED.values(), ids=RECORDED)
def test_a_report_becomes_a_status_write_where_the_last_one_is_old_enough(
    arrived: float, now: float, changed: Manifest, recorded: bool, due: float | None
) -> None:
    manifest = reported(a_job(**WATCHED), 0, 5)
    manifest["status"].update({name: changed[name] for name in changed.keys() & {"conditions"}})
    manifest["spec"]["runPolicy"].update({name: changed[name] for name in changed.keys() - {"conditions"}})
    report = TrainerStatus(progress_percentage=50, last_updated_time=format_time(START))
    plan = plan_report(job_of(manifest), report, [(6, START + arrived)], START + arrived, START + now)
    assert (plan.status is not None, plan.wake_at) == (recorded, None if due is None else START + due)
    assert (plan.actions, plan.events) == ((), ())
    if plan.status is not None:
        assert plan.status.trainer_status == report
        assert plan.status.progress is not None
        assert plan.status.progress.step == 6
    at_once = plan_report(job_of(manifest), report, [(6, START + arrived)], START + arrived, START + now, at_once=True)
    assert (at_once.status is not None, at_once.wake_at) == (recorded or due is not None, None), "the process ends"


#: a report: percentage, seconds left, metrics; its words while the job runs, and when it does not any more
WORDS: dict[str, tuple[int | None, int | None, dict[str, object], str, str]] = {
    "everything": (
        47, 720, {"current_step": 940, "total_steps": 2000}, "████░░░░░░ 47% (940/2000), 12m left", "████░░░░░░ 47% (940/2000)",
    ),
    "no estimate": (0, None, {"current_step": 1}, "░░░░░░░░░░ 0%, step 1", "░░░░░░░░░░ 0%, step 1"),
    "no total": (None, 60, {"current_step": 7}, "step 7, 60s left", "step 7"),
    "the end": (100, 0, {}, "██████████ 100%", "██████████ 100%"), "nothing": (None, 60, {"loss": 1}, "", ""),
    "what steers a terminal": (9, None, {"current_step": "1\x1b[2J\n2"}, "░░░░░░░░░░ 9%, step 1 2", "░░░░░░░░░░ 9%, step 1 2"),
}  # fmt: skip


@pytest.mark.parametrize(("percentage", "left", "metrics", "running", "over"), WORDS.values(), ids=WORDS)
def test_a_report_in_words(
    percentage: int | None, left: int | None, metrics: dict[str, object], running: str, over: str
) -> None:
    """The estimate holds while the run goes on: it is gone in the pass that finds the replica failed."""
    named = [Metric(name=name, value=str(value)) for name, value in metrics.items()]
    report = TrainerStatus(
        progress_percentage=percentage, estimated_remaining_seconds=left, metrics=named, last_updated_time=format_time(START)
    )
    manifest = passed(a_job(reportProgress=True), 1)
    recorded = plan_report(job_of(manifest), report, [(1, START + 5)], START + 5, START + 5)
    assert recorded.status is not None
    manifest = {**manifest, "status": recorded.status.to_json()}
    assert decided(manifest, 6).status is None, "nothing more is written for it"
    after = status_of(decided(manifest, 7, {**RUNNING, "Worker-1": "failed 1"}))
    words = [progress.summary or "" for progress in (recorded.status.progress, after.progress) if progress is not None]
    assert words == [running, over]


# -- what is remembered of the reports -----------------------------------------------------------------------------------------

#: the reports: time, step, percentage; what is known then: highest step, step, armed, the second in which it rose last
REPORTS = {
    "the first 0 % arms nothing": ([(5, None, 0)], (0, 0, None, 5)),
    "the first step arms": ([(5, None, 0), (20, 1, 0)], (1, 1, True, 20)),
    "one step again is a heartbeat": ([(5, None, 0), (20, 7, 1), (25, 7, 1)], (7, 7, True, 20)),
    "tokens": ([(5, 2**31 - 1, 0), (20, 2**31 + 1, 1), (25, 2**31 + 2, 1)], (2**31 + 2, 2**31 + 2, True, 25)),
    "percentages alone": ([(5, None, 0), (20, None, 3), (30, None, 3), (40, None, 4)], (4, 4, True, 40)),
    "a step below the last one begins a run": ([(5, 10, 0), (20, 90, 0), (50, None, 0)], (90, 0, None, 50)),
    "from a checkpoint": ([(5, 10, 0), (20, 90, 0), (50, None, 0), (60, 81, 0)], (90, 81, True, 60)),
    "the last 100 % names no step": ([(5, 10, 0), (20, 20, 99), (30, None, 100)], (20, 20, True, 20)),
    "no number": ([(5, None, None)], (None, None, None, None)),
}


@pytest.mark.parametrize(("reports", "known"), REPORTS.values(), ids=REPORTS)
def test_a_run_is_armed_by_its_second_distinct_step(
    reports: list[tuple[float, int | None, int | None]], known: tuple[int | None, int | None, bool | None, float | None]
) -> None:
    manifest = a_job(**WATCHED)
    for at, step, percentage in reports:
        manifest = reported(manifest, at, step, percentage)
    found = on_record(manifest).progress
    assert found is not None
    rose = None if known[3] is None else format_moment(START + known[3])
    assert (found.highest_step, found.step, found.armed, found.last_progress_time) == (*known[:3], rose)
    assert found.last_report_time == format_time(START + reports[-1][0])


#: the reports; the seconds in which the highest step rose, and the steps that were made again
GOODPUT = {
    "the first steps are not counted: loading, compiling": ([(5, None, 0), (65, 1, 0)], None, None),
    "rises": ([(5, 1, 0), (15, 11, 0), (25.25, 12, 0)], 20.25, None),
    "heartbeats": ([(5, 1, 0), (10, 1, 0), (15, 11, 0)], 10, None),
    "from a checkpoint, up to the highest step": ([(5, 10, 0), (20, 90, 0), (60, None, 0), (70, 81, 0), (79, 90, 0)], 15, 9),
    "from a checkpoint, beyond it": ([(5, 10, 0), (20, 90, 0), (70, 81, 0), (80, 91, 0), (90, 99, 0)], 26, 9),
    "percentages alone": ([(5, None, 0), (20, None, 3), (30, None, 4)], 10, None),
    "a clock is set back": ([(30, 10, 0), (20, 20, 0)], 0, None),
}


@pytest.mark.parametrize(("reports", "progressing", "lost"), GOODPUT.values(), ids=GOODPUT)
def test_the_time_in_which_the_highest_step_rose(
    reports: list[tuple[float, int | None, int | None]], progressing: float | None, lost: int | None
) -> None:
    manifest = a_job(status={**BEGAN, "timeSpent": RUNS}, **WATCHED)
    for at, step, percentage in reports:
        manifest = reported(manifest, at, step, percentage)
    spent = on_record(manifest).time_spent
    assert spent is not None
    assert (spent.progressing, spent.lost_steps) == (progressing, lost)


# -- when a job is stalled -----------------------------------------------------------------------------------------------------

ARMED: list[Any] = [(5, None, 0), (20, 7, 1)]
#: runPolicy, the reports (time, step, percentage), and the second at which the job is stalled, None for never
STALLS = {
    "no deadline": ({"reportProgress": True}, ARMED, None), "nothing reported": (WATCHED, [], None),
    "one report: it loads data": (WATCHED, ARMED[:1], None),
    "one report, and a start deadline": ({**WATCHED, "progressStartDeadlineSeconds": 300}, ARMED[:1], 305),
    "nothing reported, and a start deadline": ({"reportProgress": True, "progressStartDeadlineSeconds": 300}, [], 300),
    "the start deadline is over with the second step": (
        {"reportProgress": True, "progressStartDeadlineSeconds": 300}, ARMED, None,
    ),
    "armed": (WATCHED, ARMED, 80),
    "armed by tokens": (WATCHED, [(5, None, 0), (20, 2**40, 1)], 80),
    "a heartbeat is no progress": (WATCHED, [*ARMED, (70, 7, 1)], 80), "progress": (WATCHED, [*ARMED, (70, 8, 1)], 130),
    "it may be evaluating": ({**WATCHED, "evaluationSeconds": 600}, ARMED, 680),
    "the training is over": (WATCHED, [*ARMED, (70, None, 100)], None),
}  # fmt: skip


@pytest.mark.parametrize(("run_policy", "reports", "second"), STALLS.values(), ids=STALLS)
def test_when_a_job_is_stalled(
    run_policy: dict[str, Any], reports: list[tuple[float, int | None, int | None]], second: float | None
) -> None:
    manifest = a_job(**run_policy)
    for report in reports:
        manifest = reported(manifest, *report)
    if second is None:
        assert not stalled(passed(manifest, 1_000_000))
        return
    before, then = decided(manifest, second - 1), decided(manifest, second)
    assert before.wake_at == START + second
    assert not stalled(next_pass(manifest, before))
    assert holding(then) == ["Created", "Running", "Stalled"], "it runs, and STATE says the worse"
    assert [event.reason for event in then.events] == ["Stalled"]
    assert then.actions == ()
    after = decided(next_pass(manifest, then), second + 1000)
    assert (after.status, after.events) == (None, ()), "said once"


#: by how many seconds the clock of the process that took the reports was ahead, for how long the one that decides has seen no
#: sign of life, how much more than 25 s after the second step its clock shows, and whether the job is stalled, after 60 s
CLOCKS = {
    "it counts from the report, not from its record": (0, 52, 35, True), "a clock that was behind": (-3600, 40, 0, False),
    "nor is it believed that all of it has passed": (-3600, 50, 0, True), "a clock that was ahead": (3600, 60, 0, True),
    "a clock that is a little ahead": (5, 59, 0, False), "a process that has just begun to watch": (-86400, 0, 0, False),
    "the clock has jumped ahead since": (0, 10, 86400, False), "the clock has jumped back since": (0, 60, -86400, True),
}  # fmt: skip


@pytest.mark.parametrize(("ahead", "same_for", "later", "is_stalled"), CLOCKS.values(), ids=CLOCKS)
def test_a_deadline_counts_by_the_clock_of_the_process_that_decides(
    ahead: float, same_for: float, later: float, is_stalled: bool
) -> None:
    began = {**BEGAN, "conditions": [condition("Created"), condition("Running", at=START + min(ahead, 0))]}
    manifest = training(a_job(status=began, **WATCHED), (5 + ahead, 1), (20 + ahead, 7))
    now = START + 45 + later
    observed = replace(observe(TEST_JOB, manifest, RUNNING), same_for=same_for)
    assert stalled(next_pass(manifest, plan(TEST_JOB, job_of(manifest), observed, now))) == is_stalled


@pytest.mark.parametrize(("same_for", "acts"), [(0, False), (14, False), (15, True)])
@pytest.mark.parametrize("jump", [0, 3600, -3600])
def test_the_action_waits_by_the_clock_of_the_process_that_decides(jump: float, same_for: float, acts: bool) -> None:
    """An operator that has just started finds the condition, and has seen nothing yet; it stays as it is."""
    manifest = stalled_with("Fail")
    observed = replace(observe(TEST_JOB, manifest, RUNNING), same_for=same_for)
    after = plan(TEST_JOB, job_of(manifest), observed, START + 80 + jump)
    assert holding(after)[-1:] == ["Failed"] if acts else after.status is None
    again = training(manifest, (70, 8))
    observed = replace(observe(TEST_JOB, again, RUNNING), same_for=0)
    assert holding(plan(TEST_JOB, job_of(again), observed, START + 80 + jump)) == ["Created", "Running"]


@pytest.mark.parametrize(("reachable_for", "left"), [(0, 60), (59, 1), (60, 0), (1000, 0)])
@pytest.mark.parametrize("same_for", [None, 60, 1000])
def test_no_stall_is_concluded_from_reports_that_were_refused(
    same_for: float | None, reachable_for: float, left: float
) -> None:
    """The deadline counts anew from the last refusal, by the same clock."""
    manifest = training(a_job(**WATCHED), (5, 1), (20, 7))
    observed = replace(observe(TEST_JOB, manifest, RUNNING), same_for=same_for, reachable_for=reachable_for)
    after = plan(TEST_JOB, job_of(manifest), observed, START + 1000)
    assert stalled(next_pass(manifest, after)) == (not left)
    assert left == 0 or after.wake_at == START + 1000 + left
    says = (
        "has started again, because reports could not be taken"
        in next_pass(manifest, after)["status"]["conditions"][-1]["message"]
    )
    assert says == (left > 0 and same_for != 0)


@pytest.mark.parametrize(("reachable_for", "acts"), [(0, False), (14, False), (15, True)])
def test_nothing_follows_a_stall_while_reports_are_refused(reachable_for: float, acts: bool) -> None:
    manifest = stalled_with("Fail")
    observed = replace(observe(TEST_JOB, manifest, RUNNING), same_for=100, reachable_for=reachable_for)
    after = plan(TEST_JOB, job_of(manifest), observed, START + 200)
    assert holding(after)[-1:] == ["Failed"] if acts else (after.status, after.wake_at) == (None, START + 215 - reachable_for)


def test_a_program_that_says_that_it_trains_gets_no_time_for_evaluation() -> None:
    policy = {**WATCHED, "evaluationSeconds": 600}
    trains = reported(reported(a_job(**policy), 5, 1, phase="train"), 10, 2, phase="train")
    evaluates = reported(trains, 40, 2, phase="evaluate")
    assert stalled(passed(trains, 70))
    assert not stalled(passed(evaluates, 669))
    unsure = replace(observe(TEST_JOB, trains, RUNNING), reported=False)
    for second, expected in ((669, False), (670, True)):
        decided_on = plan(TEST_JOB, job_of(trains), unsure, START + second)
        assert stalled(next_pass(trains, decided_on)) == expected, "a report may be lost with an earlier process"
    assert stalled(passed(evaluates, 670))


def test_progress_ends_a_stall() -> None:
    manifest = passed(training(a_job(**WATCHED), (5, 1), (20, 7)), 80)
    again = decided(reported(manifest, 200, 8), 201)
    assert holding(again) == ["Created", "Running"]
    assert "Stalled=F Progressing: TestJob default/demo is no longer stalled." in conditions(again)


#: how the other worker is at 30 s, and from 40 s on; whether the progress of before is still held against the run then
RESTARTS = {
    "in place by the kubelet": ("restarted_after 1", "restarted_after 1", False),
    "in place, after a pause": ("crash_looping 0", "restarted_after 1", False),
    "with a new pod": ("running,failed 137", "running", False),
    "after an eviction": ("running,evicted", "running", False),
    "not at all": ("running", "running", True),
}


@pytest.mark.parametrize(("then", "later", "armed"), RESTARTS.values(), ids=RESTARTS)
def test_a_restart_begins_another_run(then: str, later: str, armed: bool) -> None:
    """It loads its data and compiles again, which the deadline for the start is for."""
    policy = {**WATCHED, "progressStartDeadlineSeconds": 900}
    manifest = passed(training(a_job("ExitCode" if "failed" in then else "OnFailure", **policy), (10, 1), (20, 7)), 21)
    pods = {**RUNNING, "Worker-1": later}
    manifest = passed(manifest, 30, {**RUNNING, "Worker-1": then})
    if later == "running" and not armed:
        manifest = passed(manifest, 35, {"Master-0": "running", "Worker-0": "running"})
    manifest = passed(manifest, 40, pods)
    assert on_record(manifest).has(ConditionType.RUNNING)
    assert stalled(passed(manifest, 200, pods)) == armed
    if armed:
        return
    late = passed(training(manifest, (41, 8)), 200, pods)
    assert not stalled(late), "a report of the run before was on its way"
    assert stalled(passed(training(manifest, (41, 8), (150, 0)), 1050, pods)), "the deadline for the start"
    assert stalled(passed(training(late, (210, 3), (220, 4)), 280, pods))


def test_a_program_that_waits_for_its_restart_is_not_stalled() -> None:
    """The kubelet's pauses are as long as five minutes."""
    manifest = training(a_job(**WATCHED), (10, 1), (20, 7))
    crashed = {**RUNNING, "Worker-1": "crash_looping 3"}
    assert not stalled(passed(manifest, 200, crashed))
    assert not stalled(passed(passed(manifest, 80), 81, crashed))


# -- what follows --------------------------------------------------------------------------------------------------------------


def stalled_with(action: str | None, **run_policy: Any) -> Manifest:
    extra = {} if action is None else {"stallAction": action}
    return passed(training(a_job(**{**TOGETHER, **extra, **run_policy}), (5, 1), (20, 7)), 80)


ACTS_AT = 80 + CONFIRM_SECONDS


#: what is changed of the job once the stall is on record, what is observed beside its pods, and whether the action follows
ACTIONS: dict[str, tuple[dict[str, Any], dict[str, Any], bool]] = {
    "as it was": ({}, {}, True),
    "logs cannot be kept": ({}, {"unkept": "not all logs and events of failed replicas are kept: forbidden"}, True),
    "a quota refuses a pod": ({}, {"refusal": "pods/x is refused: exceeded quota: q"}, True),
    "the deadline is longer now": ({"progressDeadlineSeconds": 600}, {}, False),
    "the deadline is another, and has passed": ({"progressDeadlineSeconds": 61}, {}, False),
}


@pytest.mark.parametrize(("changed", "observed", "acts"), ACTIONS.values(), ids=ACTIONS)
def test_the_action_follows_whatever_else_the_condition_says(
    changed: dict[str, Any], observed: dict[str, Any], acts: bool
) -> None:
    manifest = stalled_with("Fail")
    assert manifest["status"]["stall"] == {
        "since": format_moment(START + 80), "step": 7, "lastProgressTime": format_moment(START + 20), "seconds": 60
    }  # fmt: skip
    manifest["spec"]["runPolicy"] |= changed
    for at in (81, ACTS_AT - 1, ACTS_AT):
        seen = replace(observe(TEST_JOB, manifest, RUNNING), **observed)
        manifest = next_pass(manifest, plan(TEST_JOB, job_of(manifest), seen, START + at))
    assert on_record(manifest).has(ConditionType.FAILED) == acts
    assert (on_record(manifest).stall is not None) == stalled(manifest)


def test_without_an_action_the_job_stays() -> None:
    for action in (None, "None"):
        after = decided(stalled_with(action), 10_000)
        assert (after.status, after.actions, after.wake_at) == (None, (), None)


@pytest.mark.parametrize("scope", ["Pod", "Sometimes"])
def test_an_action_that_the_scope_does_not_allow_counts_as_not_set(scope: str) -> None:
    after = decided(stalled_with("Restart", restartScope=scope), ACTS_AT)
    assert (after.status, after.actions) == (None, ())


@pytest.mark.parametrize(
    ("run_policy", "reason"), [({"backoffLimit": 0}, "BackoffLimitExceeded"), ({"maxRestartsWithoutProgress": 0}, "NoProgress")]
)
def test_a_stall_is_charged_like_a_failure(run_policy: dict[str, Any], reason: str) -> None:
    after = decided(stalled_with("Restart", **run_policy), ACTS_AT)
    assert status_of(after).conditions[-1].reason == reason
    assert "has reported no progress since" in (text := conditions(after)[-1])
    assert "when it was at step 7; progressDeadlineSeconds is 60" in text
    assert (status_of(after).attempt, status_of(after).restarts) == (0, None), "the stall that ends a job restarts nothing"


@pytest.mark.parametrize("end", ["succeeded", "failed 1"])
def test_the_end_of_a_replica_comes_before_its_stall(end: str) -> None:
    after = decided(stalled_with("Fail"), ACTS_AT, {**RUNNING, "Master-0": f"running,{end}"})
    assert holding(after)[-1] == ("Succeeded" if end == "succeeded" else "Restarting")


# -- restarts that bring nothing -----------------------------------------------------------------------------------------------


def blip(state: str, times: int) -> list[dict[int, str]]:
    """What one worker after the other shows, several times."""
    return [{worker: state.format(time)} for time in range(1, times + 1) for worker in range(4)]


IN_PLACE = "restarted_after 1 {}"
#: what the workers come to show one after the other, and whether that is more than the three incidents allowed
INCIDENTS: dict[str, tuple[list[dict[int, str]], bool]] = {
    "each fails once": (blip("running,failed 137", 1), False),
    "each is restarted three times in place": (blip(IN_PLACE, 3), False),
    "each is restarted four times in place": (blip(IN_PLACE, 4), True),
    "one is restarted three times in place": (blip(IN_PLACE, 3)[::4], False),
    "one is restarted four times in place": (blip(IN_PLACE, 4)[::4], True),
    "all once, then one again and again": ([*blip(IN_PLACE, 1), *blip(IN_PLACE, 4)[::4]], True),
    "one waits for its fourth start": ([*blip(IN_PLACE, 1), {2: "crash_looping 3"}], True),
    "one fails for good after three restarts": ([{1: IN_PLACE.format(3)}, {1: "restarted_after 1 3,failed 1"}], True),
}  # fmt: skip


@pytest.mark.parametrize("looks", ["at each", "at the last"])
@pytest.mark.parametrize(("shown", "over"), INCIDENTS.values(), ids=INCIDENTS)
def test_incidents_are_counted_however_often_the_operator_looks(shown: list[dict[int, str]], over: bool, looks: str) -> None:
    """Failed runs of several replicas are one incident, because a peer that is lost ends many."""
    policy = {"reportProgress": True}
    job = job_manifest(TEST_JOB, {"Master": 1, "Worker": 4}, policy="OnFailure", run_policy=policy, status=BEGAN)
    job = training(job, (5, 1), (20, 7))
    pods = {"Master-0": "running", **{f"Worker-{index}": "running" for index in range(4)}}
    for number, change in enumerate(shown):
        pods |= {f"Worker-{index}": state for index, state in change.items()}
        if looks == "at each" or number == len(shown) - 1:
            job = passed(job, 40, pods)
    assert on_record(job).has(ConditionType.FAILED) == over
    assert not over or on_record(job).conditions[-1].reason == "NoProgress"


def test_a_higher_step_begins_the_count_of_incidents_anew() -> None:
    manifest, pods = training(a_job(reportProgress=True), (5, 1), (20, 7)), {**RUNNING, "Worker-0": IN_PLACE.format(3)}
    manifest = training(passed(manifest, 30, pods), (40, 6), (50, 7))
    assert on_record(passed(manifest, 55, {**pods, "Worker-0": IN_PLACE.format(4)})).has(ConditionType.FAILED), "no higher"
    manifest = training(manifest, (60, 8))
    manifest = passed(manifest, 65, {**pods, "Worker-0": IN_PLACE.format(6)})
    assert [(e.type, e.indexes, e.runs, e.in_place) for e in on_record(manifest).failed_replicas] == [("Worker", "0", 3, 6)]
    assert on_record(passed(manifest, 70, {**pods, "Worker-0": IN_PLACE.format(7)})).has(ConditionType.FAILED)


# -- the pods ------------------------------------------------------------------------------------------------------------------


def test_an_operator_without_a_server_says_so_and_sees_no_stall() -> None:
    manifest = training(a_job(**WATCHED), (5, 1), (20, 7))
    after = plan(PLAIN, read_job(PLAIN, manifest), observe(PLAIN, manifest, RUNNING), START + 1000)
    assert [event.reason for event in after.events] == ["NoProgressServer"]
    assert after.status is None or not after.status.has(ConditionType.STALLED)


# -- pendingDeadlineSeconds: replicas that no node takes ------------------------------------------------------------------

LIMIT = {"pendingDeadlineSeconds": 120}
RESTART = {**LIMIT, "pendingDeadlineAction": "Restart", "restartScope": "Job"}
WAITING = {"Master-0": "running", "Worker-0": "unschedulable", "Worker-1": "unschedulable"}
TEXT = (
    f"Worker-0 and 1 more have had no node since {format_time(START)}: 0/3 nodes are available; pendingDeadlineSeconds is 120"
)


def waiting_job(**run_policy: Any) -> Manifest:
    return job_manifest(TEST_JOB, {"Master": 1, "Worker": 2}, policy="OnFailure", run_policy=run_policy)


def last(decision: Plan) -> str:
    return conditions(decision)[-1]


def test_the_job_fails_with_the_schedulers_words() -> None:
    early = decide(TEST_JOB, waiting_job(**LIMIT), WAITING, START + 119)
    assert "Failed" not in holding(early)
    assert early.wake_at == START + 120
    decided = decide(TEST_JOB, waiting_job(**LIMIT), WAITING, START + 120)
    assert last(decided) == f"Failed=T PendingTooLong: Job demo has failed because {TEXT}"
    assert not any(map(deletes_pod, decided.actions)), "the pods are the evidence"


def test_a_job_pending_too_long_lets_go_of_its_nodes_under_any_policy() -> None:
    manifest = waiting_job(cleanPodPolicy="None", **LIMIT)
    failed = next_pass(manifest, decide(TEST_JOB, manifest, WAITING, START + 120))
    decided = decide(TEST_JOB, failed, WAITING, START + 121)
    assert deletes(decided) == ["demo-worker-0", "demo-worker-1"]
    assert "update pods/demo-master-0" in map(str, decided.actions), "its kubelet ends it"


#: how the pods are, and the run policy
IN_TIME: dict[str, tuple[dict[str, str], Manifest]] = {
    "all have a node": ({"Master-0": "running", "Worker-0": "scheduled", "Worker-1": "running"}, LIMIT),
    "one is being deleted": ({**WAITING, "Worker-0": "unschedulable,deleting", "Worker-1": "running"}, LIMIT),
    "not set": (WAITING, {}),
    "the job is suspended": (WAITING, {**LIMIT, "suspend": True}),
    "the leader has succeeded": ({**WAITING, "Master-0": "succeeded"}, LIMIT),
}


@pytest.mark.parametrize(("pods", "run_policy"), IN_TIME.values(), ids=IN_TIME)
def test_jobs_within_the_limit_go_on(pods: dict[str, str], run_policy: Manifest) -> None:
    decided = decide(TEST_JOB, waiting_job(**run_policy), pods, START + 1000)
    assert decided.status is not None
    assert "PendingTooLong" not in last(decided)


def test_all_replicas_let_go_of_their_nodes_and_begin_again() -> None:
    manifest = waiting_job(backoffLimit=1, **RESTART)
    decided = decide(TEST_JOB, manifest, WAITING, START + 120)
    assert (status_of(decided).attempt, status_of(decided).restarts) == (1, 1), "charged once, like a failure"
    assert last(decided).endswith(f"demo is restarting all replicas because {TEXT}")
    assert decided.actions == (), "the attempt is recorded first"
    second = next_pass(manifest, decided)
    old = plan(TEST_JOB, read_job(TEST_JOB, second), observe(TEST_JOB, manifest, WAITING), START + 121)
    assert deletes(old) == ["demo-master-0", "demo-worker-0", "demo-worker-1"]
    assert creates(old) == []
    again = plan(TEST_JOB, read_job(TEST_JOB, second), observe(TEST_JOB, manifest), START + 122)
    assert creates(again) == ["demo-master-0", "demo-worker-0", "demo-worker-1"]
    by_a_clock_ahead = decide(TEST_JOB, second, WAITING, START + 239)
    assert holding(by_a_clock_ahead) == ["Created", "Restarting"], "old as the pods seem, the deadline begins anew"
    second["status"]["lastRestartTime"] = format_time(START + 9000)
    assert "Failed=T BackoffLimitExceeded" in last(decide(TEST_JOB, second, WAITING, START + 239)), "of a clock far ahead"
    second["status"]["lastRestartTime"] = format_time(START + 120)
    over = decide(TEST_JOB, second, WAITING, START + 240)
    assert "Failed=T BackoffLimitExceeded" in last(over), "backoffLimit bounds it"
