"""Log, exec, attach and port-forward over HTTP: the streaming subresources of pods, answered by the `PodBackend`."""

from aiohttp import web

from jobcommon.client.request import Request
from localcluster.apiserver.errors import ApiError
from localcluster.apiserver.pods import PodBackend
from localcluster.apiserver.route import parse
from localcluster.apiserver.server import ApiServer

_SUBRESOURCES = ("log", "exec", "attach", "portforward")


def is_session(request: Request) -> bool:
    """Whether the request is for a streaming subresource of a pod."""
    info = parse(request)
    return info.resource == "pods" and info.subresource in _SUBRESOURCES


async def serve(server: ApiServer, pods: PodBackend | None, http: web.BaseRequest, request: Request) -> web.StreamResponse:
    raise ApiError(501, "", "not here yet")
