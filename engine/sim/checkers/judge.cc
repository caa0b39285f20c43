#include "sim/checkers/judge.h"

#include <utility>

#include "sim/checkers/bounds_checker.h"
#include "sim/checkers/brake_checker.h"
#include "sim/checkers/budget_checker.h"
#include "sim/checkers/delete_checker.h"
#include "sim/checkers/leadership_checker.h"
#include "sim/checkers/liveness_checker.h"
#include "sim/checkers/record_checker.h"
#include "sim/checkers/taint_checker.h"
#include "sim/store/fields.h"

namespace moonfence::sim {
namespace {

// More than that says nothing new.
constexpr std::size_t kMostViolations = 50;

std::string line_of(const WireRequest& request) {
  std::string line(port::to_string(request.method));
  line += ' ';
  line += request.target;
  return line;
}

}  // namespace

template <class C>
C& Judge::add() {
  auto made = std::make_unique<C>(bench_);
  C& checker = *made;
  checkers_.push_back(std::move(made));
  return checker;
}

Judge::Judge(const Plan& plan, const Truth& truth, const TimeLine& time, const Story& story)
    : time_(time),
      story_(story),
      bench_{
          .plan = plan, .truth = truth, .accuse = [this](std::string_view rule, std::string text) {
            accuse(rule, std::move(text));
          }} {
  add<DeleteChecker>();
  add<BrakeChecker>();
  add<TaintChecker>();
  audit_ = &add<AuditChecker>();
  volumes_ = &add<VolumeChecker>();
  proof_ = &add<ProofChecker>();
  add<LeadershipChecker>();
  add<RecordChecker>();
  add<BoundsChecker>();
  add<BudgetChecker>();
  add<LivenessChecker>();
}

void Judge::tell(Happening::Kind kind, std::string_view subject, std::string what,
                 std::string detail) const {
  story_.tell({.at = time_.now.time_since_epoch(),
               .kind = kind,
               .subject = std::string(subject),
               .what = std::move(what),
               .detail = std::move(detail)});
}

void Judge::accuse(std::string_view rule, std::string text) {
  if (violations_.size() >= kMostViolations) {
    return;
  }
  if (story_.heard()) {
    tell(Happening::Kind::Violation, rule, text, {});
  }
  violations_.push_back(
      {.at = time_.now.time_since_epoch(), .rule = std::string(rule), .text = std::move(text)});
}

void Judge::on_left(const WireRequest& request) {
  if (story_.heard()) {
    tell(Happening::Kind::Call, request.replica, line_of(request), "leaves");
  }
  for (const auto& checker : checkers_) {
    checker->on_left(request);
  }
}

void Judge::on_answered(const WireRequest& request, const ServerAnswer& answer) {
  if (story_.heard()) {
    tell(Happening::Kind::Call, request.replica, line_of(request),
         "is answered with " + std::to_string(answer.status) +
             (answer.committed ? " and committed" : ""));
  }
  for (const auto& checker : checkers_) {
    checker->on_answered(request, answer);
  }
}

void Judge::on_heard(const WireRequest& request, int status, std::string_view text) {
  for (const auto& checker : checkers_) {
    checker->on_heard(request, status, text);
  }
}

void Judge::on_ended(const WireRequest& request, int status, const port::HttpEnd& end) {
  if (story_.heard()) {
    tell(Happening::Kind::Call, request.replica, line_of(request),
         end.error ? "ends: " + end.error->text : "ends with " + std::to_string(status));
  }
  for (const auto& checker : checkers_) {
    checker->on_ended(request);
  }
}

void Judge::on_started(const Life& life) {
  for (const auto& checker : checkers_) {
    checker->on_started(life);
  }
}

void Judge::on_died(const Life& life, bool told) {
  for (const auto& checker : checkers_) {
    checker->on_died(life, told);
  }
}

void Judge::on_audit(const Life& life, std::string_view text) {
  if (story_.heard()) {
    tell(Happening::Kind::Audit, life.replica, {}, std::string(text));
  }
  const AuditLine line = read_audit_line(life, text);
  for (const auto& checker : checkers_) {
    checker->on_audit(line);
  }
}

void Judge::on_change(const Change& change) {
  // A mark and the removal that follows it are one deletion; somebody else may have marked it.
  if (change.key.resource == "pods" && is_engine(change.actor) && change.before != nullptr) {
    deleted_.insert(text_field(*change.before, {"metadata", "uid"}));
  }
  for (const auto& checker : checkers_) {
    checker->on_change(change);
  }
}

void Judge::after_turn(const Standing& standing) {
  for (const auto& checker : checkers_) {
    checker->after_turn(standing);
  }
}

void Judge::after_cluster_turn() {
  for (const auto& checker : checkers_) {
    checker->after_cluster_turn();
  }
  if (const std::string news = volumes_->take_news(); !news.empty() && story_.heard()) {
    tell(Happening::Kind::Volume, "storage", news, "accepted");
  }
  if (const std::string news = proof_->take_news(); !news.empty() && story_.heard()) {
    tell(Happening::Kind::Pod, "overlap", news, "counted");
  }
}

void Judge::on_paused(const Life& life, bool paused) {
  for (const auto& checker : checkers_) {
    checker->on_paused(life, paused);
  }
}

void Judge::on_link_cut(const std::string& replica, const std::string& node, bool cut) {
  for (const auto& checker : checkers_) {
    checker->on_link_cut(replica, node, cut);
  }
}

void Judge::on_partitioned(const std::string& replica, bool partitioned) {
  for (const auto& checker : checkers_) {
    checker->on_partitioned(replica, partitioned);
  }
}

void Judge::on_ordered(const Life& life, const BmcPlan& bmc) {
  for (const auto& checker : checkers_) {
    checker->on_ordered(life, bmc);
  }
}

void Judge::at_end(Duration calm_for) {
  for (const auto& checker : checkers_) {
    checker->at_end(calm_for);
  }
}

}  // namespace moonfence::sim
