#include "fence/display/incident_object.h"

#include <algorithm>
#include <utility>

#include "base/text.h"
#include "kube/text/json.h"
#include "policy/values/evidence.h"

namespace moonfence::fence {
namespace {

using nlohmann::json;
using Step = IncidentRecord::Step;

constexpr std::size_t kLongestText = 1024;

// "awaiting_taint" as conditions write it: "AwaitingTaint".
std::string camel(std::string_view code) {
  std::string out;
  bool upper = true;
  for (const char c : code) {
    if (c == '_') {
      upper = true;
    } else {
      out += upper && c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c;
      upper = false;
    }
  }
  return out;
}

std::string_view phase_of(const ShownRecord& record, const std::optional<ShownStand>& stand) {
  if (record.closed) {
    return "Closed";
  }
  if (!stand) {
    return "Open";
  }
  switch (stand->state) {
    case IncidentStatus::State::UnderWay:
      return "UnderWay";
    case IncidentStatus::State::Waits:
      return "Waits";
    case IncidentStatus::State::Held:
      return "Held";
    case IncidentStatus::State::Fails:
      return "Fails";
    case IncidentStatus::State::Verifying:
      break;
  }
  return "Verifying";
}

struct Condition {
  const char* type = "";
  bool is_true = false;
  std::string reason;
  std::string message;
  WallTime since{};  // where what stands there does not say it
};

// Its own time where the status is the same and the time is possible; where it was another, it has
// changed now.
WallTime changed_at(const Condition& condition, const json& object, const ShownRecord& record,
                    WallTime now) {
  const json::json_pointer at("/status/conditions");
  if (!object.contains(at) || !object.at(at).is_array()) {
    return condition.since;
  }
  for (const json& each : object.at(at)) {
    if (kube::text_at(each, "/type") != condition.type) {
      continue;
    }
    const std::string status = kube::text_at(each, "/status");
    if (status == (condition.is_true ? "False" : "True")) {
      return record.closed ? *record.closed : now;
    }
    const auto time = parse_rfc3339(kube::text_at(each, "/lastTransitionTime"));
    const bool is_possible =
        time && *time <= now && *time >= record.opened - std::chrono::seconds(1);
    return is_possible ? *time : condition.since;
  }
  return condition.since;
}

std::string next_step(const ShownRecord& record, const std::optional<audit::Reason>& reason) {
  return reason ? " (see `moonfence reason " + std::string(code(*reason)) + "`)"
                : " (see `moonfence plan " + record.node.text() + "`)";
}

// It was made for people already, but for its length.
std::string cut(const std::string& text) {
  return text.size() > kLongestText ? escaped(text, kLongestText) : text;
}

std::string told(const ShownStand& stand) {
  return stand.text.empty() ? std::string(to_string(stand.state)) : cut(stand.text);
}

Condition settled(const ShownRecord& record) {
  if (record.closed) {
    return {.type = "Settled",
            .is_true = true,
            .reason = camel(code(record.closed_for)),
            .message = "The incident is over: " + std::string(code(record.closed_for)) +
                       next_step(record, record.closed_for),
            .since = *record.closed};
  }
  return {.type = "Settled",
          .is_true = false,
          .reason = "Open",
          .message = "The incident is open.",
          .since = record.opened};
}

// What kstatus (sigs.k8s.io/cli-utils) reads: an incident is in progress, or it has failed, or it
// is over. One of both is True at most.
Condition reconciling(const ShownRecord& record, const std::optional<ShownStand>& stand,
                      WallTime now) {
  if (record.closed) {
    return {.type = "Reconciling",
            .is_true = false,
            .reason = "Closed",
            .message = "The incident is over.",
            .since = *record.closed};
  }
  const bool is_stalled = stand && stand->stalled;
  return {.type = "Reconciling",
          .is_true = !is_stalled,
          .reason = stand && stand->reason ? camel(code(*stand->reason))
                                           : std::string(phase_of(record, stand)),
          .message = stand ? told(*stand) : "The incident is open.",
          .since = is_stalled ? now : record.opened};
}

Condition stalled(const ShownRecord& record, const std::optional<ShownStand>& stand, WallTime now) {
  if (record.closed || !stand || !stand->stalled) {
    return {.type = "Stalled",
            .is_true = false,
            .reason = record.closed ? "Closed" : "Open",
            .message = "Nobody is needed.",
            .since = record.closed ? *record.closed : record.opened};
  }
  return {
      .type = "Stalled",
      .is_true = true,
      .reason = stand->reason ? camel(code(*stand->reason)) : std::string(phase_of(record, stand)),
      .message = told(*stand) + next_step(record, stand->reason),
      .since = now};
}

void put_text(json& into, const char* key, const std::string& text) {
  if (!text.empty()) {
    into[key] = cut(text);
  }
}

json pods_json(const ShownRecord& record, const std::optional<ShownStand>& stand) {
  json pods = {
      {"planned", record.planned}, {"deleted", record.deleted}, {"notDeleted", record.not_deleted}};
  if (!record.closed && stand && stand->pods) {
    pods["judged"] = stand->pods->judged;
    pods["waiting"] = stand->pods->waiting;
    pods["leftAlone"] = stand->pods->left_alone;
    pods["wouldBeDeleted"] = stand->pods->would_delete;
  }
  return pods;
}

}  // namespace

ShownRecord shown_of(const IncidentRecord& record, const Uid& config_map) {
  ShownRecord shown = {.id = record.id,
                       .record = config_map,
                       .node = record.node,
                       .node_uid = record.node_uid,
                       .opened = record.opened,
                       .opened_for = record.opened_for,
                       .closed = {},
                       .steps_cut = record.steps_cut};
  if (record.closed) {
    shown.closed = record.closed->at;
    shown.closed_for = record.closed->reason;
  }
  for (const Step& step : record.steps) {
    if (!step.proof.empty()) {
      shown.proof = step.proof;
      shown.evidence = step.evidence;
    }
    if (step.kind != Step::Kind::DeletePod) {
      continue;
    }
    ++shown.planned;
    if (step.settled() && step.outcome != audit::Reason::MarkedOnly) {
      ++shown.deleted;
    } else if (step.outcome) {
      ++shown.not_deleted;
    }
    if (step.sent && (!shown.first_deletion || *step.sent < *shown.first_deletion)) {
      shown.first_deletion = step.sent;
    }
  }
  return shown;
}

std::string name_of(const IncidentId& id) {
  return "moonfence-incident-" + id.text();
}

std::string new_object(const ShownRecord& record, const Namespace& space) {
  const std::string name = name_of(record.id);
  return kube::to_text({{"apiVersion", std::string(kIncidentApi)},
                        {"kind", "FencingIncident"},
                        {"metadata",
                         {{"name", name},
                          {"namespace", space.text()},
                          {"labels", {{"app.kubernetes.io/name", "moonfence"}}},
                          {"ownerReferences",
                           {{{"apiVersion", "v1"},
                             {"kind", "ConfigMap"},
                             {"name", name},
                             {"uid", record.record.text()}}}}}}});
}

bool is_of(const json& object, const ShownRecord& record) {
  const json::json_pointer at("/metadata/ownerReferences");
  if (!object.contains(at) || !object.at(at).is_array()) {
    return false;
  }
  const json& owners = object.at(at);
  return std::any_of(owners.begin(), owners.end(), [&record](const json& owner) {
    return kube::text_at(owner, "/kind") == "ConfigMap" &&
           kube::text_at(owner, "/uid") == record.record.text();
  });
}

json status_of(const ShownRecord& record, const std::optional<ShownStand>& stand,
               const json& object, WallTime now) {
  json status = {{"node", {{"name", record.node.text()}, {"uid", record.node_uid.text()}}},
                 {"phase", phase_of(record, stand)},
                 {"openedFor", code(record.opened_for)},
                 {"opened", format_rfc3339(record.opened)},
                 {"pods", pods_json(record, stand)}};
  if (record.closed) {
    status["reason"] = code(record.closed_for);
    status["closed"] = format_rfc3339(*record.closed);
  } else if (stand) {
    if (stand->reason) {
      status["reason"] = code(*stand->reason);
    }
    put_text(status, "message", stand->text);
  }
  if (record.first_deletion) {
    status["firstDeletion"] = format_rfc3339(*record.first_deletion);
  }
  if (record.steps_cut > 0) {
    status["stepsLeftOut"] = record.steps_cut;
  }
  put_text(status, "proof", record.proof);
  put_text(status, "evidence", record.evidence);
  for (const Condition& each :
       {settled(record), reconciling(record, stand, now), stalled(record, stand, now)}) {
    status["conditions"].push_back(
        {{"type", each.type},
         {"status", each.is_true ? "True" : "False"},
         {"reason", each.reason},
         {"message", each.message},
         {"lastTransitionTime", format_rfc3339(changed_at(each, object, record, now))}});
  }
  return status;
}

std::optional<std::string> status_change(const json& object, const json& status) {
  if (const auto stands = object.find("status"); stands != object.end() && *stands == status) {
    return std::nullopt;
  }
  return kube::to_text(json::array({{{"op", "test"},
                                     {"path", "/metadata/uid"},
                                     {"value", kube::text_at(object, "/metadata/uid")}},
                                    {{"op", "test"},
                                     {"path", "/metadata/resourceVersion"},
                                     {"value", kube::text_at(object, "/metadata/resourceVersion")}},
                                    {{"op", "add"}, {"path", "/status"}, {"value", status}}}));
}

}  // namespace moonfence::fence
