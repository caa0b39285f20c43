#pragma once

// An authority, a pod and an attachment with nothing against them.

#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "fence/rules/guard.h"
#include "support/fake_kernels.h"
#include "support/leadership.h"
#include "support/policies.h"

namespace moonfence::fence {

using namespace std::chrono_literals;
using audit::Reason;
using cluster::Readiness;
using policy::Mode;

struct FakePowers final : Powers {
  std::optional<PowerReading> reading;
  [[nodiscard]] bool may_act() const override { return true; }
  void look_at(const kube::Node&) override {}
  [[nodiscard]] std::optional<PowerReading> reading_of(const NodeName&, const Uid&) const override {
    return reading;
  }
  [[nodiscard]] std::string told_of(const NodeName&) const override { return "bmc: no answer"; }
  void order_begins(const NodeName&, const PowerOrder&) override {}
  void order_ended(const NodeName&, const PowerOrder&, bool) override {}
  [[nodiscard]] std::optional<LastOrder> last_order(const NodeName&) const override {
    return std::nullopt;
  }
};

struct GuardTest : testing::Test {
  Moment now = Moment{} + 1h;
  Moment judged{};
  policy::ActiveSet active;
  test::FakeLeadership leadership;
  Brake brake{BrakeRules{}};
  SelfDoubt doubt;
  Protections protections;
  test::FakeKernels kernels;
  Authority authority = {
      .incident_open = true,
      .node = NodeName("n1"),
      .node_uid = Uid("node-1"),
      .reading = {.readiness = Readiness::Unknown,
                  .uid = Uid("node-1"),
                  .keeps_replacements_off = true,
                  .kubelet_lease = KubeletLease::Dead,
                  .sent = Moment{} + 1h},
      .zone = {},
      .ledger = std::make_shared<RecordLedger>(IncidentRecord{}, "moonfence-0_a", then),
      .brake = &brake,
      .doubt = &doubt,
      .protections = &protections,
      .active = &active,
      .leadership = &leadership};
  kube::Pod pod = [] {
    kube::Pod made;
    made.ref = {.space = Namespace("db"), .name = "web-0"};
    made.uid = Uid("pod-1");
    made.node = NodeName("n1");
    made.phase = "Running";
    made.owners = {{.api_version = "apps/v1",
                    .kind = "StatefulSet",
                    .name = "web",
                    .uid = Uid("set-1"),
                    .controller = true}};
    return made;
  }();

  void hear_namespace() { authority.namespaces[pod.ref.space] = {.known = true, .sent = now}; }
  static WallTime then() { return WallTime{}; }
  // A step of the record, and the record stands.
  void record(const std::string& uid) {
    IncidentRecord::Step step;
    step.pod_uid = Uid(uid);
    authority.ledger->plan(std::move(step));
    authority.ledger->stands(authority.ledger->revision());
  }

  GuardTest() {
    authority.kernels = &kernels;
    hear_namespace();
    for (const char* uid : {"pod-1", "va-1"}) {
      record(uid);
    }
    in_force(Mode::Enforce);
    count_nodes(10, 1);
    (void)doubt.look({}, now);
  }
  void count_nodes(int workers, int down) {
    cluster::Census census;
    for (int i = 0; i < workers; ++i) {
      cluster::NodeView node;
      node.readiness = i < down ? Readiness::Unknown : Readiness::True;
      census.add(node);
    }
    brake.count(census, now);
  }

  static policy::Binding binding(Mode mode, const std::string& digest = "d1",
                                 const std::string& more = "trigger = { live_kubelet = true },") {
    auto loaded = load_text(policy_text("return fence.skip('no')", more));
    return {.name = "test",
            .policy = std::make_shared<const policy::Policy>(*std::move(loaded)),
            .scope = policy::NamespaceScope::of({Namespace("db")}),
            .mode = mode,
            .allow = {},
            .digest = digest,
            .error = {}};
  }
  void activate(std::vector<policy::Binding> bindings, const std::string& digest = "s1") {
    active.activate(std::make_shared<const policy::PolicySet>(
        policy::PolicySet{.bindings = std::move(bindings), .digest = digest}));
  }
  void in_force(Mode mode) { activate(std::vector{binding(mode)}); }

  [[nodiscard]] std::optional<Reason> answer() const {
    return refuse_pod_deletion(
        authority, {.policy = "test", .digest = "d1", .set = "s1", .judged = judged}, pod, now);
  }
};

struct AttachmentGuardTest : GuardTest {
  std::set<std::string> drivers = {"csi.example.com"};
  AttachmentCase target = {.attachment = {.name = "csi-1",
                                          .uid = Uid("va-1"),
                                          .attacher = "csi.example.com",
                                          .node = NodeName("n1"),
                                          .volume = "pv-1",
                                          .held_by_attacher = true},
                           .driver = "csi.example.com",
                           .volume = "pv-1",
                           .used_by_others = false};

  AttachmentGuardTest() { authority.fencing_drivers = &drivers; }
  [[nodiscard]] std::optional<Reason> refuse() const {
    return refuse_attachment_deletion(authority, {.policy = "test", .digest = "d1", .set = "s1"},
                                      pod, target, now);
  }
};

}  // namespace moonfence::fence
