#pragma once

// external-attacher and the storage system behind it: holds an attachment by a finalizer, publishes
// the volume to the node, says attached; on deletion unpublishes first and then lets go. It
// publishes wherever it is told to, also twice: refusing is left to the attach/detach controller,
// as with the storage systems that do not fence.

#include <map>
#include <memory>
#include <string>

#include "sim/ground.h"
#include "sim/work_queue.h"

namespace moonfence::sim {

class Attacher final {
 public:
  Attacher(const Ground& ground, Informer& attachments);
  Attacher(const Attacher&) = delete;
  Attacher& operator=(const Attacher&) = delete;

 private:
  void look_at(const std::string& uid);
  void hold(const Json& attachment);
  void publish(const std::string& uid);
  void unpublish(const std::string& uid);
  // Calls the storage system, once at a time for each attachment.
  void call(const std::string& uid, Duration how_long, void (Attacher::*done)(const std::string&));

  const Ground& ground_;
  Informer& attachments_;
  std::unique_ptr<port::Random> random_;
  std::map<std::string, loop::Timer> calls_;  // by UID of the attachment
  WorkQueue queue_;
};

}  // namespace moonfence::sim
