"""The spec of a PyTorchJob beyond what every job has."""

from typing import Any

from pydantic import Field

from jobcommon import ApiModel, FlatRunPolicySpec, Int32


class RendezvousSetting(ApiModel):
    """One entry of rdzvConf."""

    key: str = Field(description="The name of the setting.")
    value: str = Field(description="Its value.")


class ElasticPolicy(ApiModel):
    """torchrun's elastic mode: how many workers, and how they find each other."""

    min_replicas: Int32 | None = Field(None, ge=1, description="The fewest workers to run with. Defaults to maxReplicas.")
    max_replicas: Int32 | None = Field(None, ge=1, description="The most workers. Defaults to minReplicas.")
    rdzv_backend: str | None = Field(None, description="The rendezvous backend: c10d (the default), etcd or etcd-v2.")
    rdzv_port: Int32 | None = Field(None, ge=1, le=65535, description="The rendezvous port. Defaults to the workers' port.")
    rdzv_host: str | None = Field(None, description="The rendezvous host. Defaults to worker 0.")
    rdzv_id: str | None = Field(None, description="The id of the rendezvous.")
    rdzv_conf: list[RendezvousSetting] | None = Field(None, description="Further settings of the rendezvous backend.")
    standalone: bool | None = Field(None, description="Start a rendezvous store on the only node.")
    n_proc_per_node: Int32 | None = Field(None, ge=1, description="Deprecated: use spec.nprocPerNode.")
    max_restarts: Int32 | None = Field(None, ge=0, description="How often torchrun restarts the workers of a node.")
    metrics: list[dict[str, Any]] | None = Field(
        None,
        description="Metrics for a HorizontalPodAutoscaler on the workers (autoscaling/v2 MetricSpec). Unset: no autoscaler "
        "is created.",
    )


class PyTorchJobSpec(FlatRunPolicySpec):
    """A PyTorchJob."""

    elastic_policy: ElasticPolicy | None = Field(None, description="Elastic training with torchrun.")
    nproc_per_node: str | None = Field(
        None, description='Processes per node: "auto" (the default), "cpu", "gpu", "xpu", "npu" or a number in quotes.'
    )
