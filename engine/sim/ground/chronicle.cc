#include "sim/ground/chronicle.h"

#include "base/text.h"
#include "sim/ground/facts.h"

namespace moonfence::sim {
namespace {

using Kind = Happening::Kind;

std::string taints_of(const Json& node) {
  std::vector<std::string> taints;
  for (const Json& taint : list_field(node, {"spec", "taints"})) {
    std::string text = text_field(taint, {"key"});
    text.append(":").append(text_field(taint, {"effect"}));
    taints.push_back(std::move(text));
  }
  return taints.empty() ? "none" : joined(taints, ", ");
}

void tell_node(const Ground& ground, const Change& change) {
  const std::string& name = change.key.name;
  if (change.type != ChangeType::Modified) {
    ground.tell(Kind::Node, name, change.type == ChangeType::Added ? "registered" : "deleted",
                change.actor);
    return;
  }
  const std::string& ready = condition_status(*change.after, "Ready");
  if (condition_status(*change.before, "Ready") != ready) {
    ground.tell(Kind::Node, name, "Ready=" + (ready.empty() ? "missing" : ready), change.actor);
  }
  const std::string taints = taints_of(*change.after);
  if (taints_of(*change.before) != taints) {
    ground.tell(Kind::Node, name, "taints: " + taints, change.actor);
  }
}

bool serves(const Json& pod) {
  return phase_of(pod) == "Running" && condition_status(pod, "Ready") == "True";
}

void tell_pod(const Ground& ground, const Change& change) {
  const std::string subject = path_of(*change.after);
  const std::string& node = node_of(*change.after);
  if (change.type != ChangeType::Modified) {
    ground.tell(Kind::Pod, subject, change.type == ChangeType::Added ? "created" : "gone",
                change.actor);
    return;
  }
  if (node_of(*change.before) != node) {
    ground.tell(Kind::Pod, subject, "bound to " + node, change.actor);
  }
  if (!is_terminating(*change.before) && is_terminating(*change.after)) {
    ground.tell(Kind::Pod, subject, "Terminating", change.actor);
  }
  if (!serves(*change.before) && serves(*change.after)) {
    ground.tell(Kind::Pod, subject, "Running on " + node, change.actor);
  }
  if (serves(*change.before) && !serves(*change.after)) {
    ground.tell(Kind::Pod, subject, "not Ready", change.actor);
  }
}

void tell_attachment(const Ground& ground, const Change& change) {
  const std::string& volume = text_field(*change.after, {"spec", "source", "persistentVolumeName"});
  const std::string& node = text_field(*change.after, {"spec", "nodeName"});
  const auto attached = [](const Object& attachment) {
    const Json* is =
        attachment == nullptr ? nullptr : find_field(*attachment, {"status", "attached"});
    return is != nullptr && *is == true;
  };
  if (change.type == ChangeType::Deleted) {
    ground.tell(Kind::Volume, volume, "detached from " + node, change.actor);
  } else if (!attached(change.before) && attached(change.after)) {
    ground.tell(Kind::Volume, volume, "attached to " + node, change.actor);
  } else if (change.before != nullptr && !is_terminating(*change.before) &&
             is_terminating(*change.after)) {
    ground.tell(Kind::Volume, volume, "detaching from " + node, change.actor);
  }
}

}  // namespace

void keep_chronicle(const Ground& ground) {
  ground.store.listen([&ground](const Change& change) {
    if (!ground.story.heard()) {
      return;
    }
    if (change.key.resource == "nodes") {
      tell_node(ground, change);
    } else if (change.key.resource == "pods") {
      tell_pod(ground, change);
    } else if (change.key.resource == "volumeattachments") {
      tell_attachment(ground, change);
    }
  });
}

}  // namespace moonfence::sim
