"""Server-side apply requests and the bookkeeping of field managers; the algorithm is `localcluster.apiserver.apply`."""

from typing import Any

from jobcommon.client.request import Response
from localcluster.apiserver.call import Call

Obj = dict[str, Any]


def apply(call: Call) -> Response:
    raise NotImplementedError
