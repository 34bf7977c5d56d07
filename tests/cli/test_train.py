"""`kubectl train` on a cluster: logs, changes, waits, runs, and what a reader without rights is told."""

import asyncio
import json
import re
import signal
import time
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest

from jobcommon.api.status import ConditionType
from jobcommon.api.timestamp import format_time
from jobcommon.cli.errors import UserError
from jobcommon.cli.jobs.access import Api
from jobcommon.cli.jobs.changes import restart, resume, scale, suspend
from jobcommon.cli.jobs.listing import jobs_as_json, jobs_of, pod_count, show_jobs, show_replicas, surroundings_of
from jobcommon.cli.jobs.logs import Selection, chosen_pods, follow_logs, print_logs
from jobcommon.cli.jobs.lookup import FoundJob, find_job, surroundings
from jobcommon.cli.jobs.wait import exit_code, wait_for
from jobcommon.cli.jobs.why import show, why
from jobcommon.client.errors import StatusError
from jobcommon.client.forbidden import explained
from jobcommon.client.objects import create
from jobcommon.diagnosis import Found, diagnose
from jobcommon.operators.pytorch import PYTORCH
from jobcommon.operators.trainjob import TRAINJOB
from jobcommon.testutil.builders import START, job_manifest
from jobcommon.testutil.cluster import cluster_for, failed, has
from jobcommon.testutil.polling import polled
from tests.cli.commands import PATIENCE, answered, cluster_up, started
from tests.cli.train_cluster import Output, api_for, reader, shell_job
from tests.diagnosis.scenarios import SCENARIOS
from tests.runtime.fakes import ScriptedTransport, reply

BOTH = {"Master": 1, "Worker": 3}


def found(**manifest: Any) -> FoundJob:
    return FoundJob(PYTORCH, job_manifest(PYTORCH, BOTH, **manifest))


def scene(name: str) -> Any:
    """One of the diagnosis' scenarios."""
    return next(one for one in SCENARIOS if one.name == name)


NAMES = ["demo-master-0", "demo-worker-0", "demo-worker-1", "demo-worker-2"]


@pytest.mark.parametrize(
    ("ranks", "pods"),
    [("", [0, 1, 2, 3]), ("0", [0]), ("1-2", [1, 2]), ("0,3", [0, 3]), ("Worker-1", [2]), ("worker-1, demo-worker-2", [2, 3]),
     ("4", None), ("2-9", None), ("Worker-3", None), ("Chief-0", None), ("x", None)],
)  # fmt: skip
def test_ranks(ranks: str, pods: list[int] | None) -> None:
    if pods is None:
        with pytest.raises(UserError, match=r"has no such replica; it has 0: Master-0, 1: Worker-0"):
            chosen_pods(found(), ranks)
    else:
        assert [name for name in NAMES if chosen_pods(found(), ranks)(name)] == [NAMES[index] for index in pods]


@pytest.mark.parametrize(
    ("scenario", "words"),
    [
        ("key of a Secret", ("1/2", "KeyNotFound", 'Secret default/hub has no key "token"')),
        ("policy denies", ("Created", "0/2", "DeniedByPolicy", "no-latest")),
        ("restarted in place", ("1/2", "ProgramFailed", "Worker-1")),
        ("the operator died before a pod ended", ("Running", "2/2", "NoOperator", "Worker-1 ended 18 min ago")),
        ("no operator", ("-", "0/2", "NoOperator", "100 s")),
        ("running", ("Running", "2/2", "Running")),
    ],
)
def test_the_list_of_jobs_says_why_one_does_not_run(scenario: str, words: tuple[str, ...]) -> None:
    seeded, output = scene(scenario), Output.make()
    show_jobs(output.console, [seeded.found], seeded.now, everywhere=False)
    row = output.text.splitlines()[1]
    assert [word for word in words if word not in row] == [], row
    assert re.search(" $", output.text, re.MULTILINE) is None


