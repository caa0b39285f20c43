#include "kube/leases/lease.h"

#include <utility>

#include <nlohmann/json.hpp>

#include "kube/text/json.h"
#include "kube/wire/url.h"

namespace moonfence::kube {

using nlohmann::json;

namespace {

constexpr const char* kSeat = "moonfence.io/seat";
constexpr const char* kWantedBy = "moonfence.io/wanted-by";

void note(json& body, const char* key, const std::string& text) {
  json& annotations = body["metadata"]["annotations"];
  if (!text.empty()) {
    annotations[key] = text;
  } else if (annotations.is_object()) {
    annotations.erase(key);
  }
  if (annotations.empty()) {
    body["metadata"].erase("annotations");
  }
}

}  // namespace

Result<Lease> decode_lease(const json& object) {
  Fields fields(object, "Lease");
  Lease lease;
  lease.uid = Uid(fields.required({"metadata", "uid"}));
  lease.version = ResourceVersion(fields.required({"metadata", "resourceVersion"}));
  LeaseRecord& record = lease.record;
  record.holder = fields.string({"spec", "holderIdentity"});
  record.duration = std::chrono::seconds(fields.integer({"spec", "leaseDurationSeconds"}));
  record.acquired = fields.time({"spec", "acquireTime"});
  record.renewed = fields.time({"spec", "renewTime"});
  record.transitions = fields.integer({"spec", "leaseTransitions"});
  record.preferred_holder = fields.string({"spec", "preferredHolder"});
  lease.notes = {.seat = fields.string({"metadata", "annotations", kSeat}),
                 .wanted_by = fields.string({"metadata", "annotations", kWantedBy})};
  if (record.duration < Duration::zero() || record.duration > std::chrono::hours(24)) {
    fields.refuse({"spec", "leaseDurationSeconds"}, "must be between 0 and 86400");
  }
  if (fields.fault()) {
    return failure(*fields.fault());
  }
  lease.raw = std::make_shared<const json>(object);
  return lease;
}

std::string lease_body(const ObjectRef& ref, const LeaseRecord& record, const LeaseNotes& notes,
                       const Lease* seen) {
  json body = seen != nullptr && seen->raw
                  ? *seen->raw
                  : json{{"apiVersion", "coordination.k8s.io/v1"},
                         {"kind", "Lease"},
                         {"metadata", {{"namespace", ref.space.text()}, {"name", ref.name}}}};
  if (seen != nullptr) {
    body["metadata"]["resourceVersion"] = seen->version.text();
    body["metadata"].erase("managedFields");  // the server keeps them; a PUT need not carry them
  }
  note(body, kSeat, notes.seat);
  note(body, kWantedBy, notes.wanted_by);
  json& spec = body["spec"];
  spec["holderIdentity"] = record.holder;
  spec["leaseDurationSeconds"] =
      std::chrono::duration_cast<std::chrono::seconds>(record.duration).count();
  spec["leaseTransitions"] = record.transitions;
  if (record.acquired) {
    spec["acquireTime"] = format_rfc3339_micro(*record.acquired);
  }
  if (record.renewed) {
    spec["renewTime"] = format_rfc3339_micro(*record.renewed);
  }
  return to_text(body);
}

Result<std::string> leases_path(const Namespace& space) {
  auto segment = path_segment(space.text());
  if (!segment) {
    return failure(std::move(segment.error()).within("namespace of the Lease"));
  }
  return "/apis/coordination.k8s.io/v1/namespaces/" + *segment + "/leases";
}

Result<std::string> lease_path(const ObjectRef& ref) {
  auto collection = leases_path(ref.space);
  auto name = path_segment(ref.name);
  if (!collection) {
    return collection;
  }
  if (!name) {
    return failure(std::move(name.error()).within("name of the Lease"));
  }
  return *collection + "/" + *name;
}

}  // namespace moonfence::kube
