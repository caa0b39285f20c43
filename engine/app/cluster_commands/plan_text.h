#pragma once

// A plan as a table, as a document for programs, and about one pod in sentences. Pure.

#include <string>

#include <nlohmann/json.hpp>

#include "app/rehearsal/plan.h"
#include "app/terminal/output.h"

namespace moonfence::app {

[[nodiscard]] std::string plan_table(const Plan& plan, bool wide);
[[nodiscard]] nlohmann::ordered_json plan_document(const Plan& plan);

}  // namespace moonfence::app
