"""Kueue's Workloads of our jobs change hands: to the operators when these begin to own them, and back.

Kueue leaves a kind alone that is not in its `integrations.frameworks`. Its Workload of a job of such a kind keeps its quota and
the finalizer that only Kueue's reconciler of the kind removes (`NewWorkload` in pkg/controller/jobframework/utils.go). In the
other direction Kueue's reconciler finds the Workload by its owner and keeps one whose pods are those of the job
(`FindMatchingWorkloads` in pkg/controller/jobframework/reconciler.go). Facts: Kueue 0.19.
"""

from collections.abc import AsyncIterator, Sequence
from typing import Any

import msgspec

from jobcommon.api import kueue, labels
from jobcommon.api.kueue import KUEUE_API, KUEUE_WORKLOADS
from jobcommon.api.template import mapping_of, mappings_in
from jobcommon.api.view import object_view
from jobcommon.client import objects
from jobcommon.client.errors import ClientError, StatusError
from jobcommon.client.request import Request, Transport
from jobcommon.client.responses import response_error
from jobcommon.framework import Framework
from jobcommon.manifests.children import job_selector
from jobcommon.runtime.clock import Clock
from jobcommon.runtime.discovery import asked_until_answered, read_object
from jobcommon.runtime.logging import Log
from jobcommon.spec import read_job

_Json = dict[str, Any]
_PAGE = 500


async def hand_over(
    transport: Transport, clock: Clock, log: Log, frameworks: Sequence[Framework], namespace: str | None, *, own: bool
) -> None:
    """Take over Kueue's Workloads of our jobs if we `own` them, else give back those that we have made.

    Done before any decision of a term. To own them it retries until there is a response; cancel it to give up. Operators that
    own none do not depend on Kueue: where its API does not answer, such as by a conversion webhook that is down, they go on.
    """
    one = _Handover(transport, log, frameworks, namespace)
    if own:
        await asked_until_answered(one.take_over, clock, log, "which Workloads Kueue has made")
        return
    try:
        await one.give_back()
    except (ClientError, msgspec.DecodeError) as error:
        log.warning("cannot give back Workloads; tried again at the next start", error=str(error))