def test_the_list_begins_with_what_is_unwell_and_its_formats_have_all_of_the_cause() -> None:
    over, well, unwell = map(scene, ("succeeded while workers ran", "running", "a Python exception"))
    found, made, output = [over.found, well.found, unwell.found], diagnose(unwell.found, unwell.now), Output.make()
    show_jobs(output.console, found, well.now, everywhere=False, wide=True)
    text = " ".join(output.text.split())
    assert [text.index("Failed") < text.index("Running"), made.advice in text] == [True, True]
    first, second, last = json.loads(jobs_as_json(found, well.now))
    assert (first["job"], first["pods"], first["reason"], first["advice"]) == (
        "pytorchjob/demo", {"running": 1, "wanted": 2}, made.reason, made.advice,
    )  # fmt: skip
    assert (first["well"], second["well"], second["state"], last["state"]) == (False, True, "Running", "Succeeded")
    replicas = Output.make()
    show_replicas(replicas.console, over.found, over.now)
    assert "the job has finished; restarts: 0" in replicas.text
    # What the job's runtime adds is read of the unwell ones alone.
    body = {**over.found.job, "spec": {"runtimeRef": {"name": "torch"}}}
    assert pod_count(Found(TRAINJOB, body)) == "2/2"
    # Without the right to read pods the list says what the status says.
    there, output = replace(well.found, pods=(), unread={"pods": "no"}), Output.make()
    show_jobs(output.console, [there], well.now, everywhere=False)
    assert output.text.splitlines()[1].split()[1:3] == ["Running", "2/2"]
    assert "NoOperator" not in output.text


@pytest.mark.parametrize(("later", "age"), [(59, ""), (300, "; reported 5 min ago")])
def test_what_the_program_reports_is_in_list_and_why(later: float, age: str) -> None:
    seeded, words = scene("running"), "████░░░░░░ 47% (940/2000), 12m left"
    progress = {"summary": words, "lastReportTime": format_time(seeded.now - later)}
    body = {**seeded.found.job, "status": {**seeded.found.job["status"], "progress": progress}}
    found, other = replace(seeded.found, job=body), replace(seeded.found)
    listed, shown = Output.make(), Output.make()
    show_jobs(listed.console, [found, other], seeded.now, everywhere=False)
    header, with_it, without = listed.text.splitlines()
    assert "PODS PROGRESS RESTARTS" in " ".join(header.split())
    assert (f" {words} " in with_it, "%" in without) == (True, False)
    show(shown.console, "pytorchjob/demo", diagnose(found, seeded.now), seeded.now)
    assert shown.text.splitlines()[::2][:2] == ["pytorchjob/demo  Running", f"progress: {words}{age}"]


async def ask(cluster: Any, name: str = "demo") -> FoundJob:
    async with api_for(cluster.cluster) as api:
        return await find_job(api, name)


@pytest.mark.cluster
async def test_the_logs_and_the_cause_of_a_job_whose_pods_are_gone() -> None:
    async with cluster_for(PYTORCH) as cluster, api_for(cluster.cluster) as api:
        script = "echo reading; echo \"ModuleNotFoundError: No module named 'einops'\" >&2; exit 1"
        await cluster.create(PYTORCH, shell_job(script, name="gone", keepFailedLogs=True, cleanPodPolicy="All"))
        await cluster.until(PYTORCH, "gone", failed)
        await cluster.until_gone("pods", "gone-worker-0")
        for event in (await cluster.call("GET", cluster.path("events")))["items"]:
            await cluster.call("DELETE", cluster.path("events", event["metadata"]["name"]))
        job = await find_job(api, "gone")
        output = Output.make()
        await print_logs(api, job, Selection(), output.console, output.console)
        assert output.text.startswith("Worker-0 | reading\nWorker-0 | ModuleNotFoundError")
        made = await why(api, job)
        assert (made.reason, "einops" in made.sentence) == ("ModuleNotFound", True)


