"""How the pods of a job have ended, as the oracles count it."""

from jobcommon.api import labels
from localcluster.model import Item


def phase(pod: Item) -> str:
    """The pod's phase."""
    return str((pod.obj.get("status") or {}).get("phase") or "Pending")


def failed_runs(pod: Item) -> int:
    """The runs of the main container, and of init containers but sidecars, that did not succeed."""
    status, spec = pod.obj.get("status") or {}, pod.obj["spec"]
    sidecars = {one["name"] for one in spec.get("initContainers") or () if one.get("restartPolicy") == "Always"}
    main = spec["containers"][0]["name"]
    counted = [one for one in status.get("containerStatuses") or () if one["name"] == main]
    counted += [one for one in status.get("initContainerStatuses") or () if one["name"] not in sidecars]
    codes = [((one.get("state") or {}).get("terminated") or {}).get("exitCode") for one in counted]
    runs = sum(int(one.get("restartCount", 0)) for one in counted) + sum(bool(code) for code in codes)
    return runs or int(phase(pod) == "Failed")


def main_failed(pod: Item) -> bool:
    """Whether the main container has failed and the kubelet will not start it again."""
    statuses = (pod.obj.get("status") or {}).get("containerStatuses") or ()
    main = pod.obj["spec"]["containers"][0]["name"]
    codes = [((one.get("state") or {}).get("terminated") or {}).get("exitCode") for one in statuses if one["name"] == main]
    return pod.obj["spec"].get("restartPolicy") == "Never" and any(codes)


def main_runs(pod: Item) -> bool:
    """Whether the main program runs, as far as the store tells. A grace of zero says that it does not: its node is gone."""
    if pod.obj["metadata"].get("deletionGracePeriodSeconds") == 0:
        return False
    main = pod.obj["spec"]["containers"][0]["name"]
    statuses = (pod.obj.get("status") or {}).get("containerStatuses") or ()
    return any("running" in (one.get("state") or {}) for one in statuses if one["name"] == main)


def attempt_of(pod: Item) -> int:
    """The attempt of its job that a pod belongs to."""
    return int((pod.obj["metadata"].get("annotations") or {}).get(labels.ATTEMPT, 0))


def size_of(pod: Item) -> str:
    """The size of its job that the pod's program knows of; "" if it has none."""
    return str((pod.obj["metadata"].get("annotations") or {}).get(labels.SIZE, ""))
