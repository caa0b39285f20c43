#include "sim/world/steps.h"

#include <algorithm>
#include <array>
#include <charconv>

#include "sim/ground/facts.h"

namespace moonfence::sim {
namespace {

constexpr const char* kActor = "administrator";
constexpr const char* kPolicies = "moonfence-policies";

std::string argument(const Step& step, const std::string& name) {
  const auto found = step.arguments.find(name);
  return found == step.arguments.end() ? std::string() : found->second;
}

Key key_from(const std::string& resource, const std::string& path) {
  const std::size_t slash = path.find('/');
  return slash == std::string::npos ? Key{.resource = resource, .space = {}, .name = path}
                                    : Key{.resource = resource,
                                          .space = path.substr(0, slash),
                                          .name = path.substr(slash + 1)};
}

// By its name, or the first living pod of the workload of that name: pods of a Deployment are
// called as nobody can foretell.
Object find_pod(const Ground& ground, const std::string& path) {
  const Key key = key_from("pods", path);
  if (Object pod = ground.store.find(key)) {
    return pod;
  }
  for (const Object& pod : ground.store.list("pods", key.space)) {
    if (text_field(*pod, {"metadata", "labels", "workload"}) == key.name && !is_terminating(*pod)) {
      return pod;
    }
  }
  return nullptr;
}

bool replace_pod(const Ground& ground, const Step& step) {
  const Object pod = find_pod(ground, step.target);
  if (pod == nullptr) {
    return false;
  }
  DeleteOptions options;
  options.uid = uid_of(*pod);
  options.grace_seconds = 0;
  return ground.store.remove(key_of("pods", *pod), options, kActor).has_value();
}

bool delete_pod(const Ground& ground, const Step& step) {
  const Object pod = find_pod(ground, step.target);
  DeleteOptions options;
  options.uid = pod == nullptr ? "" : uid_of(*pod);
  return pod != nullptr && ground.store.remove(key_of("pods", *pod), options, kActor).has_value();
}

bool fail_pod(const Ground& ground, const Step& step) {
  const Object pod = find_pod(ground, step.target);
  return pod != nullptr && update_same(
                               ground.store, key_of("pods", *pod), uid_of(*pod),
                               [](Json& edited) { edited["status"]["phase"] = "Failed"; },
                               ObjectStore::Part::Status, kActor);
}

bool change_finalizer(const Ground& ground, const Step& step) {
  const Object pod = find_pod(ground, step.target);
  const std::string finalizer = argument(step, "finalizer");
  if (pod == nullptr || finalizer.empty()) {
    return false;
  }
  const bool adds = step.verb == Verb::AddFinalizer;
  if (adds == has_finalizer(*pod, finalizer)) {
    return false;
  }
  const auto edit = [&finalizer, adds](Json& edited) {
    Json& list = edited["metadata"]["finalizers"];
    if (adds) {
      list.push_back(finalizer);
    } else {
      list.erase(std::find(list.begin(), list.end(), finalizer));
    }
  };
  return update_same(ground.store, key_of("pods", *pod), uid_of(*pod), edit,
                     ObjectStore::Part::Whole, kActor);
}

// "" takes it off.
void set_entry(Json& map, const std::string& key, const std::string& value) {
  if (!value.empty()) {
    map[key] = value;
  } else if (map.is_object()) {
    map.erase(key);
  }
}

bool hold(const Ground& ground, const Step& step) {
  const Object pod = step.verb == Verb::HoldPod ? find_pod(ground, step.target) : nullptr;
  const Key key = pod != nullptr
                      ? key_of("pods", *pod)
                      : Key{.resource = step.verb == Verb::HoldNode ? "nodes" : "namespaces",
                            .space = {},
                            .name = step.target};
  const auto edit = [why = argument(step, "why")](Json& edited) {
    set_entry(edited["metadata"]["annotations"], "moonfence.io/hold", why);
  };
  return ground.store.update(key, edit, ObjectStore::Part::Whole, kActor).has_value();
}

bool mark_node(const Ground& ground, const Step& step) {
  const char* map = step.verb == Verb::LabelNode ? "labels" : "annotations";
  const auto edit = [map, &step](Json& node) {
    set_entry(node["metadata"][map], argument(step, "key"), argument(step, "value"));
  };
  const Key key{.resource = "nodes", .space = {}, .name = step.target};
  return ground.store.update(key, edit, ObjectStore::Part::Whole, kActor).has_value();
}

// A person's word that the machine is off, which names what is known of its kubelet now.
bool attest(const Ground& ground, const Step& step) {
  const Key key{.resource = "nodes", .space = {}, .name = step.target};
  const Object node = ground.store.find(key);
  const Object lease =
      ground.store.find({.resource = "leases", .space = "kube-node-lease", .name = step.target});
  const bool withdraws = !argument(step, "withdraw").empty();
  if (node == nullptr || (lease == nullptr && !withdraws)) {
    return false;
  }
  std::string word;
  if (!withdraws) {
    const Json* ready = find_condition(*node, "Ready");
    word = Json{{"state", "off"},
                {"node", uid_of(*node)},
                {"bootID", text_field(*node, {"status", "nodeInfo", "bootID"})},
                {"lease", uid_of(*lease)},
                {"renewTime", text_field(*lease, {"spec", "renewTime"})},
                {"lastHeartbeatTime",
                 ready == nullptr ? "" : text_field(*ready, {"lastHeartbeatTime"})},
                {"at", ground.stamp()},
                {"by", kActor},
                {"reason", "a person looked"}}
               .dump();
  }
  const auto edit = [&word](Json& edited) {
    set_entry(edited["metadata"]["annotations"], "moonfence.io/attested", word);
  };
  return ground.store.update(key, edit, ObjectStore::Part::Whole, kActor).has_value();
}

bool scale(const Ground& ground, const Step& step) {
  const std::string text = argument(step, "replicas");
  int replicas = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), replicas);
  if (error != std::errc() || end != text.data() + text.size() || replicas < 0) {
    return false;
  }
  const auto edit = [replicas](Json& edited) { edited["spec"]["replicas"] = replicas; };
  const auto set_replicas = [&](const Key& key) {
    return ground.store.update(key, edit, ObjectStore::Part::Spec, kActor).has_value();
  };
  if (set_replicas(key_from("statefulsets", step.target))) {
    return true;
  }
  const Key deployment = key_from("deployments", step.target);
  const Object found = ground.store.find(deployment);
  if (found == nullptr) {
    return false;
  }
  for (const Object& set : ground.store.list("replicasets", deployment.space)) {
    if (is_controlled_by(*set, uid_of(*found))) {
      (void)set_replicas(key_of("replicasets", *set));
    }
  }
  return set_replicas(deployment);
}

