#include "os/system/append_file.h"

#include <cerrno>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/text.h"
#include "os/system/system_error.h"

namespace moonfence::os {

Result<AppendFile> AppendFile::open(const std::string& path, Durability durability) {
  constexpr int kFlags = O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NONBLOCK | O_NOCTTY;
  Descriptor file(::open(path.c_str(), kFlags, S_IRUSR | S_IWUSR));
  if (!file.open()) {
    return failure(system_error(path, errno));
  }
  struct stat status {};
  if (fstat(file.get(), &status) != 0) {
    return failure(system_error(path, errno));
  }
  if (!S_ISREG(status.st_mode)) {
    return failure(Error::Kind::Invalid, escaped(path) + ": is not a plain file");
  }
  AppendFile opened(std::move(file), path, durability);
  // A process that died in the middle of a line left no newline. Reading needs its own descriptor.
  if (status.st_size > 0) {
    const Descriptor reader(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
    char last = '\n';
    if (reader.open() && pread(reader.get(), &last, 1, status.st_size - 1) == 1) {
      opened.torn_ = last != '\n';
    }
  }
  return opened;
}

Result<void> AppendFile::append(std::string_view line) {
  if (line.find('\n') != std::string_view::npos) {
    return failure(Error::Kind::Invalid, escaped(path_) + ": a line may not hold a newline");
  }
  std::string bytes = torn_ ? "\n" : "";
  bytes += line;
  bytes += '\n';
  std::string_view rest = bytes;
  while (!rest.empty()) {
    const ssize_t count = ::write(file_.get(), rest.data(), rest.size());
    if (count < 0 && errno == EINTR) {
      continue;
    }
    if (count < 0) {
      // Nothing of this line is there, or the beginning of it.
      torn_ = torn_ || rest.size() < bytes.size();
      return failure(system_error(path_, errno));
    }
    rest.remove_prefix(static_cast<std::size_t>(count));
  }
  torn_ = false;
  if (durability_ == Durability::Synced && fdatasync(file_.get()) != 0) {
    return failure(system_error(path_, errno));
  }
  return {};
}

}  // namespace moonfence::os
