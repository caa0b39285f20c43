#include "app/settings/version.h"

namespace moonfence::app {

std::string_view version() {
  return MOONFENCE_VERSION;
}

std::string_view commit() {
  return MOONFENCE_COMMIT;
}

std::string user_agent() {
#if defined(__aarch64__)
  constexpr std::string_view kPlatform = "linux/arm64";
#else
  constexpr std::string_view kPlatform = "linux/amd64";
#endif
  return "moonfence/" + std::string(version()) + " (" + std::string(kPlatform) + ") " +
         std::string(commit());
}

}  // namespace moonfence::app
