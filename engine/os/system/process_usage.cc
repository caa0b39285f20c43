#include "os/system/process_usage.h"

#include <filesystem>
#include <fstream>
#include <iterator>

#include <sys/resource.h>
#include <unistd.h>

namespace moonfence::os {
namespace {

double seconds(const timeval& time) {
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) / 1e6;
}

// Readable although the process is not dumpable: the kernel lets a process see its own.
double open_files() {
  std::error_code fault;
  const std::filesystem::directory_iterator all("/proc/self/fd", fault);
  // One of them is the iterator's own.
  return fault ? 0 : static_cast<double>(std::distance(begin(all), end(all)) - 1);
}

double resident_bytes() {
  std::ifstream file("/proc/self/statm");
  double size = 0;
  double resident = 0;
  file >> size >> resident;
  return file ? resident * static_cast<double>(sysconf(_SC_PAGESIZE)) : 0;
}

}  // namespace

ProcessUsage process_usage() {
  ProcessUsage usage;
  rusage spent{};
  if (getrusage(RUSAGE_SELF, &spent) == 0) {
    usage.cpu_seconds = seconds(spent.ru_utime) + seconds(spent.ru_stime);
  }
  rlimit most{};
  if (getrlimit(RLIMIT_NOFILE, &most) == 0) {
    usage.most_files = static_cast<double>(most.rlim_cur);
  }
  usage.resident_bytes = resident_bytes();
  usage.open_files = open_files();
  return usage;
}

}  // namespace moonfence::os
