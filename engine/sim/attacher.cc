#include "sim/attacher.h"

#include "sim/facts.h"
#include "sim/volumes.h"

namespace moonfence::sim {
namespace {

constexpr const char* kActor = "external-attacher";

std::string handle_of(const ObjectStore& store, const Json& attachment) {
  const Object volume =
      store.find({.resource = "persistentvolumes",
                  .space = {},
                  .name = text_field(attachment, {"spec", "source", "persistentVolumeName"})});
  return volume == nullptr ? "" : text_field(*volume, {"spec", "csi", "volumeHandle"});
}

}  // namespace

Attacher::Attacher(const Ground& ground, Informer& attachments)
    : ground_(ground),
      attachments_(attachments),
      random_(ground.random.fork("attacher")),
      queue_(ground, "attacher/queue", [this](const std::string& uid) { look_at(uid); }) {
  attachments_.on_change([this](const Object& /*before*/, const Object& after) {
    if (after != nullptr) {
      queue_.add(uid_of(*after));
    }
  });
}

void Attacher::look_at(const std::string& uid) {
  const Object attachment = attachments_.find_uid(uid);
  if (attachment == nullptr || calls_.contains(uid)) {
    return;
  }
  const bool held =
      has_finalizer(*attachment, attacher_finalizer(text_field(*attachment, {"spec", "attacher"})));
  if (is_terminating(*attachment)) {
    if (held) {
      call(uid, ground_.timings.detach, &Attacher::unpublish);
    }
    return;
  }
  if (!held) {
    hold(*attachment);
    return;
  }
  const Json* attached = find_field(*attachment, {"status", "attached"});
  if (attached == nullptr || *attached != true) {
    call(uid, ground_.timings.attach, &Attacher::publish);
  }
}

void Attacher::hold(const Json& attachment) {
  const std::string finalizer = attacher_finalizer(text_field(attachment, {"spec", "attacher"}));
  update_same(
      ground_.store, key_of("volumeattachments", attachment), uid_of(attachment),
      [&finalizer](Json& edited) {
        if (!is_terminating(edited) && !has_finalizer(edited, finalizer)) {
          edited["metadata"]["finalizers"].push_back(finalizer);
        }
      },
      ObjectStore::Part::Whole, kActor);
}

void Attacher::call(const std::string& uid, Duration how_long,
                    void (Attacher::*done)(const std::string&)) {
  calls_[uid] = ground_.loop.after(about(*random_, how_long, 0.2), [this, uid, done] {
    calls_.erase(uid);
    // What it writes comes back by the informer, and then is looked at again.
    (this->*done)(uid);
  });
}

void Attacher::publish(const std::string& uid) {
  const Object attachment = attachments_.find_uid(uid);
  if (attachment == nullptr) {
    return;
  }
  const std::string& node = text_field(*attachment, {"spec", "nodeName"});
  ground_.machines.published[handle_of(ground_.store, *attachment)].insert(node);
  update_same(
      ground_.store, key_of("volumeattachments", *attachment), uid,
      [](Json& edited) {
        edited["status"] = {{"attached", true}};
      },
      ObjectStore::Part::Status, kActor);
}

void Attacher::unpublish(const std::string& uid) {
  const Object attachment = attachments_.find_uid(uid);
  if (attachment == nullptr) {
    return;
  }
  auto& published = ground_.machines.published[handle_of(ground_.store, *attachment)];
  published.erase(text_field(*attachment, {"spec", "nodeName"}));
  const std::string finalizer = attacher_finalizer(text_field(*attachment, {"spec", "attacher"}));
  update_same(
      ground_.store, key_of("volumeattachments", *attachment), uid,
      [&finalizer](Json& edited) {
        Json left = Json::array();
        for (const Json& entry : list_field(edited, {"metadata", "finalizers"})) {
          if (entry != finalizer) {
            left.push_back(entry);
          }
        }
        edited["metadata"]["finalizers"] = std::move(left);
      },
      ObjectStore::Part::Whole, kActor);
}

}  // namespace moonfence::sim
