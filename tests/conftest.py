"""For all tests."""

import contextlib
import os
import signal

import pytest

from jobcommon.testutil.effort import loop_seconds

#: More CPU than this, in loops of `jobcommon.testutil.effort`, is a failure.
MOST_LOOPS = int(os.environ.get("MOST_LOOPS", "0"))

# Pods of a cluster that a test starts run the Python of the tests, whatever environment is active.
for active in ("VIRTUAL_ENV", "CONDA_PREFIX"):
    os.environ.pop(active, None)

# What a shell starts in the background ignores SIGINT, and hands that on; some tests end a process with Ctrl-C.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


# The same examples in each run, however long one takes.
with contextlib.suppress(ImportError):  # The environments of the SDKs lack it.
    from hypothesis import HealthCheck, settings

    settings.register_profile("fixed", deadline=None, derandomize=True, database=None, suppress_health_check=list(HealthCheck))
    settings.load_profile("fixed")


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """Tell what the run cost, its workers and all other processes included, and fail if that is far too much."""
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    if reporter is None:  # a worker: its CPU time counts in the process that has started it
        return
    spent = sum(os.times()[:4])
    loops = spent / loop_seconds()
    if session.config.get_verbosity() > -2:  # make demo-elastic shows what the test prints, and nothing else
        reporter.write_line(f"\nCPU: {spent:.0f} s, {loops:,.0f} loops{f', at most {MOST_LOOPS:,}' if MOST_LOOPS else ''}")
    if 0 < MOST_LOOPS < loops:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED
