#pragma once

// A person who looks after isolated machines: has one isolated when a step says so, and lifts that,
// as the plan says, once its node is Ready again. What was written before the isolation would be
// written again, so the machine is rebooted first; but whoever lifts in the storage does not where
// it was isolated by mistake, and has been well all the time.

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "sim/controllers/kubelet.h"
#include "sim/ground/ground.h"

namespace moonfence::sim {

class Person final {
 public:
  using Find = std::function<Kubelet*(const std::string& machine)>;
  // `served` is called when the person has made a storage serve somebody again.
  Person(const Ground& ground, const Plan& plan, Find find, std::function<void()> served);
  Person(const Person&) = delete;
  Person& operator=(const Person&) = delete;

  // False: no addresses are told of the node.
  bool isolate(const std::string& node);
  // From now on nothing is begun any more; what is under way is ended.
  void calm() { calm_ = true; }

 private:
  struct Case {
    std::string node;
    std::string boot_id;  // of the machine that the storage was told to refuse
    Moment impaired_since{};
    bool by_mistake = false;  // it was well
    std::optional<Moment> well_since;
    bool rebooted = false;
    bool lifting = false;
    bool done = false;
  };
  void look_around();
  void look_at(const Json& fence, Case& one);
  void lift(const Json& fence, Case& one);
  void reboot(const std::string& node);
  [[nodiscard]] bool needs_reboot(const Case& one, const Machine& of) const;
  [[nodiscard]] const Machine* machine(const std::string& node) const;

  const Ground& ground_;
  const Plan& plan_;
  Find find_;
  std::function<void()> served_;
  std::unique_ptr<port::Random> random_;
  std::map<std::string, Case> cases_;           // by the UIDs of NetworkFences
  std::map<std::string, loop::Timer> reboots_;  // by machine
  loop::Timer round_;
  int made_ = 0;
  bool calm_ = false;
};

}  // namespace moonfence::sim
