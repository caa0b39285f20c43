#include "sim/checkers/record_checker.h"

#include <algorithm>

#include "sim/store/fields.h"

namespace moonfence::sim {

namespace {

bool is_out_of_service(const Json& node) {
  const Json* taints = find_field(node, {"spec", "taints"});
  return taints != nullptr && taints->is_array() &&
         std::any_of(taints->begin(), taints->end(), [](const Json& taint) {
           return text_field(taint, {"key"}) == "node.kubernetes.io/out-of-service";
         });
}

// The UIDs of what a record is about to destroy; of another ConfigMap nothing.
std::set<std::string> named_by(const Json& map) {
  std::set<std::string> named;
  if (text_field(map, {"metadata", "labels", "moonfence.io/incident"}).empty()) {
    return named;
  }
  const Json record = Json::parse(text_field(map, {"data", "record.json"}), nullptr, false);
  const Json* steps = find_field(record, {"steps"});
  if (steps == nullptr || !steps->is_array()) {
    return named;
  }
  for (const Json& step : *steps) {
    const std::string& kind = text_field(step, {"step"});
    const char* target = kind == "delete_pod"   ? "pod"
                         : kind == "taint_node" ? "node"
                                                : "attachment";
    named.insert(text_field(step, {target, "uid"}));
  }
  return named;
}

}  // namespace

void RecordChecker::on_change(const Change& change) {
  if (change.restores && change.key.resource == "configmaps" && change.before != nullptr) {
    const std::set<std::string> named = named_by(*change.before);
    lost_.insert(named.begin(), named.end());
  }
  if (change.key.resource == "nodes" && is_engine(change.actor) && change.before != nullptr &&
      is_out_of_service(*change.after) && !is_out_of_service(*change.before)) {
    check(change, "put out of service");
    return;
  }
  const bool destructible =
      change.key.resource == "pods" || change.key.resource == "volumeattachments";
  if (!destructible || !is_engine(change.actor)) {
    return;
  }
  // The mark counts: what follows from it is not the engine's to stop.
  const Json& object = *change.after;
  const bool was_marked = change.before != nullptr &&
                          !text_field(*change.before, {"metadata", "deletionTimestamp"}).empty();
  if (was_marked || (change.type != ChangeType::Deleted &&
                     text_field(object, {"metadata", "deletionTimestamp"}).empty())) {
    return;
  }
  check(change, "deleted");
}

void RecordChecker::check(const Change& change, const std::string& done) {
  const std::string& uid = text_field(*change.after, {"metadata", "uid"});
  if (!is_recorded(uid)) {
    accuse(rules::kRecordFirst, change.actor + " " + done + " " + change.key.resource + " " +
                                    change.key.name + " of UID " + uid +
                                    ", which no record of an incident names");
  }
}

// One that was under way when the store went back in time was recorded when it left.
bool RecordChecker::is_recorded(const std::string& uid) {
  const std::vector<Object> maps = truth().store().list("configmaps", "moonfence");
  return lost_.contains(uid) || std::any_of(maps.begin(), maps.end(), [&](const Object& map) {
           Read& read = read_[text_field(*map, {"metadata", "name"})];
           if (read.map != map) {
             read = {.map = map, .named = named_by(*map)};
           }
           return read.named.contains(uid);
         });
}

}  // namespace moonfence::sim
