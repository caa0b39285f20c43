#include "app/fencer_rehearsal/rehearsal_facts.h"

#include <algorithm>
#include <array>
#include <set>
#include <string_view>
#include <utility>

#include "base/text.h"
#include "cluster/nodes/ready_condition.h"
#include "fence/record/incident_record.h"
#include "fence/rules/selection.h"
#include "kube/leases/lease.h"
#include "kube/objects/decode.h"
#include "kube/wire/url.h"

namespace moonfence::app {

using nlohmann::json;

namespace {

// "a, b, c and 2 more"
std::string named(const std::vector<std::string>& all) {
  constexpr std::size_t kShown = 5;
  const std::size_t shown = std::min(all.size(), kShown);
  return joined({all.data(), shown}, ", ") +
         (all.size() > shown ? " and " + std::to_string(all.size() - shown) + " more" : "");
}

std::string name_in(const json& object) {
  static const json::json_pointer at("/metadata/name");
  return object.contains(at) && object.at(at).is_string()
             ? escaped(object.at(at).get<std::string>(), 256)
             : std::string("?");
}

// Of a DaemonSet, static, or finished: `kubectl drain` leaves these.
bool is_left_by_a_drain(const kube::Pod& pod) {
  const auto why = fence::left_alone(pod);
  return why == audit::Reason::DaemonSetPod || why == audit::Reason::MirrorPod ||
         why == audit::Reason::FinishedPod;
}

Result<void> read_pods(const GetJson& get, RehearsalFacts& facts) {
  const auto take = [&facts](const json& item) -> Result<void> {
    const auto pod = kube::decode_pod(item);
    if (!pod) {
      return failure(Error(pod.error()));
    }
    const std::string name = escaped(pod->ref.text(), 256);
    if (!is_left_by_a_drain(*pod)) {
      facts.pods.push_back(name);
    } else if (const auto why = fence::hold_on(item)) {
      facts.holds.push_back("pod " + name + ": " + *why);
    }
    ++facts.left;
    return {};
  };
  return each_item(
      get, "/api/v1/pods",
      {{"fieldSelector", "spec.nodeName=" + kube::selector_value(facts.node.name.text())}}, "pods",
      take);
}

Result<void> read_attachments(const GetJson& get, RehearsalFacts& facts) {
  return each_item(get, "/apis/storage.k8s.io/v1/volumeattachments", {}, "VolumeAttachments",
                   [&facts](const json& item) -> Result<void> {
                     const auto attachment = kube::decode_attachment(item);
                     if (!attachment) {
                       return failure(Error(attachment.error()));
                     }
                     if (attachment->node == facts.node.name) {
                       facts.attachments.push_back(escaped(attachment->name, 256));
                     }
                     return {};
                   });
}

// Records of incidents that act. One that nobody understands may be of this node.
Result<void> read_records(const GetJson& get, const std::string& core, RehearsalFacts& facts) {
  return each_item(
      get, core + "/configmaps", {{"labelSelector", "moonfence.io/incident=open"}},
      "incidents' records", [&facts](const json& item) -> Result<void> {
        static const json::json_pointer at("/data/record.json");
        const auto record = fence::parse_record(item.contains(at) && item.at(at).is_string()
                                                    ? item.at(at).get<std::string>()
                                                    : std::string());
        if (!record) {
          facts.incidents.push_back("ConfigMap " + name_in(item) + ", which cannot be understood");
        } else if (record->node == facts.node.name) {
          facts.incidents.push_back(escaped(record->id.text(), 64));
        }
        return {};
      });
}

// What is not there is null.
Result<json> get_if_there(const GetJson& get, const std::string& path) {
  auto object = get(path, {});
  if (!object && object.error().kind == Error::Kind::NotFound) {
    return json();
  }
  return object;
}

Result<void> read_leader(const GetJson& get, const std::string& space, RehearsalFacts& facts) {
  const auto object =
      get_if_there(get, "/apis/coordination.k8s.io/v1/namespaces/" + space + "/leases/moonfence");
  if (!object || object->is_null()) {
    return object ? Result<void>() : failure(Error(object.error()));
  }
  const auto lease = kube::decode_lease(*object);
  if (!lease) {
    return failure(Error(lease.error()));
  }
  facts.leader = lease->record.holder;
  // "<holder> <node>", and only of its holder.
  const auto seat = split(lease->notes.seat, ' ');
  if (seat.size() >= 2 && seat[0] == facts.leader) {
    facts.leader_node = std::string(seat[1]);
  }
  return {};
}

// What the replica that leads tells of the whole: incidents that delete nothing have no record.
Result<void> read_report(const GetJson& get, const std::string& core, RehearsalFacts& facts) {
  const auto map = get_if_there(get, core + "/configmaps/moonfence-status");
  if (!map) {
    return failure(Error(map.error()));
  }
  const auto data = map->is_object() ? map->find("data") : map->end();
  if (!map->is_object() || data == map->end() || !data->is_object()) {
    return {};
  }
  for (const auto& [instance, text] : data->items()) {
    if (!facts.leader.starts_with(instance + "_") || !text.is_string()) {
      continue;
    }
    const json report = json::parse(text.get<std::string>(), nullptr, /*allow_exceptions=*/false);
    const json::json_pointer at("/situation/incidents");
    if (!report.is_object() || (report.contains(at) && !report.at(at).is_array())) {
      return failure(Error::Kind::Malformed,
                     "what the leader says in ConfigMap moonfence-status cannot be understood",
                     "update all replicas and this program to one version");
    }
    const json incidents = report.contains(at) ? report.at(at) : json::array();
    for (const json& incident : incidents) {
      const auto node = incident.is_object() ? incident.find("node") : incident.end();
      if (incident.is_object() && node != incident.end() && *node == facts.node.name.text()) {
        facts.incidents.push_back("one that has deleted nothing, by ConfigMap moonfence-status");
      }
    }
    const json::json_pointer frozen("/situation/frozen");
    facts.is_frozen = report.contains(frozen) && report.at(frozen) == true;
  }
  return {};
}

bool is_of_control_plane(const kube::Node& node) {
  constexpr std::array<std::string_view, 3> kRoles = {"node-role.kubernetes.io/control-plane",
                                                      "node-role.kubernetes.io/master",
                                                      "node-role.kubernetes.io/etcd"};
  return std::any_of(kRoles.begin(), kRoles.end(), [&node](std::string_view role) {
    return node.labels.contains(std::string(role)) ||
           std::any_of(node.taints.begin(), node.taints.end(),
                       [role](const kube::Taint& taint) { return taint.key == role; });
  });
}

void object_to_state(const RehearsalFacts& facts, const kube::Node& asked,
                     std::vector<std::string>& all) {
  const kube::Node& node = facts.node;
  if (node.uid != asked.uid || node.boot_id != asked.boot_id) {
    all.emplace_back(
        "it was made anew, or its machine has restarted, since its fencers were asked");
  }
  if (cluster::readiness_of(node) != cluster::Readiness::True) {
    all.emplace_back("it is not Ready: rehearse on a machine that is well");
  }
  if (!node.unschedulable) {
    all.push_back("it is not cordoned: kubectl drain " + node.name.text() + " --ignore-daemonsets");
  }
  if (!facts.pods.empty()) {
    all.push_back("pods run on it that would end: " + named(facts.pods) + "; kubectl drain " +
                  node.name.text() + " --ignore-daemonsets moves them");
  }
  if (!facts.attachments.empty()) {
    all.push_back("volumes are attached to it, by VolumeAttachment " + named(facts.attachments) +
                  ": wait until they are gone");
  }
}

}  // namespace

Result<kube::Node> read_node(const GetJson& get, const std::string& name) {
  const auto segment = kube::path_segment(name);
  if (!segment) {
    return failure(Error(segment.error()));
  }
  auto object = get("/api/v1/nodes/" + *segment, {});
  if (!object) {
    Error error = object.error();
    if (error.kind == Error::Kind::NotFound) {
      error.hint = "kubectl get nodes shows their names";
    }
    return failure(std::move(error));
  }
  auto node = kube::decode_node(*object, /*keep_raw=*/true);
  if (node && node->name.text() != name) {
    return failure(Error::Kind::Malformed, "the API server has answered with another node");
  }
  return node;
}

Result<RehearsalFacts> read_facts(const GetJson& get, const RehearsalScope& scope) {
  auto node = read_node(get, scope.node);
  if (!node) {
    return failure(std::move(node.error()));
  }
  RehearsalFacts facts{.node = *std::move(node)};
  if (const auto why = fence::hold_on_node(*facts.node.raw, scope.hold_marks)) {
    facts.holds.push_back("node " + facts.node.name.text() + ": " + *why);
  }
  const std::string core = "/api/v1/namespaces/" + scope.engine_namespace;
  for (const auto& done : {read_pods(get, facts), read_attachments(get, facts),
                           read_leader(get, scope.engine_namespace, facts),
                           read_records(get, core, facts), read_report(get, core, facts)}) {
    if (!done) {
      return failure(Error(done.error()));
    }
  }
  return facts;
}

std::vector<std::string> objections(const RehearsalFacts& facts, const kube::Node& asked,
                                    bool control_plane) {
  std::vector<std::string> all;
  object_to_state(facts, asked, all);
  if (!facts.holds.empty()) {
    all.push_back("somebody holds it: " + named(facts.holds));
  }
  if (!facts.incidents.empty()) {
    all.push_back("an incident of it may be open: " + named(facts.incidents) +
                  "; `moonfence status` shows it");
  }
  if (facts.is_frozen) {
    all.emplace_back(
        "moonfence's leader deletes nothing at the moment, since too much is wrong: `moonfence "
        "status` says what; wait until that is over");
  }
  if (is_of_control_plane(facts.node) && !control_plane) {
    all.emplace_back("it is a machine of the control plane: if you mean it, add --control-plane");
  }
  if (!facts.leader.empty() && facts.leader_node == facts.node.name.text()) {
    all.emplace_back("moonfence's leader runs on it: delete its pod, and the other replica leads");
  }
  if (!facts.leader.empty() && facts.leader_node.empty() && !control_plane) {
    all.emplace_back(
        "moonfence's leader does not say on which node it runs, for want of --node-name: if it is "
        "not this one, add --control-plane");
  }
  return all;
}

}  // namespace moonfence::app
