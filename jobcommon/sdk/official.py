"""The cluster of an `ApiClient`: users of the official package `kubernetes` have one already, with its credentials."""

from typing import Any

from jobcommon.client.config import Access, access_of


async def load(api_client: Any) -> Access:
    """Address and credentials of a ``kubernetes.client.ApiClient``, as a `jobcommon.client.config.Load`.

    When the API server refuses the token, it is read again, and the hook of the official package renews it.
    """
    configuration = api_client.configuration
    headers = {setting["key"]: setting["value"] for setting in configuration.auth_settings().values()}
    return access_of(configuration, headers.get("authorization"), "the ApiClient", {}, "default", None)
