{{- /* Written from cli/rbac.py by: make golden */}}
{{- define "jobcommon.rules.shared" }}
- apiGroups: ['']
  resources: [pods]
  verbs: [get, list, watch, create, delete, patch]
- apiGroups: ['']
  resources: [services]
  verbs: [get, list, watch, create, delete]
- apiGroups: ['']
  resources: [events]
  verbs: [create, list, patch]
- apiGroups: ['']
  resources: [pods/log]
  verbs: [get]
- apiGroups: ['']
  resources: [configmaps]
  verbs: [create, patch]
{{- end }}

{{- define "jobcommon.rules.jax" }}
- apiGroups: [kubeflow.org]
  resources: [jaxjobs]
  verbs: [get, list, watch, delete]
- apiGroups: [kubeflow.org]
  resources: [jaxjobs/status]
  verbs: [update]
- apiGroups: [kubeflow.org]
  resources: [jaxjobs/finalizers]
  verbs: [update]
{{- end }}

{{- define "jobcommon.rules.cluster.jax" }}
{{- end }}

{{- define "jobcommon.rules.view.jax" }}
- apiGroups: [kubeflow.org]
  resources: [jaxjobs]
  verbs: [get, list, watch]
- apiGroups: [kubeflow.org]
  resources: [jaxjobs/status]
  verbs: [get]
{{- end }}

{{- define "jobcommon.rules.edit.jax" }}
- apiGroups: [kubeflow.org]
  resources: [jaxjobs]
  verbs: [get, list, watch, create, delete, deletecollection, patch, update]
- apiGroups: [kubeflow.org]
  resources: [jaxjobs/status]
  verbs: [get]
- apiGroups: [kubeflow.org]
  resources: [jaxjobs/scale]
  verbs: [get, patch, update]
{{- end }}

{{- define "jobcommon.rules.kueue-reads.jax" }}
{{- end }}

{{- define "jobcommon.rules.mpi" }}
- apiGroups: [kubeflow.org]
  resources: [mpijobs]
  verbs: [get, list, watch, delete]
- apiGroups: [kubeflow.org]
  resources: [mpijobs/status]
  verbs: [update]
- apiGroups: [kubeflow.org]
  resources: [mpijobs/finalizers]
  verbs: [update]
- apiGroups: ['']
  resources: [configmaps]
  verbs: [get, create, patch]
- apiGroups: ['']
  resources: [secrets]
  verbs: [get, create, delete]
{{- end }}

{{- define "jobcommon.rules.mpi-exec" }}
- apiGroups: [kubeflow.org]
  resources: [mpijobs]
  verbs: [get, list, watch, delete]
- apiGroups: [kubeflow.org]
  resources: [mpijobs/status]
  verbs: [update]
- apiGroups: [kubeflow.org]
  resources: [mpijobs/finalizers]
  verbs: [update]
- apiGroups: ['']
  resources: [configmaps]
  verbs: [get, create, patch]
- apiGroups: ['']
  resources: [secrets]
  verbs: [get, create, delete]
- apiGroups: ['']
  resources: [serviceaccounts]
  verbs: [get, create, delete]
- apiGroups: [rbac.authorization.k8s.io]
  resources: [roles]
  verbs: [get, create, delete, patch]
- apiGroups: [rbac.authorization.k8s.io]
  resources: [rolebindings]
  verbs: [get, create, delete, patch]
- apiGroups: ['']
  resources: [pods/exec]
  verbs: [create, get]
{{- end }}

{{- define "jobcommon.rules.cluster.mpi" }}
{{- end }}

{{- define "jobcommon.rules.view.mpi" }}
- apiGroups: [kubeflow.org]
  resources: [mpijobs]
  verbs: [get, list, watch]
- apiGroups: [kubeflow.org]
  resources: [mpijobs/status]
  verbs: [get]
{{- end }}

{{- define "jobcommon.rules.edit.mpi" }}
- apiGroups: [kubeflow.org]
  resources: [mpijobs]
  verbs: [get, list, watch, create, delete, deletecollection, patch, update]
- apiGroups: [kubeflow.org]
  resources: [mpijobs/status]
  verbs: [get]
