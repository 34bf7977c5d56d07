"""Finding the API server and keeping credentials fresh; kubernetes-asyncio reads the files."""

import base64
import json
import ssl
import sys
from dataclasses import replace
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
import trustme
import yaml
from aiohttp import web
from aiohttp.test_utils import TestServer

from jobcommon.cli.operate import log_refresh_errors
from jobcommon.client.config import ConfigError, find_cluster
from jobcommon.client.plain_kubeconfig import read_plain
from jobcommon.client.request import Request
from jobcommon.client.transport import HttpTransport
from jobcommon.runtime import logging

TOKEN = "t0ken"
USER: dict[str, Any] = {"token": TOKEN}


def kubeconfig(tmp_path: Path, user: dict[str, Any] = USER, name: str = "config", **cluster: Any) -> str:
    found = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "main",
        "contexts": [{"name": "main", "context": {"cluster": "c", "user": "u", "namespace": "team"}}],
        "clusters": [{"name": "c", "cluster": {"server": "https://example.test:6443/", **cluster}}],
        "users": [{"name": "u", "user": user}],
    }
    path = tmp_path / name
    path.write_text(yaml.safe_dump(found))
    return str(path)


async def test_a_kubeconfig_says_where_and_who(tmp_path: Path) -> None:
    cluster = await find_cluster(kubeconfig(tmp_path), environ={})
    assert (cluster.route.base_url, cluster.namespace) == ("https://example.test:6443", "team")
    assert await cluster.headers() == (("Authorization", "Bearer t0ken"),)
    assert cluster.route.ssl_context is not None
    assert cluster.route.ssl_context.verify_mode is ssl.CERT_REQUIRED
    assert cluster.route.proxy is None


def _pair() -> dict[str, str]:
    issued = trustme.CA().issue_cert("someone")
    blobs = {"client-certificate": issued.cert_chain_pems[0], "client-key": issued.private_key_pem}
    return {f"{name}-data": base64.b64encode(blob.bytes()).decode() for name, blob in blobs.items()}


@pytest.mark.parametrize(
    ("user", "cluster"),
    [
        (USER, {}),
        (USER, {"insecure-skip-tls-verify": True, "tls-server-name": "other.test", "proxy-url": "http://p:1"}),
        (USER | {"as": "jane"}, {"server": "http://example.test"}),
        ({"tokenFile": "token"}, {}),
        (_pair(), {}),
    ],
)
async def test_a_plain_kubeconfig_is_read_as_kubernetes_asyncio_reads_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, user: dict[str, Any], cluster: dict[str, Any]
) -> None:
    (tmp_path / "token").write_text("from a file")
    path = kubeconfig(tmp_path, user, **cluster)
    assert read_plain(path, None, lambda: str(tmp_path)) is not None
    read = [await find_cluster(path, environ={}, now=lambda: 0.0)]
    monkeypatch.setattr("jobcommon.client.config.read_plain", lambda *_: None)
    read.append(await find_cluster(path, environ={}, now=lambda: 0.0))
    one, other = (replace(vars(found)["_access"], route=found.route._replace(ssl_context=None)) for found in read)
    assert one == other
    modes = [found.route.ssl_context.verify_mode if found.route.ssl_context is not None else None for found in read]
    assert modes[0] == modes[1]


@pytest.mark.parametrize(
    ("environ", "proxy"),
    [
        ({"HTTPS_PROXY": "http://proxy:1"}, "http://proxy:1"),
        ({"https_proxy": "http://proxy:2"}, "http://proxy:2"),
        ({"https_proxy": "http://proxy:2", "no_proxy": "example.test"}, None),
        ({"http_proxy": "http://proxy:3"}, None),
        ({"https_proxy": "http://proxy:2", "HTTPS_PROXY": "http://proxy:1"}, "http://proxy:1"),
        ({"https_proxy": "proxy:2"}, "http://proxy:2"),
    ],
)
async def test_the_proxy_comes_from_the_environment(tmp_path: Path, environ: dict[str, str], proxy: str | None) -> None:
    assert (await find_cluster(kubeconfig(tmp_path), environ=environ)).route.proxy == proxy