bool delete_attachments(const Ground& ground, const Step& step) {
  bool done = false;
  for (const Object& attachment : ground.store.list("volumeattachments")) {
    if (text_field(*attachment, {"spec", "nodeName"}) == step.target) {
      DeleteOptions options;
      options.uid = uid_of(*attachment);
      done |= ground.store.remove(key_of("volumeattachments", *attachment), options, kActor)
                  .has_value();
    }
  }
  return done;
}

bool change_node(const Ground& ground, const Step& step) {
  const Key key{.resource = "nodes", .space = {}, .name = step.target};
  if (step.verb == Verb::ReleaseVolumes) {
    const auto edit = [](Json& node) { node["status"].erase("volumesInUse"); };
    return ground.store.update(key, edit, ObjectStore::Part::Status, kActor).has_value();
  }
  const auto edit = [](Json& node) {
    node["spec"]["taints"].push_back(
        {{"key", "node.kubernetes.io/out-of-service"}, {"effect", "NoExecute"}});
  };
  return ground.store.update(key, edit, ObjectStore::Part::Spec, kActor).has_value();
}

bool edit_policies(const Ground& ground, const Step& step) {
  const Key key{.resource = "configmaps", .space = "moonfence", .name = kPolicies};
  const auto edit = [&step](Json& edited) {
    for (const auto& [file, text] : step.arguments) {
      if (text.empty()) {
        edited["data"].erase(file);
      } else {
        edited["data"][file] = text;
      }
    }
  };
  if (ground.store.find(key) != nullptr) {
    return ground.store.update(key, edit, ObjectStore::Part::Whole, kActor).has_value();
  }
  Json object = {{"metadata", {{"name", kPolicies}}}, {"data", Json::object()}};
  edit(object);
  return ground.store.create("configmaps", key.space, std::move(object), kActor).has_value();
}

bool delete_policies(const Ground& ground, const Step& /*step*/) {
  const Key key{.resource = "configmaps", .space = "moonfence", .name = kPolicies};
  return ground.store.remove(key, {}, kActor).has_value();
}

struct Deed {
  Verb verb;
  bool (*make)(const Ground&, const Step&);
};
constexpr std::array kDeeds = {
    Deed{Verb::ReplacePod, replace_pod},
    Deed{Verb::DeletePod, delete_pod},
    Deed{Verb::FailPod, fail_pod},
    Deed{Verb::AddFinalizer, change_finalizer},
    Deed{Verb::RemoveFinalizer, change_finalizer},
    Deed{Verb::HoldNode, hold},
    Deed{Verb::HoldNamespace, hold},
    Deed{Verb::HoldPod, hold},
    Deed{Verb::Attest, attest},
    Deed{Verb::AnnotateNode, mark_node},
    Deed{Verb::LabelNode, mark_node},
    Deed{Verb::Scale, scale},
    Deed{Verb::DeleteAttachments, delete_attachments},
    Deed{Verb::ReleaseVolumes, change_node},
    Deed{Verb::TaintOutOfService, change_node},
    Deed{Verb::EditPolicies, edit_policies},
    Deed{Verb::DeletePolicies, delete_policies},
};

}  // namespace

bool change_objects(const Ground& ground, const Step& step) {
  const auto change = std::find_if(kDeeds.begin(), kDeeds.end(),
                                   [&step](const Deed& known) { return known.verb == step.verb; });
  return change != kDeeds.end() && change->make(ground, step);
}

}  // namespace moonfence::sim
