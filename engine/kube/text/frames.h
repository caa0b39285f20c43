#pragma once

// FrameSplitter cuts a watch's byte stream into its newline-delimited JSON frames. Frames cross
// pieces of the stream arbitrarily and several may come in one piece; what the stream ends in the
// middle of is never handed out, because half an object may still be valid JSON of another meaning.

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"

namespace moonfence::kube {

class FrameSplitter {
 public:
  explicit FrameSplitter(std::size_t limit = 64U << 20U) : limit_(limit) {}

  // Limit when a frame grows beyond the bound; the stream is then of no more use.
  Result<void> append(std::string_view bytes);
  // The next whole frame without its line end; empty lines are skipped. It stands until the next
  // call of append() or next(). Pulled rather than pushed so that whoever has read a frame may
  // destroy the splitter's owner.
  [[nodiscard]] std::optional<std::string_view> next();
  // The bytes of an unfinished frame.
  [[nodiscard]] std::size_t pending() const { return open_; }

 private:
  std::size_t limit_;
  std::string buffer_;
  std::size_t start_ = 0;    // of the frame being collected
  std::size_t scanned_ = 0;  // no line end before here
  std::size_t open_ = 0;     // bytes appended since the last line end
};

}  // namespace moonfence::kube
