"""The jobs of a chaos trial: shell scripts that write down when they start and how they end."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from random import Random
from typing import Any

from jobcommon.framework import Framework
from jobcommon.operators.mpi import MPI
from jobcommon.operators.mxnet import MXNET
from jobcommon.operators.pytorch import PYTORCH
from jobcommon.operators.tf import TF
from jobcommon.testutil.builders import Manifest
from jobcommon.testutil.chaos.processes import MARKER

RETRYABLE, PERMANENT = 137, 3
#: What a kill of the cluster costs a job whose containers are restarted in place is charged: it must never be the limit.
PLENTY = 1000
SHAPES: Mapping[str, tuple[str, ...]] = {
    TF.kind: ("Worker", "Worker"),
    PYTORCH.kind: ("Master", "Worker"),
    MPI.kind: ("Launcher", "Worker"),
    MXNET.kind: ("Scheduler", "Worker"),
}
FRAMEWORKS = (TF, PYTORCH, MPI, MXNET)


class Script(StrEnum):
    """What the replicas of a job do, and so how the job must end."""

    SUCCEEDS = "succeeds"
    IN_PLACE = "succeeds, restarted in place"
    RETRIES = "fails once, retryably, then succeeds"
    EXHAUSTS = "fails retryably until backoffLimit is used up"
    FAILS = "fails for good"
    NEVER = "succeeds, and is never to run twice"


SCRIPTS: Mapping[Script, tuple[str, str]] = {
    # restartPolicy, exit code as a shell expression; $fails is how often this replica has failed before
    Script.SUCCEEDS: ("ExitCode", "0"),
    Script.IN_PLACE: ("OnFailure", "0"),
    Script.RETRIES: ("ExitCode", f"$(( fails < 1 ? {RETRYABLE} : 0 ))"),
    Script.EXHAUSTS: ("ExitCode", str(RETRYABLE)),
    Script.FAILS: ("ExitCode", str(PERMANENT)),
    Script.NEVER: ("Never", "0"),
}
EXHAUST_LIMIT = 2


@dataclass(frozen=True)
class ChaosJob:
    """One job of a trial."""

    framework: Framework
    name: str
    script: Script
    manifest: Manifest

    @property
    def pods(self) -> tuple[str, ...]:
        """The names of its pods that run the script; the workers of an MPIJob only wait."""
        kinds = SHAPES[self.framework.kind]
        if self.framework is MPI:
            return (f"{self.name}-launcher",)
        if self.framework is TF:
            return tuple(f"{self.name}-worker-{index}" for index in range(len(kinds)))
        return tuple(f"{self.name}-{kind.lower()}-0" for kind in kinds)


def make_jobs(count: int, ledger: Path, marker: str, chance: Random, *, longest: float) -> list[ChaosJob]:
    """`count` jobs of the four kinds and all scripts in turn, each replica running up to `longest` seconds."""
    scripts = list(Script)
    return [
        _job(FRAMEWORKS[number % 4], f"c{number}", scripts[(number // 4) % len(scripts)], ledger, marker, chance, longest)
        for number in range(count)
    ]


def _job(
    framework: Framework, name: str, script: Script, ledger: Path, marker: str, chance: Random, longest: float
) -> ChaosJob:
    if framework is MPI and script is Script.NEVER:
        # A launcher was a batch Job's pod: it is run again whatever its restart policy says.
        script = Script.SUCCEEDS
    policy, code = SCRIPTS[script]
    specs: dict[str, Any] = {}
    first, *_ = SHAPES[framework.kind]
    for kind in SHAPES[framework.kind]:
        waits = framework is MPI and kind == "Worker"
        if waits:
            command = f"{_line(ledger, 'start')}; exec sleep 100000"
        else:
            # Only one replica fails for good, so that its failures can be counted exactly.
            others = code if script is Script.RETRIES else "0"
            command = _work(ledger, chance.uniform(0.5, longest), code if kind == first else others, others)
        spec = specs.setdefault(kind, {"replicas": 0, "restartPolicy": "ExitCode" if waits else policy})
        spec["replicas"] += 1
        spec["template"] = {"spec": _pod(framework, command, marker)}
    manifest: Manifest = {
        "apiVersion": framework.api_version,
        "kind": framework.kind,
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"runPolicy": {"backoffLimit": _limit(framework, script)}, framework.replica_specs: specs},
    }
    if framework is TF:
        # Else its first worker alone decides, and the second one's end is cut short.
        manifest["spec"]["successPolicy"] = "AllWorkers"
    return ChaosJob(framework, name, script, manifest)


def _limit(framework: Framework, script: Script) -> int:
    if script is Script.EXHAUSTS:
        return EXHAUST_LIMIT
    return 0 if framework is MPI and script is Script.FAILS else PLENTY


def _line(ledger: Path, word: str, more: str = "") -> str:
    """Adds a line; it is one write, and so whole or not there."""
    return f'echo "{word} $POD $POD_UID $(date +%s.%N){more}" >> {ledger}'


def _work(ledger: Path, seconds: float, code: str, second: str) -> str:
    """A line before the work and one after it; the replica of index 1 ends with the code `second`."""
    return "; ".join((
        _line(ledger, "start"),
        f"sleep {seconds:.2f}",
        f'fails=$(grep -c "^end $POD .* {RETRYABLE}$" {ledger})',
        f"case $POD in *-1) code={second};; *) code={code};; esac",
        _line(ledger, "end", " $code"),
        "exit $code",
    ))  # fmt: skip


def _pod(framework: Framework, command: str, marker: str) -> Manifest:
    env = [
        {"name": MARKER, "value": marker},
        {"name": "POD", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
        {"name": "POD_UID", "valueFrom": {"fieldRef": {"fieldPath": "metadata.uid"}}},
    ]
    container = {"name": framework.container or "main", "image": "any", "command": ["sh", "-c", command], "env": env}
    return {"terminationGracePeriodSeconds": 1, "containers": [container]}
