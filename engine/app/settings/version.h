#pragma once

#include <string>
#include <string_view>

namespace moonfence::app {

// "0.1.0" and the commit it was built from, "unknown" outside a checkout.
[[nodiscard]] std::string_view version();
[[nodiscard]] std::string_view commit();
// "moonfence/0.1.0 (linux/amd64) abc123", how the API server's audit log names us.
[[nodiscard]] std::string user_agent();

}  // namespace moonfence::app
