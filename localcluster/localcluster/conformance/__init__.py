"""Front door: real API servers, and the table of what one has answered, to which the embedded one is held.

`driver.Driver` sends a case of `table()` to a `Target` and gives what was expected and has not come.
"""

from localcluster import envtest
from localcluster.conformance import real
from localcluster.conformance.real import Target, embedded
from localcluster.conformance.table import EDGE, table
from localcluster.envtest import LOOPBACK, NODE, Program, Servers, StartError, free_port

__all__ = [
    "EDGE", "LOOPBACK", "NODE", "Program", "Servers", "StartError", "Target", "embedded", "envtest", "free_port",
    "real", "table",
]  # fmt: skip
