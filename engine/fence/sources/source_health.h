#pragma once

// SourceHealth is what one health source has said of every node, as far as it still holds. A pure
// machine: it is told what each successful reading names, and answers with what is news.
//
// A node that a reading does not name keeps its entry until it expires. One that is still called
// failed when its entry expires is news again: whoever deals with failed nodes looks once more.

#include <map>
#include <optional>
#include <vector>

#include "base/names.h"
#include "base/time.h"
#include "policy/values/verdict.h"

namespace moonfence::fence {

class SourceHealth {
 public:
  enum class Change {
    First,      // named for the first time in the first reading
    Changed,    // named otherwise than before, or for the first time
    Expired,    // named as before, and the entry was old
    Forgotten,  // not named any more, and the entry was old
  };
  struct News {
    NodeName node;
    policy::NodeHealth health = policy::NodeHealth::Unknown;  // of Forgotten: the last one
    Change change = Change::Changed;

    friend bool operator==(const News&, const News&) = default;
  };

  explicit SourceHealth(Duration expiry) : expiry_(expiry) {}

  // In the order of the names.
  [[nodiscard]] std::vector<News> read(const policy::NodeStates& states, Moment now);
  [[nodiscard]] std::optional<policy::NodeHealth> health(const NodeName& node) const;
  [[nodiscard]] std::vector<NodeName> failed() const;
  [[nodiscard]] std::vector<NodeName> nodes() const;  // all of them

 private:
  struct Entry {
    policy::NodeHealth health = policy::NodeHealth::Unknown;
    Moment since{};  // when it was written: a reading that says the same does not renew it
  };
  Duration expiry_;
  bool read_once_ = false;
  std::map<NodeName, Entry> entries_;
};

}  // namespace moonfence::fence
