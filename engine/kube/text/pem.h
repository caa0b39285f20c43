#pragma once

// A look at PEM text before it reaches the TLS library: catches empty, truncated and swapped files
// while the old value is still in force. Whether a certificate is valid is the TLS library's
// business.

#include <optional>
#include <string>
#include <string_view>

namespace moonfence::kube {

enum class Pem { Certificate, PrivateKey };

// What is wrong with `text`, without quoting it; nullopt when it holds at least one whole block of
// that kind and no block is cut off. Encrypted keys are refused: nobody is there to type a
// passphrase.
[[nodiscard]] std::optional<std::string> pem_fault(std::string_view text, Pem kind);

}  // namespace moonfence::kube
