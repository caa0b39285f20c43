{{/* Values that contradict each other or the cluster: each fails with one sentence, before anything is changed. What one value alone
     can be is in values.schema.json; whose an object is, is asked where it is written (moonfence.checkOwner). */}}

{{- define "moonfence.check" -}}
{{- $config := include "moonfence.config" . | fromJson -}}
{{- include "moonfence.checkNamespace" . -}}
{{- include "moonfence.checkRights" . -}}
{{- if and (eq "on" (toString $config.silentTaint)) (ne "on" (toString $config.detection)) -}}
{{- fail "config.silentTaint is on, and knows of silence by config.detection alone: turn that on too." -}}
{{- end -}}
{{- range $config.fencers -}}
{{- if and .isolate (not $config.allowedWrites) -}}
{{- fail (printf "config.fencers: %s has isolate: true, and config.allowedWrites names nothing that it may make (docs/proof.md)." .fencer) -}}
{{- end -}}
{{- include "moonfence.checkFencer" (dict "config" $config "fencer" .) -}}
{{- include "moonfence.checkFile" (dict "root" $ "what" (printf "config.fencers: %s: file" .fencer) "file" .file) -}}
{{- end -}}
{{- range $name, $endpoint := $config.endpoints -}}
{{- range $part := list "auth" "tls" -}}
{{- range $key, $file := default dict (get $endpoint $part) -}}
{{- if or (hasSuffix "File" $key) (eq $part "tls") -}}
{{- include "moonfence.checkFile" (dict "root" $ "what" (printf "config.endpoints.%s.%s.%s" $name $part $key) "file" $file) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- with $config.webhook -}}
{{- include "moonfence.checkFile" (dict "root" $ "what" "config.webhook.secretFile" "file" .secretFile) -}}
{{- $webhook := . -}}
{{- range $part := list "auth" "tls" -}}
{{- range $key, $file := default dict (get $webhook $part) -}}
{{- if or (hasSuffix "File" $key) (eq $part "tls") -}}
{{- include "moonfence.checkFile" (dict "root" $ "what" (printf "config.webhook.%s.%s" $part $key) "file" $file) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- with $config.traces -}}
{{- $traces := . -}}
{{- range $part := list "auth" "tls" -}}
{{- range $key, $file := default dict (get $traces $part) -}}
{{- if or (hasSuffix "File" $key) (eq $part "tls") -}}
{{- include "moonfence.checkFile" (dict "root" $ "what" (printf "config.traces.%s.%s" $part $key) "file" $file) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- $places := keys .Values.configFiles -}}
{{- range .Values.credentials -}}
{{- if has .name $places -}}
{{- fail (printf "credentials: %s is in /etc/moonfence twice: give each its own name, and none that configFiles has." .name) -}}
{{- end -}}
{{- $places = append $places .name -}}
{{- end -}}
{{- include "moonfence.checkWrites" . -}}
{{- include "moonfence.checkPolicies" . -}}
{{- include "moonfence.checkConfiguration" . -}}
{{- include "moonfence.checkCluster" . -}}
{{- end -}}

{{/* The ResourceQuota counts all pods of system-cluster-critical in the namespace, and the account reads all its ConfigMaps. */}}
{{- define "moonfence.checkNamespace" -}}
{{- $space := .Release.Namespace -}}
{{- if or (has $space (list "default" "kube-node-lease" "kube-public" "kube-system")) (not (regexMatch "^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$" $space)) -}}
{{- fail (printf "moonfence needs a namespace of its own, and %q is none: its quota would keep other pods out. Say --namespace moonfence --create-namespace." $space) -}}
{{- end -}}
{{- end -}}

