"""Histories of pairs: `judge(first, second, seed)` says what is wrong with one; ``make pairs`` runs them by the thousand."""

import argparse
import sys
import time
from collections.abc import Iterator, Sequence
from itertools import permutations, zip_longest
from random import Random

from jobcommon.reconcile.plan import Urgency
from jobcommon.testutil.builders import START
from jobcommon.testutil.cluster_model import FLAVOR, ClusterModel
from jobcommon.testutil.oracles import Oracles
from jobcommon.testutil.pairs.features import COMMON, EVENTS, FEATURES, KINDS, QUIET, restore_nodes, used, world_of

LENGTH = 14


def judge(
    first: str, second: str, seed: int, *, workers: int = 3, events: Sequence[str] = (), framework: str = ""
) -> list[str]:
    """What is wrong with one history, in which only `events` happen if there are any.

    The job is of the kind that the features ask for, or of that `framework`.

    It is run twice: with a platform that always says the same, and with one that words what it says anew each time, by an
    operator without the extensions that the job does not use. What the operator does must not depend on either: a message is no
    state, and a feature is its own extension.
    """
    plain, problems = _history(first, second, seed, framework, restless=False, workers=workers, events=events)
    if problems or plain is None:
        return problems
    worded, problems = _history(first, second, seed, framework, restless=True, workers=workers, events=events)
    if problems or worded is None:
        return [f"words: with changing messages and without unused extensions: {problem}" for problem in problems]
    for one, other in zip_longest(_deeds(plain), _deeds(worded)):
        if one != other:
            return [f"words: with changing messages and without unused extensions the operator does {other} and not {one}"]
    return []


def _deeds(world: ClusterModel) -> Iterator[tuple[object, ...]]:
    """What has effects: the actions and the urgent statuses, without texts, each with its time."""
    states: object = None
    for at, made in world.log:
        now = [(c.type, c.status, c.reason) for c in made.status.conditions] if made.status is not None else states
        urgent = made.status is not None and made.urgency > Urgency.COUNTS
        if made.actions or urgent or now != states:
            states = now
            yield round(at - START), sorted(f"{type(action).__name__} {action.name}" for action in made.actions), now, urgent


def _history(
    first: str, second: str, seed: int, framework: str, *, restless: bool, workers: int, events: Sequence[str]
) -> tuple[ClusterModel | None, list[str]]:
    """The world at the end of a history, and what is wrong; no world where the features exclude each other."""
    chance = Random(f"{first} {second} {seed}")  # noqa: S311 - reproducibility is the point
    features = FEATURES[first], FEATURES[second]
    world = world_of(*features, chance, restless=restless, workers=workers, kind=KINDS.get(framework))
    if world is None:
        return None, []
    oracles = Oracles(world)
    try:
        world.react()
        if problems := list(oracles.look()):
            return world, problems
        for number in range(LENGTH):
            own = features[number % 2].happenings.split()
            happening = chance.choice(events or (*COMMON, *own, *own))
            if happening not in QUIET.split() or (used(world) > world.room and not world.job.restarts_in_place):
                oracles.members.disturbed()
            EVENTS[happening](world)
            world.react()
            world.wait(0)
            if problems := list(oracles.look()):
                return world, [f"{problem} [after {happening}]" for problem in problems]
        _finish(world)
        return world, list(oracles.at_end())
    except AssertionError as error:
        return world, [f"invariant: {error}"]
    except Exception as error:
        return world, [f"raised: {type(error).__name__}: {error}"]


def _finish(world: ClusterModel) -> None:
    """Everything is allowed, there is room, the nodes are back, and each program ends well."""
    restore_nodes(world)
    world.refused, world.unkept, world.quota, world.preempted = frozenset(), "", True, False
    world.cluster, world.pods_allowed, world.share = [FLAVOR], None, None
    if not world.job.status.finished:
        world.edit(suspend=False)
        for kind in world.job.replica_specs:
            world.scale(kind, max(world.job.count(kind), 1))
    world.react()
    for _ in range(12):
        if world.job.status.finished:
            break
        world.wait(130)
        for name in sorted(world.pods):
            pod = world.pods[name].view
            if pod.ready and pod.deletion_time is None and not world.job.status.finished:
                world.exit(name, 0)
        world.react()
    world.wait(700)


def main() -> int:
    """Print each problem; a pair and a seed repeat it."""
    parser = argparse.ArgumentParser(prog="python -m jobcommon.testutil.pairs.histories", description=__doc__)
    parser.add_argument("--seeds", type=int, default=3, help="how many for each pair and order")
    parser.add_argument("--seed", type=int, default=0, help="the first one")
    parser.add_argument("--workers", type=int, default=3, help="how many the job has")
    parser.add_argument("--event", dest="events", action="append", default=[], choices=EVENTS, help="these events alone")
    parser.add_argument("--framework", default="", choices=KINDS, help="the kind of the job, if not that of the features")
    parser.add_argument("pair", nargs="*", choices=[[], *FEATURES], help="these features alone")
    options = parser.parse_args()
    started, runs, found = time.process_time(), 0, 0
    kind = f"--framework {options.framework} " if options.framework else ""
    job = {"workers": options.workers, "events": options.events, "framework": options.framework}
    for first, second in permutations(FEATURES, 2):
        if set(options.pair) <= {first, second}:
            for seed in range(options.seed, options.seed + options.seeds):
                runs += 1
                for problem in judge(first, second, seed, **job)[:1]:
                    found += 1
                    print(f"{first} {second} {kind}--seed {seed} --seeds 1: {problem}", flush=True)
    seconds = time.process_time() - started
    pace = 2 * runs / seconds * 60
    print(f"{runs} histories, each run twice, in {seconds:.0f} s of CPU ({pace:.0f} a minute): {found} problems")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
