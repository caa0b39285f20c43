#pragma once

// Label selectors in the API server's own syntax ("app=noobaa,tier in (a, b),!canary"): checked
// when a policy is loaded, pushed down to the API server, and matched here where nothing was pushed
// down.

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "kube/objects/objects.h"

namespace moonfence::policy {

class LabelSelector {
 public:
  // "" selects everything.
  [[nodiscard]] static Result<LabelSelector> parse(std::string_view text);
  [[nodiscard]] bool matches(const kube::Labels& labels) const;
  // These labels, changed as little as it takes to be selected; nullopt when nothing ever is.
  [[nodiscard]] std::optional<kube::Labels> made_to_match(kube::Labels labels) const;

 private:
  struct Requirement {
    enum class Operator { In, NotIn, Exists, DoesNotExist };
    std::string key;
    Operator is = Operator::Exists;
    std::vector<std::string> values;

    [[nodiscard]] bool is_met_by(const kube::Labels& labels) const;
  };
  friend class SelectorParser;

  std::vector<Requirement> requirements_;
};

}  // namespace moonfence::policy
