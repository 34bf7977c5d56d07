"""The server's core: one request in, one response out, without I/O.

`ApiServer.handle` answers everything but watches and the streaming subresources of pods; `ApiServer.watch` opens a
`WatchStream`. Both are synchronous: a simulator may drive them with a virtual clock, an asynchronous shell
(`localcluster.apiserver.http`, `localcluster.apiserver.inprocess`) serves them.
"""

from collections.abc import Callable, Mapping
from typing import Any

from localcluster.apiserver import bootstrap
from localcluster.apiserver.authentication import Authenticator, User
from localcluster.apiserver.call import Call
from localcluster.apiserver.documents import Documents
from localcluster.apiserver.env import Env
from localcluster.apiserver.errors import ApiError, bad_request, path_not_found
from localcluster.apiserver.rbac import Attributes, Authorizer
from localcluster.apiserver.registry import Registry, resources_of
from localcluster.apiserver.resource import Resource
from localcluster.apiserver.rest import create, delete, patch, pod_actions, read, reviews, scale, update
from localcluster.apiserver.route import RequestInfo, parse
from localcluster.apiserver.storage import Storage
from localcluster.apiserver.watch import WatchStream
from localcluster.request import Request, Response

Obj = dict[str, Any]
Handler = Callable[[Call], Response]

_VERBS: Mapping[str, Handler] = {
    "create": create.create,
    "get": read.get,
    "list": read.list_objects,
    "update": update.update,
    "patch": patch.patch,
    "delete": delete.delete,
}
_NAMED_VERBS = ("get", "update", "patch", "delete")
_STATUS_VERBS: Mapping[str, Handler] = {"get": read.get, "update": update.update, "patch": patch.patch}


class ApiServer:
    """An embedded Kubernetes API server.

    `tokens` are static bearer tokens, `history` is the number of changes kept per resource for watches, `compiled` what a CRD
    serves (see `Registry`).
    """

    def __init__(
        self,
        env: Env,
        *,
        tokens: Mapping[str, User] | None = None,
        history: int = 4096,
        compiled: Callable[[Obj], list[Resource]] = resources_of,
    ) -> None:
        self.env = env
        self.storage = Storage(history)
        self.registry = Registry(self.storage, compiled)
        self.authorizer = Authorizer(self.storage)
        self.authenticator = Authenticator(env, self.storage, dict(tokens or {}))
        self.documents = Documents(self.registry, self.authenticator.public_keys)
        bootstrap.create(env, self.storage)

    def handle(self, request: Request, user: User | None = None) -> Response:
        """Answer one request. Without `user`, the request's bearer token identifies the user.

        Every refusal is a response with a Status body; an exception is a bug of the server.
        """
        try:
            user = user or self.authenticator.identify(request.headers)
            info = parse(request)
            self.authorizer.check(user, _attributes(info))
            if not info.is_resource:
                return self.documents.answer(request)
            response = self._dispatch(self._call(request, info, user))
        except ApiError as error:
            return error.response()
        except RecursionError:
            # Stricter than a real server, which takes ten thousand levels; nothing has been stored.
            return bad_request("the object is nested too deeply").response()
        return response

    def watch(self, request: Request, wake: Callable[[], None], user: User | None = None) -> WatchStream:
        """Open a watch; `wake` is called whenever the stream may have something to drain. Raises ApiError."""
        call = self.admit(request, user)
        if call.info.verb != "watch":
            raise bad_request("not a watch request: it needs the query watch=true")
        if "watch" not in call.resource.verbs:
            raise _not_allowed()
        return read.watch(call, wake)

    def is_watch(self, request: Request) -> bool:
        """Whether the request is for `watch` rather than `handle`."""
        return parse(request).verb == "watch"

    def admit(self, request: Request, user: User | None) -> Call:
        """Authenticate and authorise a request for objects. Raises 401, 403 and 404 ApiErrors."""
        user = user or self.authenticator.identify(request.headers)
        info = parse(request)
        self.authorizer.check(user, _attributes(info))
        return self._call(request, info, user)

    def _call(self, request: Request, info: RequestInfo, user: User) -> Call:
        resource = self.registry.find(info.group, info.version, info.resource)
        if resource is None or (info.namespace and not resource.namespaced and resource.plural != "namespaces"):
            raise path_not_found()
        if resource.namespaced and not info.namespace and (info.name or info.verb == "create"):
            raise path_not_found()
        warnings = [resource.deprecation] if resource.deprecation else []
        return Call(
            self.env, self.storage, self.authorizer, self.authenticator,
            request, info, resource, user, dict(request.query),
            self.registry, warnings,
        )  # fmt: skip

    def _dispatch(self, call: Call) -> Response:
        handler = self._handler(call)
        if handler is None:
            raise _not_allowed()
        return handler(call)

    def _handler(self, call: Call) -> Handler | None:
        resource, verb, subresource = call.resource, call.info.verb, call.info.subresource
        if not subresource:
            review = reviews.HANDLERS.get((resource.group, resource.plural))
            if review:
                return review if verb == "create" else None
            fits = bool(call.info.name) == (verb in _NAMED_VERBS)
            return _VERBS.get(verb) if fits and verb in resource.verbs else None
        if subresource == "status" and resource.status:
            return _STATUS_VERBS.get(verb)
        if subresource == "scale" and resource.scale:
            return scale.HANDLERS.get(verb)
        if subresource not in resource.subresources:
            raise path_not_found()
        return pod_actions.HANDLERS.get((resource.plural, subresource, verb))


def _not_allowed() -> ApiError:
    return ApiError(405, "MethodNotAllowed", "the server does not allow this method on the requested resource", {})


def _attributes(info: RequestInfo) -> Attributes:
    if not info.is_resource:
        return Attributes(info.verb, path=info.path)
    return Attributes(info.verb, info.group, info.resource, info.subresource, info.namespace, info.name)
