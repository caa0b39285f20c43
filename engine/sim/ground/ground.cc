#include "sim/ground/ground.h"

#include <array>
#include <cstdio>
#include <utility>

namespace moonfence::sim {

void Ground::tell(Happening::Kind kind, std::string_view subject, std::string_view what,
                  std::string_view detail) const {
  if (!story.heard()) {
    return;
  }
  story.tell({.at = loop.now() - start,
              .kind = kind,
              .subject = std::string(subject),
              .what = std::string(what),
              .detail = std::string(detail)});
}

std::unique_ptr<Informer> Ground::informer(std::string_view process,
                                           const std::string& resource) const {
  std::string name = "informer/";
  name.append(process).append("/").append(resource);
  // Shared because a std::function must be copyable; nobody copies it.
  const std::shared_ptr<port::Random> draws = random.fork(name);
  return std::make_unique<Informer>(loop, store, resource, [draws, range = informer_lag] {
    return between(*draws, range.from, range.to);
  });
}

Duration between(port::Random& random, Duration from, Duration to) {
  const auto width = static_cast<double>((to - from).count());
  return from + Duration(static_cast<Duration::rep>(random.unit() * width));
}

Duration about(port::Random& random, Duration duration, double share) {
  const double factor = 1 - share + 2 * share * random.unit();
  return Duration(static_cast<Duration::rep>(static_cast<double>(duration.count()) * factor));
}

std::string make_uuid(port::Random& random) {
  const std::uint64_t high = random.next();
  const std::uint64_t low = random.next();
  std::array<char, 37> text{};
  // Version 4, variant 1, as every UID of Kubernetes.
  std::snprintf(text.data(), text.size(), "%08x-%04x-4%03x-%04x-%012llx",
                static_cast<unsigned>(high >> 32U), static_cast<unsigned>((high >> 16U) & 0xFFFFU),
                static_cast<unsigned>(high & 0xFFFU), static_cast<unsigned>(0x8000U | (low >> 50U)),
                static_cast<unsigned long long>(low & 0xFFFFFFFFFFFFU));
  return text.data();
}

}  // namespace moonfence::sim
