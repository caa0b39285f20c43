#include "app/policies/policy_changes.h"

#include <gtest/gtest.h>

namespace moonfence::app {
namespace {

using policy::Mode;
using policy::PolicyStatus;
using policy::ReloadReport;
using Lines = std::vector<std::string>;

ReloadReport report_of(Mode ceiling, std::vector<PolicyStatus> policies = {},
                       std::vector<std::string> faults = {}) {
  ReloadReport report;
  report.mode = ceiling;
  report.mode_set_by = "key mode";
  report.policies = std::move(policies);
  report.faults = std::move(faults);
  return report;
}

PolicyStatus status_of(const std::string& name, Mode mode, const std::string& namespaces = "*") {
  return {.name = name, .namespaces = namespaces, .mode = mode, .since = {}};
}

Lines texts(const ReloadReport& before, const ReloadReport& now) {
  Lines lines;
  for (const PolicyChange& change : policy_changes(before, now)) {
    lines.push_back(change.text);
  }
  return lines;
}

TEST(PolicyChanges, the_ceiling_and_each_policy_under_it_are_told_with_what_was_before) {
  EXPECT_EQ(texts(report_of(Mode::Observe, {status_of("db", Mode::Observe)}),
                  report_of(Mode::Enforce, {status_of("db", Mode::Enforce)})),
            (Lines{"the ceiling of all policies is enforce, was observe (set by key mode)",
                   "policy db for namespaces * is enforce, was observe"}));
}

TEST(PolicyChanges, one_binding_of_a_policy_is_not_the_other) {
  EXPECT_EQ(texts(report_of(Mode::Enforce, {status_of("db", Mode::Observe, "a"),
                                            status_of("db", Mode::Observe, "b")}),
                  report_of(Mode::Enforce, {status_of("db", Mode::Observe, "a"),
                                            status_of("db", Mode::Enforce, "b")})),
            Lines{"policy db for namespaces b is enforce, was observe"});
}

// Of two bindings one was lost in an edit, and nothing said so: its policy is still bound.
TEST(PolicyChanges, a_binding_that_is_gone_is_told) {
  const ReloadReport both = report_of(
      Mode::Enforce, {status_of("db", Mode::Enforce, "a"), status_of("db", Mode::Enforce, "b")});
  const ReloadReport one = report_of(Mode::Enforce, {status_of("db", Mode::Enforce, "b")});
  EXPECT_EQ(texts(both, one), Lines{"policy db is not bound to namespaces a any more"});
  EXPECT_EQ(texts(one, both), Lines{});
  const ReloadReport twice = report_of(
      Mode::Enforce, {status_of("db", Mode::Enforce, "b"), status_of("db", Mode::Enforce, "b")});
  EXPECT_EQ(texts(twice, one),
            Lines{"a binding of policy db for namespaces b is gone, and others cover them"});
  const ReloadReport joint = report_of(Mode::Enforce, {status_of("db", Mode::Enforce, "b, c")});
  EXPECT_EQ(texts(one, joint), Lines{}) << "it goes further";
  EXPECT_EQ(texts(joint, one), Lines{"policy db is not bound to namespaces c any more"});
  EXPECT_EQ(texts(report_of(Mode::Enforce, {status_of("db", Mode::Enforce)}), joint),
            Lines{"policy db is not bound to namespaces other than b, c any more"});
  EXPECT_EQ(texts(one, report_of(Mode::Enforce)),
            Lines{"policy db is not bound to namespaces b any more"});
  ReloadReport unbound = report_of(Mode::Enforce);
  unbound.unbound = {"db"};  // has an event of its own
  EXPECT_EQ(texts(one, unbound), Lines{});
  ReloadReport missing = report_of(Mode::Off, {}, {"no ConfigMap"});
  missing.missing = "no ConfigMap";
  EXPECT_EQ(texts(one, missing).size(), 1U) << "the ceiling";
  EXPECT_EQ(texts(report_of(Mode::Enforce, {status_of("db", Mode::Off)}), report_of(Mode::Enforce)),
            Lines{})
      << "it was off";
}

// `mode: enforce` under `--mode=observe`: all said Active, and nothing was deleted.
TEST(PolicyChanges, a_binding_that_the_ceiling_begins_to_hold_back_is_told) {
  PolicyStatus held = status_of("db", Mode::Observe);
  held.held_back = Mode::Enforce;
  ReloadReport now = report_of(Mode::Observe, {held});
  now.mode_set_by = "--mode";
  EXPECT_EQ(texts(report_of(Mode::Observe, {status_of("db", Mode::Observe)}), now),
            Lines{"policy db for namespaces * says enforce, and --mode holds it to observe"});
  EXPECT_EQ(texts(now, now), Lines{});
  const ReloadReport before = report_of(Mode::Enforce, {status_of("db", Mode::Enforce)});
  EXPECT_EQ(texts(before, now),
            (Lines{"the ceiling of all policies is observe, was enforce (set by --mode)",
                   "policy db for namespaces * is observe, was enforce"}))
      << "who lowers the ceiling knows what it holds back";
}

TEST(PolicyChanges, what_is_new_or_the_same_is_no_change_of_mode) {
  const ReloadReport report = report_of(Mode::Enforce, {status_of("db", Mode::Enforce)});
  EXPECT_EQ(texts(report_of(Mode::Enforce), report), Lines{});
  EXPECT_EQ(texts(report, report), Lines{});
}

TEST(PolicyChanges, faults_are_told_when_they_are_new) {
  const ReloadReport faulty = report_of(Mode::Enforce, {}, {"line 3: no such key", "key mode"});
  EXPECT_EQ(texts(report_of(Mode::Enforce), faulty),
            Lines{"the bindings stay as they were: line 3: no such key; key mode"});
  EXPECT_EQ(texts(faulty, faulty), Lines{});
  EXPECT_EQ(texts(faulty, report_of(Mode::Enforce)), Lines{});
  ReloadReport missing = report_of(Mode::Enforce, {}, {"no ConfigMap"});
  missing.missing = "no ConfigMap";  // has an event of its own
  EXPECT_EQ(texts(report_of(Mode::Enforce), missing), Lines{});
}

}  // namespace
}  // namespace moonfence::app
