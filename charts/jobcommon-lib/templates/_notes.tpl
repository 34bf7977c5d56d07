{{- define "jobcommon.notes" -}}
{{ .Chart.Name }} looks after {{ include "jobcommon.frameworks" . | replace " " ", " }} jobs in {{ ternary (printf "namespace %s" .Values.watchNamespace) "all namespaces" (not (empty .Values.watchNamespace)) }}.

  kubectl --namespace {{ .Release.Namespace }} rollout status deployment/{{ include "jobcommon.fullname" . }}

Helm installs CRDs once and never upgrades them. After an upgrade of the chart:

  kubectl apply --server-side -f charts/crds
{{- if .Values.trackingFinalizer }}

Pods of jobs carry a finalizer until their end is counted. When the operator is uninstalled while pods exist, take it off:

  jobcommon release-finalizers{{ with .Values.watchNamespace }} --namespace {{ . }}{{ end }}
{{- end }}
{{- end }}
