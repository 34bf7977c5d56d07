"""What the manifests given to ``run`` ask for: jobs, and the objects that they need."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from jobcommon.cli.errors import UserError
from jobcommon.cli.followed import FollowedJob
from jobcommon.cli.manifests import Manifest
from jobcommon.cli.plan import checked, jobs_among
from jobcommon.framework import Framework
from jobcommon.sdk.following import Target


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
        jobs, others = jobs_among(manifests, namespace)
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
