#pragma once

// When a binding may act on a node that is down: its policy's trigger, held against how and since
// when the node is down. Pure functions.

#include <cstdint>
#include <optional>
#include <string_view>

#include "base/time.h"
#include "policy/bundle/policy_set.h"

namespace moonfence::fence {

struct Downtime {
  Moment since{};    // the first down observation
  bool fell = true;  // false: found down, at start or by a reload; `sweep` says who may act then
  // When we heard that it fell, whatever was made of it since; nullopt: it was found down.
  std::optional<Moment> heard = std::nullopt;
};

// How one binding stands to a node.
struct Standing {
  enum class Kind {
    MayAct,
    NotDueYet,   // the node must be down for longer
    Unfit,       // its kubelet or its machine may be alive, and the policy wants silence
    NotSwept,    // the node was found down, and the policy wants to have seen it fall
    NotDeleted,  // the node is gone from the API, which is no matter of this policy
    OtherWord,   // the policy goes by somebody else's word than this incident
    NodeHeld,    // the policy looked at the node and holds it, or failed over it
  };
  Kind kind = Kind::MayAct;
  Duration due_in{};  // of NotDueYet, and of NodeHeld when it is to be asked again; else zero
};

// Whose word on a node's health a binding goes by: "" is Kubernetes', else it has a health source
// of its own, which bindings of the same policy with the same settings share, or goes by what the
// engine itself has heard of the machine ("lost:12s"), and what fencers say of it ("off:12s").
[[nodiscard]] std::string signal_of(const policy::Binding& binding);
inline constexpr std::string_view kLostSignal = "lost:";
inline constexpr std::string_view kOffSignal = "off:";
// What the engine has heard: nothing is done while the machine is not known to be silent.
[[nodiscard]] bool is_by_detection(std::string_view source);
// And nothing before a fencer has said that the machine is off.
[[nodiscard]] bool is_by_fencers(std::string_view source);

// `failures` = 1: at once. Otherwise observation k counts at k × interval after the first.
[[nodiscard]] Duration hold_down(const policy::Trigger& trigger);
// Down observations in a row so far; 1 at least.
[[nodiscard]] std::uint32_t failures_of(const policy::Trigger& trigger, Duration down_for);

// How a node is down.
struct Signal {
  bool silent = false;   // its kubelet is dead by its Lease (fence/leases/kubelet_lease)
  bool answers = false;  // but its machine may live (fence/rules/reading)
  bool deleted = false;  // the Node object does not exist
  // Since when a kubelet that speaks says so without a break: a watch that stands still does not
  // tell that it was Ready in between.
  Moment unbroken_since{};
};
// `held`: see policy::Binding::hold_down.
[[nodiscard]] Standing standing_of(const policy::Trigger& trigger, Duration held,
                                   const Downtime& downtime, const Signal& signal, Moment now);

// How long a node must be down until the first of several bindings may act; nullopt: none ever may.
struct HoldDowns {
  std::optional<Duration> silent = Duration::zero();  // its kubelet is dead
  std::optional<Duration> living = Duration::zero();  // it may live, and Ready is False or missing
  // Its kubelet is dead, and its machine may live.
  std::optional<Duration> answering = std::nullopt;
  // The same of a node whose object was deleted.
  std::optional<Duration> deleted_silent = std::nullopt;
  std::optional<Duration> deleted_living = std::nullopt;

  friend bool operator==(const HoldDowns&, const HoldDowns&) = default;
};

// Of the bindings that go by the word of `source` (signal_of). A binding without a policy (a guard
// that could not be loaded) never acts.
[[nodiscard]] HoldDowns hold_downs(const policy::PolicySet& set, bool fell,
                                   std::string_view source = {});

// Whether any of them acts on a node whose object was deleted. `fell`: see Downtime.
[[nodiscard]] bool acts_on_deleted(const policy::PolicySet& set, bool fell,
                                   std::string_view source = {});

// Whether a policy of the set may want attachments deleted: all pods of the node are listed then,
// with their volumes.
[[nodiscard]] bool may_detach(const policy::PolicySet& set);
[[nodiscard]] bool may_detach(const policy::Binding& binding);

}  // namespace moonfence::fence
