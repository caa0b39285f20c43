#include "app/webhook/incident_event.h"

#include <algorithm>
#include <chrono>

#include <nlohmann/json.hpp>

#include "audit/explanation.h"
#include "base/text.h"

namespace moonfence::app {
namespace {

using nlohmann::json;

constexpr std::size_t kLongestId = 64;
constexpr std::size_t kLongestName = 253;  // of a node: a DNS subdomain
constexpr std::size_t kLongestSource = 512;

// To the millisecond; a clock that was set back made nothing end before it began.
double seconds_of(Duration took) {
  const auto rounded = std::chrono::round<std::chrono::milliseconds>(took);
  return std::max(std::chrono::duration<double>(rounded).count(), 0.0);
}

// Words of docs/reasons.md, which are short enough whatever the reason.
json reason_json(audit::Reason reason) {
  const audit::Explanation page = audit::explain(reason);
  return {{"code", audit::code(reason)}, {"meaning", page.when}, {"nextStep", page.what_to_do}};
}

// Of our own making, or of a record that somebody may have written over: it becomes a header too.
std::string plain(const IncidentId& id) {
  std::string text = id.text().substr(0, kLongestId);
  std::erase_if(text, [](char c) {
    return !((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9'));
  });
  return text;
}

json pods_json(const EventPods& pods) {
  return {{"judged", pods.judged},          {"deleted", pods.deleted},
          {"notDeleted", pods.not_deleted}, {"wouldBeDeleted", pods.would_delete},
          {"waiting", pods.waiting},        {"leftAlone", pods.left_alone}};
}

json data_of(const IncidentEvent& event) {
  json data = {{"incident", plain(event.incident)},
               {"node", escaped(event.node.text(), kLongestName)},
               {"phase", to_string(event.phase)},
               {"mode", event.enforces ? "enforce" : "observe"},
               {"reason", reason_json(event.reason)}};
  if (event.opened) {
    data["opened"] = format_rfc3339(*event.opened);
  }
  if (event.opened_for) {
    data["openedFor"] = audit::code(*event.opened_for);
  }
  if (event.took) {
    data["durationSeconds"] = seconds_of(*event.took);
  }
  if (event.pods) {
    data["pods"] = pods_json(*event.pods);
  }
  return data;
}

}  // namespace

std::string_view to_string(IncidentPhase phase) {
  switch (phase) {
    case IncidentPhase::Opened:
      return "opened";
    case IncidentPhase::Acting:
      return "acting";
    case IncidentPhase::Attention:
      return "attention";
    case IncidentPhase::Settled:
      break;
  }
  return "settled";
}

std::string id_of(const IncidentEvent& event) {
  std::string id = plain(event.incident) + "-" + std::string(to_string(event.phase));
  if (event.phase != IncidentPhase::Attention) {
    return id;
  }
  std::string of_reason = id + "-" + std::string(audit::code(event.reason));
  if (!event.trouble) {
    return of_reason;
  }
  const auto since = std::chrono::floor<std::chrono::seconds>(*event.trouble).time_since_epoch();
  return of_reason + "-" + std::to_string(since.count());
}

std::string cloud_event(const IncidentEvent& event, const std::string& source) {
  const json text = {
      {"specversion", "1.0"},
      {"id", id_of(event)},
      {"source", source.substr(0, kLongestSource)},
      {"type", "io.moonfence.incident." + std::string(to_string(event.phase)) + ".v1"},
      {"subject", escaped(event.node.text(), kLongestName)},
      {"time", format_rfc3339_micro(event.at)},
      {"datacontenttype", "application/json"},
      {"data", data_of(event)}};
  return text.dump(-1, ' ', false, json::error_handler_t::replace);
}

}  // namespace moonfence::app
