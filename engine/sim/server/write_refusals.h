#pragma once

// Writes that a server refuses for minutes, as the field shows it: a busy server, a quota, a
// webhook that fails or hangs, and answers that are not true, of a proxy or a load balancer in
// between.

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/time.h"
#include "sim/server/api_server.h"

namespace moonfence::sim {

struct Route;

// What may be refused: deletions of "pods" or "attachments", changes of "nodes", of ConfigMaps
// ("records"); or "all".
[[nodiscard]] std::span<const std::string_view> refusable_writes();
// How: "too-many" (429, Retry-After 30), "quota" (403), "webhook" (500), "hang" (no answer at all),
// and what is not true: "not-found" (404 that names the object), "conflict" (409), "gone" (410).
[[nodiscard]] std::span<const std::string_view> kinds_of_refusal();

struct WriteRefusal {
  std::string what;
  std::string how;
  Moment until{};
};

// The answer to a write in place of doing it; status 0: there is none. Nothing: it is not refused.
[[nodiscard]] std::optional<ServerAnswer> refused_write(const std::vector<WriteRefusal>& refusals,
                                                        const Route& route, port::Method method,
                                                        Moment now);

}  // namespace moonfence::sim
