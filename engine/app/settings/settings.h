#pragma once

// The engine's own configuration file (--config): what may lift a guard or change a pace, kept
// apart from the ConfigMap that policy authors edit. YAML, strict: an unknown key is an error with
// the nearest known one, every value is checked with its place, and times that belong together are
// checked together. Read once at start.

#include <optional>
#include <set>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "base/names.h"
#include "base/result.h"
#include "base/time.h"
#include "cluster/detection/detection.h"
#include "cluster/endpoints/endpoint.h"
#include "fence/brake/brake.h"
#include "fence/proof/demanded_proof.h"
#include "fence/rules/hold_annotations.h"
#include "fence/rules/our_taints.h"
#include "fence/rules/volume_release.h"
#include "kube/leader_election/election.h"
#include "policy/bundle/policy_set.h"

namespace moonfence::app {

// A fencer and the nodes that it is asked about.
struct FencerSetting {
  std::string name;
  std::string file;         // "": it comes with the engine
  std::string nodes;        // a label selector; "": all
  bool switch_off = false;  // it may, not only ask
  bool isolate = false;     // likewise
  nlohmann::json settings = nlohmann::json::object();
};

// What is told of an incident.
enum class IncidentPhase { Opened, Acting, Attention, Settled };

// A receiver outside the cluster that is told of incidents (app/webhook).
struct WebhookSetting {
  cluster::EndpointRules endpoint;
  std::string secret_file;  // with which messages are signed
  std::string source = {};  // which cluster tells it; "": /moonfence/NAMESPACE
  std::set<IncidentPhase> events = {IncidentPhase::Opened, IncidentPhase::Acting,
                                    IncidentPhase::Attention, IncidentPhase::Settled};
};

// A receiver of OpenTelemetry traces (app/traces).
struct TracesSetting {
  cluster::EndpointRules endpoint;  // its URL is the receiver's base, without /v1/traces
  std::string cluster = {};         // its name; "": not told
};

struct Settings {
  // How long the belief about a down node lasts before it is looked at again; zero: for ever.
  Duration cache_expiry = std::chrono::hours(1);
  // Pause between passes while something fails, and how long after the first pass the last may
  // start.
  Duration retry_interval = std::chrono::seconds(5);
  Duration retry_window = std::chrono::seconds(25);
  // How long after its last deletion an incident stays open until what replaces the deleted pods is
  // Ready; zero: not at all.
  Duration replacement_wait = std::chrono::minutes(5);
  // CSI drivers whose ControllerUnpublish keeps a node without power or network from writing. Only
  // their volume attachments are ever deleted.
  std::set<std::string> fencing_drivers;
  // Whether a detached volume is taken out of its dead node's status
  // (fence/rules/volume_release.h).
  fence::ReleaseRules release;
  // Whether policies may have a pod's status say Failed before it is deleted.
  bool fail_pods = false;
  // What fence.get may read: "group/version/resource" ("v1/resource" of the core group).
  std::set<std::string> allowed_reads;
  // What fencers may have made (fence.create), likewise; never Kubernetes' own kinds.
  std::set<std::string> allowed_writes;
  // What policies may ask beside the API server (fence.http).
  cluster::EndpointTable endpoints;
  // Which of several replicas acts (kube/leader_election/election.h).
  kube::ElectionRules election;
  // Whether the machines of nodes are watched (cluster/detection/detection.h).
  cluster::DetectionRules detection;
  // Whether new pods are kept off a node as soon as its machine is silent
  // (fence/silence/silent_taints.h).
  bool silent_taint = false;
  // How many nodes may be fenced, and when none (fence/brake/brake.h).
  fence::BrakeRules brake;
  // Whether nodes are tainted by us before something is deleted (fence/rules/our_taints.h).
  fence::Quarantine quarantine = fence::Quarantine::Off;
  // Annotations of nodes that hold them as moonfence.io/hold does (fence/rules/hold_annotations.h).
  fence::HoldMarks hold_marks;
  // What asks machines whether they have power (fence/fencers/power_watch.h), in this order.
  std::vector<FencerSetting> fencers;
  // Whether objects of medik8s' NodeHealthCheck are dealt with (fence/remediation/remediations.h).
  bool node_health_check = false;
  // Whether what is proven of a node is written to it for others
  // (fence/publication/evidence_publisher.h).
  bool publish_evidence = false;
  // Whether incidents are shown as FencingIncident objects (fence/display/incident_display.h).
  bool incident_objects = false;
  // Who is told of incidents (app/webhook/webhook.h).
  std::optional<WebhookSetting> webhook = {};
  // Who receives traces of incidents (app/traces/tracer.h).
  std::optional<TracesSetting> traces = {};
  // The least `after` of bindings that do not wait for Kubernetes (`actOn`).
  Duration least_after = policy::kLostAfter;
  // What has to be known of a node before a pod of it is deleted, whatever policies say.
  fence::DemandedProof proof;
  // No policy reaches these, whatever is bound to them.
  std::set<Namespace> protected_namespaces = {Namespace("kube-node-lease"),
                                              Namespace("kube-public"), Namespace("kube-system")};
};

// `file` stands in every message.
[[nodiscard]] Result<Settings> parse_settings(const std::string& text, const std::string& file);

}  // namespace moonfence::app
