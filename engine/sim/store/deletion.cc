#include "sim/store/deletion.h"

#include <chrono>

#include "sim/store/fields.h"
#include "sim/store/refusals.h"

namespace moonfence::sim {
namespace {

struct Mark {
  WallTime at{};
  std::int64_t grace_seconds = 0;
};

bool has_finalizers(const Json& object) {
  return has_content(object, {"metadata", "finalizers"});
}

// How long the containers of this pod get to stop.
std::int64_t grace_of_pod(const Json& pod, const DeleteOptions& options) {
  const std::string& phase = text_field(pod, {"status", "phase"});
  if (text_field(pod, {"spec", "nodeName"}).empty() || phase == "Succeeded" || phase == "Failed") {
    return 0;
  }
  if (options.grace_seconds) {
    return *options.grace_seconds;
  }
  return number_field(pod, {"spec", "terminationGracePeriodSeconds"}).value_or(30);
}

Json with_mark(const Json& object, const Mark& mark) {
  Json marked = object;
  Json& metadata = marked["metadata"];
  metadata["deletionTimestamp"] = format_rfc3339(mark.at);
  metadata["deletionGracePeriodSeconds"] = mark.grace_seconds;
  return marked;
}

// Deleted before: the grace may only become shorter.
Deletion plan_shortening(const Json& object, const DeleteOptions& options) {
  const auto grace = number_field(object, {"metadata", "deletionGracePeriodSeconds"});
  if (!grace) {
    return {.marked = {}, .removes = !has_finalizers(object)};
  }
  if (!options.grace_seconds || *options.grace_seconds >= *grace) {
    return {};
  }
  const auto due = parse_rfc3339(text_field(object, {"metadata", "deletionTimestamp"}));
  const WallTime asked = due.value_or(WallTime{}) - std::chrono::seconds(*grace);
  return {.marked = with_mark(object, {.at = asked + std::chrono::seconds(*options.grace_seconds),
                                       .grace_seconds = *options.grace_seconds}),
          .removes = *options.grace_seconds == 0 && !has_finalizers(object)};
}

}  // namespace

std::optional<ApiFault> check_preconditions(const ResourceKind& kind, const std::string& name,
                                            const Json& object, const DeleteOptions& options) {
  const std::string& uid = text_field(object, {"metadata", "uid"});
  if (options.uid && *options.uid != uid) {
    return conflict(kind, kind.kind, name,
                    "the UID in the precondition (" + *options.uid +
                        ") does not match the UID in record (" + uid +
                        "). The object might have been deleted and then recreated");
  }
  const std::string& version = text_field(object, {"metadata", "resourceVersion"});
  if (options.resource_version && *options.resource_version != version) {
    return conflict(kind, kind.kind, name,
                    "the ResourceVersion in the precondition (" + *options.resource_version +
                        ") does not match the ResourceVersion in record (" + version +
                        "). The object might have been modified");
  }
  return std::nullopt;
}

Deletion plan_deletion(const ResourceKind& kind, const Json& object, const DeleteOptions& options,
                       WallTime now) {
  if (find_field(object, {"metadata", "deletionTimestamp"}) != nullptr) {
    return plan_shortening(object, options);
  }
  if (kind.resource == "pods") {
    const std::int64_t grace = grace_of_pod(object, options);
    return {.marked = with_mark(object,
                                {.at = now + std::chrono::seconds(grace), .grace_seconds = grace}),
            .removes = grace == 0 && !has_finalizers(object)};
  }
  if (has_finalizers(object)) {
    return {.marked = with_mark(object, {.at = now, .grace_seconds = 0})};
  }
  return {.marked = {}, .removes = true};
}

bool is_gone_with(const Json& before, const Json& after) {
  return !has_finalizers(after) &&
         find_field(before, {"metadata", "deletionTimestamp"}) != nullptr &&
         number_field(before, {"metadata", "deletionGracePeriodSeconds"}).value_or(0) == 0;
}

}  // namespace moonfence::sim
