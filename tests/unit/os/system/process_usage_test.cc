#include "os/system/process_usage.h"

#include <vector>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

namespace moonfence::os {
namespace {

TEST(ProcessUsage, what_the_process_takes_is_seen) {
  const ProcessUsage before = process_usage();
  EXPECT_GT(before.cpu_seconds, 0);
  EXPECT_GT(before.most_files, before.open_files);
  std::vector<char> ballast(32U << 20U, 'x');  // resident once it is written
  const int file = open("/dev/null", O_RDONLY | O_CLOEXEC);
  ASSERT_GE(file, 0);
  const ProcessUsage after = process_usage();
  EXPECT_EQ(after.open_files, before.open_files + 1);
  EXPECT_GT(after.resident_bytes, before.resident_bytes + (24U << 20U));
  EXPECT_GE(after.cpu_seconds, before.cpu_seconds);
  close(file);
  EXPECT_EQ(ballast.back(), 'x');
}

}  // namespace
}  // namespace moonfence::os
