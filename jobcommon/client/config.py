"""The API server's address and our credentials: kubeconfig, exec plugins, token files, service accounts.

Kubeconfigs that are not plain are read by kubernetes-asyncio's loader; this module finds the source, refreshes credentials
before they expire, and names the invalid file and the remedy in its errors.
"""

import asyncio
import logging
import os
import ssl
import time
from collections.abc import Awaitable, Callable, Mapping
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from urllib.parse import urlsplit

import yaml

from jobcommon.client import proxy
from jobcommon.client.errors import TransportError
from jobcommon.client.http1 import Route
from jobcommon.client.impersonation import Headers, impersonation
from jobcommon.client.plain_kubeconfig import PlainConfiguration, read_plain

SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
# Files and identity providers are read again after this many seconds; the kubelet rotates tokens well before they expire.
REFRESH_SECONDS = 60.0
# An exec plugin is run again this many seconds before its credentials expire.
EXPIRY_MARGIN = 300.0


class ConfigError(TransportError):
    """The configuration is not sufficient to reach an API server. The text names the file and what to change."""


@dataclass(frozen=True, slots=True)
class Access:
    """The address of the API server and the current credentials, as `headers` of each request."""

    route: Route
    headers: Headers = field(repr=False)
    namespace: str
    stale_at: float | None
    """When to read it again (seconds since the epoch); None: only when the server refuses it."""


Load = Callable[[], Awaitable[Access]]
"""Reads the API server's address and credentials now. Raises ConfigError."""


class Cluster:
    """An API server by configuration: a `jobcommon.client.transport.Endpoint` that keeps its credentials fresh, by `load`."""

    def __init__(self, load: Load, access: Access, now: Callable[[], float] = time.time) -> None:
        self._load = load
        self._access = access
        self._now = now
        self._lock = asyncio.Lock()
        self.on_refresh_error: Callable[[ConfigError | None], None] = lambda _: None
        """Called when the refresh of the credentials fails for a new reason, or with None when it succeeds again. Meanwhile the
        old ones are used, as long as the server accepts them.
        """
        self._refresh_error: ConfigError | None = None

    @property
    def route(self) -> Route:
        """See `Endpoint.route`."""
        return self._access.route

    @property
    def namespace(self) -> str:
        """See `Endpoint.namespace`: that of the context or service account."""
        return self._access.namespace

    async def headers(self) -> Headers:
        """See `Endpoint.headers`."""
        stale_at = self._access.stale_at
        if stale_at is not None and self._now() >= stale_at:
            with suppress(ConfigError):
                await self.reload()
        return self._access.headers

    async def reload(self) -> None:
        """See `Endpoint.reload`. Raises ConfigError."""
        seen = self._access
        async with self._lock:
            # Many requests may be refused at once; the first of them has already refreshed the credentials.
            if self._access is not seen:
                return
            try:
                self._access = await self._load()
            except ConfigError as error:
                self._refreshed(error)
                raise
            self._refreshed(None)

    def _refreshed(self, error: ConfigError | None) -> None:
        if str(error) != str(self._refresh_error):
            self.on_refresh_error(error)
        self._refresh_error = error


async def find_cluster(
    kubeconfig: str | None = None,
    context: str | None = None,
    *,
    environ: Mapping[str, str] = os.environ,
    service_account: Path | None = None,
    now: Callable[[], float] = time.time,
) -> Cluster:
    """The API server that is configured: `kubeconfig`, else $KUBECONFIG, else the pod's service account, else
    ``~/.kube/config``. Raises ConfigError.
    """
    load = _source(kubeconfig, context, environ, service_account or SERVICE_ACCOUNT, now)
    return Cluster(load, await load(), now)


def _source(
    kubeconfig: str | None, context: str | None, environ: Mapping[str, str], account: Path, now: Callable[[], float]
) -> Load:
    named = kubeconfig or environ.get("KUBECONFIG")
    if named:
        origin = "--kubeconfig" if kubeconfig else "$KUBECONFIG"
        if not any(Path(path).expanduser().exists() for path in named.split(os.pathsep) if path):
            raise ConfigError(f"{named}: no such file; {origin} must name a kubeconfig")
        return Kubeconfig(named, context, environ, now).load
    if environ.get("KUBERNETES_SERVICE_HOST") and context is None:
        return ServiceAccount(environ, account, now).load
    default = Path(environ.get("HOME", "~")).expanduser() / ".kube" / "config"
    if not default.exists():
        raise ConfigError(
            f"no API server is configured: {default} does not exist, $KUBECONFIG is not set and this is not a pod; name a "
            "kubeconfig with --kubeconfig FILE (jobcommon up writes one to .jobcommon/kubeconfig)"
        )
    return Kubeconfig(str(default), context, environ, now).load


