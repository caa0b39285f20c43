#include "kube/config_map_keeper.h"

#include <map>
#include <utility>

namespace moonfence::kube {

ConfigMapKeeper::ConfigMapKeeper(loop::Loop& loop, Caller& caller, port::Random& random,
                                 port::Log& log, ObjectRef ref, Labels labels)
    : loop_(loop),
      config_maps_(caller),
      random_(random),
      log_(log),
      ref_(std::move(ref)),
      labels_(std::move(labels)) {}

void ConfigMapKeeper::keep(const Data& data) {
  bool changed = false;
  for (const auto& [key, text] : data) {
    const auto [kept, is_new] = kept_.try_emplace(key, text);
    changed = changed || is_new || kept->second != text;
    kept->second = text;
  }
  if (!changed) {
    return;
  }
  ++asked_;
  if (call_ == nullptr && !pause_.pending()) {
    send();
  }
}

void ConfigMapKeeper::send() {
  if (settled()) {
    return;
  }
  sent_ = asked_;
  call_ = config_maps_.save({.ref = ref_, .labels = labels_, .data = kept_},
                            [this](const Result<void>& outcome) { on_outcome(outcome); });
}

void ConfigMapKeeper::on_outcome(const Result<void>& outcome) {
  call_.reset();
  if (outcome) {
    stands_ = sent_;
    if (settled()) {
      std::erase_if(kept_, [](const auto& entry) { return !entry.second; });
    }
    send();
    return;
  }
  ++failures_;
  log_.warning("config_map_unwritten",
               {{"config_map", ref_.text()}, {"error", outcome.error().message()}});
  pause_ = loop_.after(backoff_.next(loop_.now(), random_.unit(), outcome.error().retry_after),
                       [this] { send(); });
}

}  // namespace moonfence::kube
