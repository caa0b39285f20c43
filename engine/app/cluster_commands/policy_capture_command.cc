#include <set>

#include "app/cluster_commands/client_command.h"
#include "app/rehearsal/capture.h"
#include "app/rehearsal/rehearsal_http.h"
#include "base/text.h"
#include "kube/text/json.h"
#include "kube/wire/url.h"
#include "os/system/clocks.h"
#include "os/system/system_files.h"
#include "os/tools/folders.h"

namespace moonfence::app {

using nlohmann::json;

namespace {

// Objects of a List have no kind of their own.
json typed(json object, const std::string& kind) {
  object["kind"] = kind;
  return redacted(std::move(object));
}

class Collector {
 public:
  explicit Collector(ClusterClient& client) : client_(client) {}

  // Every object of the collection that `wanted` names, under its kind.
  template <class Wanted>
  Result<void> add(const std::string& path, const std::string& kind, Wanted wanted,
                   const kube::Query& query = {}) {
    auto list = client_.get(path, query);
    if (!list) {
      return failure(std::move(list.error()));
    }
    for (const json& item : list->value("items", json::array())) {
      if (wanted(item)) {
        objects.push_back(typed(item, kind));
      }
    }
    return {};
  }

  json objects = json::array();

 private:
  ClusterClient& client_;
};

// The pods of the node, and of their namespaces those that use the same claims; what their volumes
// and owners are; the nodes, and its Lease.
Result<json> collect(ClusterClient& client, const Plan::Node& planned, WallTime now) {
  Collector collector(client);
  std::set<std::string> spaces;
  std::set<std::pair<std::string, std::string>> claims;
  const auto note = [&](const json& pod) {
    const std::string space = kube::text_at(pod, "/metadata/namespace");
    spaces.insert(space);
    for (const std::string& claim : claims_named_by(pod)) {
      claims.emplace(space, claim);
    }
    return true;
  };
  auto read =
      collector.add("/api/v1/pods", "Pod", note,
                    {{"fieldSelector", "spec.nodeName=" + kube::selector_value(planned.name)}});
  const auto shares = [&](const json& pod) {
    if (kube::text_at(pod, "/spec/nodeName") == planned.name) {
      return false;
    }
    for (const std::string& claim : claims_named_by(pod)) {
      if (claims.contains({kube::text_at(pod, "/metadata/namespace"), claim})) {
        return true;
      }
    }
    return false;
  };
  const auto all = [](const json&) { return true; };
  for (const std::string& space : spaces) {
    const std::string core = "/api/v1/namespaces/" + space;
    const std::string apps = "/apis/apps/v1/namespaces/" + space;
    read = read ? collector.add(core + "/pods", "Pod", shares) : read;
    read =
        read ? collector.add(core + "/persistentvolumeclaims", "PersistentVolumeClaim", all) : read;
    read = read ? collector.add(apps + "/replicasets", "ReplicaSet", all) : read;
  }
  read = read ? collector.add(
                    "/api/v1/persistentvolumes", "PersistentVolume",
                    [&](const json& volume) {
                      return claims.contains({kube::text_at(volume, "/spec/claimRef/namespace"),
                                              kube::text_at(volume, "/spec/claimRef/name")});
                    })
              : read;
  read = read ? collector.add("/apis/storage.k8s.io/v1/volumeattachments", "VolumeAttachment",
                              [&](const json& attachment) {
                                return kube::text_at(attachment, "/spec/nodeName") == planned.name;
                              })
              : read;
  read = read ? collector.add("/api/v1/nodes", "Node", all) : read;
  read = read ? collector.add(
                    "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases", "Lease", all,
                    {{"fieldSelector", "metadata.name=" + kube::selector_value(planned.name)}})
              : read;
  if (!read) {
    return failure(std::move(read.error()));
  }
  for (json& object : collector.objects) {
    if (!planned.although_up || kube::text_at(object, "/metadata/name") != planned.name) {
      continue;
    }
    if (const std::string kind = kube::text_at(object, "/kind"); kind == "Node") {
      object = with_node_down(std::move(object), now);
    } else if (kind == "Lease") {
      object = with_lease_old(std::move(object), now);
    }
  }
  return json{{"apiVersion", "v1"}, {"kind", "List"}, {"items", std::move(collector.objects)}};
}

}  // namespace

ClientOutput capture_node(const ClientOptions& options, ClientGround& ground) {
  const std::string name = options.names.front();
  const auto rehearsal = rehearse_nodes(options, ground, {NodeName(name)}, options.assume_down);
  if (!rehearsal) {
    return rehearsal.error();
  }
  const Plan plan = plan_of(rehearsal->rehearsed);
  const Plan::Node& node = plan.nodes.front();
  if (node.state != Engine::Supposed::Fallen) {
    const bool up = node.state == Engine::Supposed::Up;
    return refused(Error{.kind = Error::Kind::NotFound,
                         .text = (up ? "node is up: " : "no node ") + escaped(name, 256),
                         .hint = up ? "--assume-down captures it as if its machine died now"
                                    : "kubectl get nodes shows their names"});
  }
  const WallTime now = os::SystemWallClock().now();
  const auto objects = collect(ground.client, node, now);
  if (!objects) {
    return refused(ClientExit::Failed, objects.error());
  }
  const std::string stem = options.folder + "/" + node.name;
  for (const auto& [path, text] :
       {std::pair(stem + ".objects.json",
                  objects->dump(1, ' ', false, json::error_handler_t::replace) + "\n"),
        std::pair(
            stem + ".decisions.json",
            to_json_text(decisions_of(node, *rehearsal->rehearsed.policies, *objects, now)))}) {
    if (auto written = os::write_file(path, text, /*replace=*/true); !written) {
      return refused(ClientExit::Config, written.error());
    }
  }
  ClientOutput output;
  output.out = stem + ".objects.json: " + std::to_string((*objects)["items"].size()) +
               " objects\n" + stem + ".decisions.json: " + std::to_string(node.pods.size()) +
               " pods judged\n" + "Next: moonfence policy replay my-policy.lua --records " +
               options.folder + "\n";
  for (const std::string& note : rehearsal->notes) {
    output.err += "note: " + note + "\n";
  }
  return output;
}

}  // namespace moonfence::app
