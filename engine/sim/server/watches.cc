#include "sim/server/watches.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "sim/server/answers.h"
#include "sim/store/fields.h"

namespace moonfence::sim {
namespace {

// kube-apiserver tells a watcher where it stands shortly before it ends the watch.
constexpr Duration kLastBookmark = std::chrono::seconds(2);

// The object as it was before, under the version of the change that took it out of the selection.
DocumentPtr departed(const Change& change) {
  if (change.type == ChangeType::Deleted) {
    return change.after_document;
  }
  Json object = *change.before;
  object["metadata"]["resourceVersion"] = std::to_string(change.version);
  return std::make_shared<const Document>(std::move(object));
}

}  // namespace

struct Watches::Link {
  Watches* watches;
};

struct Watches::Stream {
  WatchWish wish;
  WatchSink* sink = nullptr;
  std::int64_t at = 0;  // changes up to here are told or skipped
  bool begun = false;
  bool last_bookmark_told = false;
  bool stands_still = false;
  Moment end{};
  Moment next_bookmark{};
  loop::Timer timer;
};

class Watches::Handle final : public WatchStream {
 public:
  Handle(std::shared_ptr<Link> link, std::uint64_t id) : link_(std::move(link)), id_(id) {}
  ~Handle() override {
    if (link_->watches != nullptr) {
      link_->watches->streams_.erase(id_);
    }
  }
  Handle(const Handle&) = delete;
  Handle& operator=(const Handle&) = delete;

