#pragma once

// Base64 with the standard alphabet and padding (RFC 4648 §4), as Kubernetes writes binary fields.

#include <optional>
#include <string>
#include <string_view>

namespace moonfence::kube {

[[nodiscard]] std::string base64_encoded(std::string_view bytes);

// Line breaks are skipped, as Go's decoder does; nullopt for anything else that is not base64.
[[nodiscard]] std::optional<std::string> base64_decoded(std::string_view text);

}  // namespace moonfence::kube
