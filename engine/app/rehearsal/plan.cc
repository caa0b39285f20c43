#include "app/rehearsal/plan.h"

#include <algorithm>
#include <map>
#include <utility>

#include "audit/reason.h"

namespace moonfence::app {

using nlohmann::json;

namespace {

using Fate = Plan::Pod::Fate;

std::string text_of(const json& record, const char* key) {
  const auto found = record.find(key);
  return found != record.end() && found->is_string() ? found->get<std::string>() : std::string();
}

Plan::Word word_of(const json& record) {
  return {.reason = text_of(record, "reason"),
          .policy = text_of(record, "policy"),
          .digest = text_of(record, "policy_digest"),
          .text = text_of(record, "text"),
          .action = text_of(record, "action"),
          .attachment = text_of(record, "attachment")};
}

std::string last_segment(const std::string& path) {
  return path.substr(path.rfind('/') + 1);
}

std::string precondition_of(const Write& write) {
  const json::json_pointer at(write.method == port::Method::Delete ? "/preconditions/uid"
                                                                   : "/metadata/uid");
  if (write.body.is_object() && write.body.contains(at) && write.body.at(at).is_string()) {
    return write.body.at(at).get<std::string>();
  }
  // A JSON patch tests it.
  if (write.body.is_array()) {
    for (const json& operation : write.body) {
      if (text_of(operation, "op") == "test" && text_of(operation, "path") == "/metadata/uid") {
        return text_of(operation, "value");
      }
    }
  }
  return {};
}

// Puts what a rehearsal says of one node in its place.
class Sorter {
 public:
  Sorter(const Rehearsed& rehearsed, const Rehearsed::Node& node) : rehearsed_(rehearsed) {
    node_.name = node.name.text();
    node_.state = node.supposed;
    node_.although_up = node.although_up;
    node_.complete = rehearsed.complete;
  }

  Plan::Node sorted() {
    for (const json& record : rehearsed_.records) {
      if (text_of(record, "node") == node_.name) {
        take(record);
      }
    }
    for (const Write& write : rehearsed_.writes) {
      take(write);
    }
    for (Plan::Pod& pod : node_.pods) {
      decide(pod);
    }
    if (node_.state == Engine::Supposed::Unknown && !node_.opened_for.empty()) {
      node_.state = Engine::Supposed::Deleted;
    }
    return std::move(node_);
  }

 private:
  void take(const json& record) {
    const std::string kind = text_of(record, "kind");
    incidents_.push_back(text_of(record, "incident"));
    if (kind == "incident_opened") {
      node_.opened_for = text_of(record, "reason");
    } else if (kind == "incident_held") {
      node_.holds.push_back(word_of(record));
      if (text_of(record, "policy").empty()) {
        node_.open = text_of(record, "reason");
      }
    } else if (kind == "incident_closed") {
      node_.open.reset();
    } else if (record.contains("pod")) {
      node_.open.reset();  // it went on
      take(record, kind, pod_of(record));
    } else if (kind == "refusal") {  // of something that concerns the whole node
      node_.holds.push_back(word_of(record));
    } else if (kind == "intent") {
      node_.changes.push_back(word_of(record));
    }
  }

  void take(const json& record, const std::string& kind, Plan::Pod& pod) {
    if (kind == "verdict") {
      pod.opinions.push_back(opinion_of(record));
    } else if (kind == "refusal") {
      pod.refusals.push_back(word_of(record));
    } else if (kind == "intent" && record.contains("attachment")) {
      holder_[text_of(record, "attachment")] = {pod.space, pod.name};
    }
  }

  Plan::Pod& pod_of(const json& record) {
    const std::string space = text_of(record, "namespace");
    const std::string name = text_of(record, "pod");
    if (Plan::Pod* known = find(space, name)) {
      return *known;
    }
    node_.pods.push_back({.space = space,
                          .name = name,
                          .uid = text_of(record, "pod_uid"),
                          .because = {},
                          .opinions = {},
                          .refusals = {},
                          .calls = {}});
    return node_.pods.back();
  }

  Plan::Pod* find(const std::string& space, const std::string& name) {
    const auto found =
        std::find_if(node_.pods.begin(), node_.pods.end(),
                     [&](const Plan::Pod& pod) { return pod.space == space && pod.name == name; });
    return found == node_.pods.end() ? nullptr : &*found;
  }

