"""An embedded Kubernetes API server: a development tool and a test double, not a cluster.

`ApiServer` is the core: requests as values in, responses as values out, no I/O. `serve` puts it behind HTTP on the loopback
interface; `localcluster.apiserver.inprocess.InProcessTransport` behind the Transport of `localcluster.request`.
"""

from localcluster.apiserver.authentication import ADMIN, User
from localcluster.apiserver.env import Env
from localcluster.apiserver.errors import ApiError
from localcluster.apiserver.http import serve
from localcluster.apiserver.server import ApiServer
from localcluster.apiserver.watch import WatchStream

__all__ = ["ADMIN", "ApiError", "ApiServer", "Env", "User", "WatchStream", "serve"]
