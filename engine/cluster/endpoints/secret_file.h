#pragma once

#include <string>

#include "base/result.h"
#include "port/files.h"

namespace moonfence::cluster {

// What a mounted secret holds, without the line break that editors add. Invalid when it is empty or
// holds a control character.
[[nodiscard]] Result<std::string> read_secret(port::Files& files, const std::string& path);

}  // namespace moonfence::cluster
