{{- define "notleader.name" -}}
{{- if contains "notleader" .Release.Name }}{{ .Release.Name | trunc 53 | trimSuffix "-" }}{{ else }}{{ printf "%s-notleader" .Release.Name | trunc 53 | trimSuffix "-" }}{{ end }}
{{- end }}

{{- define "notleader.selector" -}}
app.kubernetes.io/name: notleader
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "notleader.labels" -}}
{{ include "notleader.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end }}

{{- define "notleader.secret" -}}
{{ .Values.token.existingSecret | default (include "notleader.name" .) }}
{{- end }}

{{- /* The container of the proxy. As a sidecar everything is on the pod's loopback, so the probes run inside. */ -}}
{{- define "notleader.container" -}}
{{- $alone := eq .Values.mode "standalone" -}}
name: notleader
image: "{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}"
imagePullPolicy: {{ .Values.image.pullPolicy }}
args: [run, --config, /etc/notleader/notleader.yaml]
env:
  - {name: NOTLEADER_KAFKA, value: {{ .Values.kafka | quote }}}
{{- if $alone }}
  - {name: NOTLEADER_ADVERTISE, value: {{ include "notleader.name" . | quote }}}
  - {name: NOTLEADER_ADMIN, value: "0.0.0.0:8474"}
  - name: NOTLEADER_TOKEN
    valueFrom: {secretKeyRef: {name: {{ include "notleader.secret" . }}, key: token}}
{{- else }}
  - {name: NOTLEADER_LISTEN, value: "127.0.0.1:9092"}
  - {name: NOTLEADER_ADMIN, value: "127.0.0.1:8474"}
{{- end }}
{{- if .Values.capture.enabled }}
  - {name: NOTLEADER_CAPTURE, value: {{ .Values.capture.url | default "/capture/traffic" | quote }}}
  - {name: NOTLEADER_CAPTURE_LEVEL, value: {{ .Values.capture.level | quote }}}
{{- if .Values.capture.url }}
  - {name: NOTLEADER_CAPTURE_SPOOL, value: /capture/spool}
  - {name: NOTLEADER_CAPTURE_SPOOL_BYTES, value: {{ .Values.capture.waitBytes | int64 | quote }}}
{{- else }}
  - {name: NOTLEADER_CAPTURE_JOURNAL_BYTES, value: {{ .Values.capture.waitBytes | int64 | quote }}}
{{- end }}
{{- with .Values.capture.keepBytes | default (ternary 0 500000000 (ne .Values.capture.url "")) }}
  - {name: NOTLEADER_CAPTURE_KEEP_BYTES, value: {{ . | int64 | quote }}}
{{- end }}
{{- end }}
  - name: NOTLEADER_PROXY_ID
    valueFrom: {fieldRef: {fieldPath: metadata.name}}
{{- with .Values.env }}
{{ toYaml . | indent 2 }}
{{- end }}
{{- if $alone }}
ports:
  - {name: bootstrap, containerPort: 9092}
{{- range $node := until (int .Values.brokers) }}
  - {name: broker-{{ $node }}, containerPort: {{ add 9093 $node }}}
{{- end }}
  - {name: admin, containerPort: 8474}
startupProbe:
  httpGet: {path: /healthz, port: admin}
  periodSeconds: 1
  failureThreshold: 30
readinessProbe:
  httpGet: {path: /readyz, port: admin}
  periodSeconds: 5
livenessProbe:
  httpGet: {path: /healthz, port: admin}
  periodSeconds: 20
{{- else }}
restartPolicy: Always
startupProbe:
  exec: {command: [python, /opt/notleader/healthcheck.py]}
  periodSeconds: 2
  timeoutSeconds: 4
  failureThreshold: 60
readinessProbe:
  exec: {command: [python, /opt/notleader/healthcheck.py]}
  periodSeconds: 10
  timeoutSeconds: 4
livenessProbe:
  exec: {command: [python, /opt/notleader/healthcheck.py, /healthz]}
  periodSeconds: 20
  timeoutSeconds: 4
{{- end }}
resources:
{{ toYaml .Values.resources | indent 2 }}
securityContext:
  allowPrivilegeEscalation: false
  readOnlyRootFilesystem: true
  capabilities: {drop: [ALL]}
volumeMounts:
  - {name: notleader-config, mountPath: /etc/notleader, readOnly: true}
  - {name: notleader-capture, mountPath: /capture}
{{- end }}
