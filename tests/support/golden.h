#pragma once

// Compares a text with a file of the repository. Where they differ the new text is left in a file,
// to be looked at, and copied if it is meant.

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include <gtest/gtest.h>

namespace moonfence::test {

// `name`: below tests/.
inline void expect_golden(const std::string& name, const std::string& text) {
  const std::string wanted_file = std::string(MOONFENCE_SOURCE_DIR) + "/tests/" + name;
  std::ifstream stream(wanted_file, std::ios::binary);
  const std::string wanted((std::istreambuf_iterator<char>(stream)), {});
  if (text == wanted) {
    return;
  }
  const std::string found_file =
      testing::TempDir() + "/" + std::filesystem::path(name).filename().string();
  std::ofstream(found_file, std::ios::binary) << text;
  ADD_FAILURE() << "not as " << wanted_file << "; if it is meant: cp " << found_file << " "
                << wanted_file;
}

}  // namespace moonfence::test
