#include "sim/server/core_events.h"

#include <array>
#include <string>
#include <string_view>
#include <utility>

namespace moonfence::sim {
namespace {

struct Names {
  std::string_view plain;
  std::string_view core;
};
constexpr std::array<Names, 7> kNames = {{{"regarding", "involvedObject"},
                                          {"note", "message"},
                                          {"reportingController", "reportingComponent"},
                                          {"deprecatedSource", "source"},
                                          {"deprecatedCount", "count"},
                                          {"deprecatedFirstTimestamp", "firstTimestamp"},
                                          {"deprecatedLastTimestamp", "lastTimestamp"}}};

void rename(Json& object, std::string_view from, std::string_view to) {
  const auto found = object.find(from);
  if (found != object.end()) {
    Json value = std::move(*found);
    object.erase(found);
    object[std::string(to)] = std::move(value);
  }
}

}  // namespace

bool shows_core_event(const Route& route) {
  return route.version == "v1" && route.kind->resource == "events";
}

Json core_event(const Json& event) {
  Json out = event;
  for (const Names& names : kNames) {
    rename(out, names.plain, names.core);
  }
  return out;
}

Json plain_event(const Json& core_event) {
  Json out = core_event;
  for (const Names& names : kNames) {
    rename(out, names.core, names.plain);
  }
  return out;
}

}  // namespace moonfence::sim
