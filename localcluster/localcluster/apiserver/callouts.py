"""Requests that webhooks take part in: the calls, which the core leaves to its shell."""

import asyncio
import ssl
from typing import Any

import msgspec

from localcluster.apiserver.errors import ApiError
from localcluster.apiserver.questions import Question, Reply, UnansweredError
from localcluster.apiserver.server import ApiServer
from localcluster.apiserver.users import User
from localcluster.errors import TransportError
from localcluster.http_client import Endpoint, HttpTransport
from localcluster.request import Request, Response

#: After so many questions another write has come between each time, or webhooks change what others have.
_MOST_ROUNDS = 100


async def handle(server: ApiServer, request: Request, user: User | None = None) -> Response:
    """`ApiServer.handle`, with the webhooks' answers that it takes."""
    replies = server.replies(request)
    if replies is None:
        return server.handle(request, user)
    for _ in range(_MOST_ROUNDS):
        try:
            return server.handle(request, user, replies)
        except UnansweredError as waiting:
            found = await asyncio.gather(*(_ask(question) for question in waiting.questions))
            replies.found.update(zip((question.key for question in waiting.questions), found, strict=True))
    return ApiError(504, "Timeout", "Timeout: the object changes faster than webhooks answer", {}).response()


async def _ask(question: Question) -> Reply:
    if not question.address:
        return f'no endpoints available for service "{question.server_name.partition(".")[0]}"'
    try:
        context = ssl.create_default_context(cadata=question.authority.decode() or None)
    except (ssl.SSLError, ValueError) as error:
        return f"caBundle: {error}"
    endpoint = Endpoint(question.address, "", context, question.server_name)
    transport = HttpTransport(endpoint, seconds=question.seconds, user_agent="kube-apiserver-admission")
    query = (("timeout", f"{question.seconds}s"),)
    try:
        async with asyncio.timeout(question.seconds):
            response = await transport.send(Request("POST", question.path, query, question.body))
        return _response(response)
    except TimeoutError:
        return "context deadline exceeded"
    except (TransportError, OSError) as error:
        return str(error)
    finally:
        await transport.close()


def _response(answer: Response) -> Reply:
    if not 200 <= answer.status < 300:
        return f"the webhook answered with status {answer.status}: {answer.body[:200].decode(errors='replace')}"
    try:
        found: Any = msgspec.json.decode(answer.body)
    except msgspec.DecodeError as error:
        return f"the webhook did not answer with JSON: {error}"
    response = found.get("response") if isinstance(found, dict) else None
    return response if isinstance(response, dict) else "Webhook response was absent"
