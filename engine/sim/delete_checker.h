#pragma once

// What may be deleted and when (invariants I1, I2, I6, I11). The bound for a recovered node is
// exact: a deletion rests on a reading that is at most 1 s old when its bytes leave, and what the
// server answered was true when the read was sent or later; so at that moment the down signal can
// have been clear for 1 s at most. What happens on the way to the server cannot be called back and
// is not counted.

#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "sim/checker.h"

namespace moonfence::sim {

class DeleteChecker final : public Checker {
 public:
  explicit DeleteChecker(Bench& bench) : Checker(bench) {}

  void on_started(const Life& life) override;
  void on_died(const Life& life, bool told) override;
  void on_left(const WireRequest& request) override;
  void on_answered(const WireRequest& request, const ServerAnswer& answer) override;
  void on_heard(const WireRequest& request, int status, std::string_view text) override;
  void on_audit(const AuditLine& line) override;
  void on_change(const Change& change) override;

 private:
  struct Reading {
    std::string uid;
    bool down = false;
    Moment left{};
  };
  struct Hearing {
    std::int64_t version = 0;
    Moment at{};
  };
  struct Known {
    // By pod UID: when an answer showed it last.
    std::map<std::string, Moment> listed;
    std::map<std::string, std::vector<Reading>> readings;  // by node name
    std::vector<Hearing> policies;
    std::map<std::string, AuditLine> intents;  // the newest, by pod UID
    std::map<std::string, Moment> opened;      // incidents
  };

  void check_delete(const WireRequest& request, const Known& known);
  [[nodiscard]] const AuditLine* intent_of(const std::string& what, const WireRequest& request,
                                           const Known& known);
  void check_detach(const WireRequest& request, const Known& known);
  void check_release(const WireRequest& request, const Known& known);
  void check_patch(const WireRequest& request, const Known& known);
  // Whether the node is down, and was read so.
  bool check_down(const std::string& what, const AuditLine& intent, const Known& known);
  void check_node(const std::string& what, const AuditLine& intent, const Known& known);
  void check_lease(const std::string& what, const NodeTruth& node) const;
  [[nodiscard]] bool stands_still(const NodeTruth& node) const;
  void check_reach(const std::string& what, const PodTruth& pod, const AuditLine& intent,
                   const Known& known);
  [[nodiscard]] std::vector<std::shared_ptr<const Reach>> in_force(const Known& known) const;
  void note_policies(Known& known, const WireRequest& request, std::string_view text) const;

  std::map<Life, Known> known_;
};

}  // namespace moonfence::sim
