"""Rows about what the operators are installed with, and what others have left for them."""

from collections.abc import Iterator

from jobcommon.testutil.real.disturbances import operator_dies, operator_starts
from jobcommon.testutil.real.installation import (
    answered,
    begun_by_another,
    bound,
    definition_goes,
    definition_returns,
    foreign_answers,
    namespace_ends,
    namespace_is_gone,
    older_definition,
    operator_is_told_to_end,
    present_definition,
    released_by_command,
    rights_to_grant,
    role_goes,
    role_of_another,
    says,
)
from jobcommon.testutil.real.manifests import MPIJOB_EXEC, MXJOB, PYTORCHJOB
from jobcommon.testutil.real.steps import becomes, delete, delete_job, ending, freed, over, replaced, run
from jobcommon.testutil.real.table import RUNNING, Expected, Row

#: As long as an older definition allowed: 60 characters, and 69 with what a pod's name adds.
_LONG = "job-" + "x" * 52 + "-end"
NO_RIGHTS = "--no-mpi-exec"


# fmt: off
def installations() -> Iterator[Row]:
    """All of them."""
    yield from _inherited()
    yield from _rights()
    yield from _answers()
    yield from _leaving()


def _inherited() -> Iterator[Row]:
    """A job that has begun goes on, whatever its operator would refuse today."""
    begun = begun_by_another(launcher="Launcher", worker_0="Worker")
    goes_on = (delete("worker-0"), replaced("worker-0"))
    # Without our finalizer a pod may be gone before its end is seen.
    carried_on = Expected(pods=MPIJOB_EXEC.ends("Failed 143"), disruptions=None)
    yield Row("an MPIJob by kubectl exec is carried on by an operator that may not give rights",
        (begun, run("launcher", "worker-0"), operator_starts(NO_RIGHTS), becomes(RUNNING), *goes_on, *MPIJOB_EXEC.finish),
        carried_on, MPIJOB_EXEC.job(), MPIJOB_EXEC, operator=None)
    yield Row("an operator may not give rights any more, an MPIJob by kubectl exec runs",
        (rights_to_grant(), begun, run("launcher", "worker-0"), operator_starts(), bound("job-launcher", to_own=True),
            operator_dies(), operator_starts(NO_RIGHTS), *goes_on, *MPIJOB_EXEC.finish),
        carried_on, MPIJOB_EXEC.job(), MPIJOB_EXEC, operator=None)
    long = MPIJOB_EXEC.job(name=_LONG)
    yield Row("an MPIJob with a name that is too long today goes on, and is deleted in the foreground",
        (present_definition(long), begun, run("launcher", "worker-0"), operator_starts(NO_RIGHTS), *goes_on,
            becomes(RUNNING), delete_job("Foreground")),
        Expected("", {"launcher": ("Failed 143",), "worker-0": ("Failed 143", "Failed 143")}),
        long, MPIJOB_EXEC, operator=None, before=(older_definition(long),))


def _rights() -> Iterator[Row]:
    """Rights are bound to the job's own Role only."""
    gated = MPIJOB_EXEC.job(schedulingGates=[{"name": "jobcommon.test/gate"}])
    name = "job-launcher"
    yield Row("another's Role has the name of an MPIJob's",
        (says(f"roles/{name} exists already"), bound(name, to_own=False), role_goes(name), bound(name, to_own=True),
            delete_job("Background")),
        Expected(""), gated, MPIJOB_EXEC, before=(rights_to_grant(), role_of_another(name)))


def _answers() -> Iterator[Row]:
    """An answer that no API server gives leaves open whether the write was done: it is found out, and made up for."""
    for status in (302, 200):
        yield Row(f"something on the way answers the first try of each write with {status}",
            (run("master-0", "worker-0"), answered("POST", "/pods"), answered("PUT", "/status"), delete("worker-0"),
                replaced("worker-0"), *PYTORCHJOB.finish),
            Expected(pods=PYTORCHJOB.ends("Failed 143"), disruptions=1), PYTORCHJOB.job(),
            before=(foreign_answers(status),))


def _leaving() -> Iterator[Row]:
    """Nothing of ours outlives what it belongs to."""
    both, stopped = run("master-0", "worker-0"), {"master-0": ("Failed 143",), "worker-0": ("Failed 143",)}
    ended = (both, namespace_ends(), over("master-0", "worker-0"))
    yield Row("the namespace is deleted together with its operator",
        (*ended, operator_is_told_to_end(), namespace_is_gone()), Expected("", stopped), PYTORCHJOB.job())
    yield Row("the namespace is deleted, its operator is lost before it releases the pods",
        (*ended, operator_dies(), released_by_command(), namespace_is_gone()), Expected("", stopped), PYTORCHJOB.job())
    leads, helps = MXJOB.leads, MXJOB.helps
    job = MXJOB.job("Never")
    yield Row("the definition is deleted while the operator is down, and comes back",
        (run(leads, helps), operator_dies(), delete_job("Background"), ending(leads, helps), definition_goes(),
            operator_starts(), freed(leads, helps), definition_returns(job), replaced(leads, helps), *MXJOB.finish),
        Expected(pods=MXJOB.ends("Failed 143", leads=("Failed 143",))), job, MXJOB)
