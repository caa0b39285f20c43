#pragma once

// UnlistedPods finds out what became of pods that the incident's record still means to delete and
// that no list of the pass shows: somebody else deleted them, or we did and nobody heard of it,
// such as the leader before us who was killed in between. A list may come from a lagging cache, so
// each is looked for live, by its name, and its UID decides. One that is gone gets its outcome; one
// that is there is judged like the others.

#include <deque>
#include <functional>
#include <list>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "fence/judge/memory.h"
#include "fence/read/surroundings.h"
#include "fence/rules/pass_result.h"
#include "kube/objects/decode.h"

namespace moonfence::fence {

class UnlistedPods {
 public:
  // So many are looked for at once: live reads must find room beside them.
  static constexpr std::size_t kMostReads = 16;

  // All references must outlive it.
  UnlistedPods(Surroundings& surroundings, const PassContext& context,
               std::shared_ptr<const Authority> authority, Memory& memory);

  // Once in a pass, when all that the lists show was judged. False: there is nothing to look for.
  // Otherwise `looked` is called in a later turn, after the last answer.
  [[nodiscard]] bool look(PassResult& result, std::function<void()> looked);
  [[nodiscard]] bool is_looking() const { return !reads_.empty() || next_.pending(); }
  // What was found, once.
  [[nodiscard]] std::vector<Uid> take_gone() { return std::exchange(gone_, {}); }
  [[nodiscard]] std::vector<std::string> take_present() { return std::exchange(present_, {}); }
  // Nobody is called back from now on.
  void retire();

 private:
  struct Read {
    PodRef pod;
    Uid uid;
    std::string text = {};  // of the pod, if it is there
    kube::CallHandle call = nullptr;
  };
  void read_next();
  void arrived(std::list<Read>::iterator read, const Result<ResourceVersion>& whole);
  void conclude_gone(const Read& read);

  Surroundings& around_;
  const PassContext& context_;
  std::shared_ptr<const Authority> authority_;
  Memory& memory_;
  PassResult* result_ = nullptr;
  std::function<void()> looked_;
  bool has_looked_ = false;
  std::deque<std::pair<PodRef, Uid>> left_;
  std::list<Read> reads_;  // under way
  std::vector<Uid> gone_;
  std::vector<std::string> present_;
  kube::PodDecoder decoder_;
  loop::Timer next_;
};

}  // namespace moonfence::fence
