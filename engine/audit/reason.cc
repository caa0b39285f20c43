#include "audit/reason.h"

#include <algorithm>
#include <array>

namespace moonfence::audit {
namespace {

constexpr auto kWords = std::to_array<std::string_view>({
#define MOONFENCE_REASON(name, word) #word,
#include "audit/reasons.inc"
#undef MOONFENCE_REASON
});

constexpr auto kAll = std::to_array<Reason>({
#define MOONFENCE_REASON(name, word) Reason::name,
#include "audit/reasons.inc"
#undef MOONFENCE_REASON
});

}  // namespace

std::string_view code(Reason reason) {
  return kWords[static_cast<std::size_t>(reason)];
}

std::optional<Reason> find_reason(std::string_view code) {
  const auto* found = std::find_if(kAll.begin(), kAll.end(),
                                   [code](Reason each) { return audit::code(each) == code; });
  return found == kAll.end() ? std::nullopt : std::optional(*found);
}

std::span<const Reason> all_reasons() {
  return kAll;
}

}  // namespace moonfence::audit
