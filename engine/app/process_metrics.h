#pragma once

// What the process takes, under the names that every exporter has: process_*.

#include <prometheus/counter.h>
#include <prometheus/family.h>
#include <prometheus/gauge.h>
#include <prometheus/registry.h>

#include "os/process_usage.h"
#include "port/wall_clock.h"

namespace moonfence::app {

class ProcessMetrics {
 public:
  explicit ProcessMetrics(prometheus::Registry& registry);
  void set(const os::ProcessUsage& usage, WallTime started);

 private:
  prometheus::Family<prometheus::Counter>& cpu_seconds_;
  prometheus::Family<prometheus::Gauge>& resident_bytes_;
  prometheus::Family<prometheus::Gauge>& open_files_;
  prometheus::Family<prometheus::Gauge>& most_files_;
  prometheus::Family<prometheus::Gauge>& started_at_;
};

}  // namespace moonfence::app
