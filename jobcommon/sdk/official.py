"""The cluster of an `ApiClient`: users of the official package `kubernetes` have one already, with its credentials."""

from dataclasses import dataclass, replace
from typing import Any

from jobcommon.client.config import Access, access_of


@dataclass(frozen=True, slots=True)
class ApiClientSource:
    """Address and credentials of a ``kubernetes.client.ApiClient``.

    When the API server refuses the token, it is read again, and the hook of the official package renews it.
    """

    api_client: Any

    async def load(self) -> Access:
        """See `jobcommon.client.config.Load`."""
        configuration = self.api_client.configuration
        access = access_of(configuration, "the ApiClient", {}, "default", None, ())
        headers = {setting["key"]: setting["value"] for setting in configuration.auth_settings().values()}
        return replace(access, authorization=headers.get("authorization"))
