"""Who may see the dashboard: programs on this machine that know the token.

A browser sends requests for other pages, too. A page of a stranger cannot read the answers, unless its name resolves to this
machine (DNS rebinding): its own name is then in the Host header, and the request is refused. The token comes with the first
address and is kept in a cookie, so that no later address, history or Referer has it.
"""

import hmac
import secrets
from collections.abc import Awaitable, Callable
from urllib.parse import urlsplit

from aiohttp import hdrs, web
from aiohttp.typedefs import Middleware

LOOPBACK = frozenset({"127.0.0.1", "localhost", "::1"})
_POLICY = (
    "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; img-src 'self' data:; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
HEADERS = {
    "Content-Security-Policy": _POLICY,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


def new_token() -> str:
    """A token that cannot be guessed."""
    return secrets.token_urlsafe(24)


def guard(token: str) -> Middleware:
    """A middleware that answers only requests of who knows `token`, and gives each answer the headers of a safe page."""

    @web.middleware
    async def guarded(request: web.Request, handler: Handler) -> web.StreamResponse:
        return refusal(request, token) or await handler(request)

    return guarded


async def add_headers(_request: web.Request, response: web.StreamResponse) -> None:
    """Give an answer the headers of a safe page; for `Application.on_response_prepare`, so that streams have them, too."""
    response.headers.update(HEADERS)
    response.headers.popall(hdrs.SERVER, None)


def refusal(request: web.Request, token: str) -> web.Response | None:
    """The answer to a request that may not see anything, or that brings the token; None for one that may."""
    if not is_loopback(request.headers.get(hdrs.HOST, "")):
        return web.Response(status=421, text="This page answers to 127.0.0.1, localhost and [::1] only.\n")
    if request.method not in (hdrs.METH_GET, hdrs.METH_HEAD):
        return web.Response(status=405, headers={hdrs.ALLOW: "GET, HEAD"}, text="This page is read-only.\n")
    cookie = cookie_name(request)
    if (given := request.query.get("token")) is not None and _equal(given, token):
        # Two slashes of either kind at the beginning would lead to another server.
        rest = "/" + str(request.rel_url.without_query_params("token")).lstrip("/\\")
        answer = web.Response(status=303, headers={hdrs.LOCATION: rest})
        answer.set_cookie(cookie, token, httponly=True, samesite="Strict", path="/")
        return answer
    if _equal(request.cookies.get(cookie, ""), token):
        return None
    text = "Open the address that `jobcommon dashboard` has printed: it has a token, which this request lacks.\n"
    return web.Response(status=403, text=text)


def is_loopback(host: str) -> bool:
    """Whether a Host header names this machine, at any port: a tunnel such as ``ssh -L`` may have another."""
    try:
        return urlsplit(f"//{host}").hostname in LOOPBACK
    except ValueError:
        return False


def cookie_name(request: web.Request) -> str:
    """The cookie's name. Cookies do not distinguish ports, and there may be a dashboard at each."""
    try:
        port = urlsplit(f"//{request.host}").port
    except ValueError:
        port = None
    return f"jobcommon-dashboard-{port or 80}"


def _equal(given: str, token: str) -> bool:
    return hmac.compare_digest(given.encode(errors="surrogatepass"), token.encode())