 private:
  std::shared_ptr<Link> link_;
  std::uint64_t id_;
};

Watches::Watches(loop::Loop& loop, ObjectStore& store, WatchCache& cache)
    : loop_(loop), store_(store), cache_(cache), link_(std::make_shared<Link>(Link{this})) {}

Watches::~Watches() {
  link_->watches = nullptr;
}

std::unique_ptr<WatchStream> Watches::open(WatchWish wish, WatchSink& sink) {
  const std::uint64_t id = next_id_++;
  auto stream = std::make_unique<Stream>();
  stream->wish = std::move(wish);
  stream->sink = &sink;
  stream->at = stream->wish.from;
  stream->end = loop_.now() + stream->wish.length;
  stream->next_bookmark = loop_.now() + stream->wish.bookmark_interval;
  stream->timer = loop_.after(Duration::zero(), [this, id] { tick(id); });
  streams_.emplace(id, std::move(stream));
  return std::make_unique<Handle>(link_, id);
}

Watches::Stream* Watches::find(std::uint64_t id) {
  const auto found = streams_.find(id);
  return found == streams_.end() ? nullptr : found->second.get();
}

void Watches::wake() {
  const auto due = cache_.next_due();
  if (!due || streams_.empty() || timer_.pending()) {
    return;
  }
  timer_ = loop_.after(std::max(Duration::zero(), *due - loop_.now()), [this] { feed(); });
}

void Watches::feed() {
  const std::shared_ptr<Link> link = link_;
  for (auto next = streams_.begin(); next != streams_.end();) {
    const std::uint64_t id = next->first;
    if (next->second->begun) {
      feed_one(id);
    }
    if (link->watches == nullptr) {
      return;  // a sink destroyed the server
    }
    next = streams_.upper_bound(id);
  }
  wake();
}

bool Watches::feed_one(std::uint64_t id) {
  const std::int64_t seen = cache_.seen();
  for (;;) {
    Stream* stream = find(id);
    if (stream == nullptr) {
      return false;
    }
    if (stream->at >= seen) {
      return true;
    }
    if (stream->at < store_.log_start()) {
      end(id);  // too slow: what it needs is no longer known
      return false;
    }
    if (!say_change(id, store_.change_at(++stream->at))) {
      return false;
    }
  }
}

void Watches::hush(const std::string& what, Moment until) {
  for (const std::string resource : {"nodes", "pods", "configmaps"}) {
    if (what == "all" || what == (resource == "configmaps" ? "policies" : resource)) {
      hushed_until_[resource] = until;
    }
  }
  for (const auto& [id, stream] : streams_) {
    (void)is_hushed(*stream);
  }
}

// What stands still goes on doing so.
void Watches::end_hushes() {
  hushed_until_.clear();
}

bool Watches::is_hushed(Stream& stream) const {
  const auto found = hushed_until_.find(std::string(stream.wish.route.kind->resource));
  stream.stands_still =
      stream.stands_still || (found != hushed_until_.end() && loop_.now() < found->second);
  return stream.stands_still;
}

bool Watches::say(std::uint64_t id, const std::string& line) {
  if (is_hushed(*find(id))) {
    return true;
  }
  const std::shared_ptr<Link> link = link_;
  find(id)->sink->on_line(line);
  return link->watches != nullptr && find(id) != nullptr;
}

bool Watches::say_change(std::uint64_t id, const Change& change) {
  const WatchWish& wish = find(id)->wish;
  const Route& route = wish.route;
  if (change.key.resource != route.kind->resource ||
      (!route.space.empty() && change.key.space != route.space)) {
    return true;
  }
  const bool was = change.before != nullptr && wish.selection.matches(*change.before);
  const bool is = change.type != ChangeType::Deleted && wish.selection.matches(*change.after);
  if (is) {
    return say(id,
               event_line(was ? "MODIFIED" : "ADDED", typed_text(route, *change.after_document)));
  }
  return !was || say(id, event_line("DELETED", typed_text(route, *departed(change))));
}

bool Watches::say_bookmark(std::uint64_t id, bool initial_end) {
  const WatchWish& wish = find(id)->wish;
  const std::int64_t version = cache_.version_of(std::string(wish.route.kind->resource));
  if (version <= wish.from && !initial_end) {
    return true;  // says nothing new; kube-apiserver keeps it back too
  }
  Json object = {{"metadata",
                  {{"resourceVersion", std::to_string(std::max(version, wish.from))},
                   {"creationTimestamp", nullptr}}}};
  if (initial_end) {
    object["metadata"]["annotations"] = {{"k8s.io/initial-events-end", "true"}};
  }
  return say(id, event_line("BOOKMARK", typed_text(wish.route, Document(std::move(object)))));
}

bool Watches::begin(std::uint64_t id) {
  Stream& stream = *find(id);
  stream.begun = true;
  if (stream.wish.error) {
    if (say(id, event_line("ERROR", status_text(*stream.wish.error)))) {
      end(id);
    }
    return false;
  }
  const std::vector<DocumentPtr> initial = std::move(stream.wish.initial);
  const Route route = stream.wish.route;
  for (const DocumentPtr& document : initial) {
    if (!say(id, event_line("ADDED", typed_text(route, *document)))) {
      return false;
    }
  }
  return !find(id)->wish.marks_initial_end || say_bookmark(id, true);
}

void Watches::tick(std::uint64_t id) {
  if (!find(id)->begun && !begin(id)) {
    return;
  }
  if (!feed_one(id)) {
    return;
  }
  Stream* stream = find(id);
  if (loop_.now() >= stream->end) {
    end(id);
    return;
  }
  const bool last = !stream->last_bookmark_told && loop_.now() + kLastBookmark >= stream->end &&
                    stream->wish.length > kLastBookmark;
  if (stream->wish.bookmarks && (last || loop_.now() >= stream->next_bookmark)) {
    stream->last_bookmark_told = stream->last_bookmark_told || last;
    stream->next_bookmark = loop_.now() + stream->wish.bookmark_interval;
    if (!say_bookmark(id, false)) {
      return;
    }
  }
  schedule_tick(id);
  wake();
}

void Watches::schedule_tick(std::uint64_t id) {
  Stream& stream = *find(id);
  Moment next = stream.end;
  if (stream.wish.bookmarks) {
    next = std::min(next, stream.next_bookmark);
    if (!stream.last_bookmark_told && stream.wish.length > kLastBookmark) {
      next = std::min(next, std::max(loop_.now(), stream.end - kLastBookmark));
    }
  }
  stream.timer = loop_.after(next - loop_.now(), [this, id] { tick(id); });
}

void Watches::end(std::uint64_t id) {
  const auto found = streams_.find(id);
  if (found != streams_.end() && !is_hushed(*found->second)) {
    const std::unique_ptr<Stream> ended = std::move(found->second);
    streams_.erase(found);
    ended->sink->on_end();
  }
}

void Watches::end_all() {
  const std::shared_ptr<Link> link = link_;
  std::vector<std::uint64_t> ids;
  ids.reserve(streams_.size());
  for (const auto& [id, stream] : streams_) {
    ids.push_back(id);
  }
  for (const std::uint64_t id : ids) {
    if (link->watches == nullptr) {
      return;
    }
    end(id);
  }
}

}  // namespace moonfence::sim
