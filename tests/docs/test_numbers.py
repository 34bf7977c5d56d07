"""Numbers in documents are those of the code: each sentence below is written with the constant that it repeats."""

import json
import re
import tomllib
from collections import Counter

import pytest
import yaml

from jobcommon import Settings
from jobcommon.api.status import MAX_FAILURES
from jobcommon.cli.dashboard.pages import MAX_LANES
from jobcommon.cli.display import MANY_PODS, MAX_LIKE_IT
from jobcommon.cli.jobs.listing import MOST_READ
from jobcommon.cli.run_command import STUCK_AFTER
from jobcommon.cli.script import BACKOFF_LIMIT
from jobcommon.cli.stalls import STARTED
from jobcommon.controller import barrier, expectations, job_state, refusals, workqueue
from jobcommon.controller.fair_queue import MAX_OVERTAKES
from jobcommon.diagnosis.diagnose import MAX_EVIDENCE
from jobcommon.reconcile import failed_logs, in_place, limits, node_loss, progress, reports
from jobcommon.reconcile.accounting import FRESH_END_SECONDS
from jobcommon.reconcile.plan import MAX_WAKE
from jobcommon.reconcile.slots import MAX_ENTRIES
from jobcommon.reconcile.waiting import REPORT_AFTER
from jobcommon.runtime import executor, flow_control
from jobcommon.runtime.failed_logs import LOG_SECONDS
from jobcommon.runtime.health import STALLED_AFTER
from jobcommon.runtime.writes import RECHECK_SECONDS
from jobcommon.sdk.async_client import RETRY_SECONDS
from jobcommon.testutil.mutants import known_defects
from jobcommon.testutil.sim.differential import LIVENESS_SECONDS
from jobcommon.testutil.sim.faults import KINDS
from jobcommon.testutil.sim.simulation import MOST_PLANS
from localcluster.conformance import EDGE as EDGE_PODS
from localcluster.conformance import table
from tests.architecture.source import ROOT
from tests.cli.seeded import IN_CONTAINERS, ON_A_REAL_ONE, ON_PROCESSES, SEEDED
from tests.diagnosis.scenarios import SCENARIOS
from tests.properties.test_leader import CRASH_TAKE_OVER, GRACEFUL_TAKE_OVER
from tests.upgrade.reference import SHAPES


def _time(seconds: float) -> str:
    return f"{seconds * 1000:g} ms" if seconds < 1 else f"{seconds:g} s" if seconds < 600 else f"{seconds / 60:g} min"


DEPENDENCIES = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["dependencies"]
RULE = yaml.safe_load((ROOT / "charts/jobcommon-lib/shared/values.yaml").read_text(encoding="utf-8"))["metrics"][
    "prometheusRule"
]
WORDS = dict(
    enumerate(
        ["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve", "thirteen"]
    )
)
SEATS, HALF = Settings().concurrency, Settings().concurrency // flow_control.SHARE
KIB = failed_logs.MAX_LOG_BYTES // 1024
EDGE = Counter("of" in row for row in json.loads(EDGE_PODS.read_text(encoding="utf-8"))["cases"])
COOLDOWN = WORDS[job_state.COOLDOWN_FACTOR]
LONGEST = _time(job_state.MAX_COOLDOWN)
LOGS = MAX_FAILURES + failed_logs.MAX_LAST


