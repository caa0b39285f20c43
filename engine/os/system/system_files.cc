#include "os/system/system_files.h"

#include <algorithm>
#include <cerrno>
#include <cstdlib>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/text.h"
#include "os/system/descriptor.h"
#include "os/system/system_error.h"

namespace moonfence::os {
namespace {

Failure not_a_plain_file(const std::string& path, mode_t mode) {
  const char* what = S_ISDIR(mode)    ? "a folder"
                     : S_ISFIFO(mode) ? "a FIFO"
                     : S_ISSOCK(mode) ? "a socket"
                                      : "a device";
  return failure(Error::Kind::Invalid, escaped(path) + ": is " + what + ", not a plain file");
}

}  // namespace

Result<std::string> SystemFiles::read(const std::string& path, std::size_t limit) {
  if (path.empty() || path.find('\0') != std::string::npos) {
    return failure(Error::Kind::Invalid, "'" + escaped(path) + "' is not a file name");
  }
  // Not blocking: opening a FIFO would wait for its writer.
  const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  if (!file.open()) {
    return failure(errno == ENXIO ? Error{.kind = Error::Kind::Invalid,
                                          .text = escaped(path) + ": is not a plain file",
                                          .hint = {}}
                                  : system_error(path, errno));
  }
  struct stat status {};
  if (fstat(file.get(), &status) != 0) {
    return failure(system_error(path, errno));
  }
  if (!S_ISREG(status.st_mode)) {
    return not_a_plain_file(path, status.st_mode);
  }
  // The size is a hint: files under /proc say zero, and a file may grow while it is read.
  std::string bytes;
  std::size_t filled = 0;
  const auto expected = static_cast<std::size_t>(std::max<off_t>(status.st_size, 0));
  bytes.resize(std::min(std::max<std::size_t>(expected, 4096), limit) + 1);
  while (true) {
    const ssize_t count = ::read(file.get(), bytes.data() + filled, bytes.size() - filled);
    if (count < 0 && errno == EINTR) {
      continue;
    }
    if (count < 0) {
      return failure(system_error(path, errno));
    }
    if (count == 0) {
      break;
    }
    filled += static_cast<std::size_t>(count);
    if (filled > limit) {
      return failure(Error::Kind::Limit,
                     escaped(path) + ": is larger than " + std::to_string(limit) + " bytes");
    }
    if (filled == bytes.size()) {
      bytes.resize(std::min(2 * bytes.size(), limit + 1));
    }
  }
  bytes.resize(filled);
  return bytes;
}

std::optional<std::string> SystemFiles::environment(const std::string& name) {
  const char* value = std::getenv(name.c_str());  // NOLINT(concurrency-mt-unsafe): nothing sets it
  return value == nullptr ? std::nullopt : std::optional<std::string>(value);
}

}  // namespace moonfence::os
