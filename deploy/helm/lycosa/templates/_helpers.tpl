{{/* Every name begins with this one, so a namespace may have several crawls. A long one is cut, and then
     ends with a digest: two releases never have the same. */}}
{{- define "lycosa.fullname" -}}
{{- $name := .Values.fullnameOverride | default (ternary .Release.Name (printf "%s-lycosa" .Release.Name) (eq .Release.Name "lycosa")) }}
{{- if gt (len $name) 40 }}{{ printf "%s-%s" ($name | trunc 33 | trimSuffix "-") ($name | sha256sum | trunc 6) }}
{{- else }}{{ $name }}
{{- end }}
{{- end }}

{{/* The name of the crawl, which topics begin with. */}}
{{- define "lycosa.crawl" -}}
{{ .Values.cluster.name | default .Release.Name }}
{{- end }}

{{- define "lycosa.selector" -}}
app.kubernetes.io/name: lycosa
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "lycosa.labels" -}}
{{ include "lycosa.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version }}
{{- end }}

{{- define "lycosa.clusterSecret" -}}
{{ .Values.cluster.existingSecret | default (printf "%s-cluster" (include "lycosa.fullname" .)) }}
{{- end }}

{{- define "lycosa.image" -}}
{{- $repository := required "image.repository is needed: where you have put the image, such as registry.example.org/lycosa" .Values.image.repository }}
{{- if .Values.image.digest }}{{ $repository }}@{{ .Values.image.digest }}
{{- else }}{{ $repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end }}
{{- end }}

{{/* The job that creates the crawl. A Job cannot be changed, so each revision, image and setting has its own;
     tools that render the chart without Helm's revisions get a new one for a changed image or setting. */}}
{{- define "lycosa.init" -}}
{{- $content := list .Release.Revision (include "lycosa.image" .) .Values.settings .Values.cluster | toJson }}
{{- printf "%s-init-%s" (include "lycosa.fullname" .) ($content | sha256sum | trunc 6) }}
{{- end }}

{{/* Where pods of a part run: the argument is its section of the values. */}}
{{- define "lycosa.placement" -}}
{{- range $key := list "nodeSelector" "tolerations" "affinity" }}
{{- with get $ $key }}
{{ $key }}:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}
{{- end }}

{{/* Parts of every pod. */}}
{{- define "lycosa.pod" -}}
automountServiceAccountToken: false
enableServiceLinks: false
{{- with .Values.imagePullSecrets }}
imagePullSecrets:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.serviceAccountName }}
serviceAccountName: {{ . }}
{{- end }}
securityContext:
  {{- toYaml .Values.podSecurityContext | nindent 2 }}
{{- end }}

{{/* Parts of every container. */}}
{{- define "lycosa.container" -}}
image: {{ include "lycosa.image" . | quote }}
imagePullPolicy: {{ .Values.image.pullPolicy }}
securityContext:
  allowPrivilegeEscalation: false
  readOnlyRootFilesystem: true
  capabilities:
    drop: [ALL]
{{- with .Values.objects.existingSecret }}
envFrom:
  - secretRef:
      name: {{ . }}
{{- end }}
{{- end }}

{{- define "lycosa.env" -}}
{{- range $name, $value := .Values.objects.environment }}
- name: {{ $name }}
  value: {{ $value | quote }}
{{- end }}
{{- end }}

{{- define "lycosa.mounts" -}}
- name: cluster
  mountPath: /etc/lycosa
  readOnly: true
- name: run
  mountPath: /run/lycosa
- name: tmp
  mountPath: /tmp
{{- if .Values.secrets.existingSecret }}
- name: secrets
  mountPath: /etc/lycosa-secrets
  readOnly: true
{{- end }}
{{- end }}

{{- define "lycosa.volumes" -}}
- name: cluster
  projected:
    defaultMode: 0440
    sources:
      - secret:
          name: {{ include "lycosa.clusterSecret" . }}
          items: [{key: cluster.toml, path: cluster.toml}]
      {{- with .Values.token.existingSecret }}
      - secret:
          name: {{ . }}
          items: [{key: token, path: token}]
      {{- end }}
      {{- with .Values.tls.existingSecret }}
      - secret:
          name: {{ . }}
          items:
            - {key: tls.crt, path: tls.crt}
            - {key: tls.key, path: tls.key}
            - {key: ca.crt, path: ca.crt}
      {{- end }}
      {{- with .Values.kafkaAuthority.existingSecret }}
      - secret:
          name: {{ . }}
          items: [{key: ca.crt, path: kafka/ca.crt}]
      {{- end }}
- name: run
  emptyDir: {}
- name: tmp
  emptyDir: {}
{{- with .Values.secrets.existingSecret }}
- name: secrets
  secret:
    secretName: {{ . }}
    defaultMode: 0440
{{- end }}
{{- end }}

{{/* The probes ask the process itself, and no other service. */}}
{{- define "lycosa.probes" -}}
startupProbe:
  exec:
    command: [lycosa, health, /run/lycosa/health.json]
  periodSeconds: 5
  timeoutSeconds: 10
  failureThreshold: 24
livenessProbe:
  exec:
    command: [lycosa, health, /run/lycosa/health.json]
  periodSeconds: 30
  timeoutSeconds: 10
  failureThreshold: 3
readinessProbe:
  exec:
    command: [lycosa, health, /run/lycosa/health.json, --ready]
  periodSeconds: 15
  timeoutSeconds: 10
  failureThreshold: 2
{{- end }}

{{- define "lycosa.checked" -}}
{{- if not (or .Values.token.existingSecret .Values.tls.existingSecret) }}
{{- fail "token.existingSecret or tls.existingSecret is needed: without one, machines cannot prove themselves to each other" }}
{{- end }}
{{- if and (or .Values.api.ingress.enabled .Values.api.serviceMonitor.enabled) (not .Values.api.enabled) }}
{{- fail "api.ingress and api.serviceMonitor need api.enabled" }}
{{- end }}
{{- $most := ternary .Values.nodes.autoscaling.maxReplicas .Values.nodes.replicas .Values.nodes.autoscaling.enabled }}
{{- if gt (int $most) (int .Values.cluster.nodes) }}
{{- fail (printf "%d nodes, but cluster.nodes is %d: the coordinator refuses further nodes" (int $most) (int .Values.cluster.nodes)) }}
{{- end }}
{{- end }}
