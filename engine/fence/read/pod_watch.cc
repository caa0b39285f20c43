#include "fence/read/pod_watch.h"

#include <algorithm>
#include <set>
#include <utility>

#include <nlohmann/json.hpp>

#include "kube/watching/watcher.h"
#include "kube/wire/url.h"

namespace moonfence::fence {

// One list of pods, watched.
class PodWatch::Stream final : public kube::WatchListener {
 public:
  Stream(PodWatch& owner, const PodsRead::List& list, const std::string& path)
      : owner_(owner),
        what_(list.what),
        watcher_(owner.watches_->loop, owner.watches_->caller, owner.watches_->random,
                 owner.watches_->log,
                 {.resource = "pods of " + owner.node_.text(),
                  .path = path,
                  .field_selector = "spec.nodeName=" + owner.node_.text(),
                  .label_selector = list.what.label_selector},
                 *this) {
    ++owner_.watches_->open;
    watcher_.start_from(list.version);
  }
  ~Stream() override { --owner_.watches_->open; }
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  [[nodiscard]] const PodList& what() const { return what_; }

  void on_init() override { listed_.clear(); }
  void on_init_apply(const nlohmann::json& object) override {
    const PodSight pod = sight_of(object);
    listed_.insert(pod.uid);
    tell(pod);
  }
  void on_init_done() override {
    owner_.news_.listed(what_.space, listed_);
    owner_.heard();
  }
  void on_apply(const nlohmann::json& object) override {
    tell(sight_of(object));
    owner_.heard();
  }
  void on_delete(const nlohmann::json& object) override {
    const PodSight pod = sight_of(object);
    if (!owner_.is_settled_(pod.uid)) {
      owner_.news_.gone(pod.uid);
      owner_.heard();
    }
  }

 private:
  void tell(const PodSight& pod) {
    if (!owner_.is_settled_(pod.uid)) {
      owner_.news_.seen(pod);
    }
  }

  PodWatch& owner_;
  const PodList what_;
  std::set<Uid> listed_;
  kube::Watcher watcher_;
};

PodWatch::PodWatch(PodWatches* watches, NodeName node, std::function<bool(const Uid&)> is_settled,
                   std::function<void()> ring)
    : watches_(watches),
      node_(std::move(node)),
      is_settled_(std::move(is_settled)),
      ring_(std::move(ring)) {}

PodWatch::~PodWatch() = default;

void PodWatch::read(PodsRead pods) {
  if (watches_ == nullptr) {
    return;
  }
  std::erase_if(pods.pods, [this](const auto& entry) { return is_settled_(entry.first); });
  news_.read(std::move(pods.pods));
  std::erase_if(streams_, [&pods](const auto& stream) {
    return std::none_of(pods.lists.begin(), pods.lists.end(),
                        [&stream](const auto& list) { return list.what == stream->what(); });
  });
  for (const PodsRead::List& list : pods.lists) {
    const bool is_watched =
        std::any_of(streams_.begin(), streams_.end(),
                    [&list](const auto& stream) { return stream->what() == list.what; });
    const auto path = kube::pods_path(list.what.space);
    if (!is_watched && path && !list.version.empty() && watches_->open < PodWatches::kMost) {
      streams_.push_back(std::make_unique<Stream>(*this, list, *path));
    }
  }
}

void PodWatch::listen() {
  listening_ = true;
  heard();
}

void PodWatch::hush() {
  listening_ = false;
  bell_.cancel();
}

void PodWatch::close() {
  hush();
  streams_.clear();
}

void PodWatch::heard() {
  const auto due = news_.due();
  if (!listening_ || !due || watches_ == nullptr) {
    bell_.cancel();
    return;
  }
  if (!bell_.pending()) {
    loop::Loop& loop = watches_->loop;
    // Never inside a watcher's call: the pass may end it.
    bell_ = loop.after(std::max(*due - loop.now(), Duration::zero()), [this, &loop] {
      listening_ = false;
      news_.rang(loop.now());
      ring_();
    });
  }
}

}  // namespace moonfence::fence
