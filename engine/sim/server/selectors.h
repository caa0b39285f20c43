#pragma once

// Label and field selectors of lists and watches, as k8s.io/apimachinery reads them.

#include <set>
#include <string>
#include <vector>

#include "sim/store/object_store.h"

namespace moonfence::sim {

class LabelSelector {
 public:
  [[nodiscard]] static Answer<LabelSelector> parse(const std::string& text);
  [[nodiscard]] bool matches(const Json& object) const;

  struct Requirement {
    enum class Operator { In, NotIn, Exists, Absent, Greater, Less };
    std::string key;
    Operator how = Operator::Exists;
    std::set<std::string> values;
  };

 private:
  std::vector<Requirement> requirements_;
};

class FieldSelector {
 public:
  // A BadRequest for a field that the resource cannot be selected by.
  [[nodiscard]] static Answer<FieldSelector> parse(const ResourceKind& kind,
                                                   const std::string& text);
  [[nodiscard]] bool matches(const Json& object) const;

 private:
  struct Term {
    std::vector<std::string> path;
    std::string value;
    bool equal = true;
  };
  std::vector<Term> terms_;
};

struct Selection {
  LabelSelector labels;
  FieldSelector fields;
  bool everything = true;  // neither selects

  [[nodiscard]] bool matches(const Json& object) const {
    return everything || (labels.matches(object) && fields.matches(object));
  }
};

[[nodiscard]] Answer<Selection> parse_selection(const ResourceKind& kind, const std::string& labels,
                                                const std::string& fields);

}  // namespace moonfence::sim
