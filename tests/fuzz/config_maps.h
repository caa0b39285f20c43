#pragma once

// The policies' ConfigMap at random: moonfence.yaml alone, and the whole map as the reloader takes
// it up.

#include <string_view>

namespace moonfence::fuzz {

void read_bindings(std::string_view text);
// "=== KEY" begins a key's text; keys that begin with "binary:" stand in binaryData.
void read_config_map(std::string_view text);

}  // namespace moonfence::fuzz
