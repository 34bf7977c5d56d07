"""The simulator's mutants in this model: in which model each is searched for, and why the others cannot show here."""

from collections.abc import Mapping

from jobcommon.testutil.exhaust.model import Bounds, Model
from jobcommon.testutil.exhaust.search import Search
from jobcommon.testutil.sim.mutants import MUTANTS

_CALM = Bounds(crashes=0, lost=0, lag=1, failures=0)
_LOSES = Bounds(crashes=0, lost=1, lag=1, failures=0)
_FAILS = Bounds(crashes=0, lost=0, lag=1, failures=1)
_FAILS_WITHOUT_LIMIT = Bounds(crashes=0, lost=0, lag=1, failures=1, backoff_limit=0)
_TWICE = Bounds(crashes=0, lost=0, lag=1, failures=2)
_EVICTED = Bounds(crashes=0, lost=0, lag=1, failures=0, evictions=1)

TRIALS: Mapping[str, tuple[str, Bounds]] = {
    "D1-expectations-or": ("Never", _CALM),
    "D3-tombstone": ("Always", _TWICE),
    "D4-expectation-after-nothing": ("Never", _CALM),
    "D5-raises-on-error-paths": ("Never", _CALM),
    "D7-magic-exit-code": ("ExitCode", _EVICTED),
    "D8-timers-do-nothing": ("Always", _FAILS),
    "D8-backoff-counts-running-pods": ("ExitCode", _FAILS_WITHOUT_LIMIT),
    "D9-no-completion-time": ("Always", _TWICE),
    "R3-no-barrier": ("Always", _CALM),
    "R4-no-expectations": ("Never", _CALM),
    "R5-listed-first": ("Always", _CALM),
    "R7-no-second-look": ("Always", _CALM),
    "R9-act-then-record": ("ExitCode", _FAILS),
    "R11-the-end-is-not-final": ("Never", _CALM),
    "R12-no-answer-is-a-success": ("Always", _LOSES),
    "R19-written-when-nothing-changed": ("Always", _CALM),
}
"""The smallest model in which each mutant that it can express is searched for."""

_RECREATED = "needs a second job of the name"
_STOPPED = "needs a user who suspends, resumes or scales the job"
_LATE = "needs a request that arrives after its operator has crashed, or a second operator"
_REFUSED = "needs a platform that refuses creates"
_TIME = "is about how long something takes, and time stands still here"
_OTHER_SCOPE = "needs a job with restartScope Job"
_OTHER_KIND = "is about another kind of job; this is a PyTorchJob"

LEFT_OUT: Mapping[str, str] = {
    "D2-expectations-by-name": _RECREATED,
    "D6-no-pods-no-clean-up": _REFUSED,
    "D10-index-label-trusted": "needs a client that edits labels",
    "D11-service-events-ignored": "needs a client that deletes a Service",
    "D12-created-in-the-cache-only": _REFUSED,
    "D13-no-uid-in-status-writes": _RECREATED,
    "D14-owned-by-labels": "needs pods of other owners",
    "D14-launcher-as-worker-off-by-one": _OTHER_KIND,
    "D14-watch-refused-is-fatal": "needs watches that are refused",
    "R1-delete-by-name": _LATE,
    "R2-status-without-precondition": _LATE,
    "R6-owned-by-name": _RECREATED,
    "R8-no-fence": "needs two operators",
    "R8-old-caches": "needs two operators",
    "R8-released-in-mid-write": "needs two operators",
    "R10-success-forgotten": "needs a client that removes finalizers",
    "R13-one-update-for-two-objects": _RECREATED,
    "R14-back-off-without-a-cap": _TIME,
    "R15-first-error-ends-all": _REFUSED,
    "R16-a-full-quota-fails-the-job": _REFUSED,
    "R16-admission-fails-the-job": _REFUSED,
    "R16-a-refused-replacement-fails-the-job": _REFUSED,
    "R17-cache-changed-in-place": "changes a cache, which is data here and made anew for each step",
    "R18-retry-after-ignored": _TIME,
    "E1-ended-before-the-deletion": _STOPPED,
    "E2-deleted-with-the-record": _STOPPED,
    "E3-resumed-without-the-terminating": _STOPPED,
    "E4-scaled-down-without-a-record": _STOPPED,
    "E5-success-forgotten-when-scaled-away": _STOPPED,
    "E6-exit-0-before-the-platform": "needs a pod that answers its eviction with exit 0; here it shows 137",
    "E7-helper-succeeds": _OTHER_KIND,
    "E8-sidecars-are-charged": "needs pods with several containers",
    "E9-waits-for-the-sidecar": "needs pods with several containers",
    "E10-given-up-keeps-restarting": _OTHER_KIND,
    "E11-delay-by-a-clock-ahead": _TIME,
    "E12-half-stopped-runs-on": _STOPPED,
    "F34-orphans-need-an-owner": "needs a job that is deleted with --cascade=orphan",
    "F41-gives-up-before-admission": _TIME,
    "F42-any-answer-will-do": "needs answers that no API server gives",
    "F43-dropped-fields-count-as-stored": "needs an outdated CustomResourceDefinition",
    "F44-nothing-without-the-definition": "needs a CustomResourceDefinition that is removed",
    "E13-unread-means-unwanted": "needs an edit that the API server refuses",
    "E14-stopped-at-the-success": _TIME,
    "E15-attempts-overlap": _OTHER_SCOPE,
    "E16-consequences-are-charged": _OTHER_SCOPE,
}


def hunt(name: str) -> Search:
    """The search for what a mutant does wrong; its `problem` is "" if it does nothing wrong."""
    with MUTANTS[name].planted():
        return Search(Model(*TRIALS[name])).run()