class _Handover:
    def __init__(self, transport: Transport, log: Log, frameworks: Sequence[Framework], namespace: str | None) -> None:
        self._transport, self._log, self._namespace = transport, log, namespace
        self._frameworks = {(framework.group, framework.kind): framework for framework in frameworks}

    async def take_over(self) -> None:
        """Mark Kueue's Workloads of our jobs as ours, without its finalizer, and resume the jobs that it has suspended.

        Under Kueue's integration `suspend` is Kueue's: it resumes what a user has suspended. The job comes first, so that what
        was interrupted is done again.
        """
        async for framework, owner, workload in self._workloads(f"!{labels.OPERATOR_NAME}"):
            metadata = workload["metadata"]
            left = [one for one in metadata.get("finalizers") or () if one != kueue.IN_USE]
            finished = any(
                one.get("type") == "Finished" and one.get("status") == "True"
                for one in mappings_in(mapping_of(workload.get("status")).get("conditions"))
            )
            if finished and left == (metadata.get("finalizers") or []):
                continue
            body = await self._job(framework, metadata["namespace"], owner)
            changes: _Json = {"finalizers": left}
            if body is not None:
                job = read_job(framework, body)
                if job.run_policy.suspend and not (job.status.finished or job.managed_elsewhere or finished):
                    await self._send(_with_suspend(framework, body, False), f"resume {framework.singular}/{job.name}")
                changes["labels"] = job_selector(framework, job)
            await self._send(_changed(workload, changes), f"take over Workload {metadata['name']}")

    async def give_back(self) -> None:
        """Leave our Workloads of kinds that Kueue queues itself to it, and delete the others, which would keep their quota.

        A job of such a kind gets a `suspend`, as each has that Kueue knows; without it, it counts as not queued. One that
        waits is suspended, so that it does not run until Kueue looks at it. The digest of its podSets goes: Kueue may write the
        flavors' node labels into the job's templates.
        """
        configuration = await read_object(self._transport, kueue.CONFIGURATION_PATH)
        known = kueue.integrations(configuration) if configuration is not None else None
        queued = known.frameworks if known is not None else kueue.INTEGRATED
        async for framework, owner, workload in self._workloads(f"{labels.OPERATOR_NAME},{kueue.JOB_UID_LABEL}"):
            metadata = workload["metadata"]
            if kueue.integration_of(framework.api_version, framework.kind) in queued:
                body = await self._job(framework, metadata["namespace"], owner)
                found = kueue.Workload(object_view(msgspec.json.encode(workload)))
                waits = not (found.admitted or found.has("Finished"))
                if body is not None and read_job(framework, body).run_policy.suspend not in (True, waits):
                    leave = f"leave {framework.singular}/{owner.get('name')} to Kueue"
                    await self._send(_with_suspend(framework, body, waits), leave)
                none: _Json = {"labels": dict.fromkeys((labels.OPERATOR_NAME, labels.JOB_NAME))}
                none["annotations"] = {kueue.POD_SETS: None}
                await self._send(_changed(workload, none), f"leave Workload {metadata['name']} to Kueue")
            else:
                await self._send(objects.delete(_path(workload), metadata["uid"]), f"delete Workload {metadata['name']}")

    async def _workloads(self, selector: str) -> AsyncIterator[tuple[Framework, _Json, _Json]]:
        """Those of our jobs, each with the kind and the reference of its owner; none where they may not be listed."""
        path = objects.collection_path(KUEUE_API, KUEUE_WORKLOADS, self._namespace)
        more = ""
        while True:
            query = (("labelSelector", selector), ("limit", str(_PAGE)), *((("continue", more),) if more else ()))
            response = await self._transport.send(Request("GET", path, query))
            if response.status in (403, 404):
                return
            if response.status >= 400:
                raise response_error(response)
            page = msgspec.json.decode(response.body, type=_Json)
            for item in page.get("items") or ():
                owners = mappings_in(item["metadata"].get("ownerReferences"))
                owner = next((one for one in owners if one.get("controller")), {})
                group = str(owner.get("apiVersion")).partition("/")[0]
                if (framework := self._frameworks.get((group, str(owner.get("kind"))))) is not None:
                    yield framework, dict(owner), {"apiVersion": KUEUE_API, "kind": kueue.KUEUE_WORKLOAD, **item}
            more = str((page.get("metadata") or {}).get("continue") or "")
            if not more:
                return

    async def _job(self, framework: Framework, namespace: str, owner: _Json) -> _Json | None:
        """The owner, unless it is gone or being deleted."""
        path = objects.object_path(framework.api_version, framework.plural, namespace, str(owner.get("name")))
        body = await read_object(self._transport, path)
        metadata = mapping_of((body or {}).get("metadata"))
        return body if metadata.get("uid") == owner.get("uid") and not metadata.get("deletionTimestamp") else None

    async def _send(self, request: Request, what: str) -> None:
        """One write. Raises StatusError for a conflict: what it was made for is to be read anew."""
        response = await self._transport.send(request)
        if response.status == 409:
            raise response_error(response)
        if response.status < 400:
            self._log.info(f"Kueue: {what}")
        elif response.status != 404:
            error: StatusError = response_error(response)
            self._log.warning(f"Kueue: cannot {what}", error=error.message)


def _path(workload: _Json) -> str:
    metadata = workload["metadata"]
    return objects.object_path(KUEUE_API, KUEUE_WORKLOADS, metadata["namespace"], metadata["name"])


def _changed(workload: _Json, metadata: _Json) -> Request:
    return objects.merge(_path(workload), {"metadata": {**_version_of(workload), **metadata}})


def _with_suspend(framework: Framework, body: _Json, suspend: bool) -> Request:
    metadata = body["metadata"]
    path = objects.object_path(framework.api_version, framework.plural, metadata["namespace"], metadata["name"])
    return objects.merge(path, {"metadata": _version_of(body), **framework.with_suspend(suspend)})


def _version_of(body: _Json) -> _Json:
    return {key: body["metadata"][key] for key in ("uid", "resourceVersion")}
