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

// A static pod of the control plane, as kubeadm runs it.
bool is_control_plane_pod(const kube::Pod& pod) {
  const auto tier = pod.labels.find("tier");
  return pod.is_mirror && pod.ref.space.text() == "kube-system" && tier != pod.labels.end() &&
         tier->second == "control-plane";
}

Result<void> read_namespaces(const GetJson& get, const std::set<std::string>& names,
                             RehearsalFacts& facts) {
  for (const std::string& name : names) {
    const auto segment = kube::path_segment(name);
    if (!segment) {
      return failure(Error(segment.error()));
    }
    const auto object = get("/api/v1/namespaces/" + *segment, {});
    if (!object) {
      return failure(Error(object.error()));
    }
    static const json::json_pointer at("/metadata/name");
    if (!object->is_object() || !object->contains(at) || object->at(at) != name) {
      return failure(Error::Kind::Malformed,
                     "the API server's namespace " + escaped(name, 256) + " cannot be understood");
    }
    if (const auto why = fence::hold_on(*object)) {
      facts.holds.push_back("namespace " + escaped(name, 256) + ": " + *why);
    }
  }
  return {};
}

Result<void> read_pods(const GetJson& get, RehearsalFacts& facts) {
  std::set<std::string> namespaces;
  const auto take = [&facts, &namespaces](const json& item) -> Result<void> {
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
    namespaces.insert(pod->ref.space.text());
    facts.control_plane = facts.control_plane || is_control_plane_pod(*pod);
    ++facts.left;
    return {};
  };
  auto done = each_item(
      get, "/api/v1/pods",
      {{"fieldSelector", "spec.nodeName=" + kube::selector_value(facts.node.name.text())}}, "pods",
      take);
  return done ? read_namespaces(get, namespaces, facts) : done;
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

// The other machines of the control plane, which have to bear it alone.
Result<void> read_peers(const GetJson& get, RehearsalFacts& facts) {
  facts.control_plane = facts.control_plane || is_of_control_plane(facts.node);
  if (!facts.control_plane) {
    return {};
  }
  std::set<NodeName> of_pods;
  const auto take_pod = [&of_pods](const json& item) -> Result<void> {
    const auto pod = kube::decode_pod(item);
    if (!pod) {
      return failure(Error(pod.error()));
    }
    if (is_control_plane_pod(*pod)) {
      of_pods.insert(pod->node);
    }
    return {};
  };
  const auto take = [&facts, &of_pods](const json& item) -> Result<void> {
    const auto node = kube::decode_node(item);
    if (!node) {
      return failure(Error(node.error()));
    }
    if (node->name != facts.node.name &&
        (is_of_control_plane(*node) || of_pods.contains(node->name))) {
      ++facts.peers;
      if (cluster::readiness_of(*node) != cluster::Readiness::True || node->unschedulable) {
        facts.weak_peers.push_back(escaped(node->name.text(), 256));
      }
    }
    return {};
  };
  auto done = each_item(get, "/api/v1/namespaces/kube-system/pods",
                        {{"labelSelector", "tier=control-plane"}}, "pods", take_pod);
  return done ? each_item(get, "/api/v1/nodes", {}, "nodes", take) : done;
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

// By the server's clock: nobody leads whose time has run out.
std::string why_nobody_leads(const kube::LeaseRecord& record, WallTime now) {
  if (record.holder.empty()) {
    return "moonfence's Lease has no holder";
  }
  if (!record.renewed || now - *record.renewed > record.duration ||
      *record.renewed - now > record.duration) {
    return "moonfence's leader does not renew its Lease";
  }
  return {};
}

Result<void> read_leader(const GetJson& get, const RehearsalScope& scope, RehearsalFacts& facts) {
  const std::string& space = scope.engine_namespace;
  const auto object =
      get_if_there(get, "/apis/coordination.k8s.io/v1/namespaces/" + space + "/leases/moonfence");
  if (!object) {
    return failure(Error(object.error()));
  }
  if (object->is_null()) {
    facts.untold = "moonfence's Lease is not there: is " + escaped(space, 256) +
                   " the namespace in which the engine runs? -n names it";
    return {};
  }
  const auto lease = kube::decode_lease(*object);
  if (!lease) {
    return failure(Error(lease.error()));
  }
  if (const std::string why = why_nobody_leads(lease->record, scope.now()); !why.empty()) {
    facts.untold = why + ": `moonfence status` shows who leads; wait until somebody does";
    return {};
  }
  facts.leader = lease->record.holder;
  // "<holder> <node>", and only of its holder.
  const auto seat = split(lease->notes.seat, ' ');
  if (seat.size() >= 2 && seat[0] == facts.leader) {
    facts.leader_node = std::string(seat[1]);
  }
  return {};
}

// What that replica writes in ConfigMap moonfence-status; null: nothing that can be understood.
json report_of_leader(const json& map, const std::string& leader) {
  const auto data = map.is_object() ? map.find("data") : map.end();
  if (!map.is_object() || data == map.end() || !data->is_object()) {
    return {};
  }
  for (const auto& [instance, text] : data->items()) {
    if (leader.starts_with(instance + "_") && text.is_string()) {
      return json::parse(text.get<std::string>(), nullptr, /*allow_exceptions=*/false);
    }
  }
  return {};
}

// All open incidents, by their nodes' names, and whether it is frozen; false: it does not say.
bool take_situation(const json& situation, RehearsalFacts& facts) {
  const auto member = [&situation](const char* name) {
    return situation.is_object() && situation.contains(name) ? situation.at(name) : json();
  };
  const json incidents = member("incidents");
  const json frozen = member("frozen");
  const json open = member("openIncidents");
  if (!incidents.is_array() || !frozen.is_boolean() || !open.is_number_unsigned() ||
      open.get<std::uint64_t>() != incidents.size()) {
    return false;
  }
  for (const json& incident : incidents) {
    const json node =
        incident.is_object() && incident.contains("node") ? incident.at("node") : json();
    if (!node.is_string()) {
      return false;
    }
    if (node == facts.node.name.text()) {
      facts.incidents.push_back("one that has deleted nothing, by ConfigMap moonfence-status");
    }
  }
  facts.is_frozen = frozen == true;
  return true;
}

// What the replica that leads tells of the whole: incidents that delete nothing have no record.
Result<void> read_report(const GetJson& get, const std::string& core, RehearsalFacts& facts) {
  const auto map = get_if_there(get, core + "/configmaps/moonfence-status");
  if (!map) {
    return failure(Error(map.error()));
  }
  if (!facts.untold.empty()) {
    return {};
  }
  const json report = report_of_leader(*map, facts.leader);
  if (!take_situation(
          report.is_object() && report.contains("situation") ? report.at("situation") : json(),
          facts)) {
    facts.untold =
        "moonfence's leader does not say in ConfigMap moonfence-status which incidents are open, "
        "all of them, and whether it is frozen: wait until it does; it and this program have to be "
        "of one version";
  }
  return {};
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

// Whoever says --control-plane has not said that nothing of it may be left. Two are: of three
// members etcd needs as many.
void object_to_peers(const RehearsalFacts& facts, std::vector<std::string>& all) {
  if (!facts.weak_peers.empty()) {
    all.push_back("other machines of the control plane are not Ready, or cordoned: " +
                  named(facts.weak_peers) + "; wait until they are well");
  }
  if (facts.control_plane && facts.peers < 2) {
    all.push_back("of the control plane only " + std::to_string(facts.peers) +
                  " other would be left, and etcd would have no majority: rehearse on a worker");
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
                           read_peers(get, facts), read_leader(get, scope, facts),
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
  if (facts.control_plane && !control_plane) {
    all.emplace_back("it is a machine of the control plane: if you mean it, add --control-plane");
  }
  object_to_peers(facts, all);
  if (!facts.untold.empty()) {
    all.push_back(facts.untold);
    return all;
  }
  if (facts.leader_node == facts.node.name.text()) {
    all.emplace_back("moonfence's leader runs on it: delete its pod, and the other replica leads");
  }
  if (facts.leader_node.empty()) {
    all.emplace_back(
        "moonfence's leader does not say on which node it runs: start it with --node-name, as the "
        "manifests of deploy/ do");
  }
  return all;
}

std::vector<std::string> changes(const RehearsalOrder& shown, const RehearsalOrder& now) {
  std::vector<std::string> all;
  const auto compare = [&all](const char* what, const std::string& before,
                              const std::string& after) {
    if (before != after) {
      all.push_back("it has changed since you were asked: " + std::string(what) + " was " +
                    escaped(before, 256) + ", and is " + escaped(after, 256) + " now; ask again");
    }
  };
  compare("the Node's uid", shown.node.text(), now.node.text());
  compare("the boot ID", shown.boot_id, now.boot_id);
  compare("the fencer", shown.fencer, now.fencer);
  compare("the endpoint", shown.endpoint, now.endpoint);
  compare("the path", shown.path, now.path);
  return all;
}

}  // namespace moonfence::app
