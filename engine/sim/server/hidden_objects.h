#pragma once

// Objects that a read of one by its name does not find although they are there: a proxy or a load
// balancer in between answers 404, once or for a while. Lists show them all the same.

#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/time.h"
#include "sim/server/api_server.h"

namespace moonfence::sim {

struct Route;

// "nodes", "pods", "attachments" or "all" of them.
[[nodiscard]] std::span<const std::string_view> hidable_objects();

struct HiddenObjects {
  std::string what;
  Moment until{};
  int times = std::numeric_limits<int>::max();  // how often still
};

// The answer in place of the object's; nothing: it is not hidden.
[[nodiscard]] std::optional<ServerAnswer> hidden_answer(std::vector<HiddenObjects>& hidden,
                                                        const Route& route, Moment now);

}  // namespace moonfence::sim
