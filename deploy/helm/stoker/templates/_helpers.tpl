{{- /* SPDX-License-Identifier: Apache-2.0 */ -}}
{{- define "stoker.name" -}}
{{- .Values.nameOverride | default .Chart.Name | trunc 63 | trimSuffix "-" -}}
{{- end }}

{{- define "stoker.fullname" -}}
{{- $name := include "stoker.name" . -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 63 | trimSuffix "-" -}}
{{- else if contains $name .Release.Name -}}
{{- .Release.Name | trunc 63 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name $name | trunc 63 | trimSuffix "-" -}}
{{- end -}}
{{- end }}

{{- define "stoker.namespace" -}}
{{- .Values.namespaceOverride | default .Release.Namespace -}}
{{- end }}

{{- define "stoker.selectorLabels" -}}
app.kubernetes.io/name: {{ include "stoker.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- /* Other labels than the agents', whose Service and NetworkPolicy are not for it. */ -}}
{{- define "stoker.placementLabels" -}}
app.kubernetes.io/name: {{ include "stoker.name" . }}-place
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "stoker.labels" -}}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{ include "stoker.selectorLabels" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- end }}

{{- /* The head of an object: stoker.metadata (list . "name") */ -}}
{{- define "stoker.metadata" -}}
{{- $root := index . 0 -}}
name: {{ index . 1 }}
namespace: {{ include "stoker.namespace" $root }}
labels:
  {{- include "stoker.labels" $root | nindent 2 }}
{{- end }}

{{- define "stoker.serviceAccountName" -}}
{{- if .Values.serviceAccount.create -}}
{{- .Values.serviceAccount.name | default (include "stoker.fullname" .) -}}
{{- else -}}
{{- .Values.serviceAccount.name | default "default" -}}
{{- end -}}
{{- end }}

{{- define "stoker.image" -}}
{{- if .Values.image.digest -}}
{{- printf "%s@%s" .Values.image.repository .Values.image.digest -}}
{{- else -}}
{{- printf "%s:%s" .Values.image.repository (.Values.image.tag | default .Chart.AppVersion) -}}
{{- end -}}
{{- end }}

{{- define "stoker.tlsSecret" -}}
{{- .Values.tlsServerConfig.existingSecret | default (printf "%s-tls" (include "stoker.fullname" .)) -}}
{{- end }}

{{- define "stoker.serverName" -}}
{{- printf "%s.%s.svc" (include "stoker.fullname" .) (include "stoker.namespace" .) -}}
{{- end }}

{{- /* "true" where there is a web-config file */ -}}
{{- define "stoker.webConfig" -}}
{{- if or .Values.tlsServerConfig.enabled .Values.basicAuth.users -}}true{{- end -}}
{{- end }}

{{- /* "true" where the pod reads pods, resource slices or ConfigMaps from the API server, and so needs a token */ -}}
{{- define "stoker.readsPods" -}}
{{- if or .Values.kubernetes.enablePodLabels .Values.kubernetesDRA.enabled -}}true{{- end -}}
{{- end }}
{{- /* "true" where the device plugin asks the API server, as the pod that it runs in, and knows its node */ -}}
{{- define "stoker.pluginToken" -}}
{{- if and .Values.devicePlugin.enabled (or .Values.devicePlugin.updateNode .Values.devicePlugin.followPlacement .Values.dra.enabled) -}}true{{- end -}}
{{- end }}
{{- define "stoker.readsConfigMap" -}}
{{- if or (has "-m" .Values.arguments) (has "--configmap-data" .Values.arguments) (regexMatch "--configmap-data=" (join " " .Values.arguments)) -}}true{{- end -}}
{{- end }}

{{- define "stoker.dcgmConfigMap" -}}exporter-metrics-config-map{{- end }}

{{- /* A probe of /health. A password holds for it too: then that the port is open must do. */ -}}
{{- define "stoker.probe" -}}
{{- if .Values.basicAuth.users -}}
tcpSocket: {port: metrics}
{{- else -}}
httpGet: {path: /health, port: metrics, scheme: {{ ternary "HTTPS" "HTTP" .Values.tlsServerConfig.enabled }}}
{{- end }}
{{- end }}

{{- /* How Prometheus scrapes; of a ServiceMonitor and of a PodMonitor. */ -}}
{{- define "stoker.endpoint" -}}
{{- $monitor := .Values.serviceMonitor -}}
port: metrics
path: /metrics
interval: {{ $monitor.interval }}
scrapeTimeout: {{ $monitor.scrapeTimeout }}
honorLabels: {{ $monitor.honorLabels }}
{{- with $monitor.relabelings }}
relabelings:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with $monitor.metricRelabelings }}
metricRelabelings:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with $monitor.basicAuth }}
basicAuth:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- if .Values.tlsServerConfig.enabled }}
scheme: https
{{- if $monitor.tlsConfig }}
tlsConfig:
  {{- toYaml $monitor.tlsConfig | nindent 2 }}
{{- else if not .Values.tlsServerConfig.existingSecret }}
tlsConfig:
  ca:
    secret:
      name: {{ include "stoker.tlsSecret" . }}
      key: {{ .Values.tlsServerConfig.caFilename }}
  serverName: {{ include "stoker.serverName" . }}
{{- end }}
{{- end }}
{{- end }}
