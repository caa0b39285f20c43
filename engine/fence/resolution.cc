#include "fence/resolution.h"

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
  return a.kind == b.kind && a.release == b.release && a.on_timeout == b.on_timeout &&
         a.wait == b.wait && volumes(a) == volumes(b);
}

namespace {

// The first of each kind that speaks on one side.
struct Heard {
  const Opinion* forbids = nullptr;
  const Opinion* mute_guard = nullptr;
  const Opinion* acts = nullptr;
  const Opinion* disagrees = nullptr;
  const Opinion* waits = nullptr;  // the shortest
  const Opinion* failed = nullptr;
  const Opinion* skips = nullptr;
  bool ask_again = false;

  void hear(const Opinion& opinion) {
    if (!opinion.verdict) {
      ask_again = ask_again || opinion.ask_again;
      keep_first(failed, opinion);
      if (opinion.guard) {
        keep_first(mute_guard, opinion);
      }
      return;
    }
    switch (opinion.verdict->kind) {
      case Verdict::Kind::Forbid:
        keep_first(forbids, opinion);
        break;
      case Verdict::Kind::Wait:
        if (waits == nullptr || opinion.verdict->wait < waits->verdict->wait) {
          waits = &opinion;
        }
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
};

}  // namespace

Decision resolve(std::span<const Opinion> opinions, policy::Mode side) {
  Heard heard;
  for (const Opinion& opinion : opinions) {
    if (opinion.mode == side) {
      heard.hear(opinion);
    }
  }
  Decision decision;
  decision.overruled = heard.disagrees;
  if (heard.forbids != nullptr || heard.mute_guard != nullptr) {
    const bool forbidden = heard.forbids != nullptr;
    decision.kind = forbidden ? Decision::Kind::Forbidden : Decision::Kind::Held;
    decision.by = forbidden ? heard.forbids : heard.mute_guard;
    decision.stopped = heard.acts;
    decision.ask_again = !forbidden && heard.ask_again;
  } else if (heard.acts != nullptr) {
    decision.kind = Decision::Kind::Act;
    decision.by = heard.acts;
  } else if (heard.waits != nullptr || heard.failed != nullptr) {
    decision.kind = Decision::Kind::Wait;
    decision.by = heard.waits;
    decision.ask_again = heard.ask_again;
    if (heard.waits != nullptr) {
      decision.look_again = heard.waits->verdict->wait;
    }
  } else if (heard.skips != nullptr) {
    decision.kind = Decision::Kind::Skip;
    decision.by = heard.skips;
  }
  return decision;
}

}  // namespace moonfence::fence
