#pragma once

// Whoever has read the power of machines, for the guard.

#include <optional>
#include <string>

#include "base/names.h"
#include "base/time.h"
#include "kube/objects/objects.h"
#include "policy/values/power.h"

namespace moonfence::fence {

// What a fencer would have done about a machine that may be alive, and what would be so afterwards.
struct PowerOrder {
  policy::Request request;
  policy::PowerState aim;  // Off, or Isolated

  friend bool operator==(const PowerOrder& left, const PowerOrder& right) {
    return left.request == right.request && left.aim.power == right.aim.power &&
           left.aim.drivers == right.aim.drivers;
  }
};

// What a fencer has read of a machine.
struct PowerReading {
  policy::PowerState state = {};
  std::string fencer = {};  // its name
  Uid node = {};            // whose machine was asked
  Moment asked{};           // it was so then, or later
  // How it is switched off, or isolated, by the answers that say that it is not; absent where the
  // configuration does not allow it to this fencer, or the fencer cannot.
  std::optional<PowerOrder> order = std::nullopt;
};

// What was last told, and when: that it began, and then that it may have arrived.
struct LastOrder {
  Moment at{};
  PowerOrder order;
};

class Powers {
 public:
  virtual ~Powers() = default;
  // Some fencer may switch machines off, or isolate them: whoever it is done to, all pods of its
  // node end, or lose their volumes.
  [[nodiscard]] virtual bool may_act() const = 0;
  // The node is down, as it was read a moment ago: its machine's fencers are asked again when the
  // last answer grows old.
  virtual void look_at(const kube::Node& node) = 0;
  // The newest reading of this very node; nullopt: none, or one that is too old to act by.
  [[nodiscard]] virtual std::optional<PowerReading> reading_of(const NodeName& node,
                                                               const Uid& uid) const = 0;
  // Why there is none, or what it says, for people: "redfish: unknown, PowerState PoweringOff";
  // "" where no fencer is bound to the node.
  [[nodiscard]] virtual std::string told_of(const NodeName& node) const = 0;
  // It is done now. Whoever comes while that is under way knows by last_order().
  virtual void order_begins(const NodeName& node, const PowerOrder& order) = 0;
  // It may have arrived: the machine is read again soon, and for long enough that it is known by
  // then what came of it. Or it has not left.
  virtual void order_ended(const NodeName& node, const PowerOrder& order,
                           bool may_have_arrived) = 0;
  // nullopt: none, or it was long ago.
  [[nodiscard]] virtual std::optional<LastOrder> last_order(const NodeName& node) const = 0;
};

}  // namespace moonfence::fence