#: What a variable excepts, a server, and whether the proxy is left out for it (golang.org/x/net/http/httpproxy).
NO_PROXY = [
    ("", "https://localhost:6443", True),
    ("", "https://127.0.0.1:6443", True),
    ("", "https://[::1]:6443", True),
    ("", "https://10.0.0.1", False),
    ("10.0.0.0/8", "https://10.96.0.1:443", True),
    ("10.0.0.0/8", "https://11.0.0.1", False),
    ("fd00::/8", "https://[fd00::1]:6443", True),
    ("192.0.2.1", "https://192.0.2.1:6443", True),
    ("192.0.2.1:6443", "https://192.0.2.1:6443", True),
    ("192.0.2.1:6443", "https://192.0.2.1", False),
    ("*", "https://anything.test", True),
    ("example.test", "https://example.test", True),
    ("example.test", "https://api.example.test", True),
    ("example.test", "https://notexample.test", False),
    (".example.test", "https://api.example.test", True),
    (".example.test", "https://example.test", False),
    ("*.example.test", "https://api.example.test", True),
    ("*.example.test", "https://example.test", False),
    ("example.test:6443", "https://api.example.test:6443", True),
    ("other.test, example.test ,", "https://example.test", True),
]


@pytest.mark.parametrize(("excepted", "server", "direct"), NO_PROXY)
async def test_the_proxy_is_left_out_as_kubectl_does(tmp_path: Path, excepted: str, server: str, direct: bool) -> None:
    environ = {"HTTPS_PROXY": "http://proxy:1", "NO_PROXY": excepted}
    assert (await find_cluster(kubeconfig(tmp_path, server=server), environ=environ)).route.proxy == (
        None if direct else "http://proxy:1"
    )


@pytest.mark.parametrize("proxy", ["socks5://proxy:1080", "proxy:3128", "http://"])
async def test_a_proxy_that_cannot_be_used_is_named(tmp_path: Path, proxy: str) -> None:
    own: dict[str, Any] = {"proxy-url": proxy}
    with pytest.raises(ConfigError, match=r"the proxy .* must be a URL that begins with http:// or https://"):
        await find_cluster(kubeconfig(tmp_path, **own), environ={})


ACTING = {
    "as": "jane",
    "as-uid": "7",
    "as-groups": ["dev", "ops, on call"],
    "as-user-extra": {"example.org/scopes": ["view", "edit"], "näh%": ["x"]},
}


async def test_a_user_may_act_as_another(tmp_path: Path) -> None:
    received: list[tuple[str, str]] = []

    async def handle(request: web.Request) -> web.Response:
        received.extend(request.headers.items())
        return web.json_response({})

    app = web.Application()
    app.router.add_get("/version", handle)
    async with TestServer(app) as server:
        path = kubeconfig(tmp_path, {**USER, **ACTING}, server=str(server.make_url("")))
        transport = HttpTransport(await find_cluster(path, environ={}))
        assert (await transport.send(Request("GET", "/version"))).status == 200
        await transport.close()
    assert ("Authorization", f"Bearer {TOKEN}") in received
    assert [(name, value) for name, value in received if name.startswith("Impersonate")] == [
        ("Impersonate-User", "jane"),
        ("Impersonate-Uid", "7"),
        ("Impersonate-Group", "dev"),
        ("Impersonate-Group", "ops, on call"),
        ("Impersonate-Extra-example.org%2Fscopes", "view"),
        ("Impersonate-Extra-example.org%2Fscopes", "edit"),
        ("Impersonate-Extra-n%C3%A4h%25", "x"),
    ]


@pytest.mark.parametrize(
    ("user", "what"),
    [
        ({"as-groups": ["dev"]}, "need `as`"),
        ({"as-uid": "7"}, "need `as`"),
        ({"as": "jane", "as-groups": "dev"}, "as-groups must be a list"),
        ({"as": "jane", "as-user-extra": ["a"]}, "as-user-extra must be a map"),
    ],
)
async def test_impersonating_an_empty_user_is_refused(tmp_path: Path, user: dict[str, Any], what: str) -> None:
    with pytest.raises(ConfigError, match=what):
        await find_cluster(kubeconfig(tmp_path, {**USER, **user}), environ={})


