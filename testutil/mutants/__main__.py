"""Each known defect is put back in a process of its own, and golden plans and unit tests, or histories, run until one fails."""

import argparse
import contextlib
import multiprocessing
import os
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from jobcommon.testutil.mutants import known_defects

GOLDEN = "tests/reconcile/test_golden.py"
PROGRAMMES = {
    "golden plans": (GOLDEN,),
    "unit tests": (
        "tests/controller",
        "tests/cache",
        "tests/client",
        "tests/runtime",
        "tests/reconcile",
        "tests/operators",
        "--ignore",
        GOLDEN,
    ),
}
"""In the order in which they are tried: the cheap one first."""
OPTIONS = (
    *("-x", "-q", "-p", "no:cacheprovider", "-m", "not slow and not cluster"),
    *("-W", "ignore::pytest.PytestAssertRewriteWarning"),
)
WITHOUT = ""


def trial(name: str) -> tuple[str, str]:
    """The first programme that complains of the defect, "" if none does; without a name, of the code as it is.

    A crossing of two features is looked for by the promises of these: no test was written for it.
    """
    defect = known_defects()[name] if name else None
    with defect.planted() if defect is not None else contextlib.nullcontext():
        if defect is not None and defect.features:
            return name, "pairs of features" if defect.broken_promise().startswith(defect.promise) else ""
        for programme, paths in PROGRAMMES.items():
            if pytest.main([*OPTIONS, *paths]) != pytest.ExitCode.OK:
                return name, programme
    return name, ""


def _silence() -> None:
    sys.stdout = sys.stderr = Path(os.devnull).open("w")  # noqa: SIM115 - until the process ends


def main(arguments: Sequence[str] | None = None) -> int:
    """Print what catches each; 1 if a defect is not caught, or if the code as it is fails."""
    parser = argparse.ArgumentParser(prog="python -m jobcommon.testutil.mutants", description=__doc__)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--only", default="", help="defects whose name contains this")
    options = parser.parse_args(arguments)
    names = [name for name in known_defects() if options.only in name]
    caught: dict[str, str] = {}
    with multiprocessing.get_context("fork").Pool(options.workers, _silence, maxtasksperchild=1) as pool:
        for name, programme in pool.imap_unordered(trial, [WITHOUT, *names], 1):
            print(f"{name or 'the code as it is':<42} {programme or 'nothing'}", flush=True)
            caught[name] = programme
        pool.close()
        pool.join()
    missed = [name for name in names if not caught[name]]
    print(f"{len(names) - len(missed)} of {len(names)} defects are caught; not caught: {', '.join(missed) or 'none'}")
    return 1 if missed or caught[WITHOUT] else 0


if __name__ == "__main__":
    sys.exit(main())
