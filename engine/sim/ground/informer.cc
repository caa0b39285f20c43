#include "sim/ground/informer.h"

#include <algorithm>
#include <deque>
#include <utility>
#include <vector>

#include "sim/store/fields.h"

namespace moonfence::sim {
namespace {

const std::string& uid_of(const Json& object) {
  return text_field(object, {"metadata", "uid"});
}

}  // namespace

struct Informer::State {
  struct Pending {
    Moment due{};
    std::pair<std::string, std::string> name;
    Object after;  // null: gone
  };

  State(loop::Loop& loop_given, std::string resource_given, std::function<Duration()> lag_given)
      : loop(loop_given), resource(std::move(resource_given)), lag(std::move(lag_given)) {}

  void take(const Change& change) {
    const Moment due =
        std::max(loop.now() + lag(), pending.empty() ? Moment{} : pending.back().due);
    pending.push_back({.due = due,
                       .name = {change.key.space, change.key.name},
                       .after = change.type == ChangeType::Deleted ? nullptr : change.after});
    wake();
  }

  void wake() {
    if (pending.empty() || timer.pending()) {
      return;
    }
    timer = loop.after(std::max(Duration::zero(), pending.front().due - loop.now()),
                       [this] { apply_due(); });
  }

  void apply_due() {
    const std::weak_ptr<bool> alive = life;
    while (!pending.empty() && pending.front().due <= loop.now()) {
      const Pending next = std::move(pending.front());
      pending.pop_front();
      apply(next);
      if (alive.expired()) {
        return;  // a handler destroyed the informer
      }
    }
    wake();
  }

  void apply(const Pending& next) {
    const auto found = objects.find(next.name);
    const Object before = found == objects.end() ? nullptr : found->second;
    if (before != nullptr && next.after != nullptr && uid_of(*before) == uid_of(*next.after)) {
      found->second = next.after;  // nearly always; its name is known
    } else {
      if (before != nullptr) {
        names.erase(uid_of(*before));
        objects.erase(found);
      }
      if (next.after != nullptr) {
        names[uid_of(*next.after)] = next.name;
        objects[next.name] = next.after;
      }
    }
    const std::weak_ptr<bool> alive = life;
    for (std::size_t i = 0; i < handlers.size(); ++i) {
      const Handler handler = handlers[i];
      handler(before, next.after);
      if (alive.expired()) {
        return;
      }
    }
  }

  loop::Loop& loop;
  const std::string resource;
  const std::function<Duration()> lag;
  Objects objects;
  std::map<std::string, std::pair<std::string, std::string>> names;  // by UID
  std::deque<Pending> pending;
  std::vector<Handler> handlers;
  loop::Timer timer;
  std::shared_ptr<bool> life = std::make_shared<bool>(true);
};

Informer::Informer(loop::Loop& loop, ObjectStore& store, std::string resource,
                   std::function<Duration()> lag)
    : state_(std::make_shared<State>(loop, std::move(resource), std::move(lag))) {
  for (const Object& object : store.list(state_->resource)) {
    const std::pair<std::string, std::string> name(text_field(*object, {"metadata", "namespace"}),
                                                   text_field(*object, {"metadata", "name"}));
    state_->names[uid_of(*object)] = name;
    state_->objects[name] = object;
  }
  store.listen([observer = std::weak_ptr<State>(state_)](const Change& change) {
    const auto state = observer.lock();
    if (state != nullptr && change.key.resource == state->resource) {
      state->take(change);
    }
  });
}

Informer::~Informer() = default;

void Informer::on_change(Handler handler) {
  state_->handlers.push_back(std::move(handler));
}

Object Informer::find(const std::string& space, const std::string& name) const {
  const auto found = state_->objects.find({space, name});
  return found == state_->objects.end() ? nullptr : found->second;
}

Object Informer::find_uid(const std::string& uid) const {
  const auto found = state_->names.find(uid);
  return found == state_->names.end() ? nullptr : state_->objects.at(found->second);
}

const Informer::Objects& Informer::all() const {
  return state_->objects;
}

}  // namespace moonfence::sim
