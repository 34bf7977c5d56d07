"""Admission webhooks that a test serves itself."""

import base64
import json
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from localcluster.certificates import self_signed

Obj = dict[str, Any]
#: From an AdmissionRequest to (parts of) an AdmissionResponse; None allows the request. A `patch` is a list of operations.
Review = Callable[[Obj], Mapping[str, Any] | None]


@contextmanager
def serve(review: Review) -> Iterator[Obj]:
    """Serve `review` on the loopback interface; gives the clientConfig of a webhook.

    Raises at the end what `review` has raised.
    """
    certificate = self_signed()
    errors: list[Exception] = []
    server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(review, errors))
    server.socket = certificate.server_context().wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
    thread = threading.Thread(target=server.serve_forever, name="webhook", daemon=True)
    thread.start()
    try:
        url = f"https://127.0.0.1:{server.server_address[1]}/"
        yield {"url": url, "caBundle": base64.b64encode(certificate.pem).decode()}
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
    if errors:
        raise errors[0]


def configuration(
    name: str, client: Obj, resources: Sequence[str], operations: Sequence[str], more: Obj, *, mutating: bool
) -> Obj:
    """The object that registers a webhook; a resource is named as for kubectl, such as ``pods`` or ``widgets.example.com``."""
    rules = [
        {"apiGroups": [group], "apiVersions": ["*"], "resources": [plural], "operations": list(operations)}
        for plural, _, group in (resource.partition(".") for resource in resources)
    ]
    hook = {
        "name": name, "rules": rules, "clientConfig": client, "sideEffects": "None", "admissionReviewVersions": ["v1"],
        **more,
    }  # fmt: skip
    kind = "MutatingWebhookConfiguration" if mutating else "ValidatingWebhookConfiguration"
    return {"apiVersion": "admissionregistration.k8s.io/v1", "kind": kind, "metadata": {"name": name}, "webhooks": [hook]}


def _response(answer: Mapping[str, Any] | None) -> Obj:
    """The whole AdmissionResponse, but for its uid."""
    response = {"allowed": True, **(answer or {})}
    if "patch" in response:
        response |= {"patchType": "JSONPatch", "patch": base64.b64encode(json.dumps(response["patch"]).encode()).decode()}
    json.dumps(response)
    return response


def _handler(review: Review, errors: list[Exception]) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            request = asked["request"]
            try:
                response = _response(review(request))
            except Exception as error:
                errors.append(error)
                message = f"the review function of the test has raised {type(error).__name__}: {error}"
                response = {"allowed": False, "status": {"code": 500, "message": message}}
            body = json.dumps({**asked, "request": None, "response": {**response, "uid": request["uid"]}}).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    return Handler
