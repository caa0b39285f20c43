#pragma once

// Whoever has read the power of machines, for the guard.

#include <optional>
#include <string>

#include "base/names.h"
#include "base/time.h"
#include "kube/objects/objects.h"
#include "policy/values/power.h"

namespace moonfence::fence {

// What a fencer has read of a machine.
struct PowerReading {
  policy::PowerState state = {};
  std::string fencer = {};  // its name
  Uid node = {};            // whose machine was asked
  Moment asked{};           // it was so then, or later
  // How it is switched off, by the answers that say that it is on; absent where the configuration
  // does not allow it to this fencer, or the fencer cannot.
  std::optional<policy::Request> off = std::nullopt;
};

class Powers {
 public:
  virtual ~Powers() = default;
  // Some fencer may switch machines off: whoever it is done to, all pods of its node end.
  [[nodiscard]] virtual bool may_switch_off() const = 0;
  // The node is down, as it was read a moment ago: its machine's fencers are asked again when the
  // last answer grows old.
  virtual void look_at(const kube::Node& node) = 0;
  // The newest reading of this very node; nullopt: none, or one that is too old to act by.
  [[nodiscard]] virtual std::optional<PowerReading> reading_of(const NodeName& node,
                                                               const Uid& uid) const = 0;
  // Why there is none, or what it says, for people: "redfish: unknown, PowerState PoweringOff";
  // "" where no fencer is bound to the node.
  [[nodiscard]] virtual std::string told_of(const NodeName& node) const = 0;
  // Its machine is told to switch off. Whoever comes while that is under way knows by last_order().
  virtual void order_begins(const NodeName& node) = 0;
  // It may have arrived: the machine is read again soon, and for long enough that it is known by
  // then what came of it. Or it has not left.
  virtual void order_ended(const NodeName& node, bool may_have_arrived) = 0;
  // When that last happened; nullopt: it did not, or long ago.
  [[nodiscard]] virtual std::optional<Moment> last_order(const NodeName& node) const = 0;
};

}  // namespace moonfence::fence
