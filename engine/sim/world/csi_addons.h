#pragma once

// CSI-Addons for kFencedDriver: on each node the driver's own pod tells the addresses under which
// the storage knows it, and a controller carries NetworkFences out, as the plan says of their
// class, and says what came of it. Whom the storage refuses is then so in truth
// (sim/ground/refusals.h).

#include <functional>
#include <map>
#include <memory>
#include <string>

#include "sim/ground/ground.h"

namespace moonfence::sim {

inline constexpr std::string_view kFences = "networkfences";
inline constexpr std::string_view kCsiNodes = "csiaddonsnodes";
inline constexpr std::string_view kFenced = "fencing operation successful";
inline constexpr std::string_view kUnfenced = "unfencing operation successful";

// "10.0.0.5/32": of a NetworkFence, or what a CSIAddonsNode tells.
[[nodiscard]] std::string cidr_of(const std::string& address);
[[nodiscard]] std::string address_in(const std::string& cidr);

class CsiAddons final {
 public:
  // Every node that is there has told its addresses when the constructor returns. `served` is
  // called when a storage refuses somebody no longer.
  CsiAddons(const Ground& ground, const Plan& plan, std::function<void()> served);
  CsiAddons(const CsiAddons&) = delete;
  CsiAddons& operator=(const CsiAddons&) = delete;

 private:
  // Of a node that has registered: as soon as its driver's pod runs.
  void await_driver(const std::string& node, Duration after);
  void tell_addresses(const std::string& node);
  void carry_out(const std::string& fence);
  void finish(const std::string& fence, const FenceClassPlan& by);
  void set(const FenceClassPlan& by, const Json& fence, bool refused);

  const Ground& ground_;
  const Plan& plan_;
  std::function<void()> served_;
  std::unique_ptr<port::Random> random_;
  std::unique_ptr<Informer> nodes_;
  std::unique_ptr<Informer> fences_;
  std::map<std::string, loop::Timer> drivers_;    // by node
  std::map<std::string, loop::Timer> at_work_;    // by fence
  std::map<std::string, loop::Timer> spreading_;  // by fence: to the last servers
};

}  // namespace moonfence::sim