- apiGroups: [kubeflow.org]
  resources: [mpijobs/scale]
  verbs: [get, patch, update]
{{- end }}

{{- define "jobcommon.rules.kueue-reads.mpi" }}
{{- end }}

{{- define "jobcommon.rules.mxnet" }}
- apiGroups: [kubeflow.org]
  resources: [mxjobs]
  verbs: [get, list, watch, delete]
- apiGroups: [kubeflow.org]
  resources: [mxjobs/status]
  verbs: [update]
- apiGroups: [kubeflow.org]
  resources: [mxjobs/finalizers]
  verbs: [update]
{{- end }}

{{- define "jobcommon.rules.cluster.mxnet" }}
{{- end }}

{{- define "jobcommon.rules.view.mxnet" }}
- apiGroups: [kubeflow.org]
  resources: [mxjobs]
  verbs: [get, list, watch]
- apiGroups: [kubeflow.org]
  resources: [mxjobs/status]
  verbs: [get]
{{- end }}

{{- define "jobcommon.rules.edit.mxnet" }}
- apiGroups: [kubeflow.org]
  resources: [mxjobs]
  verbs: [get, list, watch, create, delete, deletecollection, patch, update]
- apiGroups: [kubeflow.org]
  resources: [mxjobs/status]
  verbs: [get]
- apiGroups: [kubeflow.org]
  resources: [mxjobs/scale]
  verbs: [get, patch, update]
{{- end }}

{{- define "jobcommon.rules.kueue-reads.mxnet" }}
- apiGroups: [kubeflow.org]
  resources: [mxjobs]
  verbs: [get, list, watch]
- apiGroups: [kubeflow.org]
  resources: [mxjobs/status]
  verbs: [get, patch]
{{- end }}

{{- define "jobcommon.rules.paddle" }}
- apiGroups: [kubeflow.org]
  resources: [paddlejobs]
  verbs: [get, list, watch, delete]
- apiGroups: [kubeflow.org]
  resources: [paddlejobs/status]
  verbs: [update]
- apiGroups: [kubeflow.org]
  resources: [paddlejobs/finalizers]
  verbs: [update]
{{- end }}

{{- define "jobcommon.rules.cluster.paddle" }}
{{- end }}

{{- define "jobcommon.rules.view.paddle" }}
- apiGroups: [kubeflow.org]
  resources: [paddlejobs]
  verbs: [get, list, watch]
- apiGroups: [kubeflow.org]
  resources: [paddlejobs/status]
  verbs: [get]
{{- end }}

{{- define "jobcommon.rules.edit.paddle" }}
- apiGroups: [kubeflow.org]
  resources: [paddlejobs]
  verbs: [get, list, watch, create, delete, deletecollection, patch, update]
- apiGroups: [kubeflow.org]
  resources: [paddlejobs/status]
  verbs: [get]
- apiGroups: [kubeflow.org]
  resources: [paddlejobs/scale]
  verbs: [get, patch, update]
{{- end }}

{{- define "jobcommon.rules.kueue-reads.paddle" }}
{{- end }}

{{- define "jobcommon.rules.pytorch" }}
- apiGroups: [kubeflow.org]
  resources: [pytorchjobs]
  verbs: [get, list, watch, delete]
- apiGroups: [kubeflow.org]
  resources: [pytorchjobs/status]
  verbs: [update]
- apiGroups: [kubeflow.org]
  resources: [pytorchjobs/finalizers]
  verbs: [update]
- apiGroups: [autoscaling]
  resources: [horizontalpodautoscalers]
  verbs: [get, list, watch, create, delete, patch]
{{- end }}

{{- define "jobcommon.rules.cluster.pytorch" }}
{{- end }}

{{- define "jobcommon.rules.view.pytorch" }}
- apiGroups: [kubeflow.org]
  resources: [pytorchjobs]
  verbs: [get, list, watch]
- apiGroups: [kubeflow.org]
  resources: [pytorchjobs/status]
  verbs: [get]
{{- end }}

{{- define "jobcommon.rules.edit.pytorch" }}
- apiGroups: [kubeflow.org]
  resources: [pytorchjobs]
  verbs: [get, list, watch, create, delete, deletecollection, patch, update]
- apiGroups: [kubeflow.org]
  resources: [pytorchjobs/status]
  verbs: [get]
