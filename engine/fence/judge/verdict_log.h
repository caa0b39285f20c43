#pragma once

// VerdictLog writes down what policies say about pods. What it has told already is no news, and is
// not told again: an incident that waits for one pod would tell of all the others in every pass.

#include <string>

#include "audit/reason.h"
#include "audit/trail.h"
#include "fence/judge/resolution.h"
#include "fence/judge/shadow.h"
#include "fence/rules/guard.h"
#include "kube/objects/objects.h"
#include "policy/bundle/policy_set.h"

namespace moonfence::fence {

struct Memory;
struct PassContext;

// Two bindings of one policy with other settings, or in another mode, are apart: neither fails or
// counts for the other.
[[nodiscard]] std::string key_of(const policy::Binding& binding);
[[nodiscard]] audit::Reason reason_of(policy::Verdict::Kind kind);

class VerdictLog {
 public:
  // All references must outlive it.
  VerdictLog(audit::Trail& trail, const PassContext& context, const Authority& authority,
             Memory& memory)
      : trail_(trail), context_(context), authority_(authority), memory_(memory) {}

  // `by`: null when no policy said it. True when it was news, and is written.
  bool verdict(const kube::Pod& pod, const policy::Binding* by, audit::Reason reason,
               const std::string& text);
  // Why what this opinion wants is not done.
  void refusal(const kube::Pod& pod, const Opinion& wanted, audit::Reason reason,
               const std::string& text);
  // The attachments that were to go before the pod are still there after the policy's own time.
  void overdue(const kube::Pod& pod, const policy::Binding& by, const std::string& text);
  void conflict(const Decision& decision, const kube::Pod& pod);
  void stop(const Decision& decision, const kube::Pod& pod);
  // Where what observes came to something else than what enforces.
  void shadow(const Decision& observed, const Decision& enforced, const kube::Pod& pod);
  // Once in an incident.
  void mention_once(const policy::Binding& binding, audit::Reason reason, const std::string& text);

 private:
  [[nodiscard]] const policy::Binding& binding(const Opinion& opinion) const;
  bool write_news(const std::string& about, const std::string& told, const audit::Record& record);
  [[nodiscard]] audit::Record record_of(audit::Record::Kind kind, audit::Reason reason,
                                        const policy::Binding* by) const;

  audit::Trail& trail_;
  const PassContext& context_;
  const Authority& authority_;
  Memory& memory_;
};

}  // namespace moonfence::fence
