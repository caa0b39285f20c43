#pragma once

// FailedActs are an incident's acts that failed. Each is tried again at a pace of its own. What the
// API server refused or did not answer is left alone until then, whatever else begins passes: a
// look after a volume that detaches follows the one before after 50 ms, and each attempt costs a
// request and two records. What we refused ourselves may go in any pass: what it waits for is read
// there.

#include <cstdint>
#include <map>
#include <string>

#include "audit/reason.h"
#include "base/time.h"
#include "fence/rules/action.h"
#include "fence/rules/pass_result.h"

namespace moonfence::fence {

class FailedActs {
 public:
  // A pass begins. In another stretch of the incident what failed may be tried at once, but for
  // what the server asked to be spared.
  void begin_pass(const PassContext& context, Moment now);
  // `act`: which one, the same in every pass. `what`: its object, for people. The result says when
  // it is tried again.
  void fail(const std::string& act, const std::string& what, const ActionOutcome& outcome,
            PassResult& result, Moment now);
  // True: it failed, and is not to be tried in this pass. The result says so once more.
  [[nodiscard]] bool still_failed(const std::string& act, PassResult& result) const;
  void succeeded(const std::string& act) { failures_.erase(act); }

 private:
  struct Failure {
    std::string text;
    audit::Reason reason = audit::Reason::Retryable;
    Moment first{};    // began the pass in which it failed first, less what was unread by then
    Duration pause{};  // of RetryRules
    Moment again{};
    Moment spared{};  // the server asked not to be asked before
  };
  std::map<std::string, Failure> failures_;
  std::map<std::string, Failure> refusals_;  // our own
  RetryRules rules_;
  Duration unread_{};
  std::uint32_t stretch_ = 0;
  Moment started_{};
};

}  // namespace moonfence::fence
