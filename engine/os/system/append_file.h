#pragma once

// A file that only grows, line by line: the audit trail on disk. A line is written with one
// write(2) on an O_APPEND descriptor, so lines of several processes do not mix; after a torn write
// (disk full) the next line starts on a line of its own.

#include <string>
#include <string_view>

#include "base/result.h"
#include "os/system/descriptor.h"

namespace moonfence::os {

class AppendFile final {
 public:
  enum class Durability {
    Written,  // survives the process
    Synced,   // fdatasync(2) after each line: survives the machine, and takes milliseconds
  };

  // Created readable by the owner alone. Refuses what is not a plain file.
  static Result<AppendFile> open(const std::string& path, Durability durability);

  // `line` without its newline; a newline inside is Invalid.
  Result<void> append(std::string_view line);

 private:
  AppendFile(Descriptor file, std::string path, Durability durability)
      : file_(std::move(file)), path_(std::move(path)), durability_(durability) {}

  Descriptor file_;
  std::string path_;
  Durability durability_;
  bool torn_ = false;
};

}  // namespace moonfence::os
