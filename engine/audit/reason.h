#pragma once

// Every "why" of the engine, one closed list: records, metrics, events and tests all use these
// words, so what an operator reads is what the code decided by. Adding one means adding its text
// and its line in docs/reasons.md (tests/unit/audit checks both).

#include <optional>
#include <span>
#include <string_view>

namespace moonfence::audit {

enum class Reason {
#define MOONFENCE_REASON(name, word) name,
#include "audit/reasons.inc"
#undef MOONFENCE_REASON
};

// snake_case, stable: part of the audit format and of metric labels.
[[nodiscard]] std::string_view code(Reason reason);

// The reason of that code; nullopt: there is none.
[[nodiscard]] std::optional<Reason> find_reason(std::string_view code);

// Every reason in the order of the enum.
[[nodiscard]] std::span<const Reason> all_reasons();

}  // namespace moonfence::audit
