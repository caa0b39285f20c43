#include "fence/judge/shadow.h"

namespace moonfence::fence {
namespace {

std::string_view word_of(const Decision& decision) {
  switch (decision.kind) {
    case Decision::Kind::None:
    case Decision::Kind::Skip:
      return "skip";
    case Decision::Kind::Wait:
      return "wait";
    case Decision::Kind::Held:
      return "hold";
    case Decision::Kind::Forbidden:
      return "forbid";
    case Decision::Kind::Act:
      return to_string(decision.by->verdict->kind);
  }
  return "skip";
}

std::string reason_of(const Decision& decision) {
  return decision.by == nullptr || !decision.by->verdict ? "no verdict"
                                                         : decision.by->verdict->reason;
}

}  // namespace

std::optional<ShadowDifference> shadow_difference(const Decision& observed,
                                                  const Decision& enforced) {
  if (observed.kind == Decision::Kind::None || enforced.kind == Decision::Kind::None) {
    return std::nullopt;
  }
  const bool both_act =
      observed.kind == Decision::Kind::Act && enforced.kind == Decision::Kind::Act;
  if (both_act ? same_action(*observed.by->verdict, *enforced.by->verdict)
               : observed.kind == enforced.kind) {
    return std::nullopt;
  }
  return ShadowDifference{
      .observed = word_of(observed),
      .enforced = word_of(enforced),
      .text = "observing: " + reason_of(observed) + "; enforcing: " + reason_of(enforced)};
}

}  // namespace moonfence::fence
