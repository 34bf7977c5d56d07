"""Programs that a release is made with, and the error that ends it."""

import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path


class ReleaseError(Exception):
    """Something is missing or inconsistent. The message names it and says what to change."""


def output_of(argv: Sequence[str | Path], cwd: Path | None = None, env: Mapping[str, str] | None = None) -> str:
    """What a program prints to its standard output. Raises ReleaseError with what it says if it cannot run or fails."""
    try:
        done = subprocess.run(argv, cwd=cwd, env=env, capture_output=True, text=True, check=False)  # noqa: S603  our own lines
    except OSError as error:
        raise ReleaseError(f"{argv[0]}: {error.strerror or error}") from None
    if done.returncode:
        said = (done.stderr or done.stdout).strip()[-2000:]
        raise ReleaseError(f"{' '.join(map(str, argv))[:200]}: exit code {done.returncode}\n{said}")
    return done.stdout
