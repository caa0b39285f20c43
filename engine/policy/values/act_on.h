#pragma once

// ActOn says by whose word that its node is down a binding acts (`actOn`).

#include <string_view>

namespace moonfence::policy {

enum class ActOn {
  Down,  // Kubernetes', or that of its policy's own source
  // The engine's own: it has not heard the machine for as long as `after` says. Only on pods of
  // which two at a time do no harm.
  Lost,
  // The same, and at once when a fencer says that a machine which is not heard is off. On no pod
  // before a fencer has said so.
  Off,
};

// As files write it.
[[nodiscard]] constexpr std::string_view to_string(ActOn act_on) {
  switch (act_on) {
    case ActOn::Down:
      return "down";
    case ActOn::Lost:
      return "lost";
    case ActOn::Off:
      return "off";
  }
  return "down";
}

// Behind a mode, for people: "enforce, on lost nodes".
[[nodiscard]] constexpr std::string_view which_nodes(std::string_view act_on) {
  if (act_on == to_string(ActOn::Lost)) {
    return ", on lost nodes";
  }
  return act_on == to_string(ActOn::Off) ? ", on nodes that are off" : "";
}

}  // namespace moonfence::policy
