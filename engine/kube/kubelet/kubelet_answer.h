#pragma once

// What a kubelet says at its own API, read as it arrives. It is not trusted to be small or well
// formed: no more than one pod of it is in memory at a time, of a metric no more than its line, and
// whatever is larger, cut short or said twice is an error, never a part of an answer.

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/names.h"
#include "base/result.h"
#include "base/time.h"
#include "kube/text/items.h"
#include "kube/text/object_parser.h"

namespace moonfence::kube {

struct KubeletPod {
  PodRef ref;
  Uid uid;        // of a static pod the one that its mirror names
  NodeName node;  // empty in /runningpods/, which the container runtime answers

  friend bool operator==(const KubeletPod&, const KubeletPod&) = default;
};

struct KubeletProcess {
  NodeName node;       // for whom it speaks
  WallTime started{};  // by the clock of its machine, as that is set now

  friend bool operator==(const KubeletProcess&, const KubeletProcess&) = default;
};

// The PodList of /pods or /runningpods/.
class KubeletPodsReader {
 public:
  static constexpr std::size_t kLongestAnswer = 16U << 20U;
  static constexpr std::size_t kLongestPod = 1U << 20U;
  static constexpr std::size_t kMostPods = 2000;
  static constexpr std::size_t kLongestName = 253;  // of a DNS subdomain

  KubeletPodsReader();
  [[nodiscard]] Result<void> append(std::string_view bytes);
  // To be asked when the body has ended.
  [[nodiscard]] Result<std::vector<KubeletPod>> finish() const;

 private:
  ItemSplitter splitter_{kLongestPod};
  ObjectParser parser_;
  std::vector<KubeletPod> pods_;
  std::size_t read_ = 0;
};

// kubelet_node_name and process_start_time_seconds of /metrics, each of which must be there once.
class KubeletMetricsReader {
 public:
  static constexpr std::size_t kLongestAnswer = 32U << 20U;
  static constexpr std::size_t kLongestLine = 1024;  // of the two; longer others are passed over

  [[nodiscard]] Result<void> append(std::string_view bytes);
  [[nodiscard]] Result<KubeletProcess> finish() const;

 private:
  [[nodiscard]] Result<void> take_line();

  std::string line_;  // its first kLongestLine bytes
  bool cut_ = false;  // it is longer
  std::size_t read_ = 0;
  std::optional<NodeName> node_;
  std::optional<WallTime> started_;
};

}  // namespace moonfence::kube