@pytest.mark.cluster
async def test_logs_of_all_replicas_over_restarts(tmp_path: Path) -> None:
    flag, seen = tmp_path / "flag", tmp_path / "seen"
    command = (
        "echo hello; echo; printf '1%%\\r'; printf 'world\\n'; "
        f"[ -e {flag} ] || {{ touch {flag}; exit 3; }}; until [ -e {seen} ]; do sleep 0.05; done"
    )
    async with cluster_for(PYTORCH) as cluster, api_for(cluster.cluster) as api:
        await cluster.create(PYTORCH, shell_job(command, policy="OnFailure", backoffLimit=2))
        await cluster.until("pods", "demo-worker-0", lambda _: True)
        output, notes = Output.make(), Output.make()
        job = await find_job(api, "demo")
        following = asyncio.create_task(follow_logs(api, job, Selection(), output.console, notes.console))

        async def twice() -> bool:
            return output.text.count("world") == 2

        await polled(twice)
        seen.touch()
        await following
        assert output.text == "Worker-0 | hello\nWorker-0 | \nWorker-0 | world\n" * 2
        assert "Succeeded" in notes.text
        job = await find_job(api, "pytorchjob/demo")
        before, after = Output.make(), Output.make()
        await print_logs(api, job, Selection(previous=True), before.console, notes.console)
        await print_logs(api, job, Selection(tail=1), after.console, notes.console)
    assert before.text == "Worker-0 | hello\nWorker-0 | \nWorker-0 | world\n"
    assert after.text == "Worker-0 | world\n"


@pytest.mark.cluster
async def test_a_job_is_suspended_resumed_restarted_scaled_and_listed() -> None:
    said: list[str] = []
    async with cluster_for(PYTORCH) as cluster, api_for(cluster.cluster) as api:
        await cluster.create(PYTORCH, shell_job("exec sleep 600", workers=2))
        first = await cluster.until(PYTORCH, "demo", has(ConditionType.RUNNING))
        await suspend(api, await find_job(api, "demo"), said.append)
        await cluster.until(PYTORCH, "demo", has(ConditionType.SUSPENDED))
        assert (await why(api, await find_job(api, "demo"))).reason == "Suspended"
        await resume(api, await find_job(api, "demo"), said.append)
        await cluster.until(PYTORCH, "demo", has(ConditionType.RUNNING))
        before = {pod["metadata"]["uid"] for pod in await cluster.pods()}
        await restart(api, await find_job(api, "demo"), said.append, recreate=False, seconds=PATIENCE)
        await cluster.until(PYTORCH, "demo", has(ConditionType.RUNNING))
        assert not before & {pod["metadata"]["uid"] for pod in await cluster.pods()}
        await scale(api, await find_job(api, "demo"), 3, None, said.append)
        await cluster.until("pods", "demo-worker-2", lambda seen: seen.body["status"]["phase"] == "Running")
        with pytest.raises(UserError, match=r"pytorchjob/demo is not finished after 0.1 s"):
            await wait_for(api, await find_job(api, "demo"), "finished", 0.1)
        listed, replicas = Output.make(), Output.make()
        assert await jobs_of(api, everywhere=False, console=listed.console, selector="team=nlp") == []
        jobs = await jobs_of(api, everywhere=True, console=listed.console)
        show_jobs(listed.console, await surroundings_of(api, jobs, everywhere=True), START, everywhere=True)
        job = await find_job(api, "demo")
        show_replicas(replicas.console, await surroundings(api, job), time.time())
        waiting = asyncio.create_task(wait_for(api, job, "deleted", PATIENCE))
        await cluster.call("DELETE", cluster.path(PYTORCH, "demo"))
        assert await waiting == (None, True)
        assert first["status"]["startTime"]
    assert "pytorchjob/demo" in listed.text
    assert [line.split()[0] for line in replicas.text.splitlines()[1:4]] == ["Worker-0", "Worker-1", "Worker-2"]
    assert said[-2] == "pytorchjob/demo: Worker 2 → 3"
    assert said[-1].startswith("warning: Scaling Worker does not affect running replicas; set ")


