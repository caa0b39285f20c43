#pragma once

// What a fencer makes of the answers about one machine. Only Off and Isolated are evidence;
// everything that is not in the vendor's table of states is Unknown. And what it can do about one
// that may be alive.

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
  Served,    // it may run, and nothing says that its storage refuses it, or is to stop refusing it
  Unknown,   // between two states, or the answer is none of those that are known
  Failed,    // a person has to mend something: a credential, a wrong machine
};

enum class FencerAct { None, SwitchOff, Isolate };

// How a machine is switched off, or isolated, by a fencer that can.
struct FencerOrder {
  std::optional<Request> request = std::nullopt;
  std::string why_not = {};            // without a request, for people; as PowerState::why
  std::set<std::string> drivers = {};  // of Isolate, never empty there: whose storage it is for
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
    case Power::Served:
      return "served";
    case Power::Unknown:
      return "unknown";
    case Power::Failed:
      return "failed";
  }
  return "unknown";
}

[[nodiscard]] constexpr std::optional<Power> find_power(std::string_view word) {
  for (const Power power :
       {Power::On, Power::Off, Power::Isolated, Power::Served, Power::Unknown, Power::Failed}) {
    if (to_string(power) == word) {
      return power;
    }
  }
  return std::nullopt;
}

}  // namespace moonfence::policy
