#pragma once

// Leadership as a test decides it.

#include <optional>

#include "fence/leadership/leadership.h"

namespace moonfence::test {

struct FakeLeadership final : fence::Leadership {
  [[nodiscard]] std::optional<Moment> acts_until() const override { return until; }
  [[nodiscard]] fence::Limits limits() const override { return granted; }
  std::optional<Moment> until = Moment::max();
  fence::Limits granted;
};

}  // namespace moonfence::test
