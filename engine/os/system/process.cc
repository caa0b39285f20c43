#include "os/system/process.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <filesystem>
#include <system_error>

#include <malloc.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include "os/system/system_error.h"

namespace moonfence::os {

Result<void> secure_process() {
  if (prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) != 0) {
    return failure(system_error("PR_SET_DUMPABLE", errno));
  }
  return {};
}

Result<void> allow_all_descriptors() {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) {
    return failure(system_error("RLIMIT_NOFILE", errno));
  }
  constexpr rlim_t kMost = 65536;
  limit.rlim_cur = std::max(limit.rlim_cur, std::min(limit.rlim_max, kMost));
  if (setrlimit(RLIMIT_NOFILE, &limit) != 0) {
    return failure(system_error("RLIMIT_NOFILE", errno));
  }
  return {};
}

Result<std::string> host_name() {
  std::array<char, 256> name{};  // HOST_NAME_MAX is 64
  if (gethostname(name.data(), name.size() - 1) != 0) {
    return failure(system_error("host name", errno));
  }
  return std::string(name.data());
}

Error become(std::string_view program, char* const* arguments) {
  std::error_code problem;
  const std::filesystem::path self = std::filesystem::read_symlink("/proc/self/exe", problem);
  if (problem) {
    return {.text = "/proc/self/exe: " + problem.message(),
            .hint = "/proc must be mounted: it says where this program lies"};
  }
  const std::string beside = self.parent_path() / program;
  (void)execv(beside.c_str(), arguments);
  Error refused = system_error(beside, errno);
  refused.hint = "it is installed beside " + self.filename().string();
  return refused;
}

void return_free_memory() {
  (void)malloc_trim(0);
}

}  // namespace moonfence::os
