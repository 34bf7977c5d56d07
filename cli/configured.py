"""The cluster that a command acts on."""

from jobcommon.cli.errors import UserError
from jobcommon.client.config import Cluster, ConfigError, find_cluster


async def configured_cluster(kubeconfig: str | None, context: str | None) -> Cluster:
    """The cluster of a kubeconfig and context, None for the usual ones. Raises `UserError` when none is configured."""
    try:
        return await find_cluster(kubeconfig, context)
    except ConfigError as error:
        raise UserError(str(error)) from None
