#include "kube/text/frames.h"

#include <algorithm>

namespace moonfence::kube {
namespace {

// A buffer that a long frame has made larger goes with it.
constexpr std::size_t kKept = std::size_t{64} << 10U;

}  // namespace

Result<void> FrameSplitter::append(std::string_view bytes) {
  for (std::string_view rest = bytes; !rest.empty();) {
    const auto end = rest.find('\n');
    open_ += std::min(end, rest.size());
    if (open_ > limit_) {
      return failure(Error::Kind::Limit,
                     "watch frame larger than " + std::to_string(limit_) + " bytes");
    }
    if (end == std::string_view::npos) {
      break;
    }
    open_ = 0;
    rest.remove_prefix(end + 1);
  }
  buffer_.append(bytes);
  return {};
}

std::optional<std::string_view> FrameSplitter::next() {
  while (true) {
    const auto end = buffer_.find('\n', std::max(scanned_, start_));
    if (end == std::string::npos) {
      // Only the unfinished frame is kept, so memory is bounded by one frame and one piece.
      buffer_.erase(0, start_);
      if (buffer_.empty() && buffer_.capacity() > kKept) {
        buffer_.shrink_to_fit();
      }
      start_ = 0;
      scanned_ = buffer_.size();
      return std::nullopt;
    }
    std::string_view frame = std::string_view(buffer_).substr(start_, end - start_);
    start_ = scanned_ = end + 1;
    if (!frame.empty() && frame.back() == '\r') {
      frame.remove_suffix(1);
    }
    if (!frame.empty()) {
      return frame;
    }
  }
}

}  // namespace moonfence::kube