  Plan::Opinion opinion_of(const json& record) {
    Plan::Opinion opinion = {.word = word_of(record), .mode = std::nullopt, .reads = {}};
    for (const Evaluated& asked : rehearsed_.evaluated) {
      if (asked.policy == opinion.word.policy && asked.digest == opinion.word.digest &&
          asked.pod.space.text() == text_of(record, "namespace") &&
          asked.pod.name == text_of(record, "pod")) {
        opinion.mode = asked.mode;
        if (!asked.reads.empty()) {  // a guard is asked again, and may read nothing then
          opinion.reads = asked.reads;
        }
      }
    }
    return opinion;
  }

  void take(const Write& write) {
    Plan::Call call = {
        .method = write.method, .path = write.path, .uid = precondition_of(write), .what = {}};
    const bool deletes = write.method == port::Method::Delete;
    if (deletes && write.path.find("/pods/") != std::string::npos) {
      for (Plan::Pod& pod : node_.pods) {
        if (pod.uid == call.uid) {
          call.what = "delete_pod";
          pod.calls.push_back(std::move(call));
          return;
        }
      }
    } else if (write.method == port::Method::Patch &&
               write.path.find("/pods/") != std::string::npos) {
      for (Plan::Pod& pod : node_.pods) {
        if (pod.uid == call.uid) {
          call.what = "fail_pod";
          pod.calls.push_back(std::move(call));
          return;
        }
      }
    } else if (deletes && write.path.find("/volumeattachments/") != std::string::npos) {
      const auto holder = holder_.find(last_segment(write.path));
      Plan::Pod* const pod =
          holder == holder_.end() ? nullptr : find(holder->second.first, holder->second.second);
      if (pod != nullptr) {
        call.what = "delete_attachment";
        pod->calls.push_back(std::move(call));
      }
    } else if (write.path == "/api/v1/nodes/" + node_.name ||
               write.path == "/api/v1/nodes/" + node_.name + "/status") {
      call.what = "patch_node";
      node_.calls.push_back(std::move(call));
    } else if (is_record(write)) {
      call.what = "write_record";
      node_.calls.push_back(std::move(call));
    }
  }

  // The incident's record, but not what would be written of it afterwards.
  [[nodiscard]] bool is_record(const Write& write) const {
    const std::string name = write.method == port::Method::Post && write.body.is_object() &&
                                     write.body.contains("metadata")
                                 ? text_of(write.body.at("metadata"), "name")
                                 : last_segment(write.path);
    const bool ours = write.path.find("/configmaps") != std::string::npos &&
                      std::any_of(incidents_.begin(), incidents_.end(), [&](const auto& id) {
                        return !id.empty() && name == "moonfence-incident-" + id;
                      });
    return ours && std::none_of(node_.calls.begin(), node_.calls.end(),
                                [](const auto& call) { return call.what == "write_record"; });
  }

  // A policy's word on the whole node keeps a pod of which nobody wants anything, unless it has
  // spoken of the pod itself since.
  [[nodiscard]] const Plan::Word* hold_on(const Plan::Pod& pod) const {
    const Plan::Word* hold = nullptr;
    for (const Evaluated& asked : rehearsed_.evaluated) {
      const bool concerns = asked.mode == policy::Mode::Enforce &&
                            asked.pod.space.text() == pod.space && asked.pod.name == pod.name;
      if (!concerns || has_spoken(pod, asked.policy)) {
        continue;
      }
      for (const Plan::Word& word : node_.holds) {
        if (word.policy == asked.policy && is_hold(word.reason)) {
          hold = &word;
        }
      }
    }
    return hold;
  }

  static bool has_spoken(const Plan::Pod& pod, const std::string& policy) {
    return std::any_of(pod.opinions.begin(), pod.opinions.end(),
                       [&policy](const auto& opinion) { return opinion.word.policy == policy; });
  }

  static bool is_hold(const std::string& reason) {
    return reason == audit::code(audit::Reason::PolicyHoldsNode) ||
           reason == audit::code(audit::Reason::PolicyFailed) ||
           reason == audit::code(audit::Reason::HoldingDown);
  }

