#pragma once

// ObjectStore is etcd and the API server's registries in one: the true state of the simulated
// cluster. Every write checks what Kubernetes checks (UID and resourceVersion preconditions, names,
// grace periods, finalizers), gets the next version, and is told to the listeners at once, within
// the call. What watchers see later, and through which server, is ApiServer's and Informer's
// concern.

#include <deque>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/time.h"
#include "port/random.h"
#include "sim/store/object.h"

namespace moonfence::sim {

struct ResourceKind {
  std::string_view resource;  // "volumeattachments"
  std::string_view kind;      // "VolumeAttachment"
  std::string_view group;     // "storage.k8s.io"; "" is the core group
  std::string_view version;   // "v1"
  bool namespaced = false;
  bool has_status = false;  // spec and status are written through different paths
};

// Everything the simulated cluster knows, in a fixed order; nullptr when it does not know it.
[[nodiscard]] const ResourceKind* find_kind(std::string_view resource);
[[nodiscard]] const std::vector<ResourceKind>& all_kinds();

struct DeleteOptions {
  std::optional<std::string> uid;               // precondition
  std::optional<std::string> resource_version;  // precondition
  std::optional<std::int64_t> grace_seconds;    // absent: the pod's own, 30 when it has none
  bool dry_run = false;
};

// All that a store holds at one moment, as `etcdctl snapshot save` takes it.
struct StoreSnapshot {
  std::map<std::string, std::map<std::pair<std::string, std::string>, DocumentPtr>, std::less<>>
      objects;
  std::int64_t version = 0;
};

struct DeleteResult {
  Object object;             // the last state
  bool marked_only = false;  // still there with a deletionTimestamp: grace or a finalizer
};

class ObjectStore {
 public:
  using Listener = std::function<void(const Change&)>;
  enum class Part { Whole, Spec, Status };  // Spec: status is kept; Status: only status is taken

  // `now` is the API server's wall clock, for creationTimestamp and deletionTimestamp.
  ObjectStore(std::function<WallTime()> now, port::Random& uids);

  // metadata: uid, creationTimestamp, resourceVersion, generation are set here, and a name where
  // there is only generateName. AlreadyExists 409.
  Answer<Object> create(const std::string& resource, const std::string& space, Json object,
                        const std::string& actor, bool dry_run = false);
  // null when it is not there.
  [[nodiscard]] Object find(const Key& key) const;
  // In the order of (space, name). Empty space: all.
  [[nodiscard]] std::vector<Object> list(const std::string& resource,
                                         const std::string& space = {}) const;
  // Gives a copy to `edit`, writes what comes back; nothing is written when it is the same. An
  // edited metadata.resourceVersion or uid that is not the current one is a Conflict, as on PUT.
  // Removing the last finalizer of an object marked for deletion removes the object.
  Answer<Object> update(const Key& key, const std::function<void(Json&)>& edit, Part part,
                        const std::string& actor, bool dry_run = false);
  Answer<DeleteResult> remove(const Key& key, const DeleteOptions& options,
                              const std::string& actor);

  // As find() and list(), with the texts.
  [[nodiscard]] DocumentPtr find_document(const Key& key) const;
  [[nodiscard]] std::vector<DocumentPtr> list_documents(const std::string& resource,
                                                        const std::string& space) const;
  // What find_document() and list_documents() gave when `version` was the newest. It must not be
  // older than log_start().
  [[nodiscard]] DocumentPtr find_document_at(const Key& key, std::int64_t version) const;
  [[nodiscard]] std::vector<DocumentPtr> list_documents_at(const std::string& resource,
                                                           const std::string& space,
                                                           std::int64_t version) const;

  [[nodiscard]] StoreSnapshot snapshot() const {
    return {.objects = objects_, .version = version_};
  }
  // Everything is as it was then, versions too, and nothing before is known: the log begins here.
  // The listeners hear of what that undoes, as changes that nobody wrote, each with its object's
  // own version; of a deletion with the store's. Not from inside a listener.
  void restore(const StoreSnapshot& snapshot);

  // The version of the newest write.
  [[nodiscard]] std::int64_t version() const { return version_; }
  // All changes after log_start(), oldest first, versions without gaps. References into it stay
  // valid until forget().
  [[nodiscard]] const std::deque<Change>& log() const { return log_; }
  [[nodiscard]] std::int64_t log_start() const { return log_start_; }
  // The change that made `version`, which must be later than log_start().
  [[nodiscard]] const Change& change_at(std::int64_t version) const {
    return log_[static_cast<std::size_t>(version - log_start_ - 1)];
  }
  // Drops the log up to and with `version`.
  void forget(std::int64_t version);
  // Called within each committed write, in the order of subscription, for as long as the store
  // lives. A listener may write: its change is told after this one.
  void listen(Listener listener);

 private:
  using Name = std::pair<std::string, std::string>;  // space, name
  using Objects = std::map<Name, DocumentPtr>;
  using Resources = std::map<std::string, Objects, std::less<>>;

  [[nodiscard]] const Objects& objects_of(const std::string& resource) const;
  [[nodiscard]] std::string new_uid();
  [[nodiscard]] std::string new_suffix();
  // Puts `object` in the place of what is there, or of nothing, and tells it.
  Object put(const Key& key, Json object, const std::string& actor);
  Object erase(const Key& key, Json last, const std::string& actor);
  void commit(Change change);
  void tell(const Change& change);
  void tell_what_is_left();

  std::function<WallTime()> now_;
  port::Random& uids_;
  Resources objects_;
  std::deque<Change> log_;
  std::vector<Listener> listeners_;
  std::int64_t version_ = 1;
  std::int64_t log_start_ = 1;
  std::int64_t told_ = 1;  // the listeners have heard of the changes up to here
  bool telling_ = false;
};

}  // namespace moonfence::sim
