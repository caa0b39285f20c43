#pragma once

// Cases the tool makes by itself, from those an author wrote: what can be missing, is; lists are
// the other way round; the clock stands just before, at and after each deadline; every enum setting
// takes each of its values; volumes are not what was hoped for. None may fail the policy, and none
// may turn a skip or a forbid into a deletion, unless an explicit case puts the same scene and
// expects it (for an enum setting: expects a deletion with that value).

#include <vector>

#include "policy/cases/test_run.h"

namespace moonfence::policy {

[[nodiscard]] std::vector<CaseResult> run_auto_cases(const Subject& subject,
                                                     const std::vector<TestCase>& cases);

}  // namespace moonfence::policy
