#pragma once

// The front page: how it stands in one sentence, what is to be noticed, incidents, nodes, policies,
// the engine. Readable without JavaScript, because there is none.

#include <string>

#include "app/web/status_frame.h"

namespace moonfence::app {

// How many incidents under way are told at length.
constexpr std::size_t kIncidentsInFront = 10;

[[nodiscard]] std::string front_page(const StatusView& view);

}  // namespace moonfence::app