#: The constants of the mechanisms that delay a write: all numbers of that column in ARCHITECTURE.md.
MECHANISMS = (
    f"expire after {_time(expectations.TIMEOUT)}",
    f"relist after {_time(barrier.STALL)}",
    f"{_time(LOG_SECONDS)} to read those of a plan",
    f"{_time(workqueue.BASE_BACKOFF)} to {_time(workqueue.MAX_BACKOFF)}, full jitter",
    f"{_time(refusals.FIRST_RETRY_DELAY)} to {_time(refusals.MAX_RETRY_DELAY)}",
    f"at most {_time(MAX_WAKE)} ahead",
    f"then {_time(limits.FIRST_RESTART_DELAY)} to {_time(limits.MAX_RESTART_DELAY)} from the start",
    f"for each replica type 1, then one more for each success, at most {Settings().slow_start_cap}",
    f"{_time(Settings().shutdown_seconds)} (`Settings.shutdown_seconds`)",
    f"more than {_time(RECHECK_SECONDS)} ago",
    f"{SEATS} seats (`Settings.concurrency`); BULK (more than {executor.BULK_ACTIONS} actions)",
    f"{MAX_OVERTAKES} overtakes",
    f"new counts {_time(job_state.COUNTS_DELAY)}; {COOLDOWN} times the last plan's cost, at most {LONGEST}",
    f"a job at most every {_time(reports.RECORD_SECONDS)}",
    f"in the first {_time(reports.RECORD_SECONDS * 10)} of a run every tenth of its time",
    f"(at least {_time(reports.YOUNG_SECONDS)})",
)
SENTENCES = (
    *(("ARCHITECTURE", sentence) for sentence in MECHANISMS),
    ("ARCHITECTURE", f"a plan that took {_time(job_state.MIN_COST)} or more"),
    ("ARCHITECTURE", f"only after {COOLDOWN} times that cost (at most {LONGEST})"),
    ("ARCHITECTURE", f"deferred until {_time(job_state.COUNTS_DELAY)} after the first such change"),
    ("ARCHITECTURE", f"A level that waits gets every {WORDS[MAX_OVERTAKES + 1]}h turn"),
    ("ARCHITECTURE", f"one of {SEATS} seats"),
    ("ARCHITECTURE", f"BULK if the plan has more than {executor.BULK_ACTIONS} actions"),
    ("ARCHITECTURE", f"BULK, BACKGROUND and each namespace may hold {HALF} seats"),
    ("docs/reliability", f"{len(KINDS)} kinds of faults ("),
    ("docs/reliability", f"`make mutants` | {len(known_defects())} known defects"),
    ("docs/reliability", f"`hot-loop`: at most {MOST_PLANS} times a minute"),
    ("docs/reliability", f"No job hangs: {LIVENESS_SECONDS:g} s after the last fault"),
    ("docs/reliability", f"within {CRASH_TAKE_OVER:g} s of a crash and {GRACEFUL_TAKE_OVER:g} s of a graceful"),
    ("localcluster/docs/conformance", f"{len(table())} cases: versions"),
    ("localcluster/docs/conformance", f"{EDGE[False]} pods and {EDGE[True]} updates, each"),
    ("docs/kubectl-train", f"names each of {len(SCENARIOS)} causes"),
    ("docs/kubectl-train", f"seeds {len(SEEDED)} of them"),
    ("docs/kubectl-train", f"and {(real := sum(not one.embedded for one in (*SEEDED, *ON_A_REAL_ONE)))} where"),
    ("docs/kubectl-train", f"({real - len(ON_PROCESSES) + len(IN_CONTAINERS)} in containers)"),
    ("docs/kubectl-train", f"`--stuck-after` ({STUCK_AFTER:g} s; 0 for never)"),
    ("docs/kubectl-train", f"concluded from, at most {MAX_EVIDENCE}"),
    ("docs/kubectl-train", f"the latest {MOST_READ} jobs"),
    ("docs/kubectl-train", f"up to {WORDS[BACKOFF_LIMIT]} times"),
    ("docs/command", f"`--stuck-after` ({STUCK_AFTER:g} s; 0 for never)"),
    ("docs/command", f"until it has run for {STARTED:g} seconds"),
    ("docs/command", f"more than {WORDS[MANY_PODS]} pods"),
    ("docs/command", f"the first {WORDS[MAX_LIKE_IT]} are named"),
    ("docs/migration", f"{WORDS[len(SHAPES)]} kinds in seven situations"),
    ("docs/security", f"have {WORDS[len(DEPENDENCIES)]} direct dependencies"),
    ("docs/production", f"within {CRASH_TAKE_OVER:g} s of a crash and within {GRACEFUL_TAKE_OVER:g} s of a graceful end"),
    ("docs/install", f"has been blocked for {STALLED_AFTER:g} s"),
    ("docs/install", f"no watch showed within {WORDS[expectations.TIMEOUT / 60]} minutes"),
    ("docs/production", f"`metrics.prometheusRule.launchDelaySeconds` ({RULE['launchDelaySeconds']})"),
    ("docs/production", f"`metrics.prometheusRule.restartsPerHour` ({RULE['restartsPerHour']})"),
    ("docs/pod-endings", f"{REPORT_AFTER:g} seconds after its grace period"),
    ("docs/pod-endings", f"more than {MAX_ENTRIES} pods are terminating"),
    ("docs/troubleshooting", f"are reported after {REPORT_AFTER:g} seconds"),
    ("docs/troubleshooting", f"may end by themselves for {limits.GRACE_SECONDS:g} seconds"),
    ("docs/troubleshooting", f"`status.failures` has the first {WORDS[MAX_FAILURES]}"),
    ("docs/python-client", f"every {WORDS[RETRY_SECONDS]} seconds if the job may not be watched"),
    ("docs/dashboard", f"With more than {MAX_LANES} pods"),
    ("docs/rules", f"expire, after {WORDS[expectations.TIMEOUT / 60]} minutes"),
    ("docs/rules", f"a create more than {WORDS[RECHECK_SECONDS]} seconds later"),
    (
        "docs/rules",
        f"after {refusals.FIRST_RETRY_DELAY:g} s, with pauses that grow to {WORDS[refusals.MAX_RETRY_DELAY / 60]} minutes",
    ),
    ("docs/restarts", f"within its grace period and {in_place.STOP_SECONDS:g} s"),
    ("docs/restarts", f"kept apart by {limits.FIRST_RESTART_DELAY:g} to {limits.MAX_RESTART_DELAY:g} s"),
    ("docs/restarts", f"`terminationGracePeriodSeconds` + {node_loss.FORCE_AFTER_SECONDS:g} s"),
    ("docs/restarts", f"prefer other nodes than those with {WORDS[node_loss.AVOIDED_FROM]}"),
    ("docs/restarts", f"The last {node_loss.MAX_NODES} nodes that are avoided"),
    ("docs/restarts", f"the last {KIB} KiB that a failed replica printed"),
    ("docs/restarts", f"the first {MAX_FAILURES}, and up to {failed_logs.MAX_LAST} more"),
    (
        "docs/restarts",
        f"at most {LOGS} times {KIB} KiB of logs and {LOGS + 1} times {failed_logs.MAX_EVENT_BYTES // 1024} KiB",
    ),
    ("docs/restarts", f"its node has {LOG_SECONDS:g} s to answer"),
    ("docs/restarts", f"the status has the report within {reports.RECORD_SECONDS:g} s"),
    ("docs/restarts", f"loses it, at most {reports.RECORD_SECONDS:g} s of reports"),
    ("docs/restarts", f"for longer than the deadline + {progress.CONFIRM_SECONDS:g} s while the leader can write"),
    ("docs/when-training-fails", f"the longest step plus {progress.CONFIRM_SECONDS:g} s"),
    ("docs/when-training-fails", f"restarts in a row ({progress.MAX_RESTARTS} unless set"),
)


@pytest.mark.parametrize(("document", "sentence"), SENTENCES)
def test_a_document_repeats_the_constant_of_the_code(document: str, sentence: str) -> None:
    text = " ".join((ROOT / f"{document}.md").read_text(encoding="utf-8").split())
    assert sentence in text, f"the code has another value than {document}.md, or the sentence has other words"


def test_each_number_of_a_mechanism_is_a_constant() -> None:
    text = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
    table = text.partition("| mechanism | where | constants |")[2].partition("\n\n")[0]
    constants = "\n".join(row.split("|")[3] for row in table.splitlines()[2:])
    for sentence in MECHANISMS:
        constants = constants.replace(sentence, "")
    assert re.findall(r".*\d.*", constants) == [], "add the sentence with the constant to MECHANISMS"


def test_live_reads_have_one_age() -> None:
    """ARCHITECTURE.md names it once, for what was read and for what ended."""
    assert RECHECK_SECONDS == FRESH_END_SECONDS
