#include "app/cluster_commands/next_step.h"

#include <cctype>

#include "audit/explanation.h"
#include "audit/reason.h"

namespace moonfence::app {
namespace {

using audit::Reason;

bool has(std::string_view detail, std::string_view word) {
  return detail.find(word) != std::string_view::npos;
}

// What cannot be read is somebody else's matter than what may not be; "" where nobody knows.
std::string step_by_detail(Reason reason, std::string_view detail) {
  if (reason != Reason::NeedsUnread && reason != Reason::LeaseUnreadable) {
    return {};
  }
  if (has(detail, "allowedReads")) {
    return "name it in allowedReads of the engine's configuration, and give the engine the right "
           "to read it.";
  }
  if (has(detail, "is not configured")) {
    return "name the endpoint in endpoints of the engine's configuration.";
  }
  constexpr std::string_view kEndpoint = "endpoint ";
  if (const auto at = detail.find(kEndpoint); at != std::string_view::npos) {
    const std::string_view rest = detail.substr(at + kEndpoint.size());
    const std::string name(rest.substr(0, rest.find(':')));
    const bool refuses = has(detail, "HTTP 401") || has(detail, "HTTP 403");
    return refuses
               ? "see which user the endpoint " + name + " wants: it refuses the engine's."
               : "see what is wrong with the endpoint " + name + "; it is asked again by itself.";
  }
  if (has(detail, "403") || has(detail, "orbidden")) {
    return reason == Reason::LeaseUnreadable
               ? "give the engine the right to read Leases in kube-node-lease."
               : "give the engine the right to read it; docs/reference.md has the table of rights.";
  }
  return has(detail, "GET /api")
             ? "see whether the API server answers; it is asked again by itself."
             : "";
}

}  // namespace

std::string next_step(std::string_view code, std::string_view detail) {
  const auto reason = audit::find_reason(code);
  if (reason) {
    if (std::string step = step_by_detail(*reason, detail); !step.empty()) {
      return step;
    }
  }
  std::string text = reason ? audit::explain(*reason).what_to_do : std::string();
  if (!text.empty()) {
    text.front() = static_cast<char>(std::tolower(static_cast<unsigned char>(text.front())));
  }
  return text;
}

}  // namespace moonfence::app
