#include "os/system/append_file.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include "support/temporary_folder.h"

namespace moonfence::os {
namespace {

struct AppendFileTest : testing::Test {
  test::TemporaryFolder folder;

  Result<AppendFile> opened(const std::string& name,
                            AppendFile::Durability durability = AppendFile::Durability::Written) {
    return AppendFile::open(folder.file(name), durability);
  }
};

TEST_F(AppendFileTest, lines_are_added_behind_what_is_there) {
  for (const char* line : {"one", "two"}) {
    auto file = opened("audit", AppendFile::Durability::Synced);
    ASSERT_TRUE(file);
    EXPECT_TRUE(file->append(line));
    EXPECT_TRUE(file->append(""));
  }
  EXPECT_EQ(folder.read("audit"), "one\n\ntwo\n\n");
}

TEST_F(AppendFileTest, two_writers_do_not_overwrite_each_other) {
  auto a = opened("audit");
  auto b = opened("audit");
  EXPECT_TRUE(a->append("a1"));
  EXPECT_TRUE(b->append("b1"));
  EXPECT_TRUE(a->append("a2"));
  EXPECT_EQ(folder.read("audit"), "a1\nb1\na2\n");
}

TEST_F(AppendFileTest, torn_last_line_is_ended_first) {
  folder.write("audit", "whole\nhal");
  auto file = opened("audit");
  EXPECT_TRUE(file->append("next"));
  EXPECT_EQ(folder.read("audit"), "whole\nhal\nnext\n");
}

TEST_F(AppendFileTest, newline_inside_a_line_is_refused) {
  auto file = opened("audit");
  const auto outcome = file->append("one\ntwo");
  ASSERT_FALSE(outcome);
  EXPECT_EQ(outcome.error().kind, Error::Kind::Invalid);
  EXPECT_EQ(folder.read("audit"), "");
}

TEST_F(AppendFileTest, file_is_private) {
  ASSERT_TRUE(opened("audit"));
  struct stat status {};
  ASSERT_EQ(stat(folder.file("audit").c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777U, 0600U);
}

TEST_F(AppendFileTest, unusable_places_are_named) {
  const auto missing = AppendFile::open(folder.file("no/such"), AppendFile::Durability::Written);
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().kind, Error::Kind::NotFound);
  EXPECT_EQ(missing.error().text, folder.file("no/such") + ": no such file or directory");
  const auto device = AppendFile::open("/dev/null", AppendFile::Durability::Written);
  ASSERT_FALSE(device);
  EXPECT_EQ(device.error().kind, Error::Kind::Invalid);
  ASSERT_EQ(mkfifo(folder.file("fifo").c_str(), 0600), 0);
  EXPECT_EQ(opened("fifo").error().kind, Error::Kind::Invalid);
}

}  // namespace
}  // namespace moonfence::os