@pytest.mark.cluster
async def test_the_end_of_a_job_has_the_exit_code_of_its_program_and_it_can_be_created_again() -> None:
    async with cluster_for(PYTORCH) as cluster, api_for(cluster.cluster) as api:
        await cluster.create(PYTORCH, shell_job("exit 7"))
        job = await find_job(api, "demo")
        status, reached = await wait_for(api, job, "finished", PATIENCE)
        assert status is not None
        assert reached
        assert exit_code(status, await why(api, await find_job(api, "demo"))) == 7
        assert (await wait_for(api, job, "succeeded", PATIENCE))[1] is False
        job = await find_job(api, "demo")
        with pytest.raises(UserError, match=r"has finished .Failed.; --recreate deletes it"):
            await restart(api, job, str, recreate=False, seconds=PATIENCE)
        await restart(api, job, str, recreate=True, seconds=PATIENCE)
        again = await cluster.until(PYTORCH, "demo", failed)
        with pytest.raises(UserError, match="there is no such job in namespace default; did you mean demo"):
            await find_job(api, "dem")
        await cluster.create(PYTORCH, {**shell_job("true"), "metadata": {"name": "slow-60cbe3"}})
        with pytest.raises(UserError, match="did you mean slow-60cbe3"):
            await find_job(api, "slow")
        with pytest.raises(UserError, match="in namespace default; see kubectl train list"):
            await find_job(api, "mpijob/resnet")
        listed = Output.make()
        jobs = await jobs_of(api, everywhere=False, console=listed.console)
        show_jobs(listed.console, await surroundings_of(api, jobs, everywhere=False), START, everywhere=False)
        made = await why(api, jobs[0])
        assert made.reason in listed.text
        assert made.sentence in " ".join(listed.text.split())
    assert again["metadata"]["uid"] != job.uid


@pytest.mark.parametrize("replicas", [0, 5])
async def test_a_number_that_the_job_may_not_have_is_refused(replicas: int) -> None:
    job = found(elasticPolicy={"minReplicas": 1, "maxReplicas": 3})
    with pytest.raises(UserError, match=r"of spec.elasticPolicy are 1 to 3"):
        await scale(Api(None, "default"), job, replicas, None, str)  # type: ignore[arg-type]


BEGAN = {"attempt": 2, "attemptReplicas": {"Master": 1, "Worker": 3}, "startTime": "2026-01-01T00:00:00Z"}
TOGETHER = {"restartScope": "Job"}
# The tests are collected long before this one runs.
RARE = {"growAfterSeconds": 10**6}
FORECASTS = (
    ({}, {}, 2, "warning: Scaling Worker does not affect running replicas"),
    ({}, TOGETHER, 2, "attempt 3 begins with 2 workers: all replicas restart, with new pods"),
    ({}, TOGETHER, 1, "attempt 3 begins with 1 worker: all replicas restart, with new pods"),
    ({}, {**TOGETHER, "restartMethod": "Auto"}, 4, "attempt 3 begins with 4 workers: all replicas restart, in their pods"),
    ({}, TOGETHER, 3, "nothing restarts: attempt 2 has 3 workers"),
    ({}, {**TOGETHER, "suspend": True}, 4, "it begins with 4 workers when it starts"),
    ({}, {**TOGETHER, "elastic": {"maxReplicas": 3}}, 4, "the spec requests 4 workers: runPolicy.elastic.maxReplicas is 3"),
    ({}, {**TOGETHER, "elastic": {"maxReplicas": 4}}, 5, "nodes for 1 more are requested; when they are free, attempt 3"),
    ({"lastResizeTime": format_time(time.time())}, {**TOGETHER, "elastic": RARE}, 4, "nodes for 1 more are requested from 2"),
)


