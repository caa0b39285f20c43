#pragma once

// One pass over the node of the small cluster, driven as an incident drives it.

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "fence/incident/pass.h"
#include "unit/fence/fence_fixture.h"

namespace moonfence::fence {

// Answers as the incident does: acts on the first reading of a node that is down, ends the pass
// when it is not.
struct OnePass final : Pass::Owner {
  OnePass(FenceTest& test, const Binding& binding) : OnePass(test, std::vector{binding}) {}
  OnePass(FenceTest& test, std::vector<Binding> bindings) : around_(test.surroundings()) {
    test.activate(std::move(bindings));
    authority->node = NodeName("n1");
    authority->node_uid = Uid("node-1");
    authority->active = &test.active;
    authority->leadership = &test.leadership;
    authority->brake = &test.brake;
    authority->doubt = &test.doubt;
    authority->protections = &test.protections;
    authority->quarantine = test.quarantine;
    authority->ledger = test.new_ledger();
    begin();
  }

  void begin() {
    acting_ = false;
    result.reset();
    pass = std::make_unique<Pass>(around_,
                                  PassContext{.set = around_.in_force.active.current(),
                                              .downtime = downtime,
                                              .incident = IncidentId("i1"),
                                              .attempt = 1U},
                                  authority, memory, *this);
    pass->start();
  }
  void reading_arrived(const std::optional<Reading>& reading) override {
    ++readings;
    if (!reading) {
      ++unreadable;
    }
    if (!reading || !cluster::is_down(reading->readiness)) {
      pass->retire();
      ended = true;
    } else if (!std::exchange(acting_, true)) {
      pass->act();
    }
  }
  void pass_ended(const PassResult& summed_up) override {
    ++endings;
    result = summed_up;
  }
  [[nodiscard]] bool over() const { return ended || result.has_value(); }

  std::shared_ptr<Authority> authority = std::make_shared<Authority>();
  Downtime downtime;
  Memory memory;
  std::optional<PassResult> result;
  std::unique_ptr<Pass> pass;
  int readings = 0;
  int unreadable = 0;
  int endings = 0;
  bool ended = false;

 private:
  IncidentContext around_;
  bool acting_ = false;
};

struct OnePassTest : FenceTest {
  // One pass from start to end.
  std::unique_ptr<OnePass> run_pass(std::vector<Binding> bindings) {
    auto pass = std::make_unique<OnePass>(*this, std::move(bindings));
    EXPECT_TRUE(run_until([&pass] { return pass->over(); }));
    return pass;
  }
};

}  // namespace moonfence::fence
