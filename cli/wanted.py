"""What the manifests given to ``run`` ask for: jobs, and the objects that they need."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from jobcommon.cli.errors import UserError
from jobcommon.cli.followed import FollowedJob
from jobcommon.cli.frameworks import installed, not_loaded, of_manifest
from jobcommon.cli.manifests import Manifest
from jobcommon.cli.plan import checked, no_job
from jobcommon.framework import Framework
from jobcommon.sdk.following import Target

OURS = "kubeflow.org"


@dataclass(frozen=True)
class Wanted:
    """What a user's manifests ask for: the jobs, by framework, and the objects they need."""

    jobs: Sequence[tuple[Manifest, Framework]]
    others: Sequence[Manifest]
    followed: Sequence[FollowedJob] = field(default=(), compare=False)

    @classmethod
    def of(cls, manifests: Sequence[Manifest], namespace: str = "default") -> "Wanted":
        """Sort and check them; objects without a namespace are created in `namespace`.

        Raises `UserError` for an invalid job, one that no operator here runs, an object named twice, and when there is no job.
        """
        _refuse_repeated(manifests, namespace)
        jobs: list[tuple[Manifest, Framework]] = []
        others: list[Manifest] = []
        kinds = ", ".join(framework.kind for framework in installed().values())
        for manifest in manifests:
            framework = of_manifest(manifest.body)
            if framework is not None:
                jobs.append((manifest, framework))
            elif str(manifest.body["apiVersion"]).startswith(f"{OURS}/"):
                raise UserError(
                    f'{not_loaded()}{manifest.place}: kind: "{manifest.kind}" is not a kind supported here: {kinds}'
                )
            else:
                others.append(manifest)
        if not jobs:
            raise UserError(_no_job(manifests, kinds))
        followed: list[FollowedJob] = []
        for manifest, framework in jobs:
            job = checked(manifest, framework, others=manifests)
            where, grace = manifest.namespace or namespace, not job.run_policy.clean_pod_policy
            followed.append(
                FollowedJob(Target(framework, where, manifest.name), job.total_replicas, grace=grace, warnings=job.warnings)
            )
            if job.managed_elsewhere:
                text = f'"{job.managed_by}" runs this job, not the operator here; remove the field'
                field = "managedBy" if job.spec.managed_by == job.managed_by else "runPolicy.managedBy"
                raise UserError(f"{manifest.place_of(f'spec.{field}')}: spec.{field}: {text}")
        return cls(jobs, others, followed)

    @property
    def frameworks(self) -> list[Framework]:
        """The frameworks of the jobs, each once."""
        return list({framework.kind: framework for _, framework in self.jobs}.values())


def _refuse_repeated(manifests: Sequence[Manifest], namespace: str) -> None:
    """The second of two objects with one name would change the first while it runs: an error in the files."""
    first: dict[tuple[str, str, str, str], Manifest] = {}
    for manifest in manifests:
        group = str(manifest.body["apiVersion"]).rpartition("/")[0]
        earlier = first.setdefault((group, manifest.kind, manifest.namespace or namespace, manifest.name), manifest)
        if earlier is not manifest:
            where = f"{earlier.source}:{earlier.line}"
            raise UserError(f"{manifest.place}: is given twice, first in {where}; leave one out, or give it another name")


def _no_job(manifests: Sequence[Manifest], kinds: str) -> str:
    job = next((manifest for manifest in manifests if manifest.kind == "Job"), None)
    if job is None:
        return no_job(manifests)
    return (
        f"{job.place}: a Job of batch/v1 runs on a cluster only (jobcommon convert FILE | kubectl apply -f -); "
        f"a polyaxonfile that names a framework, as in `framework: pytorch`, becomes a job that runs here: one of {kinds}"
    )
