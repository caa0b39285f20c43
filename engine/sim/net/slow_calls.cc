#include "sim/net/slow_calls.h"

#include <algorithm>
#include <array>

#include "sim/net/wire.h"

namespace moonfence::sim {
namespace {

bool concerns(const std::string& what, const WireRequest& request) {
  const bool reads = request.method == port::Method::Get;
  if (what == "all" || what == (reads ? "reads" : "writes")) {
    return true;
  }
  if (what == "deletions") {
    return request.method == port::Method::Delete;
  }
  return what == "leases" && !reads && request.target.find("/leases") != std::string::npos;
}

}  // namespace

std::span<const std::string_view> slow_calls() {
  static constexpr std::array<std::string_view, 5> kWords = {"reads", "writes", "deletions",
                                                             "leases", "all"};
  return kWords;
}

Duration SlowCalls::delay(const WireRequest& request, Moment now) const {
  Duration longest{};
  for (const Slow& slow : slow_) {
    if (request.lane == port::Lane::Writes && now < slow.until && concerns(slow.what, request)) {
      longest = std::max(longest, slow.by);
    }
  }
  return longest;
}

Duration server_limit(const WireRequest& request) {
  constexpr Duration kUsual = std::chrono::minutes(1);
  constexpr std::string_view kKey = "timeout=";
  const auto at = request.target.find(kKey);
  if (at == std::string::npos) {
    return kUsual;
  }
  const std::string rest = request.target.substr(at + kKey.size());
  return parse_duration(rest.substr(0, rest.find('&'))).value_or(kUsual);
}

}  // namespace moonfence::sim
