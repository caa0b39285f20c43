#pragma once

// The brake's limits are kept, as far as a replica could know: when a deletion leaves, what it has
// heard of the nodes for more than a second does not say that too many are down, and its intents
// without an outcome concern no more nodes than may be fenced at once or within the window, and one
// of a zone that is disrupted.

#include <map>
#include <optional>
#include <string>
#include <utility>

#include "sim/truth/brake_limits.h"
#include "sim/truth/checker.h"

namespace moonfence::sim {

class BrakeChecker final : public Checker {
 public:
  explicit BrakeChecker(Bench& bench)
      : Checker(bench), limits_(brake_limits(bench.plan)), marks_(node_marks(bench.plan)) {}

  void on_started(const Life& life) override { known_[life] = {}; }
  void on_left(const WireRequest& request) override;
  void on_heard(const WireRequest& request, int status, std::string_view text) override;
  void on_audit(const AuditLine& line) override;

 private:
  struct Intent {
    std::string node;
    std::string zone;
    // Since when its zone was known to be disrupted, if it was.
    std::optional<Moment> disrupted;
  };
  struct Acted {
    std::string zone;
    Moment last{};  // intent
  };
  struct Known {
    BrakeCensus nodes;
    std::set<std::string> listed;  // by the pages of a list that has not ended
    Since over;
    std::map<std::string, Since> disrupted;  // zones
    // Without an outcome: by incident and pod UID.
    std::map<std::pair<std::string, std::string>, Intent> intents;
    std::map<std::string, Acted> acted;  // by node
  };
  [[nodiscard]] Intent intent_of(const AuditLine& line, const Known& known) const;
  // `zone`: of its nodes only; null: of all.
  void check_pace(const AuditLine& line, const Known& known, const BrakePace& pace,
                  const std::string* zone) const;
  void check_zone(const AuditLine& line, const Known& known, const Intent& intent) const;
  // Too many fell within the window, of all or of a zone; `carrying`: only those count that carry
  // something in truth.
  [[nodiscard]] bool is_over(const Known& known, const std::string* zone, bool carrying) const;
  [[nodiscard]] std::int64_t newly_down(const Known& known, const std::string* zone,
                                        bool carrying) const;
  void note_zones(Known& known) const;
  void read_list(Known& known, const WireRequest& request, const Json& list) const;

  const BrakeLimits limits_;
  const NodeMarks marks_;
  std::map<Life, Known> known_;
};

}  // namespace moonfence::sim
