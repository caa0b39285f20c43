#pragma once

// external-attacher and the storage system behind it: holds an attachment by a finalizer, publishes
// the volume to the node, says attached; on deletion unpublishes first and then lets go. It
// publishes wherever it is told to, also twice: refusing is left to the attach/detach controller,
// as with the storage systems that do not fence.
//
// Its faults: it is down, as when its pod ran on the node that died; the storage system refuses to
// publish to a node or to unpublish from it, which the attachment then says, and it tries again
// after 1 s, 2 s, 4 s … 5 min, or at once when something else of the attachment changes.

#include <map>
#include <memory>
#include <set>
#include <string>

#include "sim/ground/ground.h"
#include "sim/ground/work_queue.h"

namespace moonfence::sim {

class Attacher final {
 public:
  Attacher(const Ground& ground, Informer& attachments);
  Attacher(const Attacher&) = delete;
  Attacher& operator=(const Attacher&) = delete;

  // StopAttacher, RefuseAttach, RefuseDetach: for as long as the step says, or until all is calm.
  // False for any other step.
  bool perform(const Step& step);
  // All faults end.
  void calm();

 private:
  enum class Way { Publish, Unpublish };

  void look_at_all();
  void look_at(const std::string& uid);
  void hold(const Json& attachment);
  // Calls the storage system, once at a time for each attachment.
  void call(const std::string& uid, Way way);
  void finish(const std::string& uid, Way way);
  void publish(const Json& attachment);
  void unpublish(const Json& attachment);
  void say_refused(const Json& attachment, Way way);
  [[nodiscard]] bool refuses(const std::string& node, Way way) const;

  const Ground& ground_;
  Informer& attachments_;
  std::unique_ptr<port::Random> random_;
  bool down_ = false;
  loop::Timer returns_;
  std::set<std::pair<std::string, Way>> refused_;                    // nodes
  std::map<std::pair<std::string, Way>, loop::Timer> refusals_end_;  // by node
  std::map<std::string, loop::Timer> calls_;                         // by attachment UID
  std::map<std::string, Duration> retries_;                          // by attachment UID
  WorkQueue queue_;
};

}  // namespace moonfence::sim
