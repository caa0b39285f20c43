#include "kube/kubelet/kubelet_answer.h"

#include <charconv>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <utility>

#include <nlohmann/json.hpp>

#include "base/text.h"
#include "kube/text/json.h"

namespace moonfence::kube {
namespace {

// Most of a pod, and nothing that is looked at.
Omitted unseen() {
  return {{"metadata", "managedFields"}, {"metadata", "labels"},
          {"metadata", "annotations"},   {"spec", "containers"},
          {"spec", "initContainers"},    {"spec", "ephemeralContainers"},
          {"spec", "volumes"},           {"status"}};
}

constexpr std::string_view kStarted = "process_start_time_seconds";
constexpr std::string_view kNodeName = "kubelet_node_name";

// 2000 and 2100: before the first and after the last that a clock may say in earnest.
constexpr double kEarliest = 946684800;
constexpr double kLatest = 4102444800;

Failure malformed(const std::string& what) {
  return failure(Error::Kind::Malformed, what);
}

Failure too_large(std::size_t limit) {
  return failure(Error::Kind::Limit,
                 "the answer is larger than " + std::to_string(limit) + " bytes");
}

// `name 1.7e+09`, and nothing else: no labels and no time of its own.
std::optional<WallTime> started_by(std::string_view line) {
  const std::string_view text = line.substr(kStarted.size() + 1);
  double seconds = 0;
  const auto [end, fault] = std::from_chars(text.data(), text.data() + text.size(), seconds);
  if (fault != std::errc() || end != text.data() + text.size() || !std::isfinite(seconds) ||
      seconds < kEarliest || seconds > kLatest) {
    return std::nullopt;
  }
  const auto whole = static_cast<std::int64_t>(seconds);  // nanoseconds need more bits than it has
  const double rest = (seconds - static_cast<double>(whole)) * 1e9;
  return WallTime(std::chrono::seconds(whole) +
                  std::chrono::nanoseconds(static_cast<std::int64_t>(rest)));
}

// `name{node="n1"} 1`. A node's name has no character that would be escaped.
std::optional<NodeName> node_by(std::string_view line) {
  constexpr std::string_view kBefore = "{node=\"";
  constexpr std::string_view kAfter = "\"} 1";
  line.remove_prefix(kNodeName.size());
  if (!line.starts_with(kBefore) || !line.ends_with(kAfter) ||
      line.size() <= kBefore.size() + kAfter.size()) {
    return std::nullopt;
  }
  line.remove_prefix(kBefore.size());
  line.remove_suffix(kAfter.size());
  if (line.find_first_of("\"\\{}, ") != std::string_view::npos) {
    return std::nullopt;
  }
  return NodeName(std::string(line));
}

bool is_sample_of(std::string_view line, std::string_view name) {
  return line.starts_with(name) &&
         (line.size() == name.size() || line[name.size()] == ' ' || line[name.size()] == '{');
}

}  // namespace

KubeletPodsReader::KubeletPodsReader() : parser_(unseen()) {}

Result<void> KubeletPodsReader::append(std::string_view bytes) {
  read_ += bytes.size();
  if (read_ > kLongestAnswer) {
    return too_large(kLongestAnswer);
  }
  if (auto taken = splitter_.append(bytes); !taken) {
    return taken;
  }
  while (const auto text = splitter_.next()) {
    const auto item = parser_.parse(*text);
    if (!item) {
      return failure(Error(item.error()).within("a pod of the kubelet"));
    }
    Fields fields(*item, "pod of the kubelet");
    KubeletPod pod = {.ref = {.space = Namespace(fields.required({"metadata", "namespace"})),
                              .name = fields.required({"metadata", "name"})},
                      .uid = Uid(fields.required({"metadata", "uid"})),
                      .node = NodeName(fields.string({"spec", "nodeName"}))};
    if (fields.fault()) {
      return failure(*fields.fault());
    }
    if (std::max({pod.ref.space.text().size(), pod.ref.name.size(), pod.uid.text().size(),
                  pod.node.text().size()}) > kLongestName) {
      return malformed("a pod with a name longer than names are");
    }
    if (pods_.size() == kMostPods) {
      return failure(Error::Kind::Limit, "more than " + std::to_string(kMostPods) + " pods");
    }
    pods_.push_back(std::move(pod));
  }
  return {};
}

Result<std::vector<KubeletPod>> KubeletPodsReader::finish() const {
  const auto meta = splitter_.finish();
  if (!meta) {
    return failure(meta.error());
  }
  if (meta->kind != "PodList" || !meta->continue_token.empty()) {
    return malformed("no whole list of pods: kind \"" + escaped(meta->kind, 64) + "\"");
  }
  return pods_;
}

Result<void> KubeletMetricsReader::append(std::string_view bytes) {
  read_ += bytes.size();
  if (read_ > kLongestAnswer) {
    return too_large(kLongestAnswer);
  }
  while (!bytes.empty()) {
    const auto end = bytes.find('\n');
    const std::string_view part = bytes.substr(0, end);
    const std::size_t room = kLongestLine - line_.size();
    cut_ = cut_ || part.size() > room;
    line_ += part.substr(0, room);
    if (end == std::string_view::npos) {
      return {};
    }
    bytes.remove_prefix(end + 1);
    if (auto taken = take_line(); !taken) {
      return taken;
    }
    line_.clear();
    cut_ = false;
  }
  return {};
}

Result<void> KubeletMetricsReader::take_line() {
  if (is_sample_of(line_, kStarted)) {
    if (cut_ || started_ ||
        !(started_ = line_.size() > kStarted.size() ? started_by(line_) : std::nullopt)) {
      return malformed("the kubelet's " + std::string(kStarted) + " cannot be understood: \"" +
                       escaped(line_, 128) + "\"");
    }
  } else if (is_sample_of(line_, kNodeName)) {
    if (cut_ || node_ || !(node_ = node_by(line_))) {
      return malformed("the kubelet's " + std::string(kNodeName) + " cannot be understood: \"" +
                       escaped(line_, 128) + "\"");
    }
  }
  return {};
}

Result<KubeletProcess> KubeletMetricsReader::finish() const {
  if (!line_.empty() || cut_) {
    return failure(Error::Kind::Retryable, "the metrics end in the middle of a line");
  }
  if (!node_ || !started_) {
    return malformed("the kubelet's metrics lack " + std::string(node_ ? kStarted : kNodeName));
  }
  return KubeletProcess{.node = *node_, .started = *started_};
}

}  // namespace moonfence::kube
