#include "os/tools/folders.h"

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <system_error>

#include <fcntl.h>
#include <unistd.h>

#include "base/text.h"
#include "os/system/descriptor.h"
#include "os/system/system_error.h"

namespace moonfence::os {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kMostEntries = 100'000;

Failure failed(const std::string& path, const std::error_code& fault) {
  return failure(system_error(path, fault.value()));
}

}  // namespace

bool is_folder(const std::string& path) {
  std::error_code fault;
  return fs::is_directory(path, fault);
}

bool is_file(const std::string& path) {
  std::error_code fault;
  return fs::is_regular_file(path, fault);
}

Result<std::vector<std::string>> find_files(const std::string& folder, std::string_view suffix) {
  std::error_code fault;
  fs::recursive_directory_iterator entry(folder, fault);
  if (fault) {
    return failed(folder, fault);
  }
  std::vector<std::string> found;
  std::size_t seen = 0;
  while (entry != fs::recursive_directory_iterator()) {
    const std::string name = entry->path().filename().string();
    if (++seen > kMostEntries) {
      return failure(
          Error::Kind::Limit,
          escaped(folder) + ": more than " + std::to_string(kMostEntries) + " files and folders",
          "name a folder that holds policies");
    }
    std::error_code unknown;
    if (entry->is_directory(unknown) && name.starts_with('.')) {
      entry.disable_recursion_pending();
    } else if (name.ends_with(suffix) && entry->is_regular_file(unknown)) {
      found.push_back(entry->path().string());
    }
    entry.increment(fault);
    if (fault) {
      return failed(folder, fault);
    }
  }
  std::sort(found.begin(), found.end());
  return found;
}

Result<void> write_file(const std::string& path, std::string_view text, bool replace) {
  std::error_code fault;
  const fs::path above = fs::path(path).parent_path();
  if (!above.empty()) {
    fs::create_directories(above, fault);
    if (fault) {
      return failed(above.string(), fault);
    }
  }
  const int flags = O_WRONLY | O_CREAT | O_CLOEXEC | (replace ? O_TRUNC : O_EXCL);
  const Descriptor file(::open(path.c_str(), flags, 0644));
  if (!file.open()) {
    return errno == EEXIST ? failure(Error::Kind::Conflict, escaped(path) + ": exists already",
                                     "choose another name, or remove it first")
                           : failure(system_error(path, errno));
  }
  while (!text.empty()) {
    const ssize_t count = ::write(file.get(), text.data(), text.size());
    if (count < 0 && errno == EINTR) {
      continue;
    }
    if (count < 0) {
      return failure(system_error(path, errno));
    }
    text.remove_prefix(static_cast<std::size_t>(count));
  }
  return {};
}

}  // namespace moonfence::os
