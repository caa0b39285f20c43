#include "sim/controllers/attacher.h"

#include <algorithm>

#include "sim/ground/facts.h"
#include "sim/ground/volumes.h"

namespace moonfence::sim {
namespace {

using namespace std::chrono_literals;

constexpr const char* kActor = "external-attacher";
constexpr Duration kRetryFirst = 1s;
constexpr Duration kRetryLast = 5min;

// Whether more has changed than what it said itself of its last failure.
bool has_news(const Object& before, const Object& after) {
  if (before == nullptr) {
    return true;
  }
  const auto essence = [](Json object) {
    object["metadata"].erase("resourceVersion");
    object["metadata"].erase("managedFields");
    if (object.contains("status")) {
      object["status"].erase("attachError");
      object["status"].erase("detachError");
    }
    return object;
  };
  return essence(*before) != essence(*after);
}

// "for"; nothing when it is not said: for ever.
Duration length_of(const Step& step) {
  const auto found = step.arguments.find("for");
  return found == step.arguments.end() ? Duration()
                                       : parse_duration(found->second).value_or(Duration());
}

std::string handle_of(const ObjectStore& store, const Json& attachment) {
  const Object volume =
      store.find({.resource = "persistentvolumes",
                  .space = {},
                  .name = text_field(attachment, {"spec", "source", "persistentVolumeName"})});
  const auto known = volume == nullptr ? std::nullopt : volume_of(*volume);
  return known ? known->handle : std::string();
}

}  // namespace

Attacher::Attacher(const Ground& ground, Informer& attachments)
    : ground_(ground),
      attachments_(attachments),
      random_(ground.random.fork("attacher")),
      queue_(ground, "attacher/queue", [this](const std::string& uid) { look_at(uid); }) {
  attachments_.on_change([this](const Object& before, const Object& after) {
    if (after == nullptr) {
      retries_.erase(uid_of(*before));
    } else if (has_news(before, after)) {
      queue_.add(uid_of(*after));
    }
  });
}

bool Attacher::perform(const Step& step) {
  const Duration length = length_of(step);
  if (step.verb == Verb::StopAttacher) {
    down_ = true;
    calls_.clear();
    ground_.tell(Happening::Kind::Fault, kActor, "is down");
    if (length > Duration::zero()) {
      returns_ = ground_.loop.after(length, [this] {
        down_ = false;
        look_at_all();
      });
    }
    return true;
  }
  if (step.verb != Verb::RefuseAttach && step.verb != Verb::RefuseDetach) {
    return false;
  }
  const std::pair place(step.target,
                        step.verb == Verb::RefuseAttach ? Way::Publish : Way::Unpublish);
  refused_.insert(place);
  ground_.tell(Happening::Kind::Fault, "storage",
               place.second == Way::Publish ? "refuses to attach to" : "refuses to detach from",
               step.target);
  if (length > Duration::zero()) {
    refusals_end_[place] = ground_.loop.after(length, [this, place] { refused_.erase(place); });
  }
  return true;
}

void Attacher::calm() {
  if (down_ || !refused_.empty()) {
    refused_.clear();
    retries_.clear();
    down_ = false;
    look_at_all();
  }
}

void Attacher::look_at_all() {
  for (const auto& [key, attachment] : attachments_.all()) {
    queue_.add(uid_of(*attachment));
  }
}

bool Attacher::refuses(const std::string& node, Way way) const {
  return refused_.contains({node, way});
}

void Attacher::look_at(const std::string& uid) {
  const Object attachment = attachments_.find_uid(uid);
  if (down_ || attachment == nullptr || calls_.contains(uid)) {
    return;
  }
  const bool held =
      has_finalizer(*attachment, attacher_finalizer(text_field(*attachment, {"spec", "attacher"})));
  if (is_terminating(*attachment)) {
    if (held) {
      call(uid, Way::Unpublish);
    }
    return;
  }
  if (!held) {
    hold(*attachment);
    return;
  }
  const Json* attached = find_field(*attachment, {"status", "attached"});
  if (attached == nullptr || *attached != true) {
    call(uid, Way::Publish);
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

void Attacher::call(const std::string& uid, Way way) {
  const Duration length = way == Way::Publish ? ground_.timings.attach : ground_.timings.detach;
  calls_[uid] = ground_.loop.after(about(*random_, length, 0.2), [this, uid, way] {
    calls_.erase(uid);
    finish(uid, way);
  });
}

// What it writes comes back by the informer, and then is looked at again.
void Attacher::finish(const std::string& uid, Way way) {
  const Object attachment = attachments_.find_uid(uid);
  if (attachment == nullptr) {
    return;
  }
  if (refuses(text_field(*attachment, {"spec", "nodeName"}), way)) {
    say_refused(*attachment, way);
    Duration& delay = retries_[uid];
    delay = delay == Duration::zero() ? kRetryFirst : std::min(2 * delay, kRetryLast);
    queue_.add_after(uid, delay);
    return;
  }
  retries_.erase(uid);
  if (way == Way::Publish) {
    publish(*attachment);
  } else {
    unpublish(*attachment);
  }
}

void Attacher::say_refused(const Json& attachment, Way way) {
  const std::string stamp = ground_.stamp();
  const std::string field = way == Way::Publish ? "attachError" : "detachError";
  update_same(
      ground_.store, key_of("volumeattachments", attachment), uid_of(attachment),
      [&stamp, &field](Json& edited) {
        edited["status"]["attached"] = edited["status"].value("attached", false);
        edited["status"][field] = {{"time", stamp}, {"message", "the storage system refuses"}};
      },
      ObjectStore::Part::Status, kActor);
}

void Attacher::publish(const Json& attachment) {
  const std::string& node = text_field(attachment, {"spec", "nodeName"});
  ground_.machines.published[handle_of(ground_.store, attachment)].insert(node);
  update_same(
      ground_.store, key_of("volumeattachments", attachment), uid_of(attachment),
      [](Json& edited) {
        edited["status"] = {{"attached", true}};
      },
      ObjectStore::Part::Status, kActor);
}

void Attacher::unpublish(const Json& attachment) {
  auto& published = ground_.machines.published[handle_of(ground_.store, attachment)];
  published.erase(text_field(attachment, {"spec", "nodeName"}));
  const std::string finalizer = attacher_finalizer(text_field(attachment, {"spec", "attacher"}));
  update_same(
      ground_.store, key_of("volumeattachments", attachment), uid_of(attachment),
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
