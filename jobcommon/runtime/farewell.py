"""The end of an operator whose namespace is being deleted.

Its pod is deleted together with the jobs' pods. Those that still carry our finalizer when the operator goes would keep the
namespace from ever being gone, and nothing that happens in it needs to be counted any more.
"""

from collections.abc import Sequence

from jobcommon.client import objects
from jobcommon.client.errors import ClientError
from jobcommon.client.request import Request, Transport
from jobcommon.reconcile import plan_for_orphans
from jobcommon.result import Work
from jobcommon.runtime.driver import Driver
from jobcommon.runtime.logging import Log
from jobcommon.watched import PODS

TERMINATING = b"NamespaceTerminating"


async def release_if_terminating(namespace: str, drivers: Sequence[Driver], transport: Transport, log: Log) -> None:
    """Take our finalizer off all pods of `namespace` if it is being deleted."""
    if not await _is_terminating(namespace, transport, log):
        return
    for driver in drivers:
        pods = driver.controller.informers[PODS].store.all(namespace)
        plan = plan_for_orphans(pods)
        log.info("the namespace is being deleted: releasing pods", namespace=namespace, pods=len(plan.actions))
        await driver.carry_out(Work(namespace, "", "", plan))


async def _is_terminating(namespace: str, transport: Transport, log: Log) -> bool:
    """Asked by creating an event for show: we may write events, and a Role need not let us read namespaces."""
    manifest = {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"generateName": "jobcommon-", "namespace": namespace},
        "involvedObject": {"apiVersion": "v1", "kind": "Namespace", "name": namespace, "namespace": namespace},
        "reason": "Stopping",
        "type": "Normal",
    }
    request = objects.create(objects.collection_path("v1", "events", namespace), manifest)
    try:
        response = await transport.send(Request(request.method, request.path, (("dryRun", "All"),), request.body))
    except ClientError as error:
        log.warning("cannot find out whether the namespace is being deleted", error=str(error))
        return False
    # The cause stands in the details of the Status.
    return response.status == 404 or (response.status == 403 and TERMINATING in response.body)
