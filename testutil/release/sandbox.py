"""An image's root directory as a container: mounted read-only, with a process tree and a user of its own, without rights."""

import asyncio
import os
import shutil
import signal
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from jobcommon.testutil.release.program import ReleaseError, output_of

#: What the container's process runs after: the mounts that a container runtime makes, then chroot as another user.
_SCRIPT = """
root=$1 account=$2 target=$3 user=$4 chroot=$5 system=$6
shift 6
mount --bind "$root" "$root"
for directory in $system; do
    mount --bind "$directory" "$root$directory"
    mount -o remount,bind,ro "$root$directory"
done
mount -t proc proc "$root/proc"
mount --bind /dev "$root/dev"
mount --bind "$account" "$target"
for mounted in "$target" "$root/dev" "$root"; do mount -o remount,bind,ro "$mounted"; done
exec setpriv --no-new-privs "$chroot" --userspec="$user" --groups= "$root" "$@"
"""
_END_SECONDS = 60.0


@dataclass
class Running:
    """A program in the sandbox, whose output goes to `log`."""

    process: asyncio.subprocess.Process
    log: Path

    @property
    def pid(self) -> int:
        """Its process id outside; inside it is 1."""
        outer = self.process.pid
        return int(Path(f"/proc/{outer}/task/{outer}/children").read_text())

    def failure(self) -> str | None:
        """What it said, if it has ended."""
        code = self.process.returncode
        return None if code is None else f"exit code {code}:\n{self.log.read_text(errors='replace')[-2000:]}"

    def peak_memory(self) -> float:
        """In MB."""
        status = Path(f"/proc/{self.pid}/status").read_text()
        return int(status.partition("VmHWM:")[2].split()[0]) * 1024 / 1e6

    async def end(self) -> int:
        """Its exit code after SIGTERM. Raises ReleaseError when it does not end."""
        os.kill(self.pid, signal.SIGTERM)
        try:
            async with asyncio.timeout(_END_SECONDS):
                return await self.process.wait()
        except TimeoutError:
            raise ReleaseError(f"it does not end within {_END_SECONDS:.0f} s of SIGTERM") from None


@dataclass(frozen=True)
class Sandbox:
    """`root` with the directory `account` where a pod's service account is, for a user ``uid:gid`` with these variables.

    Directories in `system` are mounted from this machine; their names have no blanks.
    """

    root: Path
    account: Path
    user: str
    environment: Mapping[str, str]
    system: tuple[Path, ...] = ()

    def output(self, *command: str) -> str:
        """What a program prints. Raises ReleaseError."""
        return output_of(self._argv(*command), env=self.environment).strip()

    @asynccontextmanager
    async def running(self, command: list[str], more: Mapping[str, str], log: Path) -> AsyncIterator[Running]:
        """A program, with `more` variables. It is killed when the context is left."""
        with log.open("wb") as out:
            process = await asyncio.create_subprocess_exec(
                *self._argv(*command), stdout=out, stderr=out, env={**self.environment, **more}
            )
        try:
            yield Running(process, log)
        finally:
            if process.returncode is None:
                process.kill()  # and with it what it has started
                await process.wait()

    def _argv(self, *command: str) -> list[str]:
        run = self.root / "var" / "run"
        # Debian's is a link to /run, which outside is another directory.
        target = (self.root / "run" if run.is_symlink() else run) / "secrets" / "kubernetes.io" / "serviceaccount"
        for directory in (self.account, self.root / "proc", self.root / "dev", target):
            directory.mkdir(parents=True, exist_ok=True)
        unshare, chroot = (shutil.which(name) or name for name in ("unshare", "chroot"))
        spaces = [unshare, "--mount", "--propagation", "private", "--pid", "--fork", "--kill-child"]
        places = [str(self.root), str(self.account), str(target), self.user, chroot, " ".join(map(str, self.system))]
        return [*spaces, "sh", "-euc", _SCRIPT, "sandbox", *places, *command]
