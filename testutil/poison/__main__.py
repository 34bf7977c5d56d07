"""``python -m jobcommon.testutil.poison``: 1,000 healthy jobs alone, then among malformed ones, and how all ended."""

import argparse
import sys
from collections.abc import Iterator, Sequence

from jobcommon.testutil.poison.kinds import KINDS, Verdict
from jobcommon.testutil.poison.trial import PEACE_AFTER, START_AFTER, Trial, run_trial

SLOWER_ALLOWED = 1.10
HOT_ALLOWED = 0.05
FAULTS_SHOWN = 40


def main() -> int:
    """Exit code 0 if everything is as it must be."""
    parser = argparse.ArgumentParser(prog="python -m jobcommon.testutil.poison", description=__doc__)
    parser.add_argument("--healthy", type=int, default=1000, help="healthy jobs")
    parser.add_argument("--each", type=int, default=25, help="jobs of each kind of poison")
    parser.add_argument("--rate", type=float, default=5.0, help="healthy jobs submitted a second")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    alone = run_trial([], options.healthy, seed=options.seed, rate=options.rate)
    poisons = [poison for poison in KINDS for _ in range(options.each)]
    among = run_trial(poisons, options.healthy, seed=options.seed, rate=options.rate)
    for line in report(alone, among):
        print(line)
    found = faults(alone, among)
    for fault in found[:FAULTS_SHOWN]:
        print("FAULT", fault)
    if found:
        print(f"{len(found)} faults; again with: python -m jobcommon.testutil.poison --seed {options.seed} "
              f"--healthy {options.healthy} --each {options.each} --rate {options.rate}")  # fmt: skip
    return 1 if found else 0


def report(alone: Trial, among: Trial) -> Iterator[str]:
    """The table of the kinds, and the figures of both trials."""
    yield f"{'row':>3}  {'kind':<8}  {'poison':<46} {'jobs':>4} {'right':>5} {'syncs':>5}  what must become of it"
    for poison in KINDS:
        jobs = [course for course in among.courses.values() if course.poison is poison]
        if jobs:
            right = sum(not course.faults() for course in jobs)
            most = max(course.syncs_until_end for course in jobs)
            kind = poison.framework.kind.removesuffix("Job")
            yield f"{poison.row:>3}  {kind:<8}  {poison.title:<46} {len(jobs):>4} {right:>5} {most:>5}  {poison.verdict.value}"
    poisoned = [course for course in among.courses.values() if course.poison is not None]
    by_verdict = {
        v: sum(c.poison is not None and c.poison.verdict is v for c in poisoned) for v in Verdict if v is not Verdict.UNDECIDED
    }
    yield ""
    yield f"poison: {len(poisoned)} jobs of {len({id(c.poison) for c in poisoned})} kinds; " + "; ".join(
        f"{count} {verdict.name.lower()}" for verdict, count in by_verdict.items()
    )
    for name, trial in (("healthy alone", alone), ("healthy among poison", among)):
        jobs = trial.healthy()
        yield (
            f"{name}: {len(jobs)} jobs, {sum(not c.faults() for c in jobs)} right; time to Running "
            f"p50 {trial.percentile(0.5):.3f} s, p99 {trial.percentile(0.99):.3f} s, max {trial.percentile(1):.3f} s "
            f"({START_AFTER} s of it the kubelet's); "
            f"{sum(c.syncs for c in trial.courses.values())} syncs, {trial.cpu:.1f} s CPU in all"
        )
    yield (
        f"p99 among poison / alone: {among.percentile(0.99) / alone.percentile(0.99):.3f} (allowed {SLOWER_ALLOWED}); "
        f"syncs of failed poison after {PEACE_AFTER:.0f} s: {among.hot_share():.2%} of all (allowed {HOT_ALLOWED:.0%}); "
        f"syncs in two minutes at rest: {among.syncs_at_rest}; surplus runs: {among.surplus_runs}"
    )


def faults(alone: Trial, among: Trial) -> Sequence[str]:
    """What was not as it must be in either trial, and between them."""
    found = [*(f"alone: {fault}" for fault in alone.faults()), *among.faults()]
    if not among.percentile(0.99) <= SLOWER_ALLOWED * alone.percentile(0.99):
        found.append("the healthy jobs' p99 time to Running is more than a tenth over that without poison")
    if among.hot_share() > HOT_ALLOWED:
        found.append("failed poison takes too many syncs")
    return found


if __name__ == "__main__":
    sys.exit(main())
