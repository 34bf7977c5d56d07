"""The shutdown of an operator whose namespace is being deleted.

Its pod and its lease are deleted together with the jobs' pods. Pods that still carry our finalizer when the operator exits
would block the deletion of the namespace for ever, and nothing that happens in it needs to be counted any more.
"""

from collections.abc import Sequence

import msgspec

from jobcommon.api.decoding import decoder
from jobcommon.api.pod import pod_view
from jobcommon.client import objects
from jobcommon.client.errors import ClientError
from jobcommon.client.request import Request, Transport
from jobcommon.client.responses import response_error
from jobcommon.controller.caches import PODS
from jobcommon.controller.orphans import is_made_by
from jobcommon.controller.result import Effect, Work
from jobcommon.reconcile import plan_for_orphans
from jobcommon.runtime.executor import Executor
from jobcommon.runtime.logging import Log

TERMINATING = b"NamespaceTerminating"


class _Pods(msgspec.Struct):
    items: list[msgspec.Raw] = []


_pods = decoder(_Pods)


async def free_pods_if_terminating(namespace: str, transport: Transport, executors: Sequence[Executor], log: Log) -> None:
    """Remove our finalizer from all pods of the executors' operators if `namespace` is terminating.

    `transport` and `executors` have no fence: the lease may be deleted already, and another process could only do the same.
    """
    try:
        if not await _is_terminating(namespace, transport):
            return
        for executor in executors:
            count = await _remove(namespace, transport, executor)
            operator = executor.framework.operator_name
            log.info("the namespace is being deleted: released pods", namespace=namespace, operator=operator, pods=count)
    except (ClientError, msgspec.DecodeError) as error:
        log.warning("cannot release the pods of a namespace that is being deleted", namespace=namespace, error=str(error))


async def _remove(namespace: str, transport: Transport, executor: Executor) -> int:
    response = await transport.send(objects.get(objects.collection_path("v1", PODS, namespace)))
    if response.status != 200:
        raise response_error(response)
    # Others may have taken away the labels.
    pods = [pod for item in _pods(response.body).items if is_made_by([executor.framework], pod := pod_view(bytes(item)))]
    result = await executor.execute(Work(namespace, "", "", plan_for_orphans(pods)))
    return sum(outcome.effect is Effect.APPLIED for outcome in result.outcomes)


async def _is_terminating(namespace: str, transport: Transport) -> bool:
    """Determined by a dry run of an event: we may write events, but a Role need not allow reads of namespaces."""
    manifest = {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"generateName": "jobcommon-", "namespace": namespace},
        "involvedObject": {"apiVersion": "v1", "kind": "Namespace", "name": namespace, "namespace": namespace},
        "reason": "Stopping",
        "type": "Normal",
    }
    request = objects.create(objects.collection_path("v1", "events", namespace), manifest)
    response = await transport.send(Request(request.method, request.path, (("dryRun", "All"),), request.body))
    # The cause is in the details of the Status.
    return response.status == 403 and TERMINATING in response.body