def broken(tmp_path: Path, text: str) -> str:
    path = tmp_path / "broken"
    path.write_text(text)
    return str(path)


USERLESS = """
current-context: a
contexts: [{name: a, context: {cluster: b, user: c}}]
users: [{name: d, user: {}}]
clusters: [{name: b, cluster: {server: 'https://x'}}]
"""
WRONG: dict[str, tuple[str, str | None, str]] = {
    "not yaml": (f"users: [{{name: a, user: {{token: {TOKEN}: x}}}}]", None, "not YAML"),
    "a tab": (f"token: {TOKEN}\n\tx: y\n", None, "not YAML"),
    "a list": (f"- {TOKEN}", None, "not a kubeconfig"),
    "the token alone": (TOKEN, None, "not a kubeconfig"),
    "a user of no context": (f"apiVersion: v1\nusers:\n- user: {{token: {TOKEN}}}\n", None, "--context NAME"),
    "empty": ("", None, "not a kubeconfig"),
    "a user that is not there": (USERLESS, None, "its context names a cluster or user that it does not have"),
    "a number without digits": ("!!float", None, "not a kubeconfig"),
    "no clusters": ("{current-context: a, contexts: [{name: a, context: {cluster: b}}]}", None, "kubectl config view"),
    "no contexts": ("{current-context: a}", None, "--context NAME"),
}


@pytest.mark.parametrize("case", WRONG)
async def test_an_invalid_kubeconfig_is_refused_with_a_hint(tmp_path: Path, case: str) -> None:
    text, context, hint = WRONG[case]
    path = broken(tmp_path, text)
    with pytest.raises(ConfigError) as raised:
        await find_cluster(path, context, environ={})
    assert path in str(raised.value)
    assert hint in str(raised.value)
    assert "\n" not in str(raised.value)
    assert "NoneType" not in str(raised.value)
    assert TOKEN not in str(raised.value), "no part of the file is quoted"


@pytest.mark.parametrize("server", ["example.test", "https://example.test:99999", "https://[::1", "https://"])
async def test_a_server_that_is_no_address_is_said(tmp_path: Path, server: str) -> None:
    with pytest.raises(ConfigError, match=r"config: the cluster's server must be an address like https://HOST:PORT, not"):
        await find_cluster(kubeconfig(tmp_path, server=server), environ={})


async def test_other_mistakes_are_named_too(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"nowhere: no such file; --kubeconfig must name"):
        await find_cluster(str(tmp_path / "nowhere"), environ={})
    with pytest.raises(ConfigError, match=r"\$KUBECONFIG must name"):
        await find_cluster(environ={"KUBECONFIG": str(tmp_path / "nowhere")})
    with pytest.raises(ConfigError, match=r"no API server is configured.*--kubeconfig FILE"):
        await find_cluster(environ={"HOME": str(tmp_path)})
    with pytest.raises(ConfigError, match=r"--context NAME"):
        await find_cluster(kubeconfig(tmp_path), "other", environ={})
    junk = broken(tmp_path, "junk")
    with pytest.raises(ConfigError, match=r"certificate-authority"):
        await find_cluster(kubeconfig(tmp_path, **{"certificate-authority": junk}), environ={})


