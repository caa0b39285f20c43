#include "os/tools/folders.h"

#include <filesystem>

#include <gtest/gtest.h>

#include "support/temporary_folder.h"

namespace moonfence::os {
namespace {

namespace fs = std::filesystem;

TEST(Folders, files_are_found_by_their_ending_and_sorted) {
  const test::TemporaryFolder folder;
  for (const char* name :
       {"b/x_test.lua", "a/x_test.lua", "a/x.lua", ".git/x_test.lua", "y_test.lua"}) {
    ASSERT_TRUE(write_file(folder.file(name), "x", false));
  }
  fs::create_directory_symlink(folder.file("a"), folder.file("link"));
  const auto found = find_files(folder.file(""), "_test.lua");
  ASSERT_TRUE(found) << found.error().text;
  EXPECT_EQ(*found,
            (std::vector<std::string>{folder.file("a/x_test.lua"), folder.file("b/x_test.lua"),
                                      folder.file("y_test.lua")}));
}

TEST(Folders, a_missing_folder_is_not_found) {
  const test::TemporaryFolder folder;
  const auto found = find_files(folder.file("nowhere"), ".lua");
  ASSERT_FALSE(found);
  EXPECT_EQ(found.error().kind, Error::Kind::NotFound);
  EXPECT_FALSE(is_folder(folder.file("nowhere")));
}

TEST(Folders, a_file_is_replaced_only_when_asked_to) {
  const test::TemporaryFolder folder;
  const std::string path = folder.file("a/b/c.txt");
  ASSERT_TRUE(write_file(path, "one, long", false));
  const auto again = write_file(path, "two", false);
  ASSERT_FALSE(again);
  EXPECT_EQ(again.error().kind, Error::Kind::Conflict);
  EXPECT_EQ(folder.read("a/b/c.txt"), "one, long");
  ASSERT_TRUE(write_file(path, "two", true));
  EXPECT_EQ(folder.read("a/b/c.txt"), "two");
  EXPECT_TRUE(is_file(path));
  EXPECT_FALSE(write_file(folder.file("a/b/c.txt/d"), "x", true));
}

}  // namespace
}  // namespace moonfence::os
