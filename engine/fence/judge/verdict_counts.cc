#include "fence/judge/verdict_counts.h"

namespace moonfence::fence {

using policy::Tally;
using policy::Verdict;

namespace {

void add(Tally& tally, Verdict::Kind kind, std::int64_t count) {
  tally.seen += count;
  switch (kind) {
    case Verdict::Kind::Skip:
      break;
    case Verdict::Kind::Forbid:
    case Verdict::Kind::Hold:
    case Verdict::Kind::Wait:
      tally.held += count;
      break;
    case Verdict::Kind::DeletePod:
    case Verdict::Kind::DeletePodAndAttachments:
    case Verdict::Kind::DeleteAttachments:
      tally.deleted += count;
      break;
  }
}

}  // namespace

Tally VerdictCounts::without(const std::string& policy, const Uid& pod) const {
  const auto found = counts_.find(policy);
  if (found == counts_.end()) {
    return {};
  }
  Tally tally = found->second.sum;
  if (const auto word = found->second.words.find(pod); word != found->second.words.end()) {
    add(tally, word->second, -1);
  }
  return tally;
}

void VerdictCounts::note(const std::string& policy, const Uid& pod, Verdict::Kind kind) {
  Count& count = counts_[policy];
  const auto [word, is_new] = count.words.try_emplace(pod, kind);
  if (!is_new) {
    add(count.sum, word->second, -1);
    word->second = kind;
  }
  add(count.sum, kind, 1);
}

}  // namespace moonfence::fence