- apiGroups: [kubeflow.org]
  resources: [pytorchjobs/scale]
  verbs: [get, patch, update]
{{- end }}

{{- define "jobcommon.rules.kueue-reads.pytorch" }}
{{- end }}

{{- define "jobcommon.rules.tensorflow" }}
- apiGroups: [kubeflow.org]
  resources: [tfjobs]
  verbs: [get, list, watch, delete]
- apiGroups: [kubeflow.org]
  resources: [tfjobs/status]
  verbs: [update]
- apiGroups: [kubeflow.org]
  resources: [tfjobs/finalizers]
  verbs: [update]
{{- end }}

{{- define "jobcommon.rules.cluster.tensorflow" }}
{{- end }}

{{- define "jobcommon.rules.view.tensorflow" }}
- apiGroups: [kubeflow.org]
  resources: [tfjobs]
  verbs: [get, list, watch]
- apiGroups: [kubeflow.org]
  resources: [tfjobs/status]
  verbs: [get]
{{- end }}

{{- define "jobcommon.rules.edit.tensorflow" }}
- apiGroups: [kubeflow.org]
  resources: [tfjobs]
  verbs: [get, list, watch, create, delete, deletecollection, patch, update]
- apiGroups: [kubeflow.org]
  resources: [tfjobs/status]
  verbs: [get]
- apiGroups: [kubeflow.org]
  resources: [tfjobs/scale]
  verbs: [get, patch, update]
{{- end }}

{{- define "jobcommon.rules.kueue-reads.tensorflow" }}
{{- end }}

{{- define "jobcommon.rules.xgboost" }}
- apiGroups: [kubeflow.org]
  resources: [xgboostjobs]
  verbs: [get, list, watch, delete]
- apiGroups: [kubeflow.org]
  resources: [xgboostjobs/status]
  verbs: [update]
- apiGroups: [kubeflow.org]
  resources: [xgboostjobs/finalizers]
  verbs: [update]
{{- end }}

{{- define "jobcommon.rules.cluster.xgboost" }}
{{- end }}

{{- define "jobcommon.rules.view.xgboost" }}
- apiGroups: [kubeflow.org]
  resources: [xgboostjobs]
  verbs: [get, list, watch]
- apiGroups: [kubeflow.org]
  resources: [xgboostjobs/status]
  verbs: [get]
{{- end }}

{{- define "jobcommon.rules.edit.xgboost" }}
- apiGroups: [kubeflow.org]
  resources: [xgboostjobs]
  verbs: [get, list, watch, create, delete, deletecollection, patch, update]
- apiGroups: [kubeflow.org]
  resources: [xgboostjobs/status]
  verbs: [get]
{{- end }}

{{- define "jobcommon.rules.kueue-reads.xgboost" }}
{{- end }}

{{- define "jobcommon.rules.trainjob" }}
- apiGroups: [trainer.kubeflow.org]
  resources: [trainjobs]
  verbs: [get, list, watch, delete, patch]
- apiGroups: [trainer.kubeflow.org]
  resources: [trainjobs/status]
  verbs: [update]
- apiGroups: [trainer.kubeflow.org]
  resources: [trainjobs/finalizers]
  verbs: [update]
- apiGroups: [trainer.kubeflow.org]
  resources: [trainingruntimes]
  verbs: [list, watch]
- apiGroups: ['']
  resources: [configmaps]
  verbs: [get, list, watch, create, patch]
- apiGroups: ['']
  resources: [secrets]
  verbs: [get, create, delete]
- apiGroups: ['']
  resources: [persistentvolumeclaims]
  verbs: [get, create, delete, patch]
{{- end }}

{{- define "jobcommon.rules.cluster.trainjob" }}
- apiGroups: [trainer.kubeflow.org]
  resources: [clustertrainingruntimes]
  verbs: [list, watch]
- apiGroups: [coordination.k8s.io]
  resources: [leases]
  verbs: [list]
  resourceNames: [trainer.kubeflow.org]
{{- end }}

{{- define "jobcommon.rules.view.trainjob" }}
- apiGroups: [trainer.kubeflow.org]
  resources: [trainjobs]
  verbs: [get, list, watch]
