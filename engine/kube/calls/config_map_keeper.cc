#include "kube/calls/config_map_keeper.h"

#include <algorithm>
#include <map>
#include <utility>

namespace moonfence::kube {

ConfigMapKeeper::ConfigMapKeeper(loop::Loop& loop, Caller& caller, port::Random& random,
                                 port::Log& log, ObjectRef ref, Labels labels, Writers writers)
    : loop_(loop),
      config_maps_(caller),
      random_(random),
      log_(log),
      ref_(std::move(ref)),
      labels_(std::move(labels)),
      writers_(writers) {}

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

void ConfigMapKeeper::doubt() {
  if (asked_ == 0) {
    return;
  }
  doubted_ = true;
  if (looking_) {
    call_.reset();  // it may have been answered before
  }
  if (call_ == nullptr && !pause_.pending()) {
    send();
  }
}

void ConfigMapKeeper::send() {
  if (doubted_) {
    next_look_.cancel();
    look();
    return;
  }
  if (settled()) {
    return;
  }
  next_look_.cancel();
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
      next_look_ = loop_.after(kLookEvery, [this] { look(); });
    }
    send();
    return;
  }
  try_again(outcome.error());
}

void ConfigMapKeeper::try_again(const Error& error) {
  ++failures_;
  log_.warning("config_map_unwritten", {{"config_map", ref_.text()}, {"error", error.message()}});
  pause_ = loop_.after(backoff_.next(loop_.now(), random_.unit(), error.retry_after),
                       [this] { send(); });
}

void ConfigMapKeeper::look() {
  looking_ = true;
  call_ = config_maps_.find(
      ref_, [this](const Result<std::optional<ConfigMap>>& found) { on_found(found); });
}

void ConfigMapKeeper::on_found(const Result<std::optional<ConfigMap>>& found) {
  call_.reset();
  looking_ = false;
  if (!found && doubted_) {
    try_again(found.error());
    return;
  }
  const bool stands = !found || (*found && stands_in(**found));
  doubted_ = false;
  if (!stands) {
    log_.warning("config_map_lost", {{"config_map", ref_.text()},
                                     {"text", "what we wrote is missing, it is written again"}});
    ++asked_;
  }
  if (settled()) {  // also where nobody answered: the next look will tell
    next_look_ = loop_.after(kLookEvery, [this] { look(); });
  }
  send();
}

bool ConfigMapKeeper::stands_in(const ConfigMap& map) const {
  return std::all_of(kept_.begin(), kept_.end(), [this, &map](const auto& entry) {
    const auto there = map.data.find(entry.first);
    if (!entry.second || there == map.data.end()) {
      return !entry.second && there == map.data.end();
    }
    return (writers_ == Writers::Several && !doubted_) || there->second == *entry.second;
  });
}

}  // namespace moonfence::kube
