#pragma once

// What counts as an answer to fence.list, one rule for the engine, which reads it from a cluster,
// and for the test tool, which has it from a case: all objects or none. Who judges by a part of
// them takes what it does not see for absent.

#include <cstddef>
#include <string>

#include <nlohmann/json.hpp>

#include "policy/values/request.h"

namespace moonfence::policy {

// "" or why this is no answer: it is no list, it goes on, it has more than kMostListed objects, or
// more than the metadata that was asked for.
[[nodiscard]] std::string fault_of_list(const Request& request, const nlohmann::json& body);

// Why a list that is larger than so many bytes is none.
[[nodiscard]] std::string too_large_list(const Request& request, std::size_t limit);

}  // namespace moonfence::policy