@dataclass(frozen=True)
class Kubeconfig:
    """One or more kubeconfig files, separated as in $PATH, and a context of theirs (None: the current one)."""

    files: str
    context: str | None
    environ: Mapping[str, str]
    now: Callable[[], float]

    async def load(self) -> Access:
        """See `Load`. Runs the exec plugin if there is one."""
        # Without a place for temporary files, the other reader may need none.
        with suppress(OSError), ExitStack() as stack:
            plainly = read_plain(self.files, self.context, lambda: stack.enter_context(TemporaryDirectory()))
            if plainly is not None:
                return self._of_plain(plainly)
        # To import any part of it imports all of it: 1,164 modules with what they need, 0.47 s of CPU and 57 MB.
        from kubernetes_asyncio.client import Configuration
        from kubernetes_asyncio.config import ConfigException, load_kube_config
        from kubernetes_asyncio.config.kube_config import KubeConfigMerger

        # It logs what it also raises, and Python prints to standard error what nothing handles.
        logging.getLogger("kubernetes_asyncio").addHandler(logging.NullHandler())
        configuration = Configuration()
        try:
            loader = await load_kube_config(self.files, self.context, configuration)
            current = (loader.current_context or {})["context"]
            user = _user(KubeConfigMerger(self.files).config, current.get("user"))
            acting_as = impersonation(user)
        except yaml.YAMLError as error:
            raise ConfigError(f"{self.files}: not YAML: {' '.join(str(error).split())}") from error
        except ConfigException as error:
            raise ConfigError(f"{self.files}: {error}; {self._advice(str(error))}") from error
        except OSError as error:
            raise ConfigError(f"{self.files}: {_unreadable(error, self.files)}") from error
        except (AssertionError, AttributeError, LookupError, TypeError, ValueError) as error:
            raise ConfigError(_not_one(self.files, error)) from error
        return self._access(configuration, current, acting_as, self._stale_at(loader, user))

    def _of_plain(self, found: PlainConfiguration) -> Access:
        try:
            acting_as = impersonation(found.user)
        except ValueError as error:
            raise ConfigError(_not_one(self.files, error)) from error
        stale_at = self.now() + REFRESH_SECONDS if "tokenFile" in found.user else None
        return self._access(found, found.context, acting_as, stale_at)

    def _access(self, configuration: Any, context: Mapping[str, Any], acting_as: Headers, stale_at: float | None) -> Access:
        if not _is_url(str(configuration.host)):
            raise ConfigError(
                f"{self.files}: the cluster's server must be an address like https://HOST:PORT, not {configuration.host!r}"
            )
        namespace = str(context.get("namespace") or "default")
        authorization = configuration.api_key.get("BearerToken")
        return access_of(configuration, authorization, self.files, self.environ, namespace, stale_at, acting_as)

    def _advice(self, problem: str) -> str:
        if problem.startswith("exec"):
            return "run the plugin of this user by hand to see what is wrong"
        if "contexts" in problem or "current-context" in problem:
            return "choose one with --context NAME; kubectl config get-contexts lists them"
        return "see kubectl config view"

    def _stale_at(self, loader: Any, user: Mapping[str, Any]) -> float | None:
        """A plugin gives its expiry; a file or provider does not, so it is read again every `REFRESH_SECONDS`."""
        expiry = getattr(loader, "exec_plugin_expiry", None)
        if expiry is not None:
            # No tight loop if the plugin returns credentials that expire within the margin.
            return max(float(expiry.timestamp()) - EXPIRY_MARGIN, self.now() + REFRESH_SECONDS)
        return self.now() + REFRESH_SECONDS if loader.provider or "tokenFile" in user else None


def _not_one(files: str, error: Exception) -> str:
    # What Python says of a value of another kind than the reader expects means nothing to a user.
    text = "not a kubeconfig, or its context names a cluster or user that it does not have"
    said = f" ({error})" if isinstance(error, ValueError) and not isinstance(error, UnicodeError) else ""
    return f"{files}: {text}{said}; compare it with: kubectl config view"


