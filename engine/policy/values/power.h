#pragma once

// What a fencer makes of the answers about one machine. Only Off and Isolated are evidence;
// everything that is not in the vendor's table of states is Unknown.

#include <optional>
#include <set>
#include <string>
#include <string_view>

#include "policy/values/request.h"

namespace moonfence::policy {

enum class Power {
  On,
  Off,
  Isolated,  // it may run, and the storage of some CSI drivers refuses it
  Unknown,   // between two states, or the answer is none of those that are known
  Failed,    // a person has to mend something: a credential, a wrong machine
};

// How a machine is switched off, by a fencer that can.
struct OffOrder {
  std::optional<Request> request = std::nullopt;
  std::string why_not = {};  // without a request, for people; as PowerState::why
};

struct PowerState {
  Power power = Power::Unknown;
  std::string why;  // for people; never empty, at most 512 bytes, control characters escaped
  std::set<std::string> drivers = {};  // of Isolated, never empty there: whose storage refuses it
};

// As scripts write them: "on".
[[nodiscard]] constexpr std::string_view to_string(Power power) {
  switch (power) {
    case Power::On:
      return "on";
    case Power::Off:
      return "off";
    case Power::Isolated:
      return "isolated";
    case Power::Unknown:
      return "unknown";
    case Power::Failed:
      return "failed";
  }
  return "unknown";
}

[[nodiscard]] constexpr std::optional<Power> find_power(std::string_view word) {
  for (const Power power :
       {Power::On, Power::Off, Power::Isolated, Power::Unknown, Power::Failed}) {
    if (to_string(power) == word) {
      return power;
    }
  }
  return std::nullopt;
}

}  // namespace moonfence::policy
