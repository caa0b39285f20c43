#include "base/check.h"

#include <cstdio>
#include <cstdlib>

namespace moonfence {

void check_failed(const char* condition, const char* file, int line) {
  std::fprintf(stderr, "moonfence: broken invariant: %s (%s:%d)\n", condition, file, line);
  std::abort();
}

}  // namespace moonfence
