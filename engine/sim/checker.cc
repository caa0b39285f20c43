#include "sim/checker.h"

#include <algorithm>

namespace moonfence::sim {

bool Checker::is_own_node_of_all(const std::string& node) const {
  const std::vector<std::string>& seats = plan().seats;
  const auto is_up = [this](const std::string& name) {
    return std::any_of(truth().nodes().begin(), truth().nodes().end(), [&name](const auto& entry) {
      return entry.second.name == name && entry.second.exists.holds && !entry.second.down.holds;
    });
  };
  return std::find(seats.begin(), seats.end(), node) != seats.end() &&
         std::none_of(seats.begin(), seats.end(), is_up);
}

}  // namespace moonfence::sim
