#include "sim/truth/node_marks.h"

#include <algorithm>

#include <yaml-cpp/yaml.h>

#include "sim/store/fields.h"

namespace moonfence::sim {
namespace {

void read_words(const YAML::Node& list, std::set<std::string>& into) {
  for (const YAML::Node& word : list) {
    into.insert(word.as<std::string>());
  }
}

bool carries_one(const Json* map, const std::set<std::string>& marks) {
  return map != nullptr && std::any_of(marks.begin(), marks.end(), [map](const std::string& mark) {
           const auto equals = mark.find('=');
           const auto found = map->find(mark.substr(0, equals));
           return found != map->end() &&
                  (equals == std::string::npos || *found == mark.substr(equals + 1));
         });
}

}  // namespace

bool NodeMarks::hold(const Json& node) const {
  return is_held(node) || carries_one(find_field(node, {"metadata", "annotations"}), holds);
}

bool NodeMarks::exclude(const Json& node) const {
  return carries_one(find_field(node, {"metadata", "labels"}), excluded);
}

NodeMarks node_marks(const Plan& plan) {
  NodeMarks marks;
  try {
    const YAML::Node config = YAML::Load(plan.config);
    if (config.IsMap()) {
      read_words(config["holdMarks"], marks.holds);
      read_words(config["brake"] ? config["brake"]["exclude"] : YAML::Node(), marks.excluded);
    }
  } catch (const YAML::Exception&) {
    return {};  // no engine starts with it
  }
  return marks;
}

bool is_held(const Json& object) {
  return find_field(object, {"metadata", "annotations", "moonfence.io/hold"}) != nullptr;
}

}  // namespace moonfence::sim
