{{- define "jobcommon.notes" -}}
{{ .Chart.Name }} looks after {{ include "jobcommon.frameworks" . | replace " " ", " }} jobs in {{ with .Values.watchNamespaces }}namespace {{ join ", " . }}{{ else }}all namespaces{{ end }}.

  kubectl --namespace {{ .Release.Namespace }} rollout status deployment/{{ include "jobcommon.fullname" . }}

Helm installs CRDs once and never upgrades them. After an upgrade of the chart:

  kubectl apply --server-side -f charts/crds
{{- if eq .Values.kueue "own" }}

The operator owns the Workloads of jobs that are labelled for a queue. In Kueue's configuration the kinds belong into externalFrameworks, and
not into frameworks:

  integrations:
    externalFrameworks:
    {{- if .Values.framework.module }}
    - <Kind>.<version>.<group>
    {{- else }}
    {{- range splitList " " (include "jobcommon.frameworks" .) }}
    - {{ include (printf "jobcommon.kueue.%s" .) $ }}
    {{- end }}
    {{- end }}

  jobcommon doctor
{{- end }}
{{- if .Values.trackingFinalizer }}

Pods of jobs carry a finalizer until their end is counted. When the operator is uninstalled while pods exist, take it off:

{{- range .Values.watchNamespaces | default (list "") }}
  jobcommon release-finalizers{{ with . }} --namespace {{ . }}{{ end }}
{{- end }}
{{- end }}
{{- end }}
