#include "sim/server/write_refusals.h"

#include <algorithm>
#include <array>

#include "sim/server/answers.h"
#include "sim/server/target.h"
#include "sim/store/refusals.h"

namespace moonfence::sim {
namespace {

bool concerns(const std::string& what, const Route& route, port::Method method) {
  const std::string_view resource = route.kind->resource;
  const bool deletes = method == port::Method::Delete;
  const bool all = what == "all";
  if (resource == "pods" || resource == "volumeattachments") {
    return deletes && (all || what == (resource == "pods" ? "pods" : "attachments"));
  }
  return (resource == "nodes" && (all || what == "nodes")) ||
         (resource == "configmaps" && (all || what == "records"));
}

ApiFault fault_of(const std::string& how, const Route& route) {
  const std::string object = std::string(route.kind->resource) + " \"" + route.name + "\"";
  if (how == "quota") {
    return {.code = 403,
            .reason = "Forbidden",
            .message = object + " is forbidden: exceeded quota: simulated",
            .details = {{"kind", route.kind->resource}, {"name", route.name}}};
  }
  if (how == "not-found") {
    return not_found(*route.kind, route.name);
  }
  if (how == "conflict") {
    return conflict(*route.kind, route.kind->kind, route.name, "simulated");
  }
  if (how == "gone") {
    return {.code = 410, .reason = "Gone", .message = "simulated", .details = Json::object()};
  }
  return {.code = 500,
          .reason = "InternalError",
          .message = "Internal error occurred: failed calling webhook \"simulated\"",
          .details = {{"causes", {{{"message", "failed calling webhook"}}}}}};
}

}  // namespace

std::span<const std::string_view> refusable_writes() {
  static constexpr std::array<std::string_view, 5> kWords = {"pods", "attachments", "nodes",
                                                             "records", "all"};
  return kWords;
}

std::span<const std::string_view> kinds_of_refusal() {
  static constexpr std::array<std::string_view, 7> kWords = {
      "too-many", "quota", "webhook", "hang", "not-found", "conflict", "gone"};
  return kWords;
}

std::optional<ServerAnswer> refused_write(const std::vector<WriteRefusal>& refusals,
                                          const Route& route, port::Method method, Moment now) {
  const auto found =
      std::find_if(refusals.begin(), refusals.end(), [&](const WriteRefusal& refusal) {
        return now < refusal.until && concerns(refusal.what, route, method);
      });
  if (found == refusals.end()) {
    return std::nullopt;
  }
  if (found->how == "hang") {
    ServerAnswer none;
    none.status = 0;
    return none;
  }
  if (found->how == "too-many") {
    ServerAnswer answer = text_answer(429, "Too many requests, please try again later.\n");
    answer.headers.push_back({"retry-after", "30"});
    return answer;
  }
  return refusal_answer(fault_of(found->how, route));
}

}  // namespace moonfence::sim
