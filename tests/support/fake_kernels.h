#pragma once

// What the kernels of machines are said to answer: set by the test.

#include <map>
#include <optional>
#include <vector>

#include "cluster/detection/kernel.h"

namespace moonfence::test {

struct FakeKernels final : cluster::Kernels {
  cluster::Kernel kernel = cluster::Kernel::NotObservable;  // of every node
  std::map<NodeName, Moment> since;                         // of silent ones: the last sign
  bool confirms = true;                                     // another replica hears none of those
  [[nodiscard]] cluster::Kernel kernel_of(const NodeName& node) const override {
    return since.contains(node) ? cluster::Kernel::Silent : kernel;
  }
  [[nodiscard]] std::optional<Moment> last_sign(const NodeName& node) const override {
    return silent_since(node);
  }
  [[nodiscard]] std::optional<Moment> heard_at(const NodeName& node) const override {
    return silent_since(node);
  }
  [[nodiscard]] std::vector<NodeName> silent() const override {
    std::vector<NodeName> names;
    for (const auto& [name, at] : since) {
      names.push_back(name);
    }
    return names;
  }
  [[nodiscard]] bool is_confirmed(const NodeName& node) const override {
    return confirms && kernel_of(node) == cluster::Kernel::Silent;
  }
  [[nodiscard]] std::optional<Moment> silent_since(const NodeName& node) const override {
    const auto found = since.find(node);
    return found == since.end() ? std::nullopt : std::optional(found->second);
  }
};

}  // namespace moonfence::test
