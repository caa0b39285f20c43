#include "fence/judge/resolution.h"

#include <algorithm>
#include <optional>
#include <set>
#include <string>

namespace moonfence::fence {

using policy::Verdict;

bool same_action(const Verdict& a, const Verdict& b) {
  const auto volumes = [](const Verdict& verdict) {
    std::set<std::string> names;
    for (const policy::VolumeFacts& volume : verdict.volumes) {
      names.insert(volume.pv);
    }
    return names;
  };
  return a.kind == b.kind && a.release == b.release && a.fail == b.fail &&
         a.on_timeout == b.on_timeout && a.wait == b.wait && volumes(a) == volumes(b);
}

namespace {

// The first of each kind that speaks on one side.
struct Heard {
  const Opinion* forbids = nullptr;
  const Opinion* holds = nullptr;
  const Opinion* failed = nullptr;
  const Opinion* waits = nullptr;  // the shortest
  const Opinion* acts = nullptr;
  const Opinion* disagrees = nullptr;
  const Opinion* yields = nullptr;  // who waits shortest of those, or nobody
  const Opinion* skips = nullptr;
  bool yields_at_all = false;
  bool ask_again = false;
  std::optional<Duration> look_again;

  void hear(const Opinion& opinion) {
    if (opinion.yields) {
      yields_at_all = true;
      keep_shortest(yields, opinion);
      return;
    }
    if (!opinion.verdict) {
      ask_again = ask_again || opinion.ask_again;
      keep_first(failed, opinion);
      return;
    }
    switch (opinion.verdict->kind) {
      case Verdict::Kind::Forbid:
        keep_first(forbids, opinion);
        look_within(kForbidsFor);
        break;
      case Verdict::Kind::Hold:
        keep_first(holds, opinion);
        look_within(opinion.verdict->wait);
        break;
      case Verdict::Kind::Wait:
        keep_shortest(waits, opinion);
        break;
      case Verdict::Kind::Skip:
        keep_first(skips, opinion);
        break;
      case Verdict::Kind::DeletePod:
      case Verdict::Kind::DeletePodAndAttachments:
      case Verdict::Kind::DeleteAttachments:
        if (acts != nullptr && !same_action(*acts->verdict, *opinion.verdict)) {
          keep_first(disagrees, opinion);
        }
        keep_first(acts, opinion);
        break;
    }
  }

 private:
  static void keep_first(const Opinion*& slot, const Opinion& opinion) {
    slot = slot == nullptr ? &opinion : slot;
  }
  void keep_shortest(const Opinion*& slot, const Opinion& opinion) {
    if (opinion.verdict) {
      slot = slot == nullptr || opinion.verdict->wait < slot->verdict->wait ? &opinion : slot;
      look_within(opinion.verdict->wait);
    }
  }
  void look_within(Duration delay) { look_again = std::min(look_again.value_or(delay), delay); }
};

}  // namespace

Decision resolve(std::span<const Opinion> opinions, policy::Mode side) {
  Heard heard;
  for (const Opinion& opinion : opinions) {
    if (opinion.mode == side) {
      heard.hear(opinion);
    }
  }
  using Kind = Decision::Kind;
  Decision decision;
  decision.overruled = heard.disagrees;
  if (heard.forbids != nullptr) {
    decision.kind = Kind::Forbidden;
    decision.by = heard.forbids;
  } else if (heard.holds != nullptr || heard.failed != nullptr) {
    decision.kind = Kind::Held;
    decision.by = heard.holds != nullptr ? heard.holds : heard.failed;
    decision.ask_again = heard.holds == nullptr && heard.ask_again;
  } else if (heard.waits != nullptr) {
    decision.kind = Kind::Wait;
    decision.by = heard.waits;
  } else if (heard.acts != nullptr) {
    decision.kind = Kind::Act;
    decision.by = heard.acts;
  } else if (heard.yields_at_all) {
    decision.kind = Kind::Wait;
    decision.by = heard.yields;
  } else if (heard.skips != nullptr) {
    decision.kind = Kind::Skip;
    decision.by = heard.skips;
  }
  if (decision.kind != Kind::Act && decision.kind != Kind::Skip) {
    decision.stopped = heard.acts;
    decision.look_again = heard.look_again;
  }
  return decision;
}

}  // namespace moonfence::fence
