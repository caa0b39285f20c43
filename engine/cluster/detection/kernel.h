#pragma once

// Whether the kernel of a node's machine answers. A node can be NotReady with a dead Lease although
// it does: its kubelet was killed, or all its processes stand still, and its containers may run on.

#include <optional>
#include <string_view>
#include <vector>

#include "base/names.h"
#include "base/time.h"

namespace moonfence::cluster {

enum class Kernel {
  NotObservable,  // it was never heard, or nobody could find out for a minute: nothing is known
  Answers,        // it was heard within the last seconds
  Unsure,         // that is being found out
  Silent,  // it was heard before, and has not answered for seconds, however often it was asked
};

[[nodiscard]] constexpr std::string_view to_string(Kernel kernel) {
  switch (kernel) {
    case Kernel::NotObservable:
      return "not_observable";
    case Kernel::Answers:
      return "answers";
    case Kernel::Unsure:
      return "unsure";
    case Kernel::Silent:
      return "silent";
  }
  return "not_observable";
}

// Who knows it, for every node, at this moment.
class Kernels {
 public:
  virtual ~Kernels() = default;
  [[nodiscard]] virtual Kernel kernel_of(const NodeName& node) const = 0;
  // When a machine was last heard that does not answer now; nullopt: it answers, or never did.
  [[nodiscard]] virtual std::optional<Moment> last_sign(const NodeName& node) const = 0;
  // When a machine was last heard, whether it answers now or not; nullopt: it never was.
  [[nodiscard]] virtual std::optional<Moment> heard_at(const NodeName& node) const = 0;
  // Those that are silent.
  [[nodiscard]] virtual std::vector<NodeName> silent() const = 0;
  // Whether it is silent, and another replica has not heard it lately either. Without one that can
  // be asked nothing is confirmed.
  [[nodiscard]] virtual bool is_confirmed(const NodeName& node) const = 0;
  // Since when a machine is silent and nothing speaks for a fault of our own: since its last sign,
  // or since the last moment in which the API server did not answer, or too many others were quiet.
  // nullopt: it is not silent, or too many are quiet now.
  [[nodiscard]] virtual std::optional<Moment> silent_since(const NodeName& node) const = 0;
};

}  // namespace moonfence::cluster
