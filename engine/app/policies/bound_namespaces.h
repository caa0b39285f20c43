#pragma once

// A namespace that a binding names may not exist: misspelt, or still to be made. Nothing forbids
// that, and nothing is fenced there either, so whoever wrote it is told. Each is read when the
// bindings change and now and then; one that cannot be read is not said to be absent.

#include <deque>
#include <functional>
#include <set>

#include "base/names.h"
#include "kube/calls/reader.h"
#include "kube/wire/caller.h"
#include "loop/loop.h"

namespace moonfence::app {

class BoundNamespaces {
 public:
  // `changed`: others are absent than before. All references outlive it.
  BoundNamespaces(loop::Loop& loop, kube::Caller& caller, std::function<void()> changed)
      : loop_(loop), reader_(caller), changed_(std::move(changed)) {}
  BoundNamespaces(const BoundNamespaces&) = delete;
  BoundNamespaces& operator=(const BoundNamespaces&) = delete;

  // These are bound from now on.
  void look_for(std::set<Namespace> bound);
  [[nodiscard]] const std::set<Namespace>& absent() const { return absent_; }

  // Those that were absent are asked for each time, the others every tenth time.
  static constexpr Duration kEvery = std::chrono::minutes(1);
  static constexpr int kAll = 10;

 private:
  void look();
  void ask_next();
  void arrived(const Namespace& space, const Result<kube::ApiReply>& reply);

  loop::Loop& loop_;
  kube::Reader reader_;
  const std::function<void()> changed_;
  std::set<Namespace> bound_;
  std::set<Namespace> absent_;
  std::deque<Namespace> queue_;
  int rounds_ = 0;
  kube::CallHandle call_;
  loop::Timer timer_;
};

}  // namespace moonfence::app
