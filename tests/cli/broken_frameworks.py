"""Frameworks with a mistake each, for `jobcommon simulate`."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import count

from jobcommon.framework import EnvVar, Job, Outcome, Replica, Tallies
from jobcommon.testutil.frameworks import TEST_JOB

_ASKED = count()


def _env_of_one(_job: Job, replica: Replica) -> Sequence[EnvVar]:
    if replica.index == 1:
        raise KeyError("no address for it")
    return ()


def _flips(_job: Job, tallies: Tallies) -> Outcome:
    return Outcome(running=True, succeeded=tallies["Worker"].active > 0 and next(_ASKED) % 2 == 1)


def _numbers(_job: Job, _replica: Replica) -> Sequence[EnvVar]:
    return (EnvVar("NUMBER", str(next(_ASKED))),)


RAISES = replace(TEST_JOB, env=_env_of_one)
FLIPS = replace(TEST_JOB, outcome=_flips)
IMPURE = replace(TEST_JOB, env=_numbers)
