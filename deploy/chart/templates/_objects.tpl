{{/* Objects of deploy/, from the copies in objects/ that scripts/manifests writes. */}}

{{/* (root, file, farNamespace) -> JSON: the objects of a file, each place filled in. */}}
{{- define "moonfence.objects" -}}
{{- $config := include "moonfence.config" .root | fromJson -}}
{{- $lease := splitn "/" 2 (default "kube-system/kube-controller-manager" $config.controllerLease) -}}
{{- $protected := list "kube-system" "kube-public" "kube-node-lease" -}}
{{- if hasKey $config "protectedNamespaces" }}{{ $protected = $config.protectedNamespaces }}{{ end -}}
{{- $quoted := list -}}
{{- range $protected }}{{ $quoted = append $quoted (printf "'%s'" .) }}{{ end -}}
{{- .root.Files.Get (printf "objects/%s.json" .file)
  | replace "@namespace@" .root.Release.Namespace
  | replace "@controllerNamespace@" $lease._0
  | replace "@controllerLease@" $lease._1
  | replace "@farNamespace@" (default "" .farNamespace)
  | replace "@protectedNamespaces@" (printf "[%s]" (join ", " $quoted)) -}}
{{- end -}}

{{/* (root, object): one object of the release, unless somebody else's is there. */}}
{{- define "moonfence.emit" -}}
{{- include "moonfence.checkOwner" . -}}
{{- $about := .object.metadata -}}
{{- /* Without the last binding with a Lease as parameter an API server stops looking at Leases (docs/install.md), and with a kind
     everything of it goes. */ -}}
{{- if or (eq .object.kind "CustomResourceDefinition") (and (hasPrefix "ValidatingAdmission" .object.kind) (eq $about.name "moonfence-leader")) -}}
{{- $_ := set $about "annotations" (dict "helm.sh/resource-policy" "keep") -}}
{{- end -}}
---
{{ toYaml .object }}
{{ end -}}

{{/* (root, file, farNamespace): all objects of a file. */}}
{{- define "moonfence.emitFile" -}}
{{- range $object := include "moonfence.objects" . | fromJsonArray }}
{{- if and $.root.Values.secureServing.enabled (eq $object.kind "Service") }}
{{- $_ := set $object.spec "ports" (append $object.spec.ports (dict "name" "status" "port" 8082 "targetPort" "status")) }}
{{- end }}
{{- if or $.root.Values.leaderPolicy (ne $object.metadata.name "moonfence-leader") }}
{{ include "moonfence.emit" (dict "root" $.root "object" $object) }}
{{- end }}
{{- end -}}
{{- end -}}

{{/* Fails where the object is there and is not this release's. `helm template` sees no cluster, and asks nobody. */}}
{{- define "moonfence.checkOwner" -}}
{{- $about := .object.metadata -}}
{{- $there := lookup .object.apiVersion .object.kind (default "" $about.namespace) $about.name -}}
{{- if $there -}}
{{- $what := printf "%s %s" .object.kind $about.name -}}
{{- $notes := default dict $there.metadata.annotations -}}
{{- $release := get $notes "meta.helm.sh/release-name" -}}
{{- $space := get $notes "meta.helm.sh/release-namespace" -}}
{{- $foreign := and $release (or (ne $release .root.Release.Name) (ne $space .root.Release.Namespace)) -}}
{{- $kept := and (eq "keep" (toString (get $notes "helm.sh/resource-policy"))) (not (lookup "apps/v1" "Deployment" $space "moonfence")) -}}
{{- if and $foreign $kept -}}
{{- fail (printf "%s was left by release %s in namespace %s. Install under that name again, or delete it first and then restart all API servers (deploy/chart/README.md, Uninstalling)." $what $release $space) -}}
{{- else if $foreign -}}
{{- fail (printf "%s belongs to release %s in namespace %s. There is one moonfence in a cluster: upgrade that release, or uninstall it first." $what $release $space) -}}
{{- else if and (not $release) (eq $about.name "moonfence-policies") -}}
{{- fail "ConfigMap moonfence-policies is there, and is not of this release. Leave policies.bindings empty to keep it, or delete it yourself first." -}}
{{- else if and (not $release) (not .root.Values.takeOver) -}}
{{- fail (printf "%s is there already, and no release of Helm has it: moonfence was installed by other means. Remove that first (docs/install.md, Removing), or take it over: takeOver=true with --take-ownership --force-conflicts." $what) -}}
{{- end -}}
{{- range $there.subjects -}}
{{- if and (eq .kind "ServiceAccount") .namespace (ne .namespace $.root.Release.Namespace) -}}
{{- fail (printf "%s is of the moonfence in namespace %s. Install into that namespace, or remove that one first (docs/install.md, Removing)." $what .namespace) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* (root, file): with takeOver, fails where a right of the manifests is there that these values do not give: it would stay. */}}
{{- define "moonfence.checkAbsent" -}}
{{- if .root.Values.takeOver -}}
{{- range include "moonfence.objects" . | fromJsonArray -}}
{{- if hasSuffix "RoleBinding" .kind -}}
{{- $there := lookup .apiVersion .kind (default "" .metadata.namespace) .metadata.name -}}
{{- if and $there (not (dig "metadata" "annotations" "meta.helm.sh/release-name" "" $there)) -}}
{{- fail (printf "%s %s is there and gives moonfence a right that these values do not ask for: delete it first (kubectl delete), or ask for the right (mode, rights)." .kind .metadata.name) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}
