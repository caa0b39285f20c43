#include "app/process_metrics.h"

namespace moonfence::app {

using prometheus::BuildCounter;
using prometheus::BuildGauge;

ProcessMetrics::ProcessMetrics(prometheus::Registry& registry)
    : cpu_seconds_(BuildCounter()
                       .Name("process_cpu_seconds_total")
                       .Help("CPU time spent, of user and system")
                       .Register(registry)),
      resident_bytes_(BuildGauge()
                          .Name("process_resident_memory_bytes")
                          .Help("Memory that is resident")
                          .Register(registry)),
      open_files_(BuildGauge()
                      .Name("process_open_fds")
                      .Help("File descriptors that are open")
                      .Register(registry)),
      most_files_(BuildGauge()
                      .Name("process_max_fds")
                      .Help("File descriptors that may be open")
                      .Register(registry)),
      started_at_(BuildGauge()
                      .Name("process_start_time_seconds")
                      .Help("When the process started, since the epoch")
                      .Register(registry)) {}

void ProcessMetrics::set(const os::ProcessUsage& usage, WallTime started) {
  auto& cpu = cpu_seconds_.Add({});
  if (usage.cpu_seconds > cpu.Value()) {
    cpu.Increment(usage.cpu_seconds - cpu.Value());
  }
  resident_bytes_.Add({}).Set(usage.resident_bytes);
  open_files_.Add({}).Set(usage.open_files);
  most_files_.Add({}).Set(usage.most_files);
  started_at_.Add({}).Set(std::chrono::duration<double>(started.time_since_epoch()).count());
}

}  // namespace moonfence::app