- apiGroups: [trainer.kubeflow.org]
  resources: [trainjobs/status]
  verbs: [get]
- apiGroups: [trainer.kubeflow.org]
  resources: [clustertrainingruntimes]
  verbs: [get, list, watch]
- apiGroups: [trainer.kubeflow.org]
  resources: [trainingruntimes]
  verbs: [get, list, watch]
{{- end }}

{{- define "jobcommon.rules.edit.trainjob" }}
- apiGroups: [trainer.kubeflow.org]
  resources: [trainjobs]
  verbs: [get, list, watch, create, delete, deletecollection, patch, update]
- apiGroups: [trainer.kubeflow.org]
  resources: [trainjobs/status]
  verbs: [get]
- apiGroups: [trainer.kubeflow.org]
  resources: [clustertrainingruntimes]
  verbs: [get, list, watch]
- apiGroups: [trainer.kubeflow.org]
  resources: [trainingruntimes]
  verbs: [get, list, watch, create, delete, deletecollection, patch, update]
{{- end }}

{{- define "jobcommon.rules.kueue-reads.trainjob" }}
{{- end }}

{{- define "jobcommon.rules.gang.volcano" }}
- apiGroups: [scheduling.volcano.sh]
  resources: [podgroups]
  verbs: [get, list, watch, create, delete, patch]
{{- end }}

{{- define "jobcommon.rules.gang.kubernetes" }}
- apiGroups: [scheduling.k8s.io]
  resources: [podgroups]
  verbs: [get, list, watch, create, delete, patch]
- apiGroups: [scheduling.k8s.io]
  resources: [workloads]
  verbs: [get, list, watch, create, delete, patch]
{{- end }}

{{- define "jobcommon.rules.gang.coscheduling" }}
- apiGroups: [scheduling.x-k8s.io]
  resources: [podgroups]
  verbs: [get, list, watch, create, delete, patch]
{{- end }}

{{- define "jobcommon.rules.gang.priorities" }}
- apiGroups: [scheduling.k8s.io]
  resources: [priorityclasses]
  verbs: [list, watch]
{{- end }}

{{- define "jobcommon.rules.kueue" }}
- apiGroups: [kueue.x-k8s.io]
  resources: [workloads]
  verbs: [get, list, watch, create, delete, patch]
- apiGroups: [kueue.x-k8s.io]
  resources: [workloads/status]
  verbs: [patch]
{{- end }}

{{- define "jobcommon.rules.kueue.cluster" }}
- apiGroups: [kueue.x-k8s.io]
  resources: [resourceflavors]
  verbs: [list, watch]
- apiGroups: [kueue.x-k8s.io]
  resources: [workloadpriorityclasses]
  verbs: [list, watch]
- apiGroups: [scheduling.k8s.io]
  resources: [priorityclasses]
  verbs: [list, watch]
- apiGroups: ['']
  resources: [configmaps]
  verbs: [get]
  resourceNames: [kueue-manager-config]
{{- end }}

{{- define "jobcommon.rules.leader" }}
- apiGroups: [coordination.k8s.io]
  resources: [leases]
  verbs: [create]
- apiGroups: [coordination.k8s.io]
  resources: [leases]
  verbs: [get, update]
  resourceNames: ['{{ . }}']
{{- end }}

{{- define "jobcommon.kueue.jax" }}JAXJob.v1.kubeflow.org{{ end }}

{{- define "jobcommon.kueue.mpi" }}MPIJob.v2beta1.kubeflow.org{{ end }}

{{- define "jobcommon.kueue.mxnet" }}MXJob.v1.kubeflow.org{{ end }}

{{- define "jobcommon.kueue.paddle" }}PaddleJob.v1.kubeflow.org{{ end }}

{{- define "jobcommon.kueue.pytorch" }}PyTorchJob.v1.kubeflow.org{{ end }}

{{- define "jobcommon.kueue.tensorflow" }}TFJob.v1.kubeflow.org{{ end }}

{{- define "jobcommon.kueue.xgboost" }}XGBoostJob.v1.kubeflow.org{{ end }}

{{- define "jobcommon.kueue.trainjob" }}TrainJob.v1alpha1.trainer.kubeflow.org{{ end }}
