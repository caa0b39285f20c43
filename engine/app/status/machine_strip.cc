#include "app/status/machine_strip.h"

#include <algorithm>

namespace moonfence::app {
namespace {

using cluster::Kernel;

int gravity(Kernel kernel) {
  return kernel == Kernel::Answers  ? 0
         : kernel == Kernel::Unsure ? 1
         : kernel == Kernel::Silent ? 3
                                    : 2;
}

char sign_of(Kernel kernel) {
  return kernel == Kernel::Answers  ? '.'
         : kernel == Kernel::Unsure ? '?'
         : kernel == Kernel::Silent ? 'x'
                                    : '-';
}

}  // namespace

std::string strip_of(std::span<const cluster::MachineHistory::Change> changes, WallTime now) {
  std::string strip;
  const WallTime first = now - cluster::MachineHistory::kRemembered;
  for (WallTime from = first; from < now; from += kStripSign) {
    Kernel worst = Kernel::Answers;
    Kernel kernel = Kernel::Answers;
    for (const auto& change : changes) {
      if (change.at > from && change.at < from + kStripSign) {
        worst = gravity(change.kernel) > gravity(worst) ? change.kernel : worst;
      }
      kernel = change.at <= from ? change.kernel : kernel;
    }
    strip += sign_of(gravity(kernel) > gravity(worst) ? kernel : worst);
  }
  return strip;
}

}  // namespace moonfence::app
