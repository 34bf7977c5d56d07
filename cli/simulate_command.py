"""The options of ``jobcommon simulate``."""

import sys
from typing import Annotated

import typer

from jobcommon.cli.frameworks import chosen
from jobcommon.cli.options import flag, option


def simulate_command(
    framework: Annotated[str, typer.Argument(help="The framework's name, or my_package:FRAMEWORK.")],
    filename: str | None = option(None, "The job. Default: a job with every replica type.", "FILE", "--filename", "-f"),
    seeds: int = option(100, "How many random sets of faults to try.", "N", min=0),
    points: bool = flag("Try every fault at every write (minutes). Default: a hundred of them.", "--points"),
    lifecycle: str | None = option(None, "Repeat one run, of this lifecycle, with --seed and --faults.", "NAME"),
    seed: int = option(0, "The seed of the run to repeat.", "N", min=0),
    faults: str = option("[]", "The faults of the run to repeat.", "JSON"),
) -> None:
    """Simulate the jobs of a framework under faults, to find what is wrong with it.

    Its operator runs in virtual time through seven lifecycles: success, a retryable and a permanent exit code, suspension, a
    deleted pod, and a resize with new pods and in place. First without a fault: the job must end as it should. Then with a
    fault at writes of the operator, and with random sets of faults: it must end in the same way. Each failure is printed as
    the command that repeats it.

    \b
    Examples:
      jobcommon simulate my_package:FRAMEWORK
      jobcommon simulate my_package:FRAMEWORK --points --seeds 1000
      jobcommon simulate mxnet -f job.yaml

    \b
    Exit codes:
      0    nothing is wrong
      1    a run has failed
      2    the input is wrong
    """
    from jobcommon.cli.simulate import Simulation, read_faults

    (chosen_framework,) = chosen([framework])
    simulation = Simulation.of(chosen_framework, framework, filename)
    sys.exit(simulation.one(lifecycle, seed, read_faults(faults)) if lifecycle else simulation.all(seeds, points=points))