async def test_a_token_file_is_read_again_now_and_then(tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("first\n")
    time = [0.0]
    cluster = await find_cluster(kubeconfig(tmp_path, {"tokenFile": str(token)}), environ={}, now=lambda: time[0])
    token.write_text("second")
    assert await cluster.headers() == (("Authorization", "Bearer first"),)
    time[0] = 61.0
    assert await cluster.headers() == (("Authorization", "Bearer second"),)
    token.unlink()
    time[0] = 200.0
    assert await cluster.headers() == (("Authorization", "Bearer second"),)
    with pytest.raises(ConfigError):
        await cluster.reload()


async def test_each_change_of_what_hinders_a_refresh_is_logged_once(tmp_path: Path) -> None:
    token, time, out = tmp_path / "token", [0.0], StringIO()
    token.write_text("first")
    cluster = await find_cluster(kubeconfig(tmp_path, {"tokenFile": str(token)}), environ={}, now=lambda: time[0])
    log_refresh_errors(cluster, logging.setup("json", "info", out))
    token.unlink()
    time[0] = 100.0
    for change in (None, token.mkdir, token.rmdir, lambda: token.write_text("second")):
        if change is not None:
            change()
        for _ in range(3):
            await cluster.headers()
    told = [json.loads(line) for line in out.getvalue().splitlines()]
    missing, directory = f"{token}: No such file", f"{token}: Is a directory"
    assert [
        line.get("error", "").startswith(start) for line, start in zip(told, (missing, directory, missing, ""), strict=True)
    ]
    assert [line["level"] for line in told] == ["warning", "warning", "warning", "info"]


def plugin(tmp_path: Path, statement: str, status: str) -> dict[str, Any]:
    """A user whose credentials come from a program."""
    script = tmp_path / "plugin.py"
    version = "client.authentication.k8s.io/v1"
    script.write_text(
        f"import json, sys\n{statement}\n"
        f"json.dump({{'apiVersion': '{version}', 'kind': 'ExecCredential', 'status': {{{status}}}}}, sys.stdout)\n"
    )
    return {"exec": {"apiVersion": version, "command": sys.executable, "args": [str(script)]}}


async def test_an_exec_plugin_gives_a_token_until_it_expires(tmp_path: Path) -> None:
    status = "'token': open(sys.argv[0] + '.token').read(), 'expirationTimestamp': '2100-01-01T00:00:00Z'"
    user = plugin(tmp_path, "pass", status)
    token = tmp_path / "plugin.py.token"
    token.write_text("first")
    time = [0.0]
    cluster = await find_cluster(kubeconfig(tmp_path, user), environ={}, now=lambda: time[0])
    token.write_text("second")
    time[0] = 4_102_444_800.0 - 301
    assert await cluster.headers() == (("Authorization", "Bearer first"),)
    time[0] += 2
    assert await cluster.headers() == (("Authorization", "Bearer second"),)


async def test_a_service_account(tmp_path: Path) -> None:
    environ = {"KUBERNETES_SERVICE_HOST": "fd00::1", "KUBERNETES_SERVICE_PORT": "443"}
    with pytest.raises(ConfigError, match=r"automountServiceAccountToken"):
        await find_cluster(environ=environ, service_account=tmp_path)
    trustme.CA().cert_pem.write_to_path(tmp_path / "ca.crt")
    (tmp_path / "token").write_text("first\n")
    (tmp_path / "namespace").write_text("operators")
    time = [0.0]
    cluster = await find_cluster(environ=environ, service_account=tmp_path, now=lambda: time[0])
    assert (cluster.route.base_url, cluster.namespace) == ("https://[fd00::1]:443", "operators")
    assert await cluster.headers() == (("Authorization", "Bearer first"),)
    (tmp_path / "token").write_text("second")
    time[0] = 61.0
    assert await cluster.headers() == (("Authorization", "Bearer second"),)


async def test_client_certificates_over_tls(tmp_path: Path) -> None:
    ca = trustme.CA()
    ca.cert_pem.write_to_path(tmp_path / "ca.pem")
    client = ca.issue_cert("client")
    client.private_key_and_cert_chain_pem.write_to_path(tmp_path / "client.pem")
    server_side = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    server_side.verify_mode = ssl.CERT_REQUIRED
    ca.configure_trust(server_side)
    ca.issue_cert("kube.test").configure_cert(server_side)

    async def answer(_request: web.Request) -> web.Response:
        return web.json_response({})

    app = web.Application()
    app.router.add_get("/version", answer)
    server = TestServer(app, scheme="https")
    await server.start_server(ssl=server_side)
    certificate = str(tmp_path / "client.pem")
    config = kubeconfig(
        tmp_path,
        {"client-certificate": certificate, "client-key": certificate},
        server=f"https://127.0.0.1:{server.port}",
        **{"certificate-authority": str(tmp_path / "ca.pem"), "tls-server-name": "kube.test"},
    )
    transport = HttpTransport(await find_cluster(config, environ={}))
    try:
        assert (await transport.send(Request("GET", "/version"))).status == 200
    finally:
        await transport.close()
        await server.close()
