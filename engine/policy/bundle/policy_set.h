#pragma once

// What the engine decides by at one moment: the bindings in their order, each with its compiled
// policy. A PolicySet never changes; a reload activates another one. ActiveSet is where everybody
// finds the one that is in force.

#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/names.h"
#include "policy/host/policy.h"
#include "policy/values/act_on.h"
#include "policy/values/mode.h"

namespace moonfence::policy {

// The namespaces a binding may act in.
class NamespaceScope {
 public:
  [[nodiscard]] static NamespaceScope everywhere() { return NamespaceScope(true, {}); }
  [[nodiscard]] static NamespaceScope of(std::set<Namespace> names) {
    return NamespaceScope(false, std::move(names));
  }
  [[nodiscard]] bool covers(const Namespace& space) const {
    return !space.empty() && (everywhere_ || names_.contains(space));
  }
  [[nodiscard]] bool is_everywhere() const { return everywhere_; }
  [[nodiscard]] const std::set<Namespace>& names() const { return names_; }  // empty: everywhere

  friend bool operator==(const NamespaceScope&, const NamespaceScope&) = default;

 private:
  NamespaceScope(bool everywhere, std::set<Namespace> names)
      : everywhere_(everywhere), names_(std::move(names)) {}
  bool everywhere_;
  std::set<Namespace> names_;
};

// What a binding allows beyond the ordinary (`allow`).
struct Allowances {
  bool out_of_service = false;
  bool bare_pods = false;
  bool finished_pods = false;
  ActOn act_on = ActOn::Down;
  Duration after{};  // zero of Down
  friend bool operator==(const Allowances&, const Allowances&) = default;
};

// What a binding holds down that does not say.
constexpr Duration kHoldDown = std::chrono::seconds(10);

// The least of `after` of `actOn: lost`, and what it is when nothing is said. Also the least of
// `actOn: off`, unless the engine's configuration says another (`leastAfter`).
constexpr Duration kLostAfter = std::chrono::seconds(12);
// Which cannot permit less of `actOn: off` than this. Nothing is deleted before a fencer says off,
// and the machine's Lease has to be overdue as well, which takes up to twelve seconds.
constexpr Duration kLeastOffAfter = std::chrono::seconds(6);
// Nobody waits longer than this.
constexpr Duration kLongestAfter = std::chrono::hours(1);
// What it is of `actOn: off`: whoever is switched off by it stays off, and a machine that merely
// starts anew is not heard for about as long.
constexpr Duration kOffAfter = std::chrono::minutes(1);

struct Binding {
  std::string name;  // of the policy
  // Null: a guard (a policy that can forbid) that could not be loaded. Every pod in its scope is
  // held until it can.
  std::shared_ptr<const Policy> policy;
  NamespaceScope scope = NamespaceScope::of({});
  Mode mode = Mode::Observe;  // in force: the lowest of its own and every ceiling; never Off
  Allowances allow;
  // How long a node must be down whose kubelet speaks all the while (Ready is False or missing, and
  // its Lease is renewed): a kubelet that restarts says so for some seconds.
  Duration hold_down{};
  // Hex SHA-256 over source and settings: what a verdict must still find in force when it is acted
  // on. Empty when there is no policy.
  std::string digest;
  std::string error;  // why there is no policy
};

struct PolicySet {
  std::vector<Binding> bindings;  // in the order of the configuration; those that are off left out
  // Over all of them in their order, with modes, scopes, allowances and why one has no policy. Two
  // sets with the same digest decide alike: what was judged by one may be carried out under the
  // other.
  std::string digest;
};

class ActiveSet {
 public:
  // Never null. Hold on to it for as long as its policies are used.
  [[nodiscard]] std::shared_ptr<const PolicySet> current() const { return current_; }
  void activate(std::shared_ptr<const PolicySet> set) { current_ = std::move(set); }

 private:
  std::shared_ptr<const PolicySet> current_ = std::make_shared<const PolicySet>();
};

}  // namespace moonfence::policy