def _user(kubeconfig: Any, name: object) -> Mapping[str, Any]:
    """The entry of a user, of which the loader uses the credentials alone."""
    found = kubeconfig["users"].get_with_name(name, safe=True)
    return found["user"].value if found is not None else {}


def _unreadable(error: OSError, files: str) -> str:
    """Of a file that the kubeconfig names, or of itself, why it cannot be read, and what to change."""
    if error.filename and str(error.filename) != files:
        return f"{error.filename}: {error.strerror}; it is the user's exec plugin or tokenFile: install it, or correct its path"
    return f"{error.strerror or error}; name a kubeconfig that can be read"


def _is_url(server: str) -> bool:
    try:
        url = urlsplit(server)
        return url.scheme in ("http", "https") and bool(url.hostname) and url.port != 0
    except ValueError:
        return False  # a port above 65535, or brackets without an IPv6 address


@dataclass(frozen=True)
class ServiceAccount:
    """The service account of the pod this process runs in."""

    environ: Mapping[str, str]
    directory: Path
    now: Callable[[], float]

    async def load(self) -> Access:
        """See `Load`. As client-go's rest.InClusterConfig: two variables and two files, which need no library."""
        host, port = self.environ.get("KUBERNETES_SERVICE_HOST", ""), self.environ.get("KUBERNETES_SERVICE_PORT") or "443"
        url = f"https://[{host}]:{port}" if ":" in host else f"https://{host}:{port}"
        try:
            token = self._read("token")
            self._read("ca.crt")
            namespace = self._read("namespace") if (self.directory / "namespace").exists() else "default"
        except (OSError, ValueError) as error:
            remedy = "set automountServiceAccountToken: true on the pod, or use --kubeconfig FILE"
            raise ConfigError(f"{self.directory}: {error}; {remedy}") from error
        origin = str(self.directory)
        return Access(
            Route(url, _ssl_context(origin, str(self.directory / "ca.crt")), None, _proxy(origin, url, None, self.environ)),
            headers=(("Authorization", f"Bearer {token}"),),
            namespace=namespace,
            stale_at=self.now() + REFRESH_SECONDS,
        )

    def _read(self, name: str) -> str:
        """The content of a file. Raises OSError and ValueError."""
        content = (self.directory / name).read_text().strip()
        if not content:
            raise ValueError(f"{name} is empty")
        return content


def access_of(
    configuration: Any,
    authorization: str | None,
    origin: str,
    environ: Mapping[str, str],
    namespace: str,
    stale_at: float | None,
    acting_as: Headers = (),
) -> Access:
    """What the `Configuration` of a client of Kubernetes says, of either official package. Raises ConfigError."""
    url, credentials = configuration.host.rstrip("/"), (authorization or "").strip()
    context = None
    if url.startswith("https"):
        context = _ssl_context(origin, configuration.ssl_ca_cert, configuration.cert_file, configuration.key_file)
        if not configuration.verify_ssl:
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
    return Access(
        Route(url, context, configuration.tls_server_name or None, _proxy(origin, url, configuration.proxy, environ)),
        headers=((("Authorization", credentials),) if credentials else ()) + acting_as,
        namespace=namespace,
        stale_at=stale_at,
    )


def _proxy(origin: str, url: str, named: str | None, environ: Mapping[str, str]) -> str | None:
    """The proxy of the kubeconfig (`proxy-url`), which takes precedence; else that of the environment. Determined once."""
    try:
        return proxy.checked(named) if named else proxy.from_environment(url, environ)
    except ValueError as error:
        raise ConfigError(f"{origin}: {error}") from error


def _ssl_context(
    origin: str, authorities: str | None, certificate: str | None = None, key: str | None = None
) -> ssl.SSLContext:
    """A context that trusts the authorities in that file, with a client certificate if there is one."""
    try:
        context = ssl.create_default_context(cafile=authorities)
        if certificate:
            context.load_cert_chain(certificate, keyfile=key)
    except (ssl.SSLError, OSError) as error:
        raise ConfigError(
            f"{origin}: the certificates cannot be used ({error}); "
            "check certificate-authority, client-certificate and client-key"
        ) from error
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    return context
