"""What an API server refuses to create: its words, and what they mean."""

import re

from jobcommon.api.kueue import POD_WEBHOOK_FAILS
from jobcommon.causes.cause import Cause, Clue, in_short, revealed
from jobcommon.causes.cause_reasons import Reason

CREATE_RETRY = "the operator retries, first after 10 s, then at most 10 minutes apart"
_REFUSED = re.compile(r"(?:\b(get|update|set image of) )?(\w+)/(\S+) is refused: (.*)", re.DOTALL)
_DONE = {"get": "read", "update": "updated", "set image of": "changed"}
_CONFLICT = re.compile(r"(\w+/\S+) already exists and belongs to another owner")
_QUOTA = re.compile(r"exceeded quota: ([^,\s]+), requested: (.+?), used: (.+?), limited: ([^;]+)")
_CREATING = re.compile(r"Error creating: (?:\d+ \w*: )?(.*)", re.DOTALL)

_CLUES = (
    Clue(
        r"failed quota: ([^:]+): must specify ([^;]+)",
        Reason.QUOTA_EXCEEDED,
        "the quota {0} requires each pod to specify {1}",
        "set {1} in resources of every container, or define defaults in a LimitRange",
    ),
    Clue(
        r"(?:maximum|minimum) \S+ usage per \w+ is|must be less than or equal to .* limit|limit to request ratio",
        Reason.LIMIT_RANGE,
        "",
        "change resources in the pod template to what the LimitRange of the namespace allows: kubectl describe limitrange",
    ),
    Clue(
        POD_WEBHOOK_FAILS,
        Reason.WEBHOOK_UNREACHABLE,
        "Kueue's webhook for pods fails: its manager is not running, or its ServiceAccount may not read the pod's owner",
        "jobcommon doctor names the rights that Kueue lacks (docs/kueue.md); nothing is wrong with the job",
    ),
    Clue(
        r'failed calling webhook "([^"]+)"',
        Reason.WEBHOOK_UNREACHABLE,
        "",
        "the cluster's administrator must repair the webhook {0}; nothing is wrong with the job",
    ),
    Clue(
        r'admission webhook "([^"]+)" denied the request(?:: (.*))?',
        Reason.DENIED_BY_WEBHOOK,
        "the webhook {0} denied it: {1}",
        "change what the webhook names",
    ),
    Clue(
        r"ValidatingAdmissionPolicy '([^']+)'.*denied request: (.*)",
        Reason.DENIED_BY_POLICY,
        "the policy {0} denied it: {1}",
        "change what the policy names",
    ),
    Clue(
        r'violates PodSecurity "([^"]+)": (.*)',
        Reason.POD_SECURITY,
        "it violates the namespace's Pod Security level {0}: {1}",
        "set the securityContext that the message names in the pod template",
    ),
    Clue(
        r'serviceaccounts? "([^"]+)" not found',
        Reason.SERVICE_ACCOUNT_NOT_FOUND,
        'the ServiceAccount "{0}" does not exist',
        "kubectl create serviceaccount {0}, or correct serviceAccountName",
    ),
    Clue(
        r"no PriorityClass with name (\S+) was found",
        Reason.PRIORITY_CLASS_NOT_FOUND,
        'the PriorityClass "{0}" does not exist',
        "correct priorityClassName; kubectl get priorityclasses lists them",
    ),
    Clue(
        r'RuntimeClass "([^"]+)" not found',
        Reason.RUNTIME_CLASS_NOT_FOUND,
        'the RuntimeClass "{0}" does not exist',
        "correct runtimeClassName; kubectl get runtimeclasses lists them",
    ),
    Clue(
        r"because it is being terminated",
        Reason.NAMESPACE_TERMINATING,
        "the namespace is being deleted",
        "create the job in another namespace",
    ),
    Clue(
        r'User "([^"]+)" cannot (\w+) resource "([^"]+)"',
        Reason.OPERATOR_FORBIDDEN,
        "the operator ({0}) may not {1} {2}",
        "install the operator's Roles again (docs/install.md); nothing is wrong with the job",
    ),
)


def refusal_in(message: str) -> Cause | None:
    """The cause in a job's condition, if it reports that something could not be created."""
    if (conflict := _CONFLICT.search(message)) is not None:
        text = f"{conflict[1]} already exists and belongs to another owner"
        return Cause(Reason.NAME_CONFLICT, text, "delete or rename it", then=CREATE_RETRY)
    if (refused := _REFUSED.search(message)) is None:
        return None
    return refusal(f"{refused[2]}/{refused[3]}", refused[4], _DONE.get(refused[1], "created"))


def refusal_in_event(message: str) -> Cause | None:
    """The cause in an event of a create that failed."""
    found = _CREATING.match(message)
    return refusal("a pod", found[1]) if found is not None else None


def refusal(what: str, message: str, done: str = "created") -> Cause:
    """Why the API server refuses what was to be `done` with `what`."""
    if (quota := _QUOTA.search(message)) is not None:
        name, requested, used, limited = (part.strip() for part in quota.groups())
        cause = Cause(
            Reason.QUOTA_EXCEEDED,
            f"the quota {name} is used up: requested {requested}, used {used}, limit {limited}",
            f"delete what is not needed, request less, or have the quota raised: kubectl describe quota {name}",
        )
    else:
        cause = revealed(message, _CLUES) or Cause(Reason.REFUSED, in_short(message), "change what the message names")
    return Cause(cause.reason, in_short(f"{what} cannot be {done}: {cause.text}"), cause.advice, then=CREATE_RETRY)
