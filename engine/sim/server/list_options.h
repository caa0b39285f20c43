#pragma once

// The query of a list or watch, checked as k8s.io/apimachinery checks it, and the tokens that
// continue a list.

#include <cstdint>
#include <optional>
#include <string>

#include "sim/server/selectors.h"
#include "sim/server/target.h"

namespace moonfence::sim {

struct ContinueToken {
  std::int64_t version = 0;
  std::string start;  // the first key that may follow: "name\0", or "space/name\0"
};
[[nodiscard]] std::string encode(const ContinueToken& token);
[[nodiscard]] Answer<ContinueToken> decode_token(const std::string& text);

struct ListOptions {
  enum class Match { Unset, Exact, NotOlderThan };
  std::int64_t limit = 0;               // 0: none
  std::optional<std::int64_t> version;  // nothing: as it is now
  Match match = Match::Unset;
  std::optional<ContinueToken> token;
  std::optional<std::int64_t> timeout_seconds;
  Selection selection;
  bool initial_events = false;
  bool metadata_only = false;  // by the request's Accept
};
[[nodiscard]] Answer<ListOptions> read_list_options(const Route& route, const Target& target,
                                                    bool watch, bool watch_list);
// Nothing for "" and what is not there; what is no number is the server's own fault: a 500.
[[nodiscard]] Answer<std::optional<std::int64_t>> read_version(const std::string& text);

}  // namespace moonfence::sim