  void decide(Plan::Pod& pod) const {
    const auto has = [&pod](std::string_view what) {
      return std::any_of(pod.calls.begin(), pod.calls.end(),
                         [what](const Plan::Call& call) { return call.what == what; });
    };
    const auto said = [&pod](std::initializer_list<audit::Reason> reasons) -> const Plan::Word* {
      for (const Plan::Opinion& opinion : pod.opinions) {
        for (const audit::Reason reason : reasons) {
          if (opinion.word.reason == audit::code(reason)) {
            return &opinion.word;
          }
        }
      }
      return nullptr;
    };
    using audit::Reason;
    const Plan::Word* wants =
        said({Reason::PolicyDeletesPod, Reason::PolicyDeletesPodAndAttachments,
              Reason::PolicyDeletesAttachments});
    const auto refusal = std::find_if(pod.refusals.begin(), pod.refusals.end(),
                                      [](const auto& word) { return word.attachment.empty(); });
    if (has("delete_pod") || has("delete_attachment")) {
      pod.fate = has("delete_pod") ? Fate::Deleted : Fate::Detached;
      pod.because = wants != nullptr ? *wants : Plan::Word{};
    } else if (!pod.refusals.empty()) {
      pod.fate = Fate::Refused;
      pod.because = refusal != pod.refusals.end() ? *refusal : pod.refusals.front();
    } else if (const Plan::Word* forbids = said({Reason::PolicyForbids})) {
      pod.because = *forbids;
    } else if (const Plan::Word* waits =
                   said({Reason::ProofMissing, Reason::PolicyHolds, Reason::PolicyWaits,
                         Reason::PolicyFailed, Reason::PolicyFailing, Reason::NeedsUnread})) {
      pod.fate = Fate::Waits;
      pod.because = *waits;
    } else if (wants != nullptr) {
      pod.fate = Fate::Waits;  // it waits for something that the node says, or for a later pass
      pod.because = *wants;
    } else if (const Plan::Word* hold = hold_on(pod)) {
      pod.fate = Fate::Waits;
      pod.because = *hold;
    } else if (!pod.opinions.empty()) {
      pod.because = pod.opinions.front().word;
    }
  }

  const Rehearsed& rehearsed_;
  Plan::Node node_;
  std::vector<std::string> incidents_;
  std::map<std::string, std::pair<std::string, std::string>> holder_;  // by attachment: the pod
};

}  // namespace

std::string_view to_string(Fate fate) {
  switch (fate) {
    case Fate::Deleted:
      return "delete";
    case Fate::Detached:
      return "detach";
    case Fate::Refused:
      return "refused";
    case Fate::Waits:
      return "wait";
    case Fate::Kept:
      return "keep";
  }
  return "keep";
}

bool Plan::Node::acts() const {
  const bool pods_act =
      std::any_of(pods.begin(), pods.end(), [](const Pod& pod) { return !pod.calls.empty(); });
  const bool node_acts = std::any_of(calls.begin(), calls.end(),
                                     [](const Call& call) { return call.what == "patch_node"; });
  return pods_act || node_acts;
}

bool Plan::acts() const {
  return std::any_of(nodes.begin(), nodes.end(), [](const Node& node) { return node.acts(); });
}

void hear_engine(Plan& plan, const json& situation) {
  const auto member = [&situation](const char* key) {
    return situation.is_object() && situation.contains(key) ? situation.at(key) : json();
  };
  if (const json state = member("state"); state.is_object() && member("frozen") == true) {
    plan.frozen = text_of(state, "title") + ". " + text_of(state, "text");
  }
  const json incidents = member("incidents");
  for (Plan::Node& node : plan.nodes) {
    for (const json& incident : incidents) {
      if (incident.is_object() && text_of(incident, "node") == node.name) {
        node.engine = Plan::EngineStand{.state = text_of(incident, "state"),
                                        .reason = text_of(incident, "reason"),
                                        .text = text_of(incident, "text")};
      }
    }
  }
}

Plan plan_of(const Rehearsed& rehearsed) {
  Plan plan = {.nodes = {}, .hold_down = rehearsed.ahead, .notes = rehearsed.notes};
  for (const Rehearsed::Node& node : rehearsed.nodes) {
    plan.nodes.push_back(Sorter(rehearsed, node).sorted());
  }
  return plan;
}

}  // namespace moonfence::app
