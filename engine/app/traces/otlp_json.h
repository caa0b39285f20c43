#pragma once

// Spans as bodies of OTLP/HTTP requests in JSON (opentelemetry-proto, ExportTraceServiceRequest):
// identifiers in hexadecimal, times in nanoseconds as text, kinds and codes as numbers.

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "app/traces/span.h"

namespace moonfence::app {

struct OtlpLimits {
  std::size_t spans = 512;                      // of a request
  std::size_t bytes = std::size_t{256} * 1024;  // likewise
};

struct OtlpRequests {
  std::vector<std::string> bodies;
  std::size_t left_out = 0;  // spans, each larger than a request may be
};

// In their order, in as few requests as fit. `resource` stands in each.
[[nodiscard]] OtlpRequests otlp_requests(const Attributes& resource,
                                         const std::string& scope_version,
                                         std::span<const Span> spans,
                                         const OtlpLimits& limits = {});

}  // namespace moonfence::app
