-- orders-0 of a StatefulSet (two claims, Running) and a Deployment's pod (terminating, due at 10:06:30) on
-- node-1, which is down; volumes of csi.example.com. Fixtures as kubectl prints them.
local orders = fixture "testdata/orders.json"
local web = fixture "testdata/web.json"

local cluster = fixture "testdata/cluster.json" -- orders-0 of a CNPG Cluster
local podset = fixture "testdata/podset.json" -- orders-0 of a StrimziPodSet that does not say it is the controller
local week = fixture "testdata/week.json" -- web's pod with a week of grace, asked for at 10:06:00

local forever = fixture "testdata/forever.json" -- orders-0, whose tolerations have no tolerationSeconds

local both = "delete_pod_and_attachments"
local usual = { drivers = { "csi.example.com" } }
local patient = { drivers = { "csi.example.com" }, until_terminating = true }

return tests {
  now = "2026-11-20T10:07:00Z",

  case { name = "a StatefulSet's pod goes with its attachments", objects = orders, settings = usual,
         expect = { verdict = both, volumes = { "data-orders-0", "wal-orders-0" }, release = false } },
  case { name = "a Deployment's pod goes with its attachment", objects = web, settings = usual,
         expect = { verdict = both, volumes = { "web-data" } } },
  case { name = "with release", objects = orders, settings = { drivers = { "csi.example.com" }, release = true },
         expect = { verdict = both, release = true } },
  case { name = "one of several drivers", objects = orders,
         settings = { drivers = { "a.example.com", "csi.example.com" } }, expect = { verdict = both } },

  case { name = "without the label it is not asked about", objects = orders, settings = usual,
         patch = { ['pod.labels["moonfence.io/fence"]'] = false }, expect = { outcome = "not_selected" } },
  case { name = "any other value of the label is a no", objects = orders, settings = usual,
         patch = { ['pod.labels["moonfence.io/fence"]'] = "True" }, expect = { outcome = "not_selected" } },
  case { name = "without drivers nothing is done", objects = orders,
         expect = { verdict = "skip", reason = "~is not in setting drivers" } },
  case { name = "one volume of another driver keeps it", objects = orders, settings = usual,
         patch = { ["pod.claims[2].driver"] = "other.example.com" },
         expect = { verdict = "skip", reason = "~driver 'other.example.com' of claim wal-orders-0" } },
  case { name = "drivers are case-exact", objects = orders, settings = usual,
         patch = { ["pod.claims[1].driver"] = "CSI.example.com" },
         expect = { verdict = "skip" } },
  case { name = "a volume that is no CSI volume keeps it", objects = orders, settings = usual,
         patch = { ["pod.claims[1].driver"] = "" },
         expect = { verdict = "skip" } },
  case { name = "a shared volume keeps it", objects = orders, settings = usual,
         patch = { ["pod.claims[2].access_modes"] = { "ReadWriteOnce", "ReadWriteMany" } },
         expect = { verdict = "skip", reason = "~is not ReadWriteOnce" } },
  case { name = "a volume without access modes keeps it", objects = orders, settings = usual,
         patch = { ["pod.claims[2].access_modes"] = {} }, expect = { verdict = "skip" } },
  case { name = "ReadWriteOncePod is for one node as well", objects = orders, settings = usual,
         patch = { ["pod.claims[2].access_modes"] = { "ReadWriteOncePod" } }, expect = { verdict = both } },
  case { name = "a claim that leads nowhere is waited for", objects = orders, settings = usual,
         patch = { ["pod.claims[2].state"] = "claim_missing" },
         expect = { verdict = "wait", reason = "claim wal-orders-0 is claim_missing" } },
  case { name = "without claims there is nothing to fence", objects = orders, settings = usual,
         patch = { ["pod.raw.spec.volumes"] = false }, expect = { verdict = "skip", reason = "it has no claim" } },
  case { name = "a DaemonSet's pod is left", objects = orders, settings = usual,
         patch = { ["pod.owner.kind"] = "DaemonSet" },
         expect = { verdict = "skip" } },
  case { name = "a Job's pod is left", objects = orders, settings = usual,
         patch = { ["pod.owner.kind"] = "Job" },
         expect = { verdict = "skip" } },
  case { name = "a bare pod is left", objects = orders, settings = usual, patch = { ["pod.owner.kind"] = "" },
         expect = { verdict = "skip", reason = "~owner kind ''" } },
  case { name = "volumes cannot be read: deferred", objects = orders, settings = usual, fail = { "volumes" },
         expect = { outcome = "deferred" } },

  case { name = "until terminating: a Running pod waits", objects = orders, settings = patient,
         expect = { verdict = "wait", reason = "~nobody has asked" } },
  case { name = "until terminating: before the deadline it waits", objects = web, settings = patient,
         now = "2026-11-20T10:06:10Z", expect = { verdict = "wait", seconds = 20 } },
  case { name = "until terminating: at the deadline it goes", objects = web, settings = patient,
         now = "2026-11-20T10:06:30Z", expect = { verdict = both } },
  case { name = "until terminating: nobody waits a week on a silent node", objects = week, settings = patient,
         now = "2026-11-20T11:05:50Z", expect = { verdict = "wait", seconds = 10 } },
  case { name = "until terminating: when the limit has passed it goes", objects = week, settings = patient,
         now = "2026-11-20T11:06:00Z", expect = { verdict = both } },

  case { name = "a CNPG Cluster's pod is left unless its kind is named", objects = cluster, settings = usual,
         expect = { verdict = "skip", reason = "owner kind 'Cluster' is not in setting kinds" } },
  case { name = "a kind with its group", objects = cluster,
         settings = { drivers = { "csi.example.com" }, kinds = { "Cluster.postgresql.cnpg.io" } },
         expect = { verdict = both } },
  case { name = "the same kind of another group is another kind", objects = cluster,
         settings = { drivers = { "csi.example.com" }, kinds = { "Cluster.example.com" } },
         expect = { verdict = "skip" } },
  case { name = "a kind without a group is of any", objects = cluster,
         settings = { drivers = { "csi.example.com" }, kinds = { "Cluster" } }, expect = { verdict = both } },
  case { name = "an owner that does not say controller is named, and counts when its kind does", objects = podset,
         settings = usual, expect = { verdict = "skip", reason = "owner kind 'StrimziPodSet' is not in setting kinds" } },
  case { name = "a ReplicationController's pod is left unless its kind is named", objects = orders, settings = usual,
         patch = { ["pod.owner.kind"] = "ReplicationController", ["pod.owner.api_version"] = "v1" },
         expect = { verdict = "skip", reason = "owner kind 'ReplicationController' is not in setting kinds" } },
  case { name = "a ReplicationController's pod", objects = orders,
         settings = { drivers = { "csi.example.com" }, kinds = { "ReplicationController" } },
         patch = { ["pod.owner.kind"] = "ReplicationController", ["pod.owner.api_version"] = "v1" },
         expect = { verdict = both } },
  case { name = "a pod that tolerates the loss of its node for ever is judged like others", objects = forever,
         settings = usual, expect = { verdict = both } },

  case { name = "a StrimziPodSet's pod", objects = podset,
         settings = { drivers = { "csi.example.com" }, kinds = { "StrimziPodSet.core.strimzi.io" } },
         expect = { verdict = both } },
}