@pytest.mark.parametrize(("status", "run", "replicas", "said"), FORECASTS)
async def test_what_follows_a_change_of_the_number_is_said_before(
    status: dict[str, Any], run: dict[str, Any], replicas: int, said: str
) -> None:
    transport, told = ScriptedTransport().on("PATCH", "/", reply()), list[str]()
    body = job_manifest(PYTORCH, BOTH, run_policy=run)
    job = FoundJob(PYTORCH, {**body, "status": {**BEGAN, **status, "conditions": [{"type": "Running", "status": "True"}]}})
    await scale(cast(Api, transport), job, replicas, None, told.append, dry_run=True)
    assert told[0] == f"pytorchjob/demo: Worker 3 → {replicas} (dry run)"
    assert any(line.startswith(said) for line in told[1:]), told
    assert not transport.sent
    await scale(cast(Api, transport), job, replicas, None, told.append)
    assert len(transport.sent) == 1


@pytest.mark.cluster
async def test_rights_to_get_and_list_are_enough_to_read_and_what_is_missing_is_named() -> None:
    async with cluster_for(PYTORCH) as cluster:
        token = await reader(cluster, "get", "list", "watch")
        await cluster.create(PYTORCH, shell_job("echo before; exit 3"))
        await cluster.until(PYTORCH, "demo", failed)
        async with api_for(cluster.cluster, token) as api:
            job = await find_job(api, "demo")
            made = await why(api, job)
            assert (made.reason, made.lines) == ("ProgramFailed", ("before",))
            with pytest.raises(StatusError) as refused:
                await api.send(create(cluster.path(PYTORCH), job.body))
        rule = '{"apiGroups":["kubeflow.org"],"resources":["pytorchjobs"],"verbs":["create"]}'
        assert explained(refused.value) == (
            "system:serviceaccount:default:reader may not create pytorchjobs in namespace default; "
            f"ask for a Role with the rule {rule}"
        )


@pytest.mark.slow
@pytest.mark.cluster
def test_run_on_a_cluster_ends_with_the_programs_exit_code_and_ctrl_c_only_detaches(tmp_path: Path) -> None:
    with cluster_up(tmp_path) as kubectl:
        there = ("--kubeconfig", str(kubectl.kubeconfig), "--image", "any")
        script = tmp_path / "train.py"
        script.write_text("import sys\nprint('in pieces', flush=True)\nsys.exit(9)\n")
        done = answered("run", str(script), "--workers", "2", "--name", "broken", "--env", "RANK=7", *there)
        assert done.returncode == 9, done.stdout + done.stderr
        # By the command, and not again by the operator's event; the diagnosis at the end cites it.
        assert done.stdout.count("pytorchjob/broken RANK in the template of Master and Worker has no effect") == 1
        assert "broken-master-0 | in pieces" in done.stdout
        assert "pytorchjob/broken  Failed  ProgramFailed" in done.stdout
        again = answered("run", str(script), "--name", "broken", *there)
        assert (again.returncode, again.stdout) == (2, "")
        assert "pytorchjob/broken exists in namespace default and has finished; give the new job another name" in again.stderr
        assert kubectl("get", "configmap", "broken-script", "-o", "jsonpath={.metadata.ownerReferences[0].name}") == "broken"

        script.write_text("import time\nprint('begun', flush=True)\ntime.sleep(600)\n")
        with started("run", str(script), "--name", "endless", *there, until="| begun") as following:
            following.send_signal(signal.SIGINT)
            rest = following.communicate(timeout=PATIENCE)[0]
        assert following.returncode == 130
        assert "pytorchjob/endless: detached; it continues\n  its logs: kubectl train logs -f endless -n default" in rest
        kubectl.until("Running", "get", "pytorchjob", "endless", "-o", "jsonpath={.status.conditions[-1:].type}")
