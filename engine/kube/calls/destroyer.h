#pragma once

// The half of the API that changes what is not ours: deletions, patches of nodes, pods that are
// made to fail, and custom resources that a fencer has made or annotated. Only fence::GuardedCall
// is handed one (engine/app wires it so); what is changed carries a UID precondition by
// construction.

#include <algorithm>
#include <functional>
#include <memory>
#include <string>

#include <nlohmann/json.hpp>

#include "base/names.h"
#include "base/time.h"
#include "kube/wire/caller.h"
#include "kube/wire/warm_connections.h"

namespace moonfence::kube {

struct DeleteRequest {
  Uid uid;               // the object we mean; another one of that name is left alone (409)
  bool dry_run = false;  // dryRun=All: full admission and validation, nothing persisted
  // Both sides of the wire give up after this: `timeout=` bounds the server, so that a call which
  // we gave up cannot commit half a minute later.
  Duration timeout = std::chrono::seconds(5);
  std::function<bool()> may_send;
};

struct DeleteReply {
  std::string audit_id;
  // The server only marked the object: a finalizer keeps it. Gone means 404 or another UID later.
  bool marked_only = false;
  // The deletion was refused, and a live read after that found no such object, or another one that
  // has its name.
  bool found_gone = false;
  bool found_another = false;
  int http_status = 0;  // what the deletion itself was answered
};

// A JSON patch (RFC 6902) of one node. Its tests and its change are one step for the server: where
// a test fails nothing is changed.
struct NodePatch {
  Uid uid;  // tested first, in addition to `operations`
  nlohmann::json operations = nlohmann::json::array();
  // On the subresource: a change of the status sent to the node itself is ignored, with 200.
  bool of_status = false;
  Duration timeout = std::chrono::seconds(5);  // as of a deletion
  std::function<bool()> may_send;
};

struct PatchReply {
  std::string audit_id;
  int http_status = 0;  // 0: another kind of server answered
};

// The status of a pod whose node is dead: phase Failed, and condition DisruptionTarget with reason
// kDeletionByMoonfence, as Kubernetes' own pod garbage collector writes it with a reason of its
// own.
struct PodFailure {
  Uid uid;                                     // another pod of that name is left alone (409)
  ResourceVersion version;                     // one that has changed since too (409)
  WallTime now{};                              // for people
  std::string message;                         // likewise
  Duration timeout = std::chrono::seconds(5);  // as of a deletion
  std::function<bool()> may_send;
};

// A new object of a custom resource, or annotations of one that is there.
struct CustomWrite {
  std::string api_version;  // group/version, with a dot in the group that is not of k8s.io
  std::string resource;     // plural, in small letters
  std::string space = {};   // "" for a kind without namespaces
  std::string name;
  Uid uid = {};      // of the object that is annotated: another one of that name is left alone
  std::string body;  // the whole new object, or the annotations, as JSON
  Duration timeout = std::chrono::seconds(5);  // as of a deletion
  std::function<bool()> may_send;
};

// Also where an object of that name was there already: what it does is read in any case.
struct CustomWriteReply {
  std::string audit_id;
  int http_status = 0;
};

class Destroyer {
 public:
  // A server without API Priority and Fairness takes 200 writes at once from all of its clients
  // (--max-mutating-requests-inflight) and answers the others with 429: one node's deletions must
  // not take all of them. One that has it gives whoever comes his turn (KEP-1040), and there they
  // leave room in our own lane for the heartbeat and for other incidents' reads.
  static constexpr std::size_t kMostAtOnce = 128;
  static constexpr std::size_t kMostWithFairness = 160;

  explicit Destroyer(Caller& caller)
      : caller_(caller), connections_(std::make_unique<WarmConnections>(caller)) {}

  // So many of one node's deletions may be under way. More are faster: an API server and its etcd
  // write to disk together what they have under way (docs/decisions/0009).
  [[nodiscard]] std::size_t most_at_once() const {
    return caller_.is_admitted_fairly() ? kMostWithFairness : kMostAtOnce;
  }
  // So many deletions will leave soon: opens connections for them.
  void make_way(std::size_t deletions) { connections_->open(std::min(deletions, most_at_once())); }

  // How long the read after a refusal may take.
  static constexpr Duration kLookTimeout = std::chrono::seconds(2);

  // gracePeriodSeconds 0, propagationPolicy Background. Unknown: the request left and no reply
  // came. A refusal that says "gone" or "another one" (404, 409, 410) may be that of a webhook, a
  // proxy or a load balancer: the object is read live, and only what that shows is believed. An
  // error then means that the object is there, or that nobody knows.
  [[nodiscard]] CallHandle delete_pod(const PodRef& ref, DeleteRequest request,
                                      std::function<void(Result<DeleteReply>)> done);

  // A VolumeAttachment, with no other option than the precondition. Usually marked_only: the
  // attacher's finalizer keeps it until the storage has let go.
  [[nodiscard]] CallHandle delete_attachment(const std::string& name, DeleteRequest request,
                                             std::function<void(Result<DeleteReply>)> done);

  // Invalid also when a test failed (422): what it rests on is no longer so. Never repeated as it
  // is: read the node again.
  [[nodiscard]] CallHandle patch_node(const NodeName& name, NodePatch patch,
                                      std::function<void(Result<PatchReply>)> done);

  // Conflict: it is another one, or has changed. Never repeated as it is: read the pod again.
  [[nodiscard]] CallHandle fail_pod(const PodRef& ref, PodFailure failure,
                                    std::function<void(Result<PatchReply>)> done);

  // Invalid, and nothing is sent, for Kubernetes' own kinds.
  [[nodiscard]] CallHandle create(CustomWrite write,
                                  std::function<void(Result<CustomWriteReply>)> done);
  [[nodiscard]] CallHandle annotate(CustomWrite write,
                                    std::function<void(Result<CustomWriteReply>)> done);

 private:
  [[nodiscard]] CallHandle send_patch(std::string path, std::string body, const std::string& type,
                                      Duration timeout, std::function<bool()> may_send,
                                      std::function<void(Result<PatchReply>)> done);
  [[nodiscard]] CallHandle write(Result<std::string> path, port::Method method, CustomWrite write,
                                 std::function<void(Result<CustomWriteReply>)> done);
  [[nodiscard]] CallHandle remove(Result<std::string> path, const std::string& name,
                                  const std::string& what, bool without_grace,
                                  DeleteRequest request,
                                  std::function<void(Result<DeleteReply>)> done);

  Caller& caller_;
  std::unique_ptr<WarmConnections> connections_;
};

}  // namespace moonfence::kube
