{{- define "jobcommon.notes" -}}
{{ .Chart.Name }} manages {{ include "jobcommon.frameworks" . | replace " " ", " }} jobs in {{ with .Values.watchNamespaces }}namespace {{ join ", " . }}{{ else }}all namespaces{{ end }}.

  kubectl --namespace {{ .Release.Namespace }} rollout status deployment/{{ include "jobcommon.fullname" . }}

Helm installs CRDs once and never upgrades them. After an upgrade of the chart:

  kubectl apply --server-side --force-conflicts -f charts/crds
{{- if eq .Values.kueue "own" }}

The operator owns the Workloads of jobs with the label of a queue. In Kueue's configuration list the kinds under externalFrameworks,
not under frameworks:

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

Pods of jobs carry a finalizer until their end is counted. If you uninstall the operator while pods exist, remove it:

{{- range .Values.watchNamespaces | default (list "") }}
  jobcommon release-finalizers{{ with . }} --namespace {{ . }}{{ end }}
{{- end }}
{{- end }}
{{- end }}
