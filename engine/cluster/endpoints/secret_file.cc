#include "cluster/endpoints/secret_file.h"

#include <algorithm>

#include "base/text.h"

namespace moonfence::cluster {

Result<std::string> read_secret(port::Files& files, const std::string& path) {
  constexpr std::size_t kSecretLimit = 64U << 10U;
  auto text = files.read(path, kSecretLimit);
  if (!text) {
    return text;
  }
  while (text->ends_with('\n') || text->ends_with('\r')) {
    text->pop_back();
  }
  const bool fits = std::none_of(text->begin(), text->end(), [](char c) {
    return static_cast<unsigned char>(c) < ' ' || c == 0x7F;
  });
  if (text->empty() || !fits) {
    return failure(Error::Kind::Invalid,
                   escaped(path) + (text->empty() ? " is empty" : " holds a control character"));
  }
  return text;
}

}  // namespace moonfence::cluster
