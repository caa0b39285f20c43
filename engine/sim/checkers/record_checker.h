#pragma once

// Record before action: when the server takes a deletion of the engine, a record of an incident
// that stands in the cluster names what is deleted by its UID. It looks at the store itself, in the
// moment of the write: the process that meant it may be gone already.

#include <map>
#include <set>
#include <string>

#include "sim/truth/checker.h"

namespace moonfence::sim {

class RecordChecker final : public Checker {
 public:
  explicit RecordChecker(Bench& bench) : Checker(bench) {}
  void on_change(const Change& change) override;

 private:
  void check(const Change& change, const std::string& done);
  [[nodiscard]] bool is_recorded(const std::string& uid);

  struct Read {
    Object map;
    std::set<std::string> named;
  };
  std::map<std::string, Read> read_;  // by the ConfigMap's name: a record names hundreds of pods
  std::set<std::string> lost_;  // UIDs that records named which went with a store that went back
};

}  // namespace moonfence::sim
