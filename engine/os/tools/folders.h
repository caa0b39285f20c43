#pragma once

// Folders, for commands that people run: finding files below one, and writing new ones. The daemon
// does neither.

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace moonfence::os {

[[nodiscard]] bool is_folder(const std::string& path);
[[nodiscard]] bool is_file(const std::string& path);

// Files below `folder` whose names end in `suffix`, sorted, as paths that begin with `folder`.
// Hidden folders and links to folders are passed over. Limit: more than 100,000 entries.
[[nodiscard]] Result<std::vector<std::string>> find_files(const std::string& folder,
                                                          std::string_view suffix);

// Writes the whole file and makes the folders above it. `replace` false: Conflict when it exists.
Result<void> write_file(const std::string& path, std::string_view text, bool replace);

}  // namespace moonfence::os
