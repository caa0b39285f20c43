#include "kube/text/frames.h"

#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "support/memory_in_use.h"

namespace moonfence::kube {
namespace {

std::vector<std::string> split_in_pieces(const std::string& text, std::size_t piece) {
  FrameSplitter splitter;
  std::vector<std::string> frames;
  for (std::size_t i = 0; i < text.size(); i += piece) {
    EXPECT_TRUE(splitter.append(text.substr(i, piece)));
    while (auto frame = splitter.next()) {
      frames.emplace_back(*frame);
    }
  }
  return frames;
}

TEST(FrameSplitter, any_cutting_gives_the_same_frames) {
  const std::string text = "{\"a\":\"ü€𝄞\"}\n{}\n\n\r\n{\"b\":1}\r\n";
  for (std::size_t piece = 1; piece <= text.size(); ++piece) {
    EXPECT_EQ(split_in_pieces(text, piece),
              (std::vector<std::string>{"{\"a\":\"ü€𝄞\"}", "{}", "{\"b\":1}"}));
  }
}

TEST(FrameSplitter, an_unterminated_tail_is_never_handed_out) {
  EXPECT_EQ(split_in_pieces("{}\n{\"a\":1}", 4), std::vector<std::string>{"{}"});
}

TEST(FrameSplitter, a_frame_of_three_mebibytes_arrives_byte_by_byte) {
  const std::string frame(3U << 20U, 'x');
  EXPECT_EQ(split_in_pieces(frame + "\n", 1), std::vector<std::string>{frame});
}

TEST(FrameSplitter, a_frame_beyond_the_limit_is_refused_however_it_comes) {
  FrameSplitter whole(4);
  EXPECT_FALSE(whole.append("12345\n"));
  FrameSplitter pieces(4);
  EXPECT_TRUE(pieces.append("1234\n1234"));
  EXPECT_EQ(pieces.append("5").error().kind, Error::Kind::Limit);
}

TEST(FrameSplitter, a_long_frame_leaves_no_large_buffer) {
  FrameSplitter frames;
  const std::string frame(200'000, 'x');
  const std::size_t before = tests::memory_in_use();
  ASSERT_TRUE(frames.append(frame));
  ASSERT_TRUE(frames.append("\n"));
  ASSERT_TRUE(frames.next());
  EXPECT_FALSE(frames.next());
  EXPECT_LT(tests::memory_in_use(), before + 100'000);
}

}  // namespace
}  // namespace moonfence::kube