{{/* What is configured in the cluster, and would be lost: by a forgotten -f, or to a release that takes over. */}}
{{- define "moonfence.checkConfiguration" -}}
{{- $there := lookup "v1" "ConfigMap" .Release.Namespace "moonfence-config" -}}
{{- if $there -}}
{{- $default := include "moonfence.normal" (dict "fencingDrivers" list) -}}
{{- $before := include "moonfence.normal" (mergeOverwrite (dict "fencingDrivers" list) (default "" (get (default dict $there.data) "config.yaml") | fromYaml)) -}}
{{- $now := include "moonfence.config" . -}}
{{- $release := toString (dig "metadata" "annotations" "meta.helm.sh/release-name" "" $there) -}}
{{- if and (eq $release .Release.Name) (eq $now $default) (ne $before $default) (not .Values.reset) -}}
{{- fail (printf "this release has a configuration in ConfigMap moonfence-config of namespace %s, and these values have none: it would become the default. Give the values again (-f, or --reset-then-reuse-values), or say reset=true." .Release.Namespace) -}}
{{- else if and (not $release) .Values.takeOver (ne $now $before) -}}
{{- fail (printf "ConfigMap moonfence-config has another configuration than these values, and would be overwritten: write into config what this shows, and change it after the take-over: kubectl -n %s get configmap moonfence-config -o yaml" .Release.Namespace) -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{- define "moonfence.checkRights" -}}
{{- $because := dict
  "taint" "config.quarantine, config.silentTaint or a binding with allow: [out-of-service]" "release" "config.release" "failPods" "config.failPods"
  "networkFence" "fencer network-fence" "isolate" "isolate: true of a fencer" "metal3" "fencer metal3"
  "fenceAgentsRemediation" "fencer fence-agents-remediation" "publishEvidence" "config.publishEvidence"
  "incidents" "config.incidentObjects"
  "remediation" "config.remediation" "serving" "secureServing.enabled" "reads" "config.allowedReads" -}}
{{- range $right, $needed := include "moonfence.needs" . | fromJson -}}
{{- if and $needed (eq "false" (toString (get $.Values.rights $right))) -}}
{{- fail (printf "rights.%s is false, and %s needs it: say auto, or turn that off." $right (get $because $right)) -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* (config, fencer): one that comes with the engine may read and write what it does not work without. */}}
{{- define "moonfence.checkFencer" -}}
{{- $host := "metal3.io/v1alpha1/baremetalhosts" -}}
{{- $storage := "csiaddons.openshift.io/v1alpha1" -}}
{{- $agents := "fence-agents-remediation.medik8s.io/v1alpha1" -}}
{{- $reads := dict "metal3" (list "v1/nodes" $host)
  "network-fence" (list "v1/nodes" (printf "%s/csiaddonsnodes" $storage) (printf "%s/networkfences" $storage))
  "fence-agents-remediation" (list "v1/nodes" "coordination.k8s.io/v1/leases" (printf "%s/fenceagentsremediations" $agents)) -}}
{{- $writes := dict "metal3" (ternary (list $host) list (eq true .fencer.switchOff))
  "network-fence" (ternary (list (printf "%s/networkfences" $storage)) list (eq true .fencer.isolate)) -}}
{{- if not .fencer.file -}}
{{- range $key, $needed := dict "allowedReads" (default list (get $reads .fencer.fencer)) "allowedWrites" (default list (get $writes .fencer.fencer)) -}}
{{- range $needed -}}
{{- if not (has . (default list (get $.config $key))) -}}
{{- fail (printf "config.fencers: %s needs %s, which config.%s does not name: add it." $.fencer.fencer . $key) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* What may be written has a right to it, and in mode observe there is none. */}}
{{- define "moonfence.checkWrites" -}}
{{- $rights := include "moonfence.rights" . | fromJson -}}
{{- $acts := eq .Values.mode "enforce" -}}
{{- $extra := list -}}
{{- range $rule := .Values.rights.extra -}}
{{- if or (has "create" $rule.verbs) (has "patch" $rule.verbs) -}}
{{- if not $acts -}}
{{- fail "rights.extra gives a right to write, and in mode observe nothing is written: leave out create and patch, or say mode=enforce." -}}
{{- end -}}
{{- range $group := $rule.apiGroups }}{{ range $rule.resources }}{{ $extra = append $extra (printf "%s/%s" $group .) }}{{ end }}{{ end -}}
{{- end -}}
{{- end -}}
{{- $own := dict "metal3.io/baremetalhosts" "metal3" "csiaddons.openshift.io/networkfences" "isolate" -}}
{{- range (include "moonfence.config" . | fromJson).allowedWrites -}}
{{- $kind := printf "%s/%s" (splitList "/" . | first) (splitList "/" . | last) -}}
{{- $right := get $own $kind -}}
{{- if not (or (not $acts) (has $kind $extra) (and $right (get $rights $right))) -}}
{{- fail (printf "config.allowedWrites names %s, and nothing gives the right to write it: say rights.%s, or leave it out." . (ternary (printf "%s=true" $right) "extra" (ne "" $right))) -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* (root, what, file): a file of the configuration is one that the pods have. */}}
{{- define "moonfence.checkFile" -}}
{{- $there := list "config.yaml" -}}
{{- range $name, $_ := .root.Values.configFiles }}{{ $there = append $there $name }}{{ end -}}
{{- $path := trimPrefix "/etc/moonfence/" (default "" .file) -}}
{{- $known := or (not .file) (has $path $there) -}}
{{- range .root.Values.credentials -}}
{{- if hasPrefix (printf "%s/" .name) $path }}{{ $known = true }}{{ end -}}
{{- end -}}
{{- if not $known -}}
{{- fail (printf "%s is %s, which no pod has: name its Secret in credentials, or give the file in configFiles." .what .file) -}}
{{- end -}}
{{- end -}}

{{- define "moonfence.checkPolicies" -}}
{{- $config := include "moonfence.config" . | fromJson -}}
{{- $policies := .Values.policies -}}
{{- range (include "moonfence.bindings" . | fromJson).bindings -}}
{{- $source := default "builtin" .source -}}
{{- if and (ne $source "builtin") (not (hasKey $policies.files $source)) -}}
{{- fail (printf "policies.bindings: the source of %s is %s, which is not in policies.files." .policy $source) -}}
{{- end -}}
{{- if and (has .actOn (list "lost" "off")) (ne "on" (toString $config.detection)) -}}
{{- fail (printf "policies.bindings: %s has actOn: %s, which does nothing without config.detection: turn that on too." .policy .actOn) -}}
{{- end -}}
{{- end -}}
{{- if and (not $policies.bindings) (or $policies.files (ne "" (toString $policies.mode))) -}}
{{- fail "policies.files and policies.mode do nothing without policies.bindings: bind a policy, or leave them out." -}}
{{- end -}}
{{- if and $policies.bindings .Values.reset (ne (include "moonfence.config" .) (include "moonfence.normal" (dict "fencingDrivers" list))) -}}
{{- fail "reset is true, and these values have bindings and a configuration, so nothing is to go: leave reset out." -}}
{{- end -}}
{{- $space := .Release.Namespace -}}
{{- $there := lookup "v1" "ConfigMap" $space "moonfence-policies" -}}
{{- $notes := default dict (dig "metadata" "annotations" dict $there) -}}
{{- $ours := eq .Release.Name (toString (get $notes "meta.helm.sh/release-name")) -}}
{{- $kept := eq "keep" (toString (get $notes "helm.sh/resource-policy")) -}}
{{- $had := eq "of-release" (toString (dig "metadata" "annotations" "moonfence.io/policies" "" (lookup "v1" "ConfigMap" $space "moonfence-config"))) -}}
{{- if and $there $policies.bindings $ours $kept (not $had) -}}
{{- fail (printf "ConfigMap moonfence-policies was left to somebody else (helm.sh/resource-policy: keep). Leave policies.bindings empty, or take it back first: kubectl -n %s annotate configmap moonfence-policies helm.sh/resource-policy-" $space) -}}
{{- else if and $there (not $policies.bindings) (not $kept) -}}
{{- if and $ours (not .Values.reset) -}}
{{- fail "this release has bindings in ConfigMap moonfence-policies, and these values have none: they would be deleted. Give the values again (-f, or --reset-then-reuse-values), or say reset=true." -}}
{{- else if and $ours (hasKey (default dict $there.data) "mode") -}}
{{- fail (printf "ConfigMap moonfence-policies has the key mode, by which somebody stopped moonfence, and would be deleted with it. Take the key away first, when it has done its work: kubectl -n %s edit configmap moonfence-policies" $space) -}}
{{- else if and (not $ours) $had -}}
{{- fail (printf "somebody made ConfigMap moonfence-policies anew, and Helm would delete it as this release's. Annotate it first: kubectl -n %s annotate configmap moonfence-policies helm.sh/resource-policy=keep" $space) -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* What has to be there already. `helm template` sees no cluster, and asks for nothing. */}}
{{- define "moonfence.checkCluster" -}}
{{- if lookup "v1" "Namespace" "" "kube-system" -}}
{{- /* an uninstall has left it, and a later upgrade to enforce would stumble over it */ -}}
{{- range $object := include "moonfence.objects" (dict "root" $ "file" "admission") | fromJsonArray -}}
{{- if and $.Values.leaderPolicy (eq $object.metadata.name "moonfence-leader") }}{{ include "moonfence.checkOwner" (dict "root" $ "object" $object) }}{{ end -}}
{{- end -}}
{{- range $value, $kind := dict "serviceMonitor" "ServiceMonitor" "alerts" "PrometheusRule" -}}
{{- if and (get $.Values.monitoring $value).enabled (not ($.Capabilities.APIVersions.Has (printf "monitoring.coreos.com/v1/%s" $kind))) -}}
{{- fail (printf "monitoring.%s is enabled, and this cluster has no kind %s: install Prometheus Operator first, or leave it off." $value $kind) -}}
{{- end -}}
{{- end -}}
{{- $config := include "moonfence.config" . | fromJson -}}
{{- $rights := include "moonfence.rights" . | fromJson -}}
{{- $spaces := list -}}
{{- if $rights.fenceAgentsRemediation -}}
{{- $spaces = default (list "fence-agents-remediation") (include "moonfence.farNamespaces" $config | fromJson).namespaces -}}
{{- end -}}
{{- if $rights.release -}}
{{- range append (values (default dict $config.attacherLeases)) (default "kube-system/kube-controller-manager" $config.controllerLease) -}}
{{- $spaces = append $spaces (splitn "/" 2 .)._0 -}}
{{- end -}}
{{- end -}}
{{- range $spaces -}}
{{- if not (lookup "v1" "Namespace" "" .) -}}
{{- fail (printf "the configuration names namespace %s, which is not there: what is to be read in it needs a Role in it. Correct config, or make the namespace first." .) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}
