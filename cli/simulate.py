"""``jobcommon simulate``: the jobs of one framework in the simulator, with and without faults."""

import shlex
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import typer

from jobcommon.cli.errors import JOB_FAILED, UserError
from jobcommon.cli.manifests import load
from jobcommon.framework import Framework
from jobcommon.testutil.sim.faults import Fault, from_json, to_json
from jobcommon.testutil.sim.framework_lifecycles import lifecycles_of
from jobcommon.testutil.sim.framework_sweep import Trial, Trials

_SAMPLE = 100
_SHOWN_FAILURES = 10
_SHOWN_PROBLEMS = 5
_PROBLEM_WIDTH = 2000


@dataclass(frozen=True)
class Simulation:
    """The trials of one framework; `command` simulates the same framework and job."""

    trials: Trials
    command: str

    @classmethod
    def of(cls, framework: Framework, name: str, file: str | None) -> "Simulation":
        """For the job in `file`, or one that has every replica type. Raises UserError when it is not valid."""
        command = ["jobcommon", "simulate", name, *(("--filename", file) if file else ())]
        try:
            scenarios = lifecycles_of(framework, _job(framework, file) if file else None)
        except ValueError as error:
            raise UserError(f"{error}; give a job with --filename" if file is None else f"{file}: {error}") from None
        return cls(Trials(framework, scenarios), shlex.join(command))

    def all(self, seeds: int, *, points: bool) -> int:
        """Simulate every lifecycle, then with faults; prints what fails and returns the exit code.

        Faults are left out when a lifecycle fails without any: all that follows would fail as well.
        """
        failures = self._conduct("without faults", self.trials.without_faults())
        if failures:
            return JOB_FAILED
        writes = tuple(self.trials.at_writes())
        step = 1 if points else max(1, len(writes) // _SAMPLE)
        failures += self._conduct(f"write points ({len(writes)})", writes[::step])
        failures += self._conduct("swarm", map(self.trials.of_seed, range(seeds)))
        return JOB_FAILED if failures else 0

    def one(self, lifecycle: str, seed: int, faults: tuple[Fault, ...]) -> int:
        """Simulate one trial again; prints what is wrong and returns the exit code. Raises UserError for no such lifecycle."""
        if lifecycle not in self.trials.lifecycles:
            raise UserError(f"--lifecycle {lifecycle}: use one of {', '.join(self.trials.lifecycles)}")
        return JOB_FAILED if self._conduct("replay", [Trial(lifecycle, seed, faults)]) else 0

    def _conduct(self, title: str, trials: Iterable[Trial]) -> int:
        runs = failures = 0
        for trial in trials:
            runs += 1
            if problems := self.trials.judge(trial):
                failures += 1
                if failures <= _SHOWN_FAILURES:
                    self._show(trial, problems)
        typer.echo(f"{title}: {runs} runs, {failures} failures")
        return failures

    def _show(self, trial: Trial, problems: list[str]) -> None:
        faults = f" --faults {shlex.quote(to_json(trial.faults))}" if trial.faults else ""
        typer.echo(f"FAILED {self.command} --lifecycle {trial.lifecycle} --seed {trial.seed}{faults}")
        for problem in problems[:_SHOWN_PROBLEMS]:
            for line in problem.strip()[:_PROBLEM_WIDTH].splitlines():
                typer.echo(f"    {line}")


def _job(framework: Framework, file: str) -> dict[str, Any]:
    """The only job of that framework in a file."""
    found = [m for m in load([file]) if m.kind == framework.kind]
    if len(found) != 1:
        raise UserError(f"{file}: {len(found)} objects of kind {framework.kind}; give a file with one")
    body, metadata = found[0].body, found[0].body["metadata"]
    # What only an API server sets is left out: the file may come from a cluster.
    kept = {field: metadata[field] for field in ("name", "namespace", "labels", "annotations") if metadata.get(field)}
    given = {field: value for field, value in body.items() if field != "status"}
    return {**given, "metadata": {"namespace": "default", **kept}}


def read_faults(text: str) -> tuple[Fault, ...]:
    """The value of ``--faults``. Raises UserError."""
    try:
        return from_json(text)
    except ValueError as error:
        raise UserError(f"--faults: copy it from the failure that was printed: {error}") from None
