// Writing an incident's record; incident_record.cc reads it.

#include <map>
#include <tuple>
#include <utility>

#include "base/json_text.h"
#include "fence/record/incident_record.h"

namespace moonfence::fence {
namespace {

// What several steps share is written once.
class Policies {
 public:
  std::size_t index_of(const IncidentRecord::Step& step) {
    const auto [entry, is_new] = known_.try_emplace(
        std::tuple(step.policy, step.policy_digest, step.set_digest, step.proof, step.evidence),
        known_.size());
    if (is_new) {
      list_ += list_.empty() ? "" : ",";
      JsonObject policy(list_);
      policy.set("digest", step.policy_digest);
      policy.set_if_any("evidence", step.evidence);
      policy.set("name", step.policy);
      policy.set_if_any("proof", step.proof);
      policy.set("set", step.set_digest);
      policy.end();
    }
    return entry->second;
  }
  // Objects with commas between.
  [[nodiscard]] const std::string& list() const { return list_; }

 private:
  using Key = std::tuple<std::string, std::string, std::string, std::string, std::string>;
  std::map<Key, std::size_t> known_;
  std::string list_;
};

void put(JsonObject& object, const char* key, const std::optional<WallTime>& time) {
  if (time) {
    object.set(key, format_rfc3339_micro(*time));
  }
}

// Keys are written in the order of the alphabet, as a document of nlohmann's has them.

void append_pod(std::string& out, const IncidentRecord::Step& step) {
  JsonObject pod(out);
  pod.set_if_any("controller", step.controller);
  pod.set("name", step.pod.name);
  pod.set("namespace", step.pod.space.text());
  pod.set_if_any("owner", step.owner);
  pod.set_if_any("owner_api", step.owner_api);
  pod.set_if_any("owner_uid", step.owner_uid.text());
  pod.set_if_any("phase", step.phase);
  pod.set("uid", step.pod_uid.text());
  pod.end();
}

void append_attachment(std::string& out, const IncidentRecord::Step& step) {
  JsonObject attachment(out);
  if (step.before_pod) {
    attachment.set_true("before_pod");
  }
  attachment.set("driver", step.driver);
  attachment.set("handle", step.handle);
  attachment.set("name", step.attachment);
  if (step.release) {
    JsonObject release(attachment.value_of("release"));
    release.set_if_any("boot_id", step.release->boot_id);
    release.set_if_any("heartbeat", step.release->heartbeat);
    release.end();
  }
  attachment.set("uid", step.attachment_uid.text());
  attachment.set("volume", step.volume);
  attachment.end();
}

void append_follow(std::string& out, const IncidentRecord::Step::Follow& follow) {
  JsonObject replacement(out);
  replacement.set("at", format_rfc3339_micro(follow.at));
  replacement.set_if_any("node", follow.node.text());
  replacement.set("state", audit::code(follow.state));
  replacement.set_if_any("text", follow.text);
  replacement.set_if_any("uid", follow.uid.text());
  replacement.end();
}

void append_step(std::string& out, const IncidentRecord::Step& step, Policies& policies) {
  JsonObject object(out);
  if (step.kind == IncidentRecord::Step::Kind::DeleteAttachment) {
    append_attachment(object.value_of("attachment"), step);
  }
  if (step.calls > 0) {
    object.set("calls", step.calls);
  }
  put(object, "ended", step.ended);
  put(object, "gone", step.gone);
  if (step.kind == IncidentRecord::Step::Kind::TaintNode) {
    JsonObject node(object.value_of("node"));
    node.set("uid", step.node_uid.text());
    node.end();
  }
  if (step.outcome) {
    object.set("outcome", audit::code(*step.outcome));
  }
  object.set("planned", format_rfc3339_micro(step.planned));
  if (step.kind != IncidentRecord::Step::Kind::TaintNode) {
    append_pod(object.value_of("pod"), step);
  }
  object.set("policy", policies.index_of(step));
  if (step.follow) {
    append_follow(object.value_of("replacement"), *step.follow);
  }
  put(object, "sent", step.sent);
  object.set("step", to_string(step.kind));
  object.set_if_any("why", step.why);
  object.end();
}

void append_node(std::string& out, const IncidentRecord& record) {
  JsonObject node(out);
  node.set_if_any("boot_id", record.boot_id);
  if (record.fell) {
    node.set_true("fell");
  }
  node.set_if_any("hold", record.hold);
  put(node, "last_sign", record.last_sign);
  node.set("name", record.node.text());
  put(node, "silent", record.silent);
  node.set_if_any("source", record.source);
  node.set("uid", record.node_uid.text());
  node.set_if_any("zone", record.zone);
  node.end();
}

void append_leaders(std::string& out, const IncidentRecord& record) {
  const char* before = "";
  for (const IncidentRecord::Leader& each : record.leaders) {
    out += std::exchange(before, ",");
    JsonObject leader(out);
    leader.set("identity", each.identity);
    leader.set("since", format_rfc3339_micro(each.since));
    leader.end();
  }
}

}  // namespace

std::string_view to_string(IncidentRecord::Step::Kind kind) {
  switch (kind) {
    case IncidentRecord::Step::Kind::DeletePod:
      return "delete_pod";
    case IncidentRecord::Step::Kind::DeleteAttachment:
      return "delete_attachment";
    case IncidentRecord::Step::Kind::TaintNode:
      return "taint_node";
  }
  return "delete_pod";
}

std::string to_text(const IncidentRecord& record) {
  Policies policies;
  std::string steps;
  for (const IncidentRecord::Step& step : record.steps) {
    steps += steps.empty() ? "" : ",";
    append_step(steps, step, policies);
  }
  std::string out;
  out.reserve(steps.size() + policies.list().size() + 1024);
  JsonObject whole(out);
  if (record.closed) {
    JsonObject closed(whole.value_of("closed"));
    closed.set("at", format_rfc3339_micro(record.closed->at));
    closed.set("reason", audit::code(record.closed->reason));
    closed.end();
  }
  whole.set("incident", record.id.text());
  whole.value_of("leaders") += '[';
  append_leaders(out, record);
  out += ']';
  append_node(whole.value_of("node"), record);
  whole.set("opened", format_rfc3339_micro(record.opened));
  whole.set("opened_for", audit::code(record.opened_for));
  whole.value_of("policies") += "[" + policies.list() + "]";
  whole.value_of("steps") += '[';
  out += steps;
  out += ']';
  if (record.steps_cut > 0) {
    whole.set("steps_cut", record.steps_cut);
  }
  whole.set("version", static_cast<std::uint64_t>(kRecordVersion));
  whole.end();
  return out;
}

Result<std::string> fit(IncidentRecord& record, std::size_t limit) {
  std::string text = to_text(record);
  if (text.size() <= limit) {
    return text;
  }
  // The sizes of steps add up, so that each is written once and not the whole for each.
  const std::size_t excess = text.size() - limit;
  std::size_t saved = 0;
  Policies policies;
  std::erase_if(record.steps, [&](const IncidentRecord::Step& step) {
    const bool goes = saved < excess && step.settled() && !step.awaits_release();
    if (goes) {
      std::string cut;
      append_step(cut, step, policies);
      saved += cut.size();
      ++record.steps_cut;
    }
    return goes;
  });
  text = to_text(record);
  if (text.size() > limit) {
    return failure(Error::Kind::Limit, "the record of incident " + record.id.text() + " has " +
                                           std::to_string(text.size()) + " of " +
                                           std::to_string(limit) + " bytes");
  }
  return text;
}

}  // namespace moonfence::fence
