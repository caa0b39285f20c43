#include "app/webhook/signature.h"

#include <utility>

#include "base/hmac.h"
#include "base/text.h"
#include "kube/text/base64.h"

namespace moonfence::app {
namespace {

constexpr std::string_view kPrefix = "whsec_";
constexpr const char* kHint =
    "write whsec_ and 24 to 64 random bytes in base64: echo whsec_$(openssl rand -base64 32)";

Failure unfit(const std::string& path, const std::string& what) {
  return failure(Error::Kind::Invalid, "secretFile " + escaped(path) + " " + what, kHint);
}

}  // namespace

Result<std::vector<std::string>> read_signing_secrets(port::Files& files, const std::string& path) {
  constexpr std::size_t kFileLimit = 4096;
  const auto text = files.read(path, kFileLimit);
  if (!text) {
    return failure(Error(text.error()).within("secretFile"));
  }
  std::vector<std::string> secrets;
  for (const std::string_view line : split(*text, '\n')) {
    const std::string_view word = trimmed(line);
    if (word.empty()) {
      continue;
    }
    auto key = word.starts_with(kPrefix) ? kube::base64_decoded(word.substr(kPrefix.size()))
                                         : std::nullopt;
    if (!key) {
      return unfit(path, "has a line that is not whsec_ and base64");
    }
    if (key->size() < kShortestSecret || key->size() > kLongestSecret) {
      return unfit(path, "has a secret of " + std::to_string(key->size()) + " bytes; 24 to 64 fit");
    }
    secrets.push_back(*std::move(key));
  }
  if (secrets.empty() || secrets.size() > kMostSecrets) {
    return unfit(path, "has " + std::to_string(secrets.size()) + " secrets; one or two fit");
  }
  return secrets;
}

std::string webhook_signature(const std::vector<std::string>& secrets, std::string_view id,
                              std::int64_t at, std::string_view body) {
  const std::string text = std::string(id) + "." + std::to_string(at) + "." + std::string(body);
  std::string signatures;
  for (const std::string& secret : secrets) {
    const auto code = hmac_sha256(secret, text);
    signatures += signatures.empty() ? "v1," : " v1,";
    signatures += kube::base64_encoded(std::string(code.begin(), code.end()));
  }
  return signatures;
}

std::vector<port::Header> webhook_headers(const std::vector<std::string>& secrets,
                                          const std::string& id, WallTime at,
                                          std::string_view body) {
  const std::int64_t seconds =
      std::chrono::floor<std::chrono::seconds>(at).time_since_epoch().count();
  return {{"webhook-id", id},
          {"webhook-timestamp", std::to_string(seconds)},
          {"webhook-signature", webhook_signature(secrets, id, seconds, body)}};
}

}  // namespace moonfence::app
