"""``jobcommon doctor``: read a cluster, examine it, and print the findings."""

import json
import sys
import time
from collections import Counter
from collections.abc import Sequence

import typer

from jobcommon.api.text import clean
from jobcommon.cli.doctor import Finding, Severity, examine, our_definitions
from jobcommon.cli.doctor.reading import read_state
from jobcommon.cli.errors import JOB_FAILED
from jobcommon.cli.jobs.access import Place, connected
from jobcommon.framework import Framework


async def doctor(frameworks: Sequence[Framework], kubeconfig: str | None, context: str | None, output: str) -> int:
    """Print the findings about the cluster. The exit code: 1 if one of them is an error. Raises `UserError`."""
    async with connected(Place(kubeconfig, context)) as api:
        state = await read_state(api.transport, frameworks)
    findings = examine(state, frameworks, our_definitions(frameworks), time.time())
    typer.echo(as_json(findings) if output == "json" else as_text(findings))
    sys.stdout.flush()
    return JOB_FAILED if any(finding.severity is Severity.ERROR for finding in findings) else 0


def as_text(findings: Sequence[Finding]) -> str:
    """The findings for a person: each in two or three lines, and their number at the end."""
    lines = []
    for finding in findings:
        lines.append(clean(f"{finding.severity.name.lower()}: {finding.subject} {finding.what}"))
        lines.append(clean(f"    {finding.why}"))
        if finding.fix:
            lines.append(clean(f"    fix: {finding.fix}"))
    counts = Counter(finding.severity for finding in findings)
    named = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.NOTE: "note"}
    parts = [f"{counts[severity]} {name}{'' if counts[severity] == 1 else 's'}" for severity, name in named.items()]
    parts.append(f"{counts[Severity.UNREAD]} not readable")
    return "\n".join([*lines, ", ".join(parts)])


def as_json(findings: Sequence[Finding]) -> str:
    """The same for programs: a list of objects."""
    return json.dumps(
        [
            {
                "severity": finding.severity.name.lower(), "subject": finding.subject, "what": finding.what,
                "why": finding.why, "fix": finding.fix,
            }
            for finding in findings
        ],
        indent=2,
    )  # fmt: skip
