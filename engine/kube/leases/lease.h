#pragma once

// Lease is coordination.k8s.io/v1 as client-go's leader election writes it, so that other tools
// read ours and we read theirs (client-go tools/leaderelection/resourcelock). The times in it are
// for people: nobody measures anything by another machine's clock. A kubelet's Lease has the same
// shape; fence/leases/kubelet_lease.h tells what its stamps are held against.

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include <nlohmann/json_fwd.hpp>

#include "base/names.h"
#include "base/result.h"
#include "base/time.h"

namespace moonfence::kube {

struct LeaseRecord {
  std::string holder;  // "" is free
  Duration duration{};
  std::optional<WallTime> acquired;
  std::optional<WallTime> renewed;
  std::int64_t transitions = 0;
  std::string preferred_holder;  // coordinated leader election (1.31+): who should have it instead

  friend bool operator==(const LeaseRecord&, const LeaseRecord&) = default;
};

// What replicas tell each other on the Lease of their leadership, beside the record: annotations.
struct LeaseNotes {
  // moonfence.io/seat: "<holder> <node>", on which node its holder runs; "<holder> <node> down"
  // when the holder itself knows that it is.
  std::string seat;
  std::string wanted_by;  // moonfence.io/wanted-by: who, on a better node, asks for it

  friend bool operator==(const LeaseNotes&, const LeaseNotes&) = default;
};

struct Lease {
  LeaseRecord record;
  Uid uid;
  ResourceVersion version;
  LeaseNotes notes = {};
  // The whole object: what we do not know in it is written back as it was.
  std::shared_ptr<const nlohmann::json> raw;
};

// Malformed when it has no uid or version, or a field of the wrong type.
[[nodiscard]] Result<Lease> decode_lease(const nlohmann::json& object);

// The body of a PUT that replaces `seen` (it carries its version, so that a write in between makes
// it a conflict), or of a POST when there is none.
[[nodiscard]] std::string lease_body(const ObjectRef& ref, const LeaseRecord& record,
                                     const LeaseNotes& notes, const Lease* seen);

// The collection and the object. Invalid for an empty namespace.
[[nodiscard]] Result<std::string> leases_path(const Namespace& space);
[[nodiscard]] Result<std::string> lease_path(const ObjectRef& ref);

}  // namespace moonfence::kube
