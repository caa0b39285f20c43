#include "cluster/witness/testimony_board.h"

#include <algorithm>
#include <set>

#include "base/text.h"
#include "cluster/witness/testimony.h"

namespace moonfence::cluster {
namespace {

// A link that is open proves that the machine was heard a moment ago, not when.
Testimony::Machine machine_of(const KernelWatch& watch, Moment now) {
  constexpr Duration kOfLink = port::kLinkIdle + port::kLinkPatience;
  Testimony::Machine machine{
      .kernel = watch.word(now), .quiet = {}, .unanswered = watch.unanswered()};
  if (watch.heard()) {
    const Duration quiet = std::max(now - *watch.heard(), Duration::zero());
    machine.quiet = watch.is_linked() ? std::min(quiet, kOfLink) : quiet;
  }
  return machine;
}

}  // namespace

void TestimonyBoard::tell(const NodeName& node, const KernelWatch* watch) {
  const std::scoped_lock lock(mutex_);
  if (watch == nullptr) {
    watches_.erase(node);
  } else {
    watches_.insert_or_assign(node, *watch);
  }
}

void TestimonyBoard::tell_alive(Moment now, bool is_well) {
  const std::scoped_lock lock(mutex_);
  alive_at_ = now;
  is_well_ = is_well;
}

Result<std::string> TestimonyBoard::answer(std::string_view nonce, std::string_view nodes,
                                           Moment now) const {
  if (!is_nonce(nonce) || nodes.size() > kLongestNodes) {
    return failure(Error::Kind::Invalid,
                   "ask for /witness?nonce=NONCE&nodes=NAME,NAME; the nonce has 32 hexadecimal "
                   "digits, the names 4096 characters at most");
  }
  std::set<NodeName> names;
  for (const std::string_view name : split(nodes, ',')) {
    names.emplace(std::string(name));
  }
  Testimony testimony{.nonce = std::string(nonce), .is_well = false, .machines = {}};
  {
    const std::scoped_lock lock(mutex_);
    if (!alive_at_ || now - *alive_at_ > kAlive) {
      return failure(Error::Kind::Retryable,
                     "this replica has not looked at the machines for " + format_duration(kAlive));
    }
    testimony.is_well = is_well_;
    for (const NodeName& name : names) {
      const auto found = watches_.find(name);
      if (found != watches_.end()) {
        testimony.machines.emplace(found->first, machine_of(found->second, now));
      }
    }
  }
  return to_answer(testimony, key_);
}

}  // namespace moonfence::cluster
