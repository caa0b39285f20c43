#include "fence/record/record_ledger.h"

#include <algorithm>
#include <utility>

namespace moonfence::fence {

using Step = IncidentRecord::Step;

RecordLedger::RecordLedger(IncidentRecord record, std::string identity, Clock now)
    : record_(std::move(record)), identity_(std::move(identity)), now_(std::move(now)) {
  record_.closed.reset();
  record_.leaders.push_back({.identity = identity_, .since = now_()});
  for (const Step& step : record_.steps) {
    planned_in_.emplace(step.uid(), revision_);
  }
}

void RecordLedger::touch() {
  ++revision_;
  if (changed_) {
    changed_();
  }
}

void RecordLedger::plan(Step step) {
  Step* known = record_.find(step.uid());
  if (known == nullptr) {
    step.planned = now_();
    planned_in_[step.uid()] = revision_ + 1;
    record_.steps.push_back(std::move(step));
    touch();
    return;
  }
  if (!known->sent && known->evidence != step.evidence) {
    known->evidence = step.evidence;  // of today
    touch();
  }
  const bool same = known->policy == step.policy && known->policy_digest == step.policy_digest &&
                    known->set_digest == step.set_digest && known->before_pod == step.before_pod &&
                    known->proof == step.proof;
  if (!same) {
    known->policy = std::move(step.policy);
    known->policy_digest = std::move(step.policy_digest);
    known->set_digest = std::move(step.set_digest);
    known->before_pod = step.before_pod;
    known->proof = std::move(step.proof);
    known->why = step.why;
    planned_in_[known->uid()] = revision_ + 1;  // whoever goes on must know whose word it is
    touch();
  }
  if (known->why != step.why) {  // foreseen in other words
    known->why = std::move(step.why);
    touch();
  }
  // It was meant of another boot; now it is meant of this one.
  if (known->outcome == audit::Reason::NodeRestarted && !known->sent) {
    known->outcome.reset();
    planned_in_[known->uid()] = revision_ + 1;
    touch();
  }
  // Another one nobody waits for: by what stands there until then a release is refused. That there
  // is none any more the next leader must know.
  if (known->release != step.release) {
    if (!step.release) {
      planned_in_[known->uid()] = revision_ + 1;
    }
    known->release = std::move(step.release);
    touch();
  }
}

bool RecordLedger::holds(const Uid& uid) const {
  const auto planned = planned_in_.find(uid);
  return planned != planned_in_.end() && planned->second <= standing_;
}

bool RecordLedger::holds_all_of(const Uid& pod) const {
  return holds(pod) &&
         std::all_of(record_.steps.begin(), record_.steps.end(), [this, &pod](const Step& step) {
           return step.pod_uid != pod || step.settled() || holds(step.uid());
         });
}

void RecordLedger::withdraw(const Uid& pod, const std::set<std::string>& wanted) {
  const auto removed = std::erase_if(record_.steps, [&](const Step& step) {
    const bool untouched =
        step.pod_uid == pod && !step.sent && !step.outcome &&
        (step.kind == Step::Kind::DeletePod || !wanted.contains(step.attachment));
    if (untouched) {
      planned_in_.erase(step.uid());
    }
    return untouched;
  });
  if (removed > 0) {
    touch();
  }
}

void RecordLedger::keep_attachments(const Uid& pod, const std::set<std::string>& wanted) {
  const auto removed = std::erase_if(record_.steps, [&](const Step& step) {
    const bool unwanted = step.pod_uid == pod && step.kind == Step::Kind::DeleteAttachment &&
                          !step.sent && !step.outcome && !wanted.contains(step.attachment);
    if (unwanted) {
      planned_in_.erase(step.uid());
    }
    return unwanted;
  });
  if (removed > 0) {
    planned_in_[pod] = revision_ + 1;
    touch();
  }
}

void RecordLedger::sent(const Uid& uid) {
  if (Step* step = record_.find(uid)) {
    ++under_way_;
    step->sent = now_();
    step->ended.reset();
    ++step->calls;
    touch();
  }
}

void RecordLedger::refused(const Uid& uid, audit::Reason reason) {
  Step* step = record_.find(uid);
  if (step != nullptr && step->outcome != reason) {
    step->outcome = reason;
    touch();
  }
}

void RecordLedger::ended(const Uid& uid, audit::Reason outcome) {
  Step* step = record_.find(uid);
  if (step == nullptr) {
    return;
  }
  under_way_ = std::max(under_way_ - 1, 0);
  step->ended = now_();
  step->outcome = outcome;
  touch();
}

void RecordLedger::stopped_at_the_wire(const Uid& uid, audit::Reason reason) {
  Step* step = record_.find(uid);
  if (step == nullptr) {
    return;
  }
  under_way_ = std::max(under_way_ - 1, 0);
  step->calls -= step->calls > 0 ? 1 : 0;
  if (step->calls == 0) {
    step->sent.reset();
  }
  step->outcome = reason;
  touch();
}

void RecordLedger::gone(const Uid& uid) {
  Step* step = record_.find(uid);
  if (step != nullptr && !step->gone) {
    step->gone = now_();
    touch();
  }
}

void RecordLedger::found_gone(const Uid& pod) {
  Step* step = record_.find(pod);
  if (step != nullptr && !step->settled()) {
    step->outcome = audit::Reason::AlreadyGone;
    step->ended.reset();  // what was answered was something else
    touch();
  }
}

void RecordLedger::release_over(const Uid& attachment) {
  Step* step = record_.find(attachment);
  if (step != nullptr && step->release) {
    step->release.reset();
    touch();
  }
}

void RecordLedger::followed(const Uid& uid, Step::Follow follow) {
  if (Step* step = record_.find(uid)) {
    step->follow = std::move(follow);
    touch();
  }
}

void RecordLedger::booted(const std::string& boot_id) {
  if (record_.boot_id == boot_id) {
    return;
  }
  for (Step& step : record_.steps) {
    const bool pending = step.kind == Step::Kind::DeleteAttachment && !step.settled();
    if (pending && !record_.boot_id.empty()) {
      step.outcome = audit::Reason::NodeRestarted;
      step.release.reset();
    }
  }
  record_.boot_id = boot_id;
  touch();
}

void RecordLedger::silent(std::optional<WallTime> at) {
  const bool same = at.has_value() == record_.silent.has_value() &&
                    (!at || *at - *record_.silent < kSilenceLasts);
  if (!same) {
    record_.silent = at;
    touch();
  }
}

void RecordLedger::held(const std::string& why) {
  if (record_.hold != why) {
    record_.hold = why;
    touch();
  }
}

void RecordLedger::close(audit::Reason reason) {
  record_.closed = {.at = now_(), .reason = reason};
  touch();
}

void RecordLedger::merge(const IncidentRecord& other) {
  for (const Step& theirs : other.steps) {
    Step* ours = record_.find(theirs.uid());
    if (ours != nullptr && !theirs.release) {
      ours->release.reset();  // given up there, it is not begun again
    }
    if (ours == nullptr) {
      planned_in_[theirs.uid()] = revision_ + 1;
      record_.steps.push_back(theirs);
    } else if (!ours->settled() && theirs.ended && (!ours->ended || *ours->ended < *theirs.ended)) {
      ours->sent = theirs.sent;
      ours->ended = theirs.ended;
      ours->outcome = theirs.outcome;
      ours->gone = theirs.gone;
      ours->follow = theirs.follow;
      ours->calls = std::max(ours->calls, theirs.calls);
    }
  }
  touch();
}

Result<std::string> RecordLedger::text() {
  auto text = fit(record_);
  if (text) {
    std::erase_if(planned_in_,
                  [this](const auto& planned) { return record_.find(planned.first) == nullptr; });
  }
  return text;
}

void RecordLedger::stands(std::uint64_t revision) {
  standing_ = std::max(standing_, revision);
}

}  // namespace moonfence::fence
