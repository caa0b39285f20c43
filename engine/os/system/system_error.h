#pragma once

// errno as an Error, by remedy.

#include <string>

#include "base/error.h"

namespace moonfence::os {

// "what: reason", for example "/etc/x: no such file or directory".
[[nodiscard]] Error system_error(const std::string& what, int number);

}  // namespace moonfence::os
