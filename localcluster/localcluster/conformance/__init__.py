"""Front door: real API servers, and the table of what one has answered, to which the embedded one is held.

A `Case` is a generator of steps, each a request with what its answer must be. `TABLE` holds the facts that were recorded.
`driver.Driver` sends a case to a `Target` and gives what was expected and has not come.
"""

from localcluster import envtest
from localcluster.conformance import edge_pods, real
from localcluster.conformance.cases import TABLE
from localcluster.conformance.real import Target, embedded
from localcluster.envtest import LOOPBACK, NODE, Program, Servers, StartError, free_port

__all__ = [
    "LOOPBACK", "NODE", "TABLE", "Program", "Servers", "StartError", "Target", "edge_pods",
    "embedded", "envtest", "free_port", "real",
]  # fmt: skip
