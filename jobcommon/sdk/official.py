"""The cluster of an `ApiClient`: users of the official package `kubernetes` have one already, with its credentials."""

from dataclasses import dataclass, replace
from typing import Any

from jobcommon.client.config import Access, access_of
from jobcommon.client.kubeconfig import Chosen


@dataclass(frozen=True, slots=True)
class ApiClientSource:
    """A `jobcommon.client.config.Source`: address and credentials of a ``kubernetes.client.ApiClient``.

    When the API server refuses the token, it is read again, and the hook of the official package renews it.
    """

    api_client: Any

    async def load(self) -> Access:
        """See `Source.load`."""
        configuration = self.api_client.configuration
        cluster = {
            "server": configuration.host,
            "certificate-authority": configuration.ssl_ca_cert,
            "insecure-skip-tls-verify": not configuration.verify_ssl,
            "tls-server-name": configuration.tls_server_name,
            "proxy-url": configuration.proxy,
        }
        user = {"client-certificate": configuration.cert_file, "client-key": configuration.key_file}
        access = access_of("the ApiClient", Chosen({}, cluster, user), {}, None)
        headers = {setting["key"]: setting["value"] for setting in configuration.auth_settings().values()}
        return replace(access, authorization=headers.get("authorization"))
