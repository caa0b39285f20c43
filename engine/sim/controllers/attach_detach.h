#pragma once

// The attach/detach controller of kube-controller-manager. It acts on a picture of its own: what
// pods want by their being bound to nodes, and what it attached itself. A VolumeAttachment that
// somebody else deletes is noticed only by the check once a minute. It detaches when no pod object
// of the node wants the volume and the node's status does not say that it is mounted, or after six
// minutes when the node is not Ready; it refuses to attach a ReadWriteOnce volume that its picture
// shows elsewhere. Its loop of 100 ms runs only when something has changed.
//
// What it is not certain of, it does not count: after an attempt to attach that failed, after a
// restart in the middle of detaching, and since 1.29 after an attempt to detach that failed. Such
// a volume may be attached to a second node (upstream pull request 124334 would have closed that).

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "sim/ground/ground.h"
#include "sim/ground/volumes.h"

namespace moonfence::sim {

struct AttachDetachViews {
  Informer& nodes;
  Informer& pods;
  Informer& claims;
  Informer& volumes;
  Informer& attachments;
};

class AttachDetach final {
 public:
  // Begins with what the nodes' volumesAttached and volumesInUse say, as after a restart;
  // since 1.21 also with the other attachments, of which it is not certain.
  AttachDetach(const Ground& ground, const AttachDetachViews& views);
  AttachDetach(const AttachDetach&) = delete;
  AttachDetach& operator=(const AttachDetach&) = delete;

 private:
  // A volume by its unique name, and a node.
  struct Spot {
    std::string volume;
    std::string node;
    friend auto operator<=>(const Spot&, const Spot&) = default;
  };
  struct Attached {
    Volume volume;
    bool mounted = true;   // by the word of the node; until it speaks, assumed
    bool reported = true;  // in the node's volumesAttached
    bool certain = true;   // else it does not keep the volume from other nodes
    std::optional<Moment> detach_asked = std::nullopt;
  };
  struct Operation {
    bool attaches = false;
    Spot spot;
    Volume volume;
    std::string attachment;
    loop::Timer time_out;
    loop::Timer poll;  // since 1.21 it looks from time to time; before, it watched
    Duration poll_delay{};
  };
  // Of the same kind of operation: another kind begins at once, and forgets it.
  struct BackOff {
    bool attaches = false;
    Moment until{};
    Duration delay{};
  };
  // In what only one operation is under way at a time: the volume, on any node when only one node
  // may have it.
  [[nodiscard]] static Spot lane_of(const Spot& spot, const Volume& volume);

  void learn_volumes();
  void adopt(const Json& node);
  void adopt_attachment(const Json& attachment);
  void saw_pod(const Object& before, const Object& after);
  void saw_node(const Object& before, const Object& after);
  void saw_attachment(const Object& before, const Object& after);
  void retry_unresolved();
  void want(const Json& pod);
  void unwant(const std::string& pod_uid);
  [[nodiscard]] Object find(const Key& key) const;

  void wake();
  void wake_at(Moment moment);
  void reconcile();
  void detach_unwanted();
  void attach_wanted();
  void detach(const Spot& spot, bool verified);
  [[nodiscard]] bool may_detach(const Spot& spot, Attached& attached, bool& verified);
  void attach(const Spot& spot, const Volume& volume);
  Operation& begin(const Spot& spot, const Volume& volume, bool attaches);
  void look_at(const Spot& lane);
  void poll(const Spot& lane);
  void succeed(const Spot& lane);
  void fail(const Spot& lane);
  void verify();
  [[nodiscard]] std::string elsewhere(const Spot& spot) const;
  [[nodiscard]] bool is_held_back(const Spot& lane, bool attaches);
  [[nodiscard]] bool is_node_ready(const std::string& node) const;
  void report(const std::string& node);

  const Ground& ground_;
  AttachDetachViews views_;
  std::unique_ptr<port::Random> random_;
  Moment phase_{};                                 // of the loop's 100 ms
  std::map<std::string, std::vector<Spot>> uses_;  // by pod UID
  std::set<std::string> unresolved_;               // pod UIDs
  std::map<Spot, std::set<std::string>> wanted_;   // by which pods
  std::map<std::string, Volume> volumes_;          // by unique name
  std::map<Spot, Attached> attached_;
  std::map<Spot, Operation> operations_;  // by lane
  std::map<Spot, BackOff> back_offs_;     // by lane
  std::set<Spot> refused_;                // told once
  std::set<std::string> unreported_;      // nodes whose volumesAttached is to be written
  loop::Timer loop_;
  Moment loop_due_{};
  loop::Timer verify_;
};

}  // namespace moonfence::sim
