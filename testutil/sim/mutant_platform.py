"""Defects in how the operators deal with a platform that is slow, strange, older than they are, or not all there."""

from typing import Any

from jobcommon.client import objects
from jobcommon.client.request import Request, Response
from jobcommon.client.responses import response_error
from jobcommon.client.transport import Timeouts
from jobcommon.controller import caches
from jobcommon.controller import job_controller as controller
from jobcommon.runtime import driver, executor
from jobcommon.testutil.sim import processes
from jobcommon.testutil.sim.faults import Fault
from jobcommon.testutil.sim.mutation import Mutant


def _short_timeouts() -> Timeouts:
    return Timeouts(write=4.0)


def _errors_only(_request: Request, response: Response) -> None:
    if response.status >= 400:
        raise response_error(response)


def _is_stored(*_: object) -> None:
    return


async def _unreadable(*_: object) -> None:
    return


def _owned_only(child: Any) -> tuple[tuple[str, str], ...]:
    return ((child.namespace, child.owner.name),) if child.owner is not None else ()


def _needs_the_definition(api_version: str, plural: str, *more: Any, **fields: Any) -> caches.Resource:
    if fields.get("optional") == (404,):
        fields["optional"] = ()
    return _resource(api_version, plural, *more, **fields)


_resource = caches.Resource

PLATFORM = (
    Mutant(
        "F34-orphans-need-an-owner",
        "A pod with our finalizer that no job owns cannot be deleted any more.",
        ((controller, "job_keys", _owned_only),),
        where=("*/X-orphan",),
        faults=(),
    ),
    Mutant(
        "F41-gives-up-before-admission",
        "A create whose admission takes longer than the operator waits is sent again, each pod twice and one after the other.",
        ((processes, "Timeouts", _short_timeouts),),
        where=("pytorch/L1-*", "pytorch/L7a-*"),
        faults=(),
        always=(Fault("slow-writes", at=0.0, seconds=60.0, value="6"),),
    ),
    Mutant(
        "F42-any-answer-will-do",
        "A redirect or a page is taken for success, so what was never stored is never written again.",
        ((objects, "check_answer", _errors_only),),
        faults=("foreign-answer",),
    ),
    Mutant(
        "F43-dropped-fields-count-as-stored",
        "A status that the API server has pruned is taken for written, and the job stands still.",
        ((executor, "check_stored", _is_stored), (driver, "undeclared_status_fields", _unreadable)),
        where=("pytorch/L2-*", "pytorch/L4-*"),
        faults=(),
        always=(Fault("schema-prunes", at=0.0, seconds=60.0),),
    ),
    Mutant(
        "F44-nothing-without-the-definition",
        "An operator that starts when the definition is gone waits for it, and the pods that are left cannot go.",
        ((caches, "Resource", _needs_the_definition),),
        where=("pytorch/L1-*", "pytorch/L7c-*"),
        faults=(),
        always=(
            Fault("partition", at=3.9, seconds=30.0),
            Fault("crd-removed", at=4.0),
            Fault("upgrade", at=25.0),
        ),
    ),
)
