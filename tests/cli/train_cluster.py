"""An embedded cluster as a client of `kubectl train` has it: by HTTP, with a token."""

import io
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from rich.console import Console

from jobcommon.cli.jobs.access import Api
from jobcommon.client.transport import HttpTransport, StaticEndpoint
from jobcommon.localcluster.cluster import LocalCluster


def endpoint(cluster: LocalCluster, token: str | None = None) -> StaticEndpoint:
    """The cluster for a user with this token; without one, for the administrator."""
    context = ssl.create_default_context(cadata=cluster.credentials.certificate.pem.decode())
    return StaticEndpoint(cluster.url, token or cluster.credentials.token, context)


@asynccontextmanager
async def api_for(cluster: LocalCluster, token: str | None = None, namespace: str = "default") -> AsyncIterator[Api]:
    """Requests to the cluster by HTTP."""
    transport = HttpTransport(endpoint(cluster, token))
    try:
        yield Api(transport, namespace)
    finally:
        await transport.close()


@dataclass
class Output:
    """A console whose output is kept."""

    console: Console

    @classmethod
    def make(cls) -> "Output":
        return cls(Console(file=io.StringIO(), width=240, highlight=False, markup=False, emoji=False))

    @property
    def text(self) -> str:
        """What was printed."""
        assert isinstance(self.console.file, io.StringIO)
        return self.console.file.getvalue()
