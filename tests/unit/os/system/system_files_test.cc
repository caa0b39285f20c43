#include "os/system/system_files.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include "support/temporary_folder.h"

namespace moonfence::os {
namespace {

struct SystemFilesTest : testing::Test {
  SystemFiles files;
  test::TemporaryFolder folder;

  Error error_of(const std::string& path, std::size_t limit = 100) {
    const auto read = files.read(path, limit);
    return read ? Error{.text = "read well", .hint = {}} : read.error();
  }
};

TEST_F(SystemFilesTest, whole_file_is_read) {
  const std::string text = std::string(100000, 'x') + std::string(1, '\0') + "end";
  EXPECT_EQ(files.read(folder.write("a", text)), text);
  EXPECT_EQ(files.read(folder.write("empty", "")), "");
}

TEST_F(SystemFilesTest, limit_is_exact) {
  EXPECT_EQ(files.read(folder.write("fits", std::string(100, 'x')), 100)->size(), 100U);
  const Error error = error_of(folder.write("over", std::string(101, 'x')));
  EXPECT_EQ(error.kind, Error::Kind::Limit);
  EXPECT_EQ(error.text, folder.file("over") + ": is larger than 100 bytes");
}

TEST_F(SystemFilesTest, file_without_a_size_is_read) {
  EXPECT_FALSE(files.read("/proc/self/status")->empty());
  EXPECT_EQ(error_of("/proc/self/status", 10).kind, Error::Kind::Limit);
}

TEST_F(SystemFilesTest, missing_file_is_not_found) {
  const Error error = error_of(folder.file("none"));
  EXPECT_EQ(error.kind, Error::Kind::NotFound);
  EXPECT_EQ(error.text, folder.file("none") + ": no such file or directory");
  EXPECT_EQ(error_of(folder.write("plain", "x") + "/below").kind, Error::Kind::NotFound);
}

TEST_F(SystemFilesTest, what_is_no_plain_file_is_refused_without_waiting) {
  ASSERT_EQ(mkfifo(folder.file("fifo").c_str(), 0600), 0);
  EXPECT_EQ(error_of(folder.file("fifo")).kind, Error::Kind::Invalid);
  EXPECT_THAT(error_of(folder.file("fifo")).text, testing::EndsWith("is a FIFO, not a plain file"));
  EXPECT_THAT(error_of(folder.file("")).text, testing::EndsWith("is a folder, not a plain file"));
  EXPECT_THAT(error_of("/dev/zero").text, testing::EndsWith("is a device, not a plain file"));
  EXPECT_EQ(error_of("").kind, Error::Kind::Invalid);
  EXPECT_EQ(error_of(std::string("a\0b", 3)).kind, Error::Kind::Invalid);
}

// Root reads everything, so it stops being root for a while.
struct WithoutRoot {
  WithoutRoot() { EXPECT_TRUE(!root || seteuid(65534) == 0); }
  ~WithoutRoot() { EXPECT_TRUE(!root || seteuid(0) == 0); }
  WithoutRoot(const WithoutRoot&) = delete;
  WithoutRoot& operator=(const WithoutRoot&) = delete;
  const bool root = geteuid() == 0;
};

TEST_F(SystemFilesTest, unreadable_file_is_forbidden) {
  const std::string path = folder.write("secret", "x");
  ASSERT_EQ(chmod(path.c_str(), 0), 0);
  // Else root's folder would be what cannot be entered.
  ASSERT_EQ(chmod(folder.file("").c_str(), 0755), 0);
  const WithoutRoot without_root;
  EXPECT_EQ(error_of(path).kind, Error::Kind::Forbidden);
}

TEST_F(SystemFilesTest, environment_is_read) {
  EXPECT_TRUE(files.environment("PATH"));
  EXPECT_FALSE(files.environment("MOONFENCE_NO_SUCH_VARIABLE"));
}

}  // namespace
}  // namespace moonfence::os
